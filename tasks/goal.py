"""A task for a user-defined goal, judged during the episode by the goal's specification."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from selfsurf.browser_env import EpisodeState, Observation, Score, Task
from selfsurf.browser_env.goal.check import Judgement, SuccessChecker
from selfsurf.browser_env.goal.evidence import Evidence, Moment
from selfsurf.browser_env.goal.spec import GoalSpec, SpecError, read_spec
from selfsurf.browser_env.observe.outlines import Outlines


class GoalTask(Task):
    """A task to reach the goal of a specification from its start page.

    An episode ends when all criteria are met that were not all met at the start, or when the agent claims to be done.
    If a question for a model remains, or the pages don't show what a criterion needs, the episode ends as `stopped`,
    for `selfsurf judge`.

    Args:
        spec: a specification, or its TOML file.
        goal: overrides the specification's goal; only for a specification with a pattern.
        start_url: overrides the specification's start page.

    Raises:
        SpecError: the specification is invalid, or has no goal or no start page; a ValueError.
    """

    def __init__(self, spec: GoalSpec | str | Path, *, goal: str = "", start_url: str = "") -> None:
        self.spec = spec if isinstance(spec, GoalSpec) else read_spec(spec)
        super().__init__(goal=goal or self.spec.goal, start_url=start_url or self.spec.start)
        self.id = f"Goal/{self.spec.name or 'goal'}"
        if not self.goal or not self.start_url:
            raise SpecError(f"The specification {self.spec.name} has no goal or no start page: give both.")
        if goal and goal != self.spec.goal and not self.spec.pattern:
            raise SpecError(
                f"The criteria of {self.spec.name or 'the specification'} belong to its own goal: leave out the "
                "other goal, or give the specification a pattern that matches both."
            )
        if self.spec.parameters(self.goal) is None:
            raise SpecError(f"The pattern of {self.spec.name} does not match the goal {self.goal!r}.")
        self._checker = SuccessChecker(self.spec)
        self._evidence = Evidence(self.goal)
        self._outlines = Outlines()
        self._seen: Observation | None = None
        self._met_before = False

    async def setup(self, page: object, rng: np.random.Generator) -> str:
        """Open the start page."""
        self._evidence, self._seen = Evidence(self.goal or ""), None
        return await super().setup(page, rng)  # type: ignore[arg-type]

    def go_on(self, evidence: Evidence) -> None:
        """Continue an episode that another process started, instead of `setup`."""
        self._evidence = evidence
        if evidence.moments:
            start = Evidence(evidence.goal, final=evidence.moments[0].seen)
            self._met_before = self._checker.judge(start).says == "solved"

    def score_seen(self, before: Observation, after: Observation, episode: EpisodeState) -> Score:
        """Check the criteria on everything observed so far."""
        evidence = self._evidence
        if self._seen is None:
            self._outlines = Outlines()
            self._seen = self._outlines.whole(before)
        before, self._seen = self._seen, self._outlines.whole(after)
        after = self._seen
        if not evidence.moments:
            evidence.final = before
            self._met_before = self._checker.judge(evidence).says == "solved"
        actions = [] if episode.last_action is None else [episode.last_action.to_dict()]
        failed = after["last_error"]
        # a final action counts even if the page reports an error
        kept = actions if episode.finished or not failed else []
        evidence.moments.append(Moment(before, kept, failed, episode.requests))
        evidence.final = after
        judgement = self._checker.judge(evidence)
        done = episode.finished or (judgement.says == "solved" and not self._met_before)
        return _score(judgement, done=done, claimed=not episode.infeasible)


def _score(judgement: Judgement, *, done: bool, claimed: bool) -> Score:
    details = {"reason": judgement.why, "criteria": [asdict(one) for one in judgement.findings]}
    solved = done and claimed and judgement.says == "solved"
    return Score(float(solved), done=done, details=details, judged=judgement.says != "unknown")
