"""Scoring of a step: the task's verdict on the page, with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Awaitable, Iterator
from types import CodeType
from typing import Any

from selfsurf.browser_env.browser.page_script import document_was_replaced, thrown
from selfsurf.browser_env.environment.blocked import Blocked, not_blocking
from selfsurf.browser_env.errors import EnvError, TaskError, TaskHangs, task_code, traceback_of
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import Tab
from selfsurf.browser_env.task import EpisodeState, Score, Task, class_and_file
from selfsurf.browser_env.text import first_line, one_line

SHARE = 0.8
"""Share of a step's remaining time that a verdict may take; the rest is for checking that the page still answers."""

LEAST = 1.0
"""Remaining seconds of a step below which a late verdict can't be distinguished from a slow page."""

UNSAID = "The agent has not said that it is done."


class Scoring:
    """The scoring of one step by its task, while the page is observed.

    Args:
        task: the task that scores.
        session: session with the page.
        episode: state of the episode so far.
        limit: the step's timeout. A verdict that takes nearly all of it, on a page that answers, is the task's failure.
    """

    def __init__(
        self, task: Task, session: Session, episode: EpisodeState, limit: asyncio.Timeout | None = None
    ) -> None:
        self.score = Score()
        self.seconds = 0.0
        self._task = task
        self._session = session
        self._episode = episode
        self._limit = limit

    async def read(self) -> None:
        """Set `score` to the verdict and `seconds` to the time the verdict took."""
        start = time.perf_counter()
        try:
            self.score = await self._verdict()
        except Exception as error:
            if not document_was_replaced(error):
                raise
            # The document was replaced during scoring, so the new document is scored.
            with contextlib.suppress(Exception):
                await self._session.active.page.wait_for_load_state("domcontentloaded", timeout=3000)
            self.score = await self._verdict()
        self.seconds = time.perf_counter() - start

    def final(self, before: Observation | None, after: Observation) -> Score:
        """Return the final score of a step, which the task may compute from the observations instead of the page."""
        if before is None:
            return self._held(self.score)
        with self._ended_if_blocking("score_seen", Scoring.final.__code__), task_code("score_seen"):
            score = self._task.score_seen(before, after, self._episode)
        return self._held(self.score if score is None else self._checked("score_seen", score))

    def _held(self, score: Score) -> Score:
        """Return the score, marked as not done if only the agent may end the episode and hasn't."""
        self._episode.over = score.done
        if self._task.ends == "verdict" or self._episode.finished:
            return score
        so_far = {"reason": UNSAID, "reached": score.done and score.reward >= 1, "so_far": dict(score.details)}
        return Score(details=so_far, judged=score.judged)

    async def _verdict(self) -> Score:
        tab = self._session.active
        self._episode.requests = self._session.calls.so_far()
        try:
            if self._task.verdict is not None and type(self._task).score is Task.score:
                read = await self._in_time(evaluated(tab, self._task.verdict))
                with self._ended_if_blocking("score_of", Scoring._verdict.__code__), task_code("score_of"):
                    score: Any = self._task.score_of(read, self._episode)
                return self._checked("score_of", score)
            with self._ended_if_blocking("score", Scoring._verdict.__code__), task_code("score"):
                score = self._task.score(tab.page, self._episode)
                if inspect.isawaitable(score):
                    score = await self._in_time(score)
                else:
                    raise TaskError(f"score must be async (`async def score`): {class_and_file(self._task)}")
            return self._checked("score", score)
        except TaskError:
            raise
        except Exception as error:  # a browser error, or an EnvError of the task's verdict
            crashed = tab.crashed or "Target crashed" in str(error)
            if document_was_replaced(error) or crashed or tab.page.is_closed():
                raise
            said = first_line(error)
            failure = TaskError(said if isinstance(error, EnvError) else f"the task's score raised {said}")
            failure.traceback = traceback_of(error)
            raise failure from error

    async def _in_time(self, score: Awaitable[Any]) -> Any:
        seconds = self._seconds
        try:
            async with asyncio.timeout(seconds) as own:
                return await score
        except TimeoutError:
            if not own.expired() or seconds is None:
                raise
        # A hung page never answers, and the step then ends by its own limit.
        await self._session.active.protocol.send("Runtime.evaluate", {"expression": "0"})
        raise self._late("score", seconds)

    @property
    def _seconds(self) -> float | None:
        """Seconds that the task's code may take now; None to leave the limit to the step."""
        end = self._limit.when() if self._limit is not None else None
        left = end - asyncio.get_running_loop().time() if end is not None else 0.0
        return left * SHARE if left > LEAST else None

    @contextlib.contextmanager
    def _ended_if_blocking(self, what: str, caller: CodeType) -> Iterator[None]:
        seconds = self._seconds
        if seconds is None:
            yield
            return
        try:
            with not_blocking(caller, self, seconds, f"The task's {what} ({class_and_file(self._task)})"):
                yield
        except Blocked:
            raise self._late(what, seconds) from None

    def _late(self, what: str, seconds: float) -> TaskHangs:
        return TaskHangs(f"the task's {what} did not return within {seconds:.3g} s: {class_and_file(self._task)}")

    def _checked(self, what: str, score: Any) -> Score:
        """Return the score that the task's code returned, after checking its type."""
        if inspect.iscoroutine(score):
            score.close()
            raise TaskError(f"{what} must be a plain function (`def {what}`), not async: {class_and_file(self._task)}")
        if not isinstance(score, Score):
            raise TaskError(f"{what} must return a Score, not {one_line(repr(score))}: {class_and_file(self._task)}")
        return score


async def evaluated(tab: Tab, expression: str) -> Any:
    """Evaluate a JavaScript expression in the page's main world and return its value as JSON data.

    Raises:
        EnvError: the expression throws.
        Error: the document was replaced meanwhile, or the page is gone.
    """
    asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
    answer = await tab.protocol.send("Runtime.evaluate", asked)
    if "exceptionDetails" in answer:
        raise EnvError(f"the task's verdict threw {thrown(answer)}")
    return answer["result"].get("value")


def paid(score: Score, episode: EpisodeState) -> float:
    """Return a step's reward, the increase of the score, and add it to the episode's reward.

    The rewards of an episode, added in order, are exactly 1 if the last score is 1.
    """
    reward = float(score.reward) - episode.reward
    episode.reward += reward
    return reward


def outcome_of(score: Score, episode: EpisodeState, max_steps: int | None) -> Outcome:
    """Return the outcome that follows from the score, the agent's actions and the step limit."""
    if score.done or episode.finished:
        if not score.judged:
            return Outcome.INFEASIBLE if episode.infeasible else Outcome.STOPPED
        if score.reward >= 1:
            return Outcome.SOLVED
        return Outcome.INFEASIBLE if episode.infeasible else Outcome.FAILED
    if max_steps is not None and episode.steps >= max_steps:
        return Outcome.TIMEOUT
    return Outcome.RUNNING
