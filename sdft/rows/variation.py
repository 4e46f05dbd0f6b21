"""A recording as it might have been on another day: with other ids, and about something else of the same kind.

Learned from as it is, a page that was recorded once is learned by heart: the number of a field, not that it is the one
labelled "Email". So what is chance in it is drawn anew each time: the elements' ids, where things stand, what else is
there, and what was typed or chosen because the goal says so, in goal, page and action alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from selfsurf.browser_env import Action, Click
from selfsurf.browser_env.goal.words import bounded, texts_of_goal
from selfsurf.browser_env.observe.outline import OutlineLine, parse_line, parse_outline
from selfsurf.browser_env.safety.secrets import PLACEHOLDER
from selfsurf.sdft.rows.fields import exchanged
from selfsurf.sdft.rows.labels import Label, other_labels
from selfsurf.sdft.rows.layout import Layout
from selfsurf.sdft.rows.siblings import choosable, other_choices
from selfsurf.sdft.teacher.recording import Recording, Shown

FROM_ONE = 0.5
"""How often ids are 1, 2, 3 ... in the order in which elements are first seen, as in an episode on a new page."""

LARGEST_FIRST_ID, LARGEST_GAP = 40, 3
"""Else they begin anywhere up to the one, and follow each other within the other."""

OTHER_FIELDS = 0.5
"""How often the fields of a form are in another order."""

REAL_WORDS = 0.5
"""How often another word is one of the pages' own, and not one that means nothing."""

TURNS = 3
"""How many times oftener a step comes up where the goal says what is typed or chosen, or right after such a one on the
same page, where only that it is done tells what is next: the others are soon learned."""

_WORD = re.compile(r"[^\W\d_]{3,}|\d+")
_STRUCTURE = re.compile(r" level=\d+$")
_CONSONANTS, _VOWELS = "bcdfghklmnprstvwz", "aeiou"

Text = Callable[[str], str]


def varied(recording: Recording, rng: np.random.Generator, *, words: bool = True) -> Recording:
    """Return a recording with other ids and, if wanted, with other words for what goal and actions have in common.

    Args:
        recording: its observations are whole, as on disk.
        rng: what is drawn from.
        words: draw other words, too.
    """
    text = _replacing(*(_spoken(recording, rng) if words else ({}, ())))
    if rng.random() < OTHER_FIELDS:
        recording = exchanged(recording, rng)
    labels = _other_labels(recording, rng) if words else {}
    touched = {number for one in recording.steps for number in _numbers(one.action).values()}
    layout = Layout(rng, touched, _by_place(recording), spoken_of(recording), _by_name(recording))
    observations = [_laid_out(one.observation, layout) for one in recording.steps]
    ids = _other_ids(observations, rng)
    steps = tuple(
        Shown(_observation(seen, ids, text, labels), _action(one.action, ids, text))
        for seen, one in zip(observations, recording.steps, strict=True)
    )
    return replace(recording, goal=text(recording.goal), steps=steps)


def _spoken(recording: Recording, rng: np.random.Generator) -> tuple[dict[str, str], Collection[str]]:
    """Return other texts for those that goal and actions share, and for those that they take the places of.

    With them comes which of them are replaced in any case and number.
    """
    loose, fixed = inflected_texts(recording), _without_choice(recording)
    texts = [text for text in spoken_of(recording) if text not in fixed and not PLACEHOLDER.search(text)]
    others, renamed = other_choices(recording, texts, rng)
    new = [text for text in (*texts, *renamed) if text not in others]
    drawn = _other_words(new, _vocabulary(recording), rng)
    return {**drawn, **others}, {*loose, *(other for chosen, other in others.items() if chosen in loose)}


def _other_labels(recording: Recording, rng: np.random.Generator) -> dict[Label, str]:
    touched = [
        element
        for one in recording.steps
        for element in one.observation["elements"]
        if element["id"] in _numbers(one.action).values()
    ]
    return other_labels(touched, spoken_of(recording), lambda: _word(int(rng.integers(3, 9)), rng), rng)


