"""Oracles of tasks in an inbox: find a sender's email, then delete, star, answer or forward it."""

from __future__ import annotations

import re
from typing import NamedTuple

from selfsurf.browser_env import Action, Click, Element, Observation, Wait
from selfsurf.tasks.miniwob.oracles.base import Notes, click, elements, fill_then_press, oracle, outline

_DELETE = re.compile(r"\b(deleted?|trash|remove|rid|throw|recycling|out of my inbox|don't want)\b", re.IGNORECASE)
_SENDER = (r"\b(?:from|by) {}\b", r"{} e-?mail", r"{}'?s\b", r"{} (?:sent|wrote)\b")
"""Phrases with which a goal names the sender of the email to forward, the most reliable first."""
_REVERSED = re.compile(
    r"Find yesterday's emails from|Forward .+'s email from yesterday to|"
    r"Forward all messages from|Send .+ the message from"
)
"""Sentences of the `-nl-turk` tasks in which the writer swapped sender and receiver: the pages expect the opposite. A
fifth such sentence can't be distinguished from a correct one."""

_MORE = (
    "delete", "forward", "forward-nl", "forward-nl-turk", "important", "nl-turk", "noscroll", "reply", "star-reply",
)  # fmt: skip
"""Name suffixes of the inbox tasks, besides the plain one."""


class Wish(NamedTuple):
    """A goal's request: the action, the sender of the email, and a text."""

    action: str
    """Name of the action: reply, forward, trash or star."""
    sender: str
    text: str = ""
    """Answer to send, or receiver to forward to."""
    remark: str = ""


class Row(NamedTuple):
    """An email in the list, with its icons by name."""

    element: Element
    icons: dict[str, int]


def rows(obs: Observation) -> list[Row]:
    """Return the emails in the list."""
    known = {element["id"]: element for element in obs["elements"]}
    found: list[Row] = []
    for line in outline(obs):
        if line.id is not None and known[line.id]["tag"] == "div":
            found.append(Row(known[line.id], {}))
        elif line.id is not None and found:
            found[-1].icons[known[line.id]["name"]] = line.id
    return found


def sender_of(row: Row, goal: str) -> str:
    """Return the sender of an email: its first word, or its first two words if the goal contains both."""
    words = row.element["name"].split(" ")
    both = " ".join(words[:2])
    return both if both in goal else words[0]


def mentioned(goal: str, names: set[str]) -> list[str]:
    """Return the names in the goal, in order of occurrence; of names with the same beginning, the longest."""
    if not names:
        return []
    one_of = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.findall(rf"(?<!\w)(?:{one_of})(?=(?:'?s)?\b)", goal) or re.findall(one_of, goal)


def wish(goal: str, names: set[str]) -> Wish | None:
    """Interpret the goal in any wording; None if it names no known sender.

    Args:
        goal: the goal in words.
        names: names of known senders.
    """
    if told := re.search(r"by (.+?) and forward that email to (.+?)\.$", goal):
        return Wish("forward", told[1], told[2])
    answer = re.search(r'"+([^"]+)"', goal)
    people = list(dict.fromkeys(mentioned(re.sub(r'".*"', "", goal), names)))
    if not people:
        return None
    if answer:
        return Wish("reply", people[0], answer[1])
    if len(people) > 1:
        cues = [cue.format(name) for cue in _SENDER for name in map(re.escape, people)]
        sender = next((name for cue in cues for name in people if name in cue and re.search(cue, goal)), people[0])
        receiver = next(name for name in people if name != sender)
        if _REVERSED.match(goal):
            return Wish("forward", receiver, sender, "who are the other way round in this sentence")
        return Wish("forward", sender, receiver)
    return Wish("trash" if _DELETE.search(goal) else "star", people[0])


@oracle("email-inbox", *(f"email-inbox-{kind}" for kind in _MORE))
def email_inbox(obs: Observation, notes: Notes) -> Action | None:
    """Find the email in the list, which has icons for trash and star. To reply or forward, open it first."""
    goal = obs["goal"]
    said = [line.text for line in outline(obs) if line.id is None]
    listed = rows(obs) if any(line.startswith("heading") for line in said) else []
    names: set[str] = notes.setdefault("senders", set())
    names.update(sender_of(row, goal) for row in listed)
    if "to me" in said:
        names.add(said[said.index("to me") - 1])
    wanted = wish(goal, names)
    if wanted is None:
        return _leave(obs, "The list of emails is the place to look for the one that the goal means.")
    if "to me" in said:
        return _in_email(obs, wanted, said[said.index("to me") - 1])
    if any(line.startswith("subject:") for line in said):
        to = next((line.removeprefix("to:").strip() for line in said if line.startswith("to:")), "")
        return _in_form(obs, wanted, to)
    for row in listed:
        if sender_of(row, goal) != wanted.sender:
            continue
        if wanted.action in row.icons:
            why = f"The goal asks to {_verb(wanted)}, and this is the {wanted.action} icon of that email."
            return Click(id=row.icons[wanted.action], reason=why)
        return Click(id=row.element["id"], reason=f"The goal asks to {_verb(wanted)}, so that email is opened first.")
    return _leave(obs, f"The email by {wanted.sender} is not here, so the list is the place to look for it.")


def _verb(wanted: Wish) -> str:
    return {
        "trash": f"delete the email by {wanted.sender}",
        "star": f"mark the email by {wanted.sender} as important",
        "reply": f'answer {wanted.sender} with "{wanted.text}"',
        "forward": f"forward the email by {wanted.sender} to {wanted.text}"
        + f", {wanted.remark}" * bool(wanted.remark),
    }[wanted.action]


def _leave(obs: Observation, why: str) -> Action:
    """Return to the list from any page; wait if the icon for it is not loaded yet."""
    back = [e for e in elements(obs) if e["name"] in ("close-email", "close-reply", "close-forward", "search-cancel")]
    return click(back, why) or Wait(ms=200, reason=f"{why} The icon that leads there is not drawn yet.")


def _in_email(obs: Observation, wanted: Wish, sender: str) -> Action:
    if sender != wanted.sender:
        return _leave(obs, f"This email is by {sender}, but the goal means the one by {wanted.sender}.")
    button = [e for e in elements(obs, "generic", wanted.action) if e["tag"] == "span"]
    why = f"This is the email by {sender}, and the goal asks to {_verb(wanted)}."
    return click(button, why) or Wait(ms=200, reason=f"{why} The icon for that is not drawn yet.")


def _in_form(obs: Observation, wanted: Wish, to: str) -> Action:
    """Fill in the reply form, which names its recipient, or the forward form, which has a field for it."""
    right = to == wanted.sender if wanted.action == "reply" else not to
    if wanted.action not in ("reply", "forward") or not right:
        return _leave(obs, f"The goal asks to {_verb(wanted)}, for which this is the wrong form.")
    why = "All is filled in, but the icon that sends it is not drawn yet."
    return fill_then_press(obs, [wanted.text], f"send-{wanted.action}", "generic") or Wait(ms=200, reason=why)
