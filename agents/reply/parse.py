"""From a model's text to an action on an element that exists. Never raises, never invents an element.

It looks for, in this order:

1. JSON objects that name an action: compact (`{"click":4}`), full, as a tool call, nested, fenced, sloppy;
2. tool calls in tags (`<function=click>`), then calls (`click(4)`); raw tool calls of a template count as JSON;
3. lines that begin with an action's name (`CLICK 4`, `type [3] [Ada]`);
4. a statement that the goal is reached, or a reply that is nothing but the answer (`The answer is 42.`).

Of several, the first valid one counts: a reply is one step, and what follows is a plan or made up. But an action after
a label such as `Action:` or `Answer:`, or in `<action>` tags, comes before all others, and one after a label such as
`Thought:` comes last. Never read as actions: thinking (`<think>`; to the end of the reply where it is never closed),
rejections ("not {...}"), quotations ("the page says ..."), texts inside an action, and copies of the prompt
(`agents.reply.reading.echo`). A reply cut off by the token limit is read only if nothing but closing braces or a
reason is missing; a number or text that may be incomplete is never acted upon.

Where several actions are asked for, those that follow the first count, too: in the same list, or as JSON with nothing
but marks of a list between them. They are read up to the first that is not valid, and none is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

from selfsurf.agents.reply.reading import lines
from selfsurf.agents.reply.reading.echo import Echo
from selfsurf.agents.reply.reading.loose_json import Found, objects, unescape
from selfsurf.agents.reply.reading.naming import ALIASES, action_list, arguments, full_forms, item_forms
from selfsurf.agents.reply.reading.prose import Standing, after_thinking, without_thinking
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
_BETWEEN = re.compile(
    r"(?i)(?:[\s,;\[\]`*-]|</?tool_call>|<[|｜][\w▁]{1,40}[|｜]>|json\b|\d+[.)]\s|(?:next )?actions?(?: \d+)?:)*"
)
"""What may stand between the actions of a list."""


@dataclass(frozen=True)
class Parsed:
    """What was read from a reply."""

    action: Action | None
    error: str = ""
    """Why there is no action, in one sentence; empty when there is one."""
    absent: Action | None = None
    """The action that the error is about: well formed, but its element is not on the page."""
    how: How = "none"
    more: tuple[Action, ...] = ()
    """What the reply says to do after it."""
    unread: str = ""
    """Why what follows those could not be read; empty if all could."""


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
    place: int = 0
    """In a list of actions."""


def parse(text: str, ids: Collection[int], prompt: str = "", *, most: int = 1) -> Parsed:
    """Read the action in a model's reply.

    Args:
        text: the whole reply.
        ids: the elements of the observation; an action on any other is an error.
        prompt: all that the model was given, so that what it merely repeats is not taken for its choice.
        most: how many actions are read, where several are asked for.
    """
    if not text.strip():
        return Parsed(None, "The reply is empty.")
    if len(text) > MAX_CHARACTERS:
        text = after_thinking(text) or text
    text, unfinished = without_thinking(text[:MAX_CHARACTERS])
    found = objects(text)
    parsed, echoed = _read(text, found, ids, prompt, most)
    for mark, plain in (('\\"', unescape(_without(text, found))), ("{{", text.replace("{{", "{").replace("}}", "}"))):
        if parsed.action is None and mark in text:
            again, _ = _read(plain, objects(plain), ids, prompt, most)
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


def _read(text: str, found: list[Found], ids: Collection[int], prompt: str, most: int) -> tuple[Parsed, bool]:
    """The first valid action, and whether one was passed over because it was copied from the prompt."""
    echo, standing = Echo(text, prompt), Standing(text, found)
    candidates = list(islice(_candidates(text, found, lists=most > 1), MAX_CANDIDATES))
    refused = Parsed(None)
    # In the order of the text, since a run of the prompt is known by what was copied before it.
    copied = {(one.start, one.end): False for one in sorted(candidates, key=lambda one: one.start)}
    for place in copied:
        copied[place] = echo.holds(*place)
    own = [one for one in candidates if not copied[one.start, one.end]]
    echoed = len(own) < len(candidates)
    if most > 1:
        return _first_run(_runs(text, own), standing, ids, most), echoed
    for one in sorted(own, key=lambda one: (standing.rank(one.start), one.stage))[:MAX_CHECKED]:
        if standing.rejected(one.start, one.end) or not (one.explicit or _meant(standing, one)):
            continue
        checked = _check(one, ids)
        if checked.action is not None:
            return checked, False
        refused = refused if refused.error else checked
    return refused, echoed


def _runs(text: str, candidates: list[_Candidate]) -> list[list[list[_Candidate]]]:
    """The lists of actions in the text; of each action, the ways to read it."""
    runs: list[list[list[_Candidate]]] = []
    for one in sorted(candidates, key=lambda one: (one.start, one.place)):
        last = runs[-1][-1][0] if runs else None
        if last is not None and (last.start, last.place) == (one.start, one.place) and last.stage == one.stage:
            runs[-1][-1].append(one)
        elif last is not None and _follows(text, last, one):
            runs[-1].append([one])
        else:
            runs.append([[one]])
    return runs


def _follows(text: str, last: _Candidate, one: _Candidate) -> bool:
    if last.start == one.start:
        return last.stage == one.stage == 1
    if last.stage > 4 or one.stage > 4 or (last.stage != one.stage and {last.stage, one.stage} != {3, 4}):
        return False
    return one.start >= last.end and _BETWEEN.fullmatch(text, last.end, one.start) is not None


def _first_run(runs: list[list[list[_Candidate]]], standing: Standing, ids: Collection[int], most: int) -> Parsed:
    """The actions of the first list that begins with a valid one, up to the first that is not."""
    refused = Parsed(None)
    for run in sorted(runs, key=lambda run: (standing.rank(run[0][0].start), run[0][0].stage))[:MAX_CHECKED]:
        actions: list[Action] = []
        how: How = "none"
        wrong = Parsed(None)
        for ways in run[:most]:
            wrong = Parsed(None)
            for one in ways:
                stands = not standing.rejected(one.start, one.end) and (one.explicit or _meant(standing, one))
                if not stands and not actions:  # the words before are about the first of a list
                    continue
                checked = _check(one, ids)
                if checked.action is not None:
                    how = how if actions else one.how
                    actions.append(checked.action)
                    wrong = Parsed(None)
                    break
                wrong = wrong if wrong.error else checked
            else:
                break
        if actions:
            return Parsed(actions[0], how=how, more=tuple(actions[1:]), unread=wrong.error)
        refused = refused if refused.error else wrong
    return refused


def _candidates(text: str, found: list[Found], *, lists: bool) -> Iterator[_Candidate]:
    """Everything in the text that may be an action; with `lists`, each action of a list has its place."""
    for one in found[:MAX_CANDIDATES]:
        how: How = "json" if one.strict else "repaired"
        listed = (action_list(one.data) if lists else None) or []
        items = [
            (number, form)
            for number, item in enumerate(listed)
            for form in item_forms(item, cut=one.cut and item is listed[-1])
        ]
        for number, form in items:
            raw = lines.phrase(form) if isinstance(form, str) else form
            if raw is not None:
                yield _Candidate(one.start, one.end, 1, how, raw, place=number)
        if items:
            continue
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
    for start, end, read in lines.tagged(rest):
        yield _Candidate(start, end, 5, "keyword", read)
    for start, end, raw in lines.sentences(rest):
        yield _Candidate(start, end, 6, "words", raw, explicit=False)
    place = lines.done(rest)
    if place is not None:
        yield _Candidate(*place, 7, "words", Finish().to_dict())
    answer = lines.answer(rest)
    if answer is not None:
        yield _Candidate(0, len(rest), 7, "words", Finish(answer=answer).to_dict())


def _called(text: str, one: Found) -> bool:
    """Whether the object may be a call's arguments; an empty one only right behind a name."""
    return bool(one.data) or text[one.start - 1 : one.start] not in ("", " ", "}")


def _meant(standing: Standing, one: _Candidate) -> bool:
    """Whether a call in the middle of a sentence is what the sentence proposes."""
    return not standing.quoted(one.start) and not standing.hypothetical(one.start)


def _check(one: _Candidate, ids: Collection[int]) -> Parsed:
    """The candidate's action, or what is wrong with it."""
    try:
        action = parse_action(one.raw)
    except (ActionError, RecursionError, OverflowError) as error:
        return Parsed(None, str(error))
    named = [getattr(action, key, None) for key in ("id", "from_", "to")]
    if any(isinstance(target, str) for target in [*named, getattr(action, "selector", None)]):
        return Parsed(None, "Name the element by its id, not by a selector.")
    missing = [target for target in named if isinstance(target, int) and target not in ids]
    if missing:
        return Parsed(None, f"There is no element {missing[0]} on the page.", action)
    return Parsed(action, how=one.how)


def _without(text: str, found: list[Found]) -> str:
    """The text with its objects blanked out, everything else at its place."""
    parts, position = [], 0
    for one in found:
        parts += [text[position : one.start], _BLANK * (one.end - one.start)]
        position = one.end
    return "".join([*parts, text[position:]])
