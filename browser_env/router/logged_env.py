"""An environment whose steps go through the router and are logged as attempts, usable with any agent and player."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from selfsurf.browser_env.actions import Action, AskUser, Finish, Infeasible, Message, Navigate, parse_action
from selfsurf.browser_env.attempts.attempt import AttemptLog
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.attempts.settings import VARIABLE
from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.browser_env.environment.step_results import StepResult
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.human_input import Answer
from selfsurf.browser_env.router.calls import ActArguments, Arguments, NavigateArguments
from selfsurf.browser_env.router.policy import Policy
from selfsurf.browser_env.router.providers.playwright import PlaywrightProvider
from selfsurf.browser_env.router.router import CallFailed, Router

DEADLINE = 3600.0
"""Time limit of an attempt in seconds, in effect none: callers of `step` set their own limits."""


class LoggedEnv(AsyncBrowserEnv):
    """An `AsyncBrowserEnv` that logs each action on the page as an attempt. Steps return the same results.

    Invalid replies, and actions that don't affect the page (`finish`, `message`), are not logged.

    Args:
        args: as for `AsyncBrowserEnv`.
        log: log of one episode's attempts. The caller closes it with the result of the episode. If None, `begin_log`
            creates a log in the folder `CLAW_LOG_DIR` for each episode.
        trace_id: ID of that episode.
        options: as for `AsyncBrowserEnv`.
    """

    def __init__(self, *args: Any, log: AttemptLog | None = None, trace_id: str | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bare = SimpleNamespace(core=self.core, step=super().step)
        self._provider = PlaywrightProvider(cast(AsyncBrowserEnv, self._bare))
        self._router = Router([self._provider], policy=Policy(deadline=DEADLINE), log=log, trace_id=trace_id)
        self.begins_logs = log is None
        self._file_log: FileLog | None = None
        self._step_id = ""

    def log_to(self, log: FileLog) -> None:
        """Log the next episode's attempts to `log` until it is closed."""
        self._file_log = log
        self._router.begin(log=log, trace_id=log.trace_id)

    async def step(self, action: Any) -> StepResult:
        """Take a step, and log an action on the page as an attempt."""
        if isinstance(action, Answer):
            return await self.answer(action.text)
        try:
            parsed = parse_action(action)
        except ActionError:
            return await super().step(action)
        if self.core.question is not None or isinstance(parsed, Finish | Infeasible | Message | AskUser):
            return await super().step(action)
        self._step_id = secrets.token_hex(6)
        return await self._attempted(parsed, super().step)

    async def answer(self, text: str) -> StepResult:
        """Answer the pending question. Confirming an action makes another attempt of the same step."""
        question = self.core.question
        if question is None or question.kind == "question":
            return await super().answer(text)
        bring = super().answer
        return await self._attempted(parse_action(question.action), lambda _: bring(text))

    async def _attempted(self, action: Action, work: Callable[[Any], Awaitable[StepResult]]) -> StepResult:
        """Log `work` as an attempt at the action, and return its result."""
        if self._file_log is not None and self._file_log.closed:
            self._file_log = None
            self._router.begin()
        self._provider.last, self._bare.step = None, work
        with contextlib.suppress(CallFailed):  # the observation contains the same error
            arguments: Arguments = ActArguments(action=action)
            if isinstance(action, Navigate) and action == Navigate(url=action.url):
                arguments = NavigateArguments(url=action.url)
            await self._router.call(arguments, step_id=self._step_id)
        if self._provider.last is None:  # the attempt failed before the step
            return await work(action)
        return self._provider.last


async def begin_log(env: AsyncBrowserEnv) -> FileLog | None:
    """Create the log of an environment's next episode; None if the environment logs nothing or has a given log.

    Raises:
        OSError: the log's folder can't be created.
    """
    if not isinstance(env, LoggedEnv) or not env.begins_logs:
        return None
    log = await asyncio.to_thread(FileLog, secrets.token_hex(6))
    env.log_to(log)
    return log


def env_class() -> type[AsyncBrowserEnv]:
    """Return the environment class: `LoggedEnv` if `CLAW_LOG_DIR` is set, else `AsyncBrowserEnv`."""
    return LoggedEnv if os.environ.get(VARIABLE) else AsyncBrowserEnv