def shared_texts(recording: Recording) -> list[str]:
    """Return what was typed, chosen or clicked that stands in the goal, word for word."""
    return texts_of_goal(recording.goal, ((one.action, one.observation["elements"]) for one in recording.steps))


def inflected_texts(recording: Recording) -> list[str]:
    """Return what was chosen that stands in the goal in another case or number: "Mug" where that says "two mugs".

    Buttons are not among them: "Order" is not what "order two mugs" means.
    """
    found = []
    for shown in recording.steps:
        action: Any = shown.action
        element = next((one for one in shown.observation["elements"] if one["id"] == getattr(action, "id", None)), None)
        if element is not None and action.name == "select":
            found += action.options
        elif element is not None and action.name == "click" and element["role"] != "button":
            found.append(element["name"])
    exact = shared_texts(recording)
    texts = [text for text in dict.fromkeys(found) if text.strip() and text not in exact]
    return [text for text in texts if re.search(_in_any_form(text), recording.goal)]


def texts_of_pages(recording: Recording) -> list[str]:
    """Return what was typed or answered that the page, or one before it, had said."""
    found, said = [], ""
    for shown in recording.steps:
        said += "\n" + shown.observation["page_text"]
        action: Any = shown.action
        text = action.answer if action.name == "finish" else action.text if action.name in ("fill", "type") else ""
        if text.strip() and re.search(bounded(text), said):
            found.append(text)
    return found


def spoken_of(recording: Recording) -> list[str]:
    """Return what the actions have in common with goal or pages, which another day may differ in."""
    return list(dict.fromkeys([*shared_texts(recording), *inflected_texts(recording), *texts_of_pages(recording)]))


def goal_decides(recording: Recording) -> set[int]:
    """Return the steps at which the goal says what is typed or chosen, where something else might be."""
    return _naming(recording, {*shared_texts(recording), *inflected_texts(recording)} - _without_choice(recording))


def goal_names(recording: Recording) -> set[int]:
    """Return the steps at which the goal says what is typed, chosen or clicked, be there a choice or not."""
    return _naming(recording, {*shared_texts(recording), *inflected_texts(recording)})


def _naming(recording: Recording, said: Collection[str]) -> set[int]:
    return {index for index, shown in enumerate(recording.steps) if any(text in said for text, _ in _done(shown))}


def turns_of(recordings: Iterable[Recording]) -> list[tuple[Recording, int]]:
    """Return the recorded steps that can be learned, each as often as it comes up in a turn of all.

    That is once, unless all have the same goal: different goals show by themselves what hangs on them (`TURNS`).
    """
    recordings = list(recordings)
    more = TURNS if len({one.goal for one in recordings}) == 1 else 1
    found = []
    for one in recordings:
        oftener = goal_names(one) | {index + 1 for index in goal_decides(one) if _stays(one, index + 1)}
        for index, shown in enumerate(one.steps):
            found += [(one, index)] * (shown.sayable * (more if index in oftener else 1))
    return found


def _stays(recording: Recording, index: int) -> bool:
    """Is a step on the same page as the one before it?"""
    if index >= len(recording.steps):
        return False
    before, now = (shown.observation for shown in recording.steps[index - 1 : index + 1])
    known = {one["id"] for one in before["elements"]}
    kept = known.intersection(one["id"] for one in now["elements"])
    return before["url"] == now["url"] and len(kept) > len(known) / 2


def _done(shown: Shown) -> list[tuple[str, bool]]:
    """What a step typed, chose or clicked, and whether it might have been something else of the kind."""
    action: Any = shown.action
    elements = shown.observation["elements"]
    element = next((one for one in elements if one["id"] == getattr(action, "id", None)), None)
    if action.name in ("fill", "type"):
        return [(action.text, True)]
    if action.name == "select":
        return [(option, True) for option in action.options]
    if action.name == "click" and element is not None:
        alike = {one["name"] for one in elements if one["role"] == element["role"]}
        return [(element["name"], len(alike) > 1)]
    return []


