"""Rows of recordings: recorded steps in variations, and the student's own steps with the recorded action.

The reply of a row is the recorded action. The teacher, given the action, teaches the rows in which it would take that
action; a small model often doesn't (docs/learning.md has the figures), and those rows are learned by cross-entropy. The
student's own episodes don't suffice: only a student that masters the earlier pages of a flow reaches the later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play.job import Job, Result, Step
from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.browser_env import Observation, Outcome
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rows.demonstrator import Demonstrator
from selfsurf.sdft.rows.samples import Sample, samples_of
from selfsurf.sdft.rows.variation import labelled_alike, turns_of, varied
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import OracleContext
from selfsurf.sdft.teacher.recording import Recording

INVENTED = 0.7
"""Probability that replacements for words shared by goal and actions may be meaningless."""

RELABELLED = INVENTED, 0.2
"""Probabilities that elements are relabelled, for recordings that are not, and that are, `labelled_alike`. A field with
an invented label can be unlearnable, because the label may not indicate the content."""

_ORDER, _VARIATION = 1, 2
"""Salts that separate the random streams drawn from a run's seed."""


class RecordedRows:
    """Recorded steps as training rows, in turn.

    Args:
        recordings: complete recordings from disk.
        policy: policy whose tokenizer writes the rows.
        settings: settings of the run.
    """

    def __init__(self, recordings: Sequence[Recording], policy: LocalPolicy, settings: TrainSettings) -> None:
        self._steps = turns_of(recordings)
        self._relabelled = RELABELLED[labelled_alike(recordings)]
        self._policy = policy
        self._settings = settings
        self._agent = cast(Demonstrator, make_agent(policy, settings, sampling=False, kind=Demonstrator))
        oracle = OracleContext(settings.actions)
        oracle.wording, oracle.labels = settings.teacher_wording, settings.labels
        self._lessons = LessonContext((oracle,))

    def rows(self, number: int, count: int) -> list[Sample]:
        """Return the rows of a batch, fewer than `count` if the student isn't offered a recorded action.

        Args:
            number: number of the batch, from 0; the same batch has the same rows.
            count: number of rows.
        """
        places = range(number * count, (number + 1) * count) if self._steps else ()
        results = [self._varied(place) for place in places]
        return samples_of(results, self._policy, self._lessons, teacher_sees=self._settings.teacher_sees)

    def instead(self, rows: Sequence[Sample]) -> list[Sample]:
        """Return rows of the student's own steps with the right action as completion, where it is known."""
        return [
            replace(row, completion_ids=self.written_ids(row.told), logprobs=[]) for row in rows if row.told is not None
        ]

    def written_ids(self, told: str) -> list[int]:
        """Return the tokens of an action in compact JSON, as the student would write it."""
        return self._agent.written_ids(told)

    def _varied(self, place: int) -> Result:
        """Return an episode of one recorded step, as the student would have taken it."""
        turn, index = divmod(place, len(self._steps))
        order = np.random.default_rng([self._settings.seed, _ORDER, turn]).permutation(len(self._steps))
        recording, step = self._steps[order[index]]
        rng = np.random.default_rng([self._settings.seed, _VARIATION, place])
        invented, relabelled = rng.random() < INVENTED, rng.random() < self._relabelled
        recording = varied(recording, rng, invented=bool(invented), relabelled=bool(relabelled))
        observation = bring(self._agent, recording, step)
        view: dict[str, Any] = {"action": recording.steps[step].action.to_dict()}
        (decision,) = self._agent.decide([observation], [0], privileged=[view])
        taken = Step(observation, decision, view, 0.0, {}, observation)
        return Result(Job(recording.env_id, recording.seed), Outcome.SOLVED, trainable=True, steps=[taken])


def bring(agent: LLMAgent, recording: Recording, index: int, slot: int = 0) -> Observation:
    """Replay a recording's steps before `index` into the agent's memory; return the step's observation."""
    agent.reset(slot=slot)
    for shown in recording.steps[:index]:
        agent.follow(cast(Observation, shown.observation), shown.action, slot)
    return cast(Observation, recording.steps[index].observation)
