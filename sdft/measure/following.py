"""Does an adapter read what to choose from the goal? Asked at recorded choices, about other values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.sdft.measure.agreement import Followed, Shown, missed_at
from selfsurf.sdft.rows.choices import Choice, choices_of
from selfsurf.sdft.rows.variation import varied
from selfsurf.sdft.teacher.recording import Recording

TRIES = 20
"""Variations that each choice is asked about in."""

MOST = 8
"""Recordings that are asked about."""

_SEED = 7_000_003
"""Of variations that training doesn't draw."""

_TOGGLES = ("checkbox", "switch", "menuitemcheckbox")


def followed(agent: LLMAgent, recordings: Sequence[Recording]) -> list[Followed]:
    """Ask an agent about the choices of recordings, in variations of them; with those that nothing teaches.

    Args:
        agent: acts greedily.
        recordings: whole, from disk.
    """
    found: dict[str, list[Shown]] = {}
    for number, recording in enumerate(recordings[:MOST]):
        for choice in choices_of(recording):
            if choice.columns:
                found.setdefault(choice.label, []).extend(_tries(recording, choice, number))
    results = []
    for label, states in found.items():
        asked = states[:: max(1, len(states) // TRIES)][:TRIES]
        missed = missed_at(agent, asked)
        results.append(Followed(label=label, right=missed.count(None), of=len(asked)))
    return [*results, *untold(recordings)]


def untold(recordings: Sequence[Recording]) -> list[Followed]:
    """Return what was chosen alike in all recordings without the goal saying which: no recording teaches the choice."""
    chosen: dict[str, set[str]] = {}
    told: set[str] = set()
    for recording in recordings:
        for choice in choices_of(recording):
            chosen.setdefault(choice.label, set()).add(choice.names[choice.chosen])
            told |= {choice.label} if choice.columns or choice.ids else set()
        for name, state in _toggled(recording).items():
            chosen.setdefault(name, set()).add(state)
    return [
        Followed(label=label, recorded=next(iter(names)))
        for label, names in chosen.items()
        if len(names) == 1 and label not in told
    ]


def _tries(recording: Recording, choice: Choice, number: int) -> list[Shown]:
    drawn = (varied(recording, np.random.default_rng([_SEED, number, each])) for each in range(TRIES))
    return [Shown(one, choice.step) for one in drawn]


def _toggled(recording: Recording) -> dict[str, str]:
    """What was ticked in a recording, or not, by name: the last page on which it stands tells."""
    found: dict[str, str] = {}
    for shown in recording.steps:
        action: Any = shown.action
        for one in shown.observation["elements"]:
            if one["role"] in _TOGGLES and one["name"]:
                ticked = "checked" in one["states"] or (action.name == "click" and action.id == one["id"])
                found[one["name"]] = "ticked" if ticked else "left as it is"
    return found
