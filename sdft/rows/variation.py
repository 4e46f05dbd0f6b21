"""Variations of a recording: other element ids, other positions and other words.

A page learned exactly as recorded is memorized: the number of a field, rather than the fact that the field is labelled
"Email". So everything accidental is redrawn each time, consistently in goal, page and action: the elements' ids, their
positions, the other elements, and the words that were typed or chosen because the goal names them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from selfsurf.browser_env import Action
from selfsurf.browser_env.goal.words import SMALL, bounded, texts_of_goal
from selfsurf.browser_env.outline import OutlineLine, parse_line, parse_outline
from selfsurf.browser_env.safety.secrets import PLACEHOLDER
from selfsurf.sdft.rows.choices import Choice, choices_of
from selfsurf.sdft.rows.dates import Day, days_in
from selfsurf.sdft.rows.fields import exchanged
from selfsurf.sdft.rows.labels import Label, other_labels
from selfsurf.sdft.rows.layout import Layout
from selfsurf.sdft.rows.marks import marked_anywhere
from selfsurf.sdft.rows.renaming import AS_RECORDED, REAL_WORDS, Text, Words, renamed, replacing, said_otherwise
from selfsurf.sdft.teacher.recording import RecordedStep, Recording

FROM_ONE = 0.5
"""Probability that ids are 1, 2, 3 ... in the order in which elements first appear, as in an episode on a new page."""

LARGEST_FIRST_ID, LARGEST_GAP = 40, 3
"""Maximum of the first id, and maximum gap between consecutive ids, if ids don't count up from 1."""

OTHER_FIELDS = 0.5
"""Probability that the fields of a form are reordered."""

ALIKE = 0.75
"""Minimum share of a recording's labels that all other recordings have, for them to count as labelled alike."""

TURNS, CHOSEN = 3, 8
"""Repetitions of important steps: `TURNS` if the goal names the typed text, and for the next step on the same page,
where only the finished step shows what comes next; `CHOSEN` if the goal decides a choice, which is learned last."""

_WORD = re.compile(r"[^\W\d_]{3,}")
_STRUCTURE = re.compile(r" level=\d+$")


def varied(
    recording: Recording, rng: np.random.Generator, *, invented: bool = True, relabelled: bool = False
) -> Recording:
    """Return a recording with other ids, and with other words for what goal and actions share.

    Args:
        recording: a recording with complete observations, as on disk.
        rng: random generator.
        invented: whether to draw meaningless words, too; otherwise words come only from the recorded pages.
        relabelled: whether to give the elements other labels, too.
    """
    choices = [one for one in choices_of(recording) if one.columns]
    real = REAL_WORDS if invented else 1.0
    drawn = Words(rng, _vocabulary(recording), _said_anywhere(recording, choices), real)
    text = _other_texts(recording, choices, drawn, rng, mixed=invented)
    recording = marked_anywhere(recording, choices, rng)
    if rng.random() < OTHER_FIELDS:
        recording = exchanged(recording, rng)
    labels = _other_labels(recording, choices, drawn, rng) if relabelled else {}
    touched = {number for one in recording.steps for number in _numbers(one.action).values()}
    layout = Layout(rng, touched, _by_place(recording, choices), spoken_of(recording), [one.ids for one in choices])
    observations = [layout.of(one.observation) for one in recording.steps]
    ids = _other_ids(observations, rng)
    steps = tuple(
        RecordedStep(_observation(seen, ids, text, labels), _action(one.action, ids, text))
        for seen, one in zip(observations, recording.steps, strict=True)
    )
    return replace(recording, goal=text(recording.goal), steps=steps)


def _other_texts(
    recording: Recording, choices: Sequence[Choice], words: Words, rng: np.random.Generator, *, mixed: bool
) -> Text:
    """Return a function that replaces the words that goal, pages and actions share.

    Unless `mixed`, the members of choices only exchange their words.
    """
    new = renamed(choices, words, rng, as_recorded=AS_RECORDED if mixed else 1.0)
    fixed = _without_choice(recording, choices)
    typed = [one for one in spoken_of(recording) if one not in fixed and not PLACEHOLDER.search(one)]
    new = {**{one: words.other(one) for one in typed if one not in new}, **new}
    loose = {value for choice in choices for column in choice.columns for value in column}
    for choice in choices:
        for column in choice.columns:
            value = column[choice.chosen]
            new = {**said_otherwise(value, new.get(value, value), recording.goal), **new}
    return replacing({**_beside(choices, [*typed, *loose], rng), **new}, loose, _other_days(recording, rng))


