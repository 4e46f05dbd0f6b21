"""Test of whether an adapter makes choices according to the goal, in variations of recorded choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.sdft.measure.agreement import ChoiceAgreement, StepInRecording, missed_at
from selfsurf.sdft.rows.choices import Choice, choices_of
from selfsurf.sdft.rows.variation import varied
from selfsurf.sdft.teacher.recording import Recording

TRIES = 20
"""Maximum number of variations in which each choice is tested."""

MOST = 8
"""Maximum number of recordings that are tested."""

_SEED = 7_000_003
"""Seed of the test variations, which training never draws."""

_TOGGLES = ("checkbox", "switch", "menuitemcheckbox")


def followed(agent: LLMAgent, recordings: Sequence[Recording]) -> list[ChoiceAgreement]:
    """Test an agent at the choices of recordings, in variations; add the choices that no recording can teach.

    Args:
        agent: an agent that acts greedily.
        recordings: complete recordings from disk.
    """
    found: dict[str, list[StepInRecording]] = {}
    for number, recording in enumerate(recordings[:MOST]):
        for choice in choices_of(recording):
            if choice.columns:
                found.setdefault(choice.label, []).extend(_tries(recording, choice, number))
    results = []
    for label, states in found.items():
        asked = states[:: max(1, len(states) // TRIES)][:TRIES]
        missed = missed_at(agent, asked)
        results.append(ChoiceAgreement(label=label, right=missed.count(None), of=len(asked)))
    return [*results, *untold(recordings)]


def untold(recordings: Sequence[Recording]) -> list[ChoiceAgreement]:
    """Return the choices that no recording can teach: equal in all recordings and never named by a goal."""
    chosen: dict[str, set[str]] = {}
    told: set[str] = set()
    for recording in recordings:
        for choice in choices_of(recording):
            chosen.setdefault(choice.label, set()).add(choice.names[choice.chosen])
            told |= {choice.label} if choice.columns or choice.ids else set()
        for name, state in _toggled(recording).items():
            chosen.setdefault(name, set()).add(state)
    return [
        ChoiceAgreement(label=label, recorded=next(iter(names)))
        for label, names in chosen.items()
        if len(names) == 1 and label not in told
    ]


def _tries(recording: Recording, choice: Choice, number: int) -> list[StepInRecording]:
    drawn = (varied(recording, np.random.default_rng([_SEED, number, each])) for each in range(TRIES))
    return [StepInRecording(one, choice.step) for one in drawn]


def _toggled(recording: Recording) -> dict[str, str]:
    """Return whether each named toggle of a recording was ticked, as of the last page that contains it."""
    found: dict[str, str] = {}
    for shown in recording.steps:
        action: Any = shown.action
        for one in shown.observation["elements"]:
            if one["role"] in _TOGGLES and one["name"]:
                ticked = "checked" in one["states"] or (action.name == "click" and action.id == one["id"])
                found[one["name"]] = "ticked" if ticked else "left as it is"
    return found
