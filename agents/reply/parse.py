"""Parser of a model's reply into an action on an existing element. It never raises and never invents an element.

It searches, in this order, for

1. JSON objects that name an action: compact (`{"click":4}`), full, as a tool call, nested, fenced, sloppy;
2. tool calls in tags (`<function=click>`), then calls (`click(4)`); raw tool calls of a template count as JSON;
3. lines that begin with an action's name (`CLICK 4`, `type [3] [Ada]`);
4. a statement that the goal is reached, or a reply that consists of the answer alone (`The answer is 42.`).

The first valid action counts: a reply is one step, and later actions are plans or made up. But an action after a label
such as `Action:` or `Answer:`, or in `<action>` tags, takes precedence over all others, and an action after a label
such as `Thought:` comes last. Never read as actions: thinking (`<think>`; to the end of the reply if it is never
closed), rejections ("not {...}"), quotations ("the page says ..."), texts inside an action, and copies of the prompt
(`agents.reply.reading.echo`). A reply cut off by the token limit is read only if nothing but closing braces or a reason
is missing; an action with a number or text that may be incomplete is ignored.

If several actions are requested, those that follow the first also count: in the same list, or as JSON with only list
marks in between. They are read up to the first invalid action; no action is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

from selfsurf.agents.reply.reading import lines
from selfsurf.agents.reply.reading.echo import Echo
from selfsurf.agents.reply.reading.loose_json import LooseObject, objects, unescape
from selfsurf.agents.reply.reading.naming import ALIASES, action_list, arguments, full_forms, item_forms
from selfsurf.agents.reply.reading.prose import PositionClassifier, after_thinking, without_thinking
from selfsurf.browser_env import Action, ActionError, Finish, parse_action

__all__ = ["ALIASES", "MAX_CHARACTERS", "How", "Parsed", "parse"]

How: TypeAlias = Literal["json", "repaired", "call", "keyword", "words", "none"]
"""Notation of the action in the reply: valid JSON, repaired JSON, a call, a keyword line, plain words, or none."""

MAX_CHARACTERS = 20_000
"""Maximum number of characters read from a reply, counted from the end of its thinking if the reply is longer."""

MAX_CANDIDATES = 1000
"""Maximum number of objects, and of possible actions, considered in a reply."""

MAX_CHECKED = 150
"""Maximum number of possible actions that are checked, not counting copies of the prompt."""

_BLANK = "\ufffc"
_BETWEEN = re.compile(
    r"(?i)(?:[\s,;\[\]`*-]|</?tool_call>|<[|｜][\w▁]{1,40}[|｜]>|json\b|\d+[.)]\s|(?:next )?actions?(?: \d+)?:)*"
)
"""Pattern of the text between the actions of a list."""


@dataclass(frozen=True)
class Parsed:
    """The result of parsing a reply."""

    action: Action | None
    error: str = ""
    """Reason why there is no action, in one sentence; empty if there is an action."""
    absent: Action | None = None
    """The well-formed action that the error is about, if its element is not on the page."""
    how: How = "none"
    more: tuple[Action, ...] = ()
    """Further actions of the reply, in order."""
    unread: str = ""
    """Error in the actions after those that were read; empty without one."""


@dataclass(frozen=True)
class _Candidate:
    """A possible action, as a full dict or a call string, and its place in the reply."""

    start: int
    end: int
    stage: int
    """Rank of the notation in the parser's search order, from 1 (JSON) to 7 (statements)."""
    how: How
    raw: dict[str, Any] | str
    explicit: bool = True
    """Whether the candidate is more than a call in the middle of a sentence."""
    place: int = 0
    """Index of the candidate in its list of actions."""


def parse(text: str, ids: Collection[int], prompt: str = "", *, most: int = 1) -> Parsed:
    """Parse the action in a model's reply.

    Args:
        text: the whole reply.
        ids: ids of the observation's elements; an action on another element is an error.
        prompt: the model's whole input, so that copies of it are not taken for the model's choice.
        most: maximum number of actions to read.
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


def _read(text: str, found: list[LooseObject], ids: Collection[int], prompt: str, most: int) -> tuple[Parsed, bool]:
    """Return the first valid action, and whether an action was skipped because it was copied from the prompt."""
    echo, standing = Echo(text, prompt), PositionClassifier(text, found)
    candidates = list(islice(_candidates(text, found, lists=most > 1), MAX_CANDIDATES))
    refused = Parsed(None)
    # In text order, since copied runs of the prompt are recognised by the copies before them.
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
    """Group candidates into the text's lists of actions; each action is a list of its possible readings."""
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


def _first_run(
    runs: list[list[list[_Candidate]]], standing: PositionClassifier, ids: Collection[int], most: int
) -> Parsed:
    """Return the actions of the first list that begins with a valid action, up to the first invalid one."""
    refused = Parsed(None)
    for run in sorted(runs, key=lambda run: (standing.rank(run[0][0].start), run[0][0].stage))[:MAX_CHECKED]:
        actions: list[Action] = []
        how: How = "none"
        wrong = Parsed(None)
        for ways in run[:most]:
            wrong = Parsed(None)
            for one in ways:
                stands = not standing.rejected(one.start, one.end) and (one.explicit or _meant(standing, one))
                if not stands and not actions:  # the words before a list apply to its first action
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


def _candidates(text: str, found: list[LooseObject], *, lists: bool) -> Iterator[_Candidate]:
    """Yield all possible actions in the text; with `lists`, the actions of a list with their indices."""
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


def _called(text: str, one: LooseObject) -> bool:
    """Whether the object may be a call's arguments; an empty object must directly follow the name."""
    return bool(one.data) or text[one.start - 1 : one.start] not in ("", " ", "}")


def _meant(standing: PositionClassifier, one: _Candidate) -> bool:
    """Whether a sentence proposes the call in its middle, instead of quoting or considering it."""
    return not standing.quoted(one.start) and not standing.hypothetical(one.start)


def _check(one: _Candidate, ids: Collection[int]) -> Parsed:
    """Return the candidate's action, or its error."""
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


def _without(text: str, found: list[LooseObject]) -> str:
    """Return the text with its objects blanked out and all other characters in place."""
    parts, position = [], 0
    for one in found:
        parts += [text[position : one.start], _BLANK * (one.end - one.start)]
        position = one.end
    return "".join([*parts, text[position:]])
