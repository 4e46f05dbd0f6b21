"""Policy workers, actors that sample replies for browser workers in batches, and their client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from selfsurf.agents.play.batch_window import BatchWindow
from selfsurf.agents.policies.local.prompts import Prompts
from selfsurf.agents.policies.request import row_seeds
from selfsurf.agents.policy import Completion, Conversation, PolicyError
from selfsurf.browser_env.patience import LONGEST, Stopwatch, limited
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.rollouts.models import CompletionArguments, ModelMaker, PolicyProperties, merged
from selfsurf.sdft.rollouts.ray_cluster import reason_of, speak

_ROWS = ("grammars", "schemas", "seed")
"""Names of the arguments of `Policy.complete` with one value per conversation."""

PAUSE = 0.5
"""Seconds before a call is retried after a policy worker failed."""


@dataclass
class State:
    """State of a policy worker."""

    pid: int
    """Process id of the worker."""
    busy: float = 0.0
    """Duration of the current call in seconds, adjusted for a busy CPU; 0 without a call."""
    loads: int = 0
    """Number of times that weights were loaded."""
    calls: int = 0
    """Number of model calls."""
    rows: int = 0
    """Number of replies."""
    seconds: float = 0.0
    """Seconds spent in the model."""


@dataclass
class _Call:
    version: int
    weights: Any
    asked: CompletionArguments
    answer: asyncio.Future[list[Completion]]
    since: float

    def like(self, other: _Call) -> bool:
        """Whether both calls can share a batch."""
        mine, theirs = self.asked, other.asked
        return (self.version, mine.options, mine.rows.keys()) == (other.version, theirs.options, theirs.rows.keys())


class PolicyWorker:
    """Async Ray actor that runs a model.

    Args:
        maker: factory of the model.
        callers: number of browser workers that call it.
        most: maximum number of replies in one call of the model; None for no limit.
        call_timeout: timeout in seconds of a call, and of the arrival of its weights.
        verbose: whether this worker's log messages are shown.
    """

    def __init__(
        self, maker: ModelMaker, callers: int, most: int | None, call_timeout: float, *, verbose: bool = False
    ) -> None:
        speak(everything=verbose)
        self._model = maker.make()
        self._callers = callers
        self._most = most
        self._call_timeout = call_timeout
        self._version: int | None = None
        self._calls: list[_Call] = []
        self._came = asyncio.Event()
        self._gather = BatchWindow()
        self._thread = ThreadPoolExecutor(1)  # one model call at a time
        self._serving: asyncio.Task[None] | None = None
        self._busy: Stopwatch | None = None
        self._state = State(os.getpid())

    async def about(self) -> PolicyProperties:
        """Describe the model."""
        return self._model.about()

    async def state(self) -> State:
        """Return the worker's state."""
        return replace(self._state, busy=self._busy.look() if self._busy is not None else 0.0)

    async def complete(self, version: int, weights: list[Any], asked: CompletionArguments) -> list[Completion]:
        """Sample replies with a version of the weights, which are pulled if missing.

        Raises:
            TimeoutError: the replies were not finished in time and are abandoned.
        """
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        answer: asyncio.Future[list[Completion]] = asyncio.get_running_loop().create_future()
        self._calls.append(_Call(version, weights, asked, answer, time.monotonic()))
        self._came.set()
        async with limited(self._call_timeout):
            return await answer

    async def _serve(self) -> None:
        while True:
            self._calls = [call for call in self._calls if not call.answer.done()]  # some calls were cancelled
            since = [call.since for call in self._calls]
            if not self._gather.due(since, moving=len(self._calls) < self._callers):
                self._came.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._gather.left(since) if since else None):
                        await self._came.wait()
                continue
            batch = self._next()
            self._calls = [call for call in self._calls if call not in batch]
            await self._answer(batch)

    def _next(self) -> list[_Call]:
        """Return the next batch: the longest waiting call and compatible ones."""
        batch: list[_Call] = []
        rows = 0
        for call in self._calls:
            rows += len(call.asked.conversations)
            if batch and (not call.like(batch[0]) or (self._most is not None and rows > self._most)):
                break
            batch.append(call)
        return batch

    async def _answer(self, batch: list[_Call]) -> None:
        try:
            with self._gather.call():
                completions = await self._sample(batch[0], merged([call.asked for call in batch]))
        except Exception as error:
            if len(batch) > 1:  # one of the calls may be at fault
                for call in batch:
                    if not call.answer.done():
                        await self._answer([call])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return
        for call in batch:
            count = len(call.asked.conversations)
            if not call.answer.done():
                call.answer.set_result(completions[:count])
            completions = completions[count:]

    async def _sample(self, first: _Call, asked: CompletionArguments) -> list[Completion]:
        loop = asyncio.get_running_loop()
        self._busy, since = Stopwatch(), time.monotonic()
        try:
            if first.version != self._version:
                self._version = None
                async with limited(self._call_timeout):
                    weights = await first.weights[0]
                self._state.loads += 1
                await loop.run_in_executor(self._thread, self._model.use, first.version, weights)
                self._version = first.version
            completions = await loop.run_in_executor(self._thread, self._model.complete, asked)
            self._state.calls += 1
            self._state.rows += len(completions)
            self._state.seconds += time.monotonic() - since
            return completions
        finally:
            self._busy = None