def _beside(choices: Sequence[Choice], said: Sequence[str], rng: np.random.Generator) -> dict[str, str]:
    """Return replacements that shuffle the other texts beside the members of choices, such as prices.

    Otherwise these texts would reveal the chosen member. Texts that contain a word of the goal are left unchanged.
    """
    spoken = re.compile("|".join(map(bounded, said)) or r"(?!)", re.IGNORECASE)
    found: dict[str, str] = {}
    for choice in choices:
        for column in zip(*choice.rows, strict=True):
            texts = [*dict.fromkeys(column)]
            if len(texts) > 1 and not any(spoken.search(text) for text in texts):
                found |= {text: texts[at] for text, at in zip(texts, rng.permutation(len(texts)), strict=True)}
    return found


def _other_days(recording: Recording, rng: np.random.Generator) -> dict[Day, Day]:
    """Return replacements for the days that both the goal and an action name, in any format."""
    said = [one.day for one in days_in(recording.goal)]
    done = [day.day for shown in recording.steps for text in _done(shown) for day in days_in(text)]
    days = {day for day in done if any(day.same(other) for other in said)}
    year = int(rng.integers(-1, 2))
    return {
        day: Day(int(rng.integers(1, 13)), int(rng.integers(1, 29)), day.year and day.year + year)
        for day in sorted(days, key=str)
    }


def _said_anywhere(recording: Recording, choices: Sequence[Choice]) -> list[str]:
    """Return texts whose words must not be drawn as replacements, because they would be ambiguous."""
    named = [each["name"] for shown in recording.steps for each in shown.observation["elements"]]
    return [recording.goal, *named, *(name for one in choices for name in one.names)]


def _other_labels(
    recording: Recording, choices: Sequence[Choice], words: Words, rng: np.random.Generator
) -> dict[Label, str]:
    touched = [element for one in recording.steps for element in _touched(one)]
    kept = _kept(recording, choices)
    return other_labels(touched, kept, lambda: words.word(int(rng.integers(3, 9))), rng)


def _kept(recording: Recording, choices: Sequence[Choice]) -> set[str]:
    """Return the names that the goal mentions, and those of all members of choices."""
    return {*spoken_of(recording), *(name for one in choices for name in one.names)}


def _touched(shown: RecordedStep) -> list[Mapping[str, Any]]:
    """Return the elements on which a step acts."""
    return [one for one in shown.observation["elements"] if one["id"] in _numbers(shown.action).values()]


def shared_texts(recording: Recording) -> list[str]:
    """Return the typed, chosen or clicked texts that the goal contains verbatim."""
    return texts_of_goal(recording.goal, ((one.action, one.observation["elements"]) for one in recording.steps))


def texts_of_pages(recording: Recording) -> list[str]:
    """Return the typed or answered texts that appeared on the same page or an earlier one."""
    found, said = [], ""
    for shown in recording.steps:
        said += "\n" + shown.observation["page_text"]
        action: Any = shown.action
        text = action.answer if action.name == "finish" else action.text if action.name in ("fill", "type") else ""
        if text.strip() and re.search(bounded(text), said):
            found.append(text)
    return found


def spoken_of(recording: Recording) -> list[str]:
    """Return the texts that actions share with goal or pages, which variations may replace."""
    values = [column[one.chosen] for one in choices_of(recording) for column in one.columns]
    return list(dict.fromkeys([*shared_texts(recording), *values, *texts_of_pages(recording)]))


def goal_decides(recording: Recording) -> set[int]:
    """Return the steps at which the goal determines the typed text or the choice among alternatives."""
    said = set(shared_texts(recording))
    typed = {step for step, shown in enumerate(recording.steps) if shown.action.name in ("fill", "type")}
    return {
        *(one.step for one in choices_of(recording) if one.columns),
        *(step for step in typed if said.intersection(_done(recording.steps[step]))),
    }