def _without_choice(recording: Recording) -> set[str]:
    """Names of the goal that were once the only ones to click: "Log in" is what it says, and not one of several."""
    done = [one for shown in recording.steps for one in _done(shown)]
    return {text for text, might_differ in done if not might_differ}


def _in_any_form(text: str) -> str:
    return rf"(?<!\w)(?i:{re.escape(text)})(?:e?s)?(?!\w)"


def _by_place(recording: Recording) -> set[int]:
    """What may have been chosen by its place: links that the goal does not name, and one of several alike."""
    found = set()
    for shown in recording.steps:
        alike = Counter((one["role"], one["name"]) for one in shown.observation["elements"])
        for one in shown.observation["elements"]:
            named = one["name"] and re.search(bounded(one["name"]), recording.goal, re.IGNORECASE)
            unnamed = one["role"] == "link" and not named
            if one["id"] in _numbers(shown.action).values() and (unnamed or alike[one["role"], one["name"]] > 1):
                found.add(one["id"])
    return found


def _by_name(recording: Recording) -> set[int]:
    """What was chosen because the goal names it."""
    done = [recording.steps[index].action for index in goal_decides(recording)]
    return {action.id for action in done if isinstance(action, Click) and action.id is not None}


def _laid_out(observation: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    dom = layout.arranged(observation["dom"])
    left = {line.id for line in parse_outline(dom)}
    gone = {line.id for line in parse_outline(observation["dom"])} - left
    return {**observation, "dom": dom, "elements": [one for one in observation["elements"] if one["id"] not in gone]}


def _other_ids(observations: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[int, int]:
    """Number the elements anew, in the order in which they are first seen."""
    known: dict[int, None] = {}
    for seen in observations:
        there = {one["id"] for one in seen["elements"]}
        lines = parse_outline(seen["dom"])
        known.update(dict.fromkeys(line.id for line in lines if line.id is not None and line.id in there))
        known.update(dict.fromkeys(sorted(there)))
    first, gaps = rng.integers(LARGEST_FIRST_ID + 1), rng.integers(1, LARGEST_GAP + 1, len(known))
    numbers = np.arange(1, len(known) + 1) if rng.random() < FROM_ONE else first + np.cumsum(gaps)
    return dict(zip(known, numbers.tolist(), strict=True))


def _vocabulary(recording: Recording) -> list[str]:
    """The words of its pages: real ones, in the user's language. Not those of the goal or of elements' names."""
    pages = {shown.observation["page_text"] for shown in recording.steps}
    named = (each["name"] for shown in recording.steps for each in shown.observation["elements"])
    taken = [recording.goal, *named, *(name for shown in recording.steps for name in choosable(shown))]
    words = {word.lower() for page in pages for word in _WORD.findall(page) if word.isalpha()}
    return sorted(words - {word.lower() for text in taken for word in _WORD.findall(text)})


def _other_words(texts: Sequence[str], vocabulary: Sequence[str], rng: np.random.Generator) -> dict[str, str]:
    """Others for these texts. The same word, in any case, becomes the same other one in all of them."""
    known: dict[str, str] = {}

    def drawn(word: str) -> str:
        if not word[0].isalpha():
            return _number(len(word), rng)
        unused = [one for one in vocabulary if one not in known.values()] if rng.random() < REAL_WORDS else []
        return unused[int(rng.integers(len(unused)))] if unused else _word(len(word), rng)

    def other(match: re.Match[str]) -> str:
        word = match[0]
        if word.lower() not in known:
            known[word.lower()] = drawn(word)
        new = known[word.lower()]
        return new.upper() if word.isupper() else new.capitalize() if word[0].isupper() else new

    return {text: _WORD.sub(other, text) for text in texts}


def _word(length: int, rng: np.random.Generator) -> str:
    """A word that can be spoken, about as long."""
    parts = rng.integers(len(_CONSONANTS) * len(_VOWELS), size=max(2, (length + 1) // 2))
    return "".join(_CONSONANTS[part // len(_VOWELS)] + _VOWELS[part % len(_VOWELS)] for part in parts)[: max(length, 4)]


def _number(length: int, rng: np.random.Generator) -> str:
    return "".join(map(str, rng.integers(10, size=length)))


def _replacing(spoken: Mapping[str, str], loose: Collection[str]) -> Text:
    """Return a function that puts others in the places of these texts; of those that are `loose`, in any form."""
    if not spoken:
        return lambda text: text
    known = {text.lower(): other for text, other in spoken.items() if text in loose}

    def other(match: re.Match[str]) -> str:
        said = match[0]
        if said in spoken or PLACEHOLDER.fullmatch(said):
            return spoken.get(said, said)
        stem = next(said[: len(said) - number] for number in (0, 1, 2) if said[: len(said) - number].lower() in known)
        new = known[stem.lower()]
        return (new.upper() if said.isupper() else new.lower() if said.islower() else new) + said[len(stem) :]

    longest_first = sorted(spoken, key=len, reverse=True)
    words = (_in_any_form(one) if one in loose else bounded(one) for one in longest_first)
    pattern = re.compile("|".join([PLACEHOLDER.pattern, *words]))
    return lambda text: pattern.sub(other, text)


def _container(line: OutlineLine, text: Text) -> str:
    """A line such as `heading "Cart" level=2` with another name; empty for one that is no such."""
    named = line._replace(id=0).element if line.id is None and _STRUCTURE.search(line.text) else None
    if named is None:
        return ""
    return str(line._replace(text=str(named._replace(name=text(named.name), value=text(named.value)))))


def _numbers(action: Action) -> dict[str, int]:
    """The elements that an action is about."""
    found = {key: getattr(action, key, None) for key in ("id", "from_", "to")}
    return {key: number for key, number in found.items() if isinstance(number, int)}


def _action(action: Action, ids: Mapping[int, int], text: Text) -> Action:
    changes: dict[str, Any] = {key: ids.get(number, number) for key, number in _numbers(action).items()}
    for key in ("text", "answer"):
        if isinstance(getattr(action, key, None), str):
            changes[key] = text(getattr(action, key))
    if action.name == "select":
        changes["options"] = tuple(map(text, action.options))  # type: ignore[union-attr]
    return action.model_copy(update=changes)


def _observation(
    observation: Mapping[str, Any], ids: Mapping[int, int], text: Text, labels: Mapping[Label, str]
) -> dict[str, Any]:
    def name(role: str, name: str) -> str:
        return labels.get((role, name)) or text(name)

    roles = {one["id"]: one["role"] for one in observation["elements"]}

    def line(row: str) -> str:
        parsed = parse_line(row)
        element = parsed.element if parsed.text.startswith(roles.get(parsed.id, "\n")) else None  # type: ignore[arg-type]
        if element is None:
            return _container(parsed, text) or text(row)
        said = element._replace(name=name(element.role, element.name), value=text(element.value))
        return str(parsed._replace(id=ids[parsed.id], text=str(said)))  # type: ignore[index]

    return {
        **observation,
        "goal": text(observation["goal"]),
        "last_action": text(observation["last_action"]),
        "last_error": text(observation["last_error"]),
        "title": text(observation["title"]),
        "page_text": text(observation["page_text"]),
        "dom": "\n".join(map(line, observation["dom"].split("\n"))),
        "messages": [{**one, "text": text(one["text"])} for one in observation["messages"]],
        "tabs": [{**one, "title": text(one["title"])} for one in observation["tabs"]],
        "events": [text(one) for one in observation["events"]],
        "elements": [
            {
                **one, "id": ids[one["id"]], "name": name(one["role"], one["name"]), "value": text(one["value"]),
                "options": [text(option) for option in one.get("options", ())],
            }
            for one in observation["elements"]
        ],
    }  # fmt: skip
