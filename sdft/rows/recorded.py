"""Rows of what recordings show: at the recorded pages in variations, and at the student's own.

Their reply is the recorded action. A teacher that is told the action teaches the rows in which it would do the same;
a small model often doesn't (docs/learning.md has the figures), and those rows are learned by cross-entropy. The
student's own episodes don't suffice: the later pages of a flow are reached by those who can do the earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.play.job import Job, Result, Step
from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.browser_env import Observation, Outcome
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rows.demonstrator import Demonstrator
from selfsurf.sdft.rows.samples import Sample, samples_of
from selfsurf.sdft.rows.variation import labelled_alike, turns_of, varied
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.lessons import Lessons
from selfsurf.sdft.teacher.oracle import Oracle
from selfsurf.sdft.teacher.recording import Recording

INVENTED = 0.7
"""How often words that mean nothing are among those that goal and actions share."""

RELABELLED = INVENTED, 0.2
"""How often elements are called otherwise, by whether the recordings are `labelled_alike`. An invented label may tell
nothing of what belongs there, so that it can't be learned."""

_ORDER, _VARIATION = 1, 2
"""Tell what is drawn from a run's seed."""


class Recorded:
    """The steps of recordings as rows, in turn.

    Args:
        recordings: whole, from disk.
        policy: whose tokens they are written in.
        settings: of the run.
    """

    def __init__(self, recordings: Sequence[Recording], policy: LocalPolicy, settings: TrainSettings) -> None:
        self._steps = turns_of(recordings)
        self._relabelled = RELABELLED[labelled_alike(recordings)]
        self._policy = policy
        self._settings = settings
        self._agent = cast(Demonstrator, make_agent(policy, settings, sampling=False, kind=Demonstrator))
        oracle = Oracle(settings.actions)
        oracle.wording, oracle.labels = settings.teacher_wording, settings.labels
        self._lessons = Lessons((oracle,))

    def rows(self, number: int, count: int) -> list[Sample]:
        """Return the rows of a batch: fewer than asked for where the student is not offered what was done.

        Args:
            number: of the batch, from 0; the same batch has the same rows.
            count: how many.
        """
        places = range(number * count, (number + 1) * count) if self._steps else ()
        results = [self._varied(place) for place in places]
        return samples_of(results, self._policy, self._lessons, teacher_sees=self._settings.teacher_sees)

    def instead(self, rows: Sequence[Sample]) -> list[Sample]:
        """Return rows of the student's own steps with the action that it should have taken, where one is known."""
        return [
            replace(row, completion_ids=self.written_ids(row.told), logprobs=[]) for row in rows if row.told is not None
        ]

    def written_ids(self, told: str) -> list[int]:
        """Return the tokens of an action in compact JSON, as the student would write it."""
        return self._agent.written_ids(told)

    def _varied(self, place: int) -> Result:
        """An episode with one recorded step, as the student would have taken it."""
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
    """Let an agent have done a recording's steps before this one; return what it sees then."""
    agent.reset(slot=slot)
    for shown in recording.steps[:index]:
        agent.follow(cast(Observation, shown.observation), shown.action, slot)
    return cast(Observation, recording.steps[index].observation)