def goal_names(recording: Recording) -> set[int]:
    """Return the steps at which the goal names the typed, chosen or clicked text, with or without alternatives."""
    said = set(shared_texts(recording))
    return goal_decides(recording) | {
        step for step, shown in enumerate(recording.steps) if said.intersection(_done(shown))
    }


def turns_of(recordings: Iterable[Recording]) -> list[tuple[Recording, int]]:
    """Return the recorded steps that a reply can express, repeated by their importance.

    Each appears once, unless the recordings are `labelled_alike` (`TURNS`, `CHOSEN`).
    """
    recordings = list(recordings)
    alike = labelled_alike(recordings)
    found = []
    for one in recordings:
        chosen = {choice.step for choice in choices_of(one) if choice.columns}
        oftener = goal_names(one) | {index + 1 for index in goal_decides(one) if _stays(one, index + 1)}
        for index, shown in enumerate(one.steps):
            times = (CHOSEN if index in chosen else TURNS if index in oftener else 1) if alike else 1
            found += [(one, index)] * (shown.sayable * times)
    return found


def labelled_alike(recordings: Sequence[Recording]) -> bool:
    """Whether recordings act on elements with the same labels, apart from names in their goals.

    On an unchanging site they do; at another time, or on another site, "Email" may be "Your address".
    """
    spoken = {name for one in recordings for name in _kept(one, choices_of(one))}
    labels = [{each["name"] for shown in one.steps for each in _touched(shown)} - spoken for one in recordings]
    shared = set.intersection(*labels) if labels else set()
    return all(len(shared) >= ALIKE * len(one) for one in labels)


def _stays(recording: Recording, index: int) -> bool:
    """Whether a step is on the same page as the previous step."""
    if index >= len(recording.steps):
        return False
    before, now = (shown.observation for shown in recording.steps[index - 1 : index + 1])
    known = {one["id"] for one in before["elements"]}
    kept = known.intersection(one["id"] for one in now["elements"])
    return before["url"] == now["url"] and len(kept) > len(known) / 2


def _done(shown: RecordedStep) -> list[str]:
    """Return the texts that a step typed, chose or clicked."""
    action: Any = shown.action
    if action.name in ("fill", "type"):
        return [action.text]
    if action.name == "select":
        return list(action.options)
    return [one["name"] for one in shown.observation["elements"] if action.name == "click" and one["id"] == action.id]


def _without_choice(recording: Recording, choices: Sequence[Choice]) -> set[str]:
    """Return clicked names that had no alternatives, such as "Log in"."""
    decided = {one.step for one in choices}
    return {
        text for step, shown in enumerate(recording.steps) if shown.action.name == "click" and step not in decided
        for text in _done(shown)
    }  # fmt: skip


def _by_place(recording: Recording, choices: Sequence[Choice]) -> set[int]:
    """Return elements possibly chosen by position: links that the goal doesn't name, and duplicate names."""
    decided = {one.step for one in choices}
    found = set()
    for step, shown in enumerate(recording.steps):
        alike = Counter((one["role"], one["name"]) for one in shown.observation["elements"])
        for one in shown.observation["elements"]:
            named = one["name"] and re.search(bounded(one["name"]), recording.goal, re.IGNORECASE)
            unnamed = one["role"] == "link" and not named and step not in decided
            if one["id"] in _numbers(shown.action).values() and (unnamed or alike[one["role"], one["name"]] > 1):
                found.add(one["id"])
    return found


def _other_ids(observations: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[int, int]:
    """Return new ids of the elements, in the order in which they first appear."""
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
    """Return the words of a recording's pages: real words, in the user's language."""
    pages = {shown.observation["page_text"] for shown in recording.steps}
    return sorted({word.lower() for page in pages for word in _WORD.findall(page)} - SMALL)


def _container(line: OutlineLine, text: Text) -> str:
    """Return a line such as `heading "Cart" level=2` with its name replaced; empty for other lines."""
    named = line._replace(id=0).element if line.id is None and _STRUCTURE.search(line.text) else None
    if named is None:
        return ""
    return str(line._replace(text=str(named._replace(name=text(named.name), value=text(named.value)))))


def _numbers(action: Action) -> dict[str, int]:
    """Return the element ids in an action, by field."""
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
