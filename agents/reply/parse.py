"""From a model's text to an action on an element that exists. Never raises, never invents an element.

It looks for, in this order:

1. JSON objects that name an action: compact (`{"click":4}`), full, as a tool call, nested, fenced, sloppy;
2. tool calls in tags (`<function=click>`), then calls (`click(4)`);
3. lines that begin with an action's name (`CLICK 4`, `type [3] [Ada]`);
4. a statement that the goal is reached, or a reply that is nothing but the answer (`The answer is 42.`).

Of several, the first valid one counts: a reply is one step, and what follows is a plan or made up. But an action after
a label such as `Action:` or `Answer:`, or in `<action>` tags, comes before all others, and one after a label such as
`Thought:` comes last. Never read as actions: thinking (`<think>`; to the end of the reply where it is never closed),
rejections ("not {...}"), quotations ("the page says ..."), texts inside an action, and copies of the prompt
(`agents.reply.reading.echo`). A reply cut off by the token limit is read only if nothing but closing braces or a
reason is missing; a number or text that may be incomplete is never acted upon.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

from selfsurf.agents.reply.reading import lines
from selfsurf.agents.reply.reading.echo import Echo
from selfsurf.agents.reply.reading.loose_json import Found, objects, unescape
from selfsurf.agents.reply.reading.naming import ALIASES, arguments, full_forms
from selfsurf.agents.reply.reading.prose import Standing, without_thinking
from selfsurf.browser_env import Action, ActionError, Finish, parse_action

__all__ = ["ALIASES", "MAX_CHARACTERS", "How", "Parsed", "parse"]

How: TypeAlias = Literal["json", "repaired", "call", "keyword", "words", "none"]
"""Where the action was found: JSON as it stood, JSON after repair, a call, a keyword line, plain words, nowhere."""

MAX_CHARACTERS = 20_000
"""A reply is read up to here, counted from the end of its thinking; the rest is ignored."""

MAX_CANDIDATES = 1000
"""Most objects, and most possible actions, of a reply that are looked at."""

MAX_CHECKED = 150
"""Most of them that are checked, copies of the prompt not counted."""

_BLANK = "\ufffc"


@dataclass(frozen=True)
class Parsed:
    """What was read from a reply."""

    action: Action | None
    error: str = ""
    """Why there is no action, in one sentence; empty when there is one."""
    how: How = "none"


@dataclass(frozen=True)
class _Candidate:
    """Something that may be an action: a full dict or a call string, and its place in the reply."""

    start: int
    end: int
    stage: int
    """Place in the order of what is looked for."""
    how: How
    raw: dict[str, Any] | str
    explicit: bool = True
    """It is not just a call in the middle of a sentence."""


def parse(text: str, ids: Collection[int], prompt: str = "") -> Parsed:
    """Read the action in a model's reply.

    Args:
        text: the whole reply.
        ids: the elements of the observation; an action on any other is an error.
        prompt: all that the model was given, so that what it merely repeats is not taken for its choice.
    """
    if not text.strip():
        return Parsed(None, "The reply is empty.")
    if len(text) > MAX_CHARACTERS:
        text = text.rpartition("</think>")[2]
    text, unfinished = without_thinking(text[:MAX_CHARACTERS])
    found = objects(text)
    parsed, echoed = _read(text, found, ids, prompt)
    if parsed.action is None and '\\"' in text:
        plain = unescape(_without(text, found))
        again, _ = _read(plain, objects(plain), ids, prompt)
        parsed = again if again.action is not None else parsed
    if parsed.action is not None or parsed.error:
        return parsed
    if echoed:
        return Parsed(None, "The reply only repeats the prompt; reply with the next action alone.")
    if unfinished:
        return Parsed(None, "The reply ends inside its thinking; think less and reply with an action.")
    example = '{"click":' + f"{min(ids, default=1)}" + "}"
    if text.rfind("{") > text.rfind("}"):
        return Parsed(None, f"The reply ends inside its JSON; reply with the whole action alone, such as {example}.")
    return Parsed(None, f"The reply holds no action; reply with JSON such as {example}.")


def _read(text: str, found: list[Found], ids: Collection[int], prompt: str) -> tuple[Parsed, bool]:
    """The first valid action, and whether one was passed over because it was copied from the prompt."""
    echo, standing = Echo(text, prompt), Standing(text, found)
    candidates = list(islice(_candidates(text, found), MAX_CANDIDATES))
    first_error = ""
    # In the order of the text, since a run of the prompt is known by what was copied before it.
    copied = {(one.start, one.end): False for one in sorted(candidates, key=lambda one: one.start)}
    for place in copied:
        copied[place] = echo.holds(*place)
    own = [one for one in candidates if not copied[one.start, one.end]]
    echoed = len(own) < len(candidates)
    for one in sorted(own, key=lambda one: (standing.rank(one.start), one.stage))[:MAX_CHECKED]:
        if standing.rejected(one.start, one.end) or not (one.explicit or _meant(standing, one)):
            continue
        action, error = _check(one.raw, ids)
        if action is not None:
            return Parsed(action, how=one.how), False
        first_error = first_error or error
    return Parsed(None, first_error), echoed


def _candidates(text: str, found: list[Found]) -> Iterator[_Candidate]:
    """Everything in the text that may be an action."""
    for one in found[:MAX_CANDIDATES]:
        how: How = "json" if one.strict else "repaired"
        forms: list[dict[str, Any] | str] = list(full_forms(one.data, cut=one.cut))
        name = lines.name_before(text, one.start) if not forms and not one.cut and _called(text, one) else None
        if name is not None:
            forms.append(arguments(name, {str(key).lower(): value for key, value in one.data.items()}))
        for form in forms:
            raw = lines.phrase(form) if isinstance(form, str) else form
            if raw is not None:
                yield _Candidate(one.start, one.end, 1, how, raw)
    rest = _without(text, found)
    for start, end, raw in lines.functions(rest):
        yield _Candidate(start, end, 2, "call", raw)
    for start, end, _, begins, read in lines.calls(rest):
        yield _Candidate(start, end, 3 if begins else 4, "call", read, explicit=begins)
    for start, end, raw in lines.keywords(rest):
        yield _Candidate(start, end, 5, "keyword", raw)
    place = lines.done(rest)
    if place is not None:
        yield _Candidate(*place, 6, "words", Finish().to_dict())
    answer = lines.answer(rest)
    if answer is not None:
        yield _Candidate(0, len(rest), 6, "words", Finish(answer=answer).to_dict())


def _called(text: str, one: Found) -> bool:
    """Whether the object may be a call's arguments; an empty one only right behind a name."""
    return bool(one.data) or text[one.start - 1 : one.start] not in ("", " ", "}")


def _meant(standing: Standing, one: _Candidate) -> bool:
    """Whether a call in the middle of a sentence is what the sentence proposes."""
    return not standing.quoted(one.start) and not standing.hypothetical(one.start)


def _check(raw: dict[str, Any] | str, ids: Collection[int]) -> tuple[Action | None, str]:
    """The typed action, or None and what is wrong with it."""
    try:
        action = parse_action(raw)
    except (ActionError, RecursionError, OverflowError) as error:
        return None, str(error)
    named = [getattr(action, key, None) for key in ("id", "from_", "to")]
    if any(isinstance(target, str) for target in [*named, getattr(action, "selector", None)]):
        return None, "Name the element by its id, not by a selector."
    missing = [target for target in named if isinstance(target, int) and target not in ids]
    if missing:
        return None, f"There is no element {missing[0]} on the page."
    return action, ""


def _without(text: str, found: list[Found]) -> str:
    """The text with its objects blanked out, everything else at its place."""
    parts, position = [], 0
    for one in found:
        parts += [text[position : one.start], _BLANK * (one.end - one.start)]
        position = one.end
    return "".join([*parts, text[position:]])