class RemotePolicy:
    """Policy of an agent in a browser worker. Replies come from policy workers; tokens are counted locally.

    Args:
        about: properties of the model.
        workers: the policy workers. Another is asked when the current one fails.
        first: index of the policy worker that is asked first.
        layout: settings with the timeouts (`call_timeout`, `patience`).
    """

    def __init__(self, about: PolicyProperties, workers: Sequence[Any], first: int, layout: RolloutSettings) -> None:
        import ray

        self._ray = ray
        self.name = about.name
        self.guidance = about.guidance
        self.sees_images = about.sees_images
        self.prompt_budget = about.prompt_budget
        self.parameter_count = about.parameter_count
        self.context_length = about.context_length
        self._prompts = Prompts(about.name, about.tokenizer, about.processor)
        self._workers = workers
        self._first = first
        self._layout = layout
        self._version = 0
        self._weights: list[Any] = []

    def use(self, version: int, weights: list[Any]) -> None:
        """Set the weights for sampling. They are a Ray reference in a list, which Ray doesn't resolve on the way."""
        self._version, self._weights = version, weights

    def complete(self, conversations: Sequence[Conversation], **options: Any) -> list[Completion]:
        """Sample replies through a policy worker.

        Raises:
            PolicyError: no policy worker has answered.
            Exception: an exception of the model itself, such as ValueError for an invalid request.
        """
        if options.get("seed") is not None:
            options["seed"] = row_seeds(options["seed"], len(conversations))
        rows = {name: list(values) for name in _ROWS if (values := options.pop(name, None)) is not None}
        return self._ask(CompletionArguments(list(conversations), options, rows))

    def count_tokens(self, text: str) -> int:
        """Count a text's tokens with the local tokenizer."""
        return len(self._prompts.encode_text(text))

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """Count a prompt's tokens with the local tokenizer."""
        return self._prompts.count(messages, prefill)

    def _ask(self, asked: CompletionArguments) -> list[Completion]:
        errors = self._ray.exceptions
        waits = Stopwatch()
        number = self._first
        while True:
            worker = self._workers[number % len(self._workers)]
            reference = worker.complete.remote(self._version, self._weights, asked)
            try:
                # The worker enforces `call_timeout`, extended by the load of its own machine.
                completions: list[Completion] = self._ray.get(reference, timeout=LONGEST * self._layout.call_timeout)
                return completions
            except errors.RayTaskError as error:
                # Late weights or a lost connection may succeed later; an error of the model itself would recur.
                if isinstance(error.cause, Exception) and not isinstance(error.cause, (OSError, errors.RayError)):
                    raise error.cause from None
                why: Exception = error
            except errors.RayError as error:
                why = error
                if isinstance(error, errors.GetTimeoutError):
                    self._ray.cancel(reference)  # keeps a queued call from being run in vain
            if waits.look() > self._layout.patience:
                raise PolicyError(f"No policy worker has answered: {reason_of(why)}") from why
            number += 1
            time.sleep(PAUSE)
