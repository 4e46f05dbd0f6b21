"""Results of an environment's steps, failed steps included: observation, reward and info."""

from __future__ import annotations

import copy
import logging
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.environment.confirm import Confirmer
from selfsurf.browser_env.environment.page_queries import PageQueries
from selfsurf.browser_env.errors import EnvError, reason, traceback_of
from selfsurf.browser_env.human_input import Question
from selfsurf.browser_env.observation import Info, Observation
from selfsurf.browser_env.observe.capture import View
from selfsurf.browser_env.observe.delta import NO_CHANGE
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.task import EpisodeState, Score
from selfsurf.browser_env.text import action_text, well_formed
from selfsurf.browser_env.timing import Timing

if TYPE_CHECKING:
    from selfsurf.browser_env.errors import ErrorType

_log = logging.getLogger(__name__)

StepResult = tuple[Observation, float, bool, bool, Info]


class StepResults(PageQueries):
    """The part of an `EnvCore` that builds the results of steps."""

    episode: EpisodeState
    faults: tuple[str, ...] = ()
    """Elements missing from the last observation, with reasons (`View.faults`)."""
    failed_as: ErrorType | None = None
    """Kind of failure behind the last step's `last_error`; None for no error or a failed environment."""
    _confirmer: Confirmer

    def _observation(self, session: Session, view: View, *, last_action: str, last_error: str) -> Observation:
        self.foreign, self.faults = view.foreign, view.faults
        observation = Observation(
            goal=self.episode.goal,
            url=view.url,
            title=view.title,
            tabs=view.tabs,
            elements=view.elements,
            dom=self._observer.outline(session, view),
            page_text=view.page_text,
            events=session.take_events(),
            messages=tuple(message.copy() for message in self.episode.messages),
            last_action=last_action,
            last_error=last_error,
        )
        if view.screenshot is not None:
            observation["screenshot"] = view.screenshot
        self.observation = self.vault.redact_observation(observation)
        return self.observation

    def _troubled(self, session: Session, last_error: str) -> str:
        """Return a step's error, by precedence: trouble of the session, the action's error, a page not reached."""
        limits = self.settings.view.limits
        if session.trouble:
            self.failed_as = "refused" if session.access.navigation else "blocked"
            return limits.note(session.trouble)
        if session.unreached and not last_error:
            self.failed_as = "navigation"
            return limits.note(session.unreached)
        return last_error

    def _asking(self, question: Question, error: str, start: float) -> StepResult:
        """Return the result of a step that waits for a person, with the page as last observed."""
        assert self.observation is not None
        observation = copy.deepcopy(self.observation)
        if self._observer.reports_changes:
            observation["dom"] = NO_CHANGE
        observation["messages"] = tuple(message.copy() for message in self.episode.messages)
        observation["last_action"], observation["last_error"] = well_formed(question.action.to_json()), error
        observation["events"] = ()
        self.observation, self.episode.requests = self.vault.redact_observation(observation), ()
        timing = Timing(total=time.perf_counter() - start)
        info = self._info(Outcome.RUNNING, error, self._no_score, timing, path="")
        waiting = {"waiting": question.waiting}
        return self.observation, 0.0, False, False, {**info, **(self.vault.redact(waiting) if self.vault else waiting)}

    def _after_the_end(
        self, raw: Any, observation: Observation, reward: float, terminated: bool, truncated: bool, info: Info
    ) -> StepResult:
        """Return the result of a step after the episode's end: nothing is carried out, and the reward is 0."""
        if info["outcome"] != Outcome.ENV_ERROR:  # its last error already gives the reason
            why = f"The episode has ended ({info['outcome']}): nothing was done; call reset() for the next one."
            observation["last_action"], observation["last_error"] = action_text(raw), why
            observation["events"], self.failed_as = (), "refused"
            observation = self.vault.redact_observation(observation)
            info = {**info, "outcome_detail": why, "timing": Timing(), "action_path": ""}
        return observation, 0.0, terminated, truncated, info

    def _env_error(self, raw: Any, error: Exception, start: float) -> StepResult:
        assert self.observation is not None
        why, trace = reason(error), traceback_of(error)
        self._log(f"The environment failed: {why}\n{trace}")
        observation = copy.deepcopy(self.observation)
        if self._observer.reports_changes:
            observation["dom"] = NO_CHANGE  # no page was observed
        observation["last_action"] = action_text(raw)
        observation["last_error"] = f"The environment failed: {why}."
        observation["events"] = self.session.take_events() if self.session is not None else ()
        observation, self.episode.requests = self.vault.redact_observation(observation), ()
        timing = Timing(total=time.perf_counter() - start)
        info = self._info(Outcome.ENV_ERROR, why, self._no_score, timing, path="")
        if trace:
            info["traceback"] = self.vault.redact(trace)
        if isinstance(error, EnvError) and error.fault:
            info["fault"] = error.fault
        return observation, 0.0, False, True, info

    def _log(self, text: str) -> None:
        _log.info("%s", self.vault.redact(text).rstrip())

    @property
    def _no_score(self) -> Score:
        """Score of results for which the task did not score the page."""
        return Score(judged=self.task.judges)

    def _info(self, outcome: Outcome, detail: str, score: Score, timing: Timing, path: str) -> Info:
        if outcome is Outcome.INFEASIBLE:
            detail = detail or self.episode.messages[-1]["text"]  # the agent's reason
        info = {
            "outcome": str(outcome), "outcome_detail": detail, "trainable": outcome.trainable,
            "score": dict(score.details), "judged": score.judged, "seed": self.episode.seed, "timing": timing,
            "action_path": path, "downloads": self.downloads, "requests": self.episode.requests,
        }  # fmt: skip
        if self.faults:
            info["not_observed"] = self.faults
        if self._confirmer.risk is not None:
            info["risk"] = {**asdict(self._confirmer.risk), "confirmed": self._confirmer.confirmed}
        return self.vault.redact(info) if self.vault else info

    @property
    def downloads(self) -> tuple[str, ...]:
        """Paths of the files that this episode has downloaded."""
        return tuple(map(str, self.session.downloads.files)) if self.session is not None else ()
