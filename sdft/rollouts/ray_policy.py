"""Policy workers: actors that sample replies for browser workers, several calls at once; and how they are asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from selfsurf.agents.play.gather import Gather
from selfsurf.agents.policies.local.prompts import Prompts
from selfsurf.agents.policies.request import row_seeds
from selfsurf.agents.policy import Completion, Conversation, PolicyError
from selfsurf.browser_env.session.patience import LONGEST, Stopwatch, limited
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.rollouts.models import About, Asked, ModelMaker, merged
from selfsurf.sdft.rollouts.ray_cluster import reason_of, speak

_ROWS = ("grammars", "schemas", "seed")
"""Arguments of `Policy.complete` with a value for each conversation."""

PAUSE = 0.5
"""Seconds before a policy worker that is gone is asked again."""


@dataclass
class State:
    """How a policy worker is."""

    pid: int
    """Of its process."""
    busy: float = 0.0
    """Seconds of a machine with a free core that the call under way has taken; 0 if there is none."""
    loads: int = 0
    """Times that weights have come."""
    calls: int = 0
    """Calls of the model."""
    rows: int = 0
    """Replies."""
    seconds: float = 0.0
    """In the model."""


@dataclass
class _Call:
    version: int
    weights: Any
    asked: Asked
    answer: asyncio.Future[list[Completion]]
    since: float

    def like(self, other: _Call) -> bool:
        """Whether both can be in one batch."""
        mine, theirs = self.asked, other.asked
        return (self.version, mine.options, mine.rows.keys()) == (other.version, theirs.options, theirs.rows.keys())


class PolicyWorker:
    """An async actor around a model.

    Args:
        maker: makes the model.
        callers: browser workers that ask it.
        most: most replies in one call of the model; None for no limit.
        call_timeout: seconds in which a call must be answered, and its weights have come.
        verbose: show what this worker's loggers say.
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
        self._gather = Gather()
        self._thread = ThreadPoolExecutor(1)  # a model is asked for one thing at a time
        self._serving: asyncio.Task[None] | None = None
        self._busy: Stopwatch | None = None
        self._state = State(os.getpid())

    async def about(self) -> About:
        """Describe the model."""
        return self._model.about()

    async def state(self) -> State:
        """Say how things are."""
        return replace(self._state, busy=self._busy.look() if self._busy is not None else 0.0)

    async def complete(self, version: int, weights: list[Any], asked: Asked) -> list[Completion]:
        """Sample replies by a version of the weights, which are pulled if they are not there.

        Raises:
            TimeoutError: they are not made in time, and then not at all.
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
            self._calls = [call for call in self._calls if not call.answer.done()]  # some were given up
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
        """The calls that are made together: the one that has waited longest, and those like it."""
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
            if len(batch) > 1:  # it may be the fault of one of them
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

    async def _sample(self, first: _Call, asked: Asked) -> list[Completion]:
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
    """The policy of an agent in a browser worker. Replies come from policy workers; tokens are counted here.

    Args:
        about: the model.
        workers: the policy workers. One is asked first, the others when it is gone.
        first: number of that one.
        layout: how long to wait for them (`call_timeout`, `patience`).
    """

    def __init__(self, about: About, workers: Sequence[Any], first: int, layout: RolloutSettings) -> None:
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
        """Sample by these weights from now on: a list with a reference to them, which nobody follows on the way."""
        self._version, self._weights = version, weights

    def complete(self, conversations: Sequence[Conversation], **options: Any) -> list[Completion]:
        """As `Policy.complete`.

        Raises:
            PolicyError: no policy worker has answered.
            Exception: what the model itself raised, such as ValueError for a request that can't be answered.
        """
        if options.get("seed") is not None:
            options["seed"] = row_seeds(options["seed"], len(conversations))
        rows = {name: list(values) for name in _ROWS if (values := options.pop(name, None)) is not None}
        return self._ask(Asked(list(conversations), options, rows))

    def count_tokens(self, text: str) -> int:
        """As `Policy.count_tokens`."""
        return len(self._prompts.encode_text(text))

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """As `Policy.count_prompt_tokens`."""
        return self._prompts.count(messages, prefill)

    def _ask(self, asked: Asked) -> list[Completion]:
        errors = self._ray.exceptions
        waits = Stopwatch()
        number = self._first
        while True:
            worker = self._workers[number % len(self._workers)]
            reference = worker.complete.remote(self._version, self._weights, asked)
            try:
                # The worker keeps `call_timeout`, by how crowded its own machine is.
                completions: list[Completion] = self._ray.get(reference, timeout=LONGEST * self._layout.call_timeout)
                return completions
            except errors.RayTaskError as error:
                # Weights that did not come in time, or a connection, may be there later; the model's own errors again.
                if isinstance(error.cause, Exception) and not isinstance(error.cause, (OSError, errors.RayError)):
                    raise error.cause from None
                why: Exception = error
            except errors.RayError as error:
                why = error
                if isinstance(error, errors.GetTimeoutError):
                    self._ray.cancel(reference)  # so that it is not made any more if it waits behind others
            if waits.look() > self._layout.patience:
                raise PolicyError(f"No policy worker has answered: {reason_of(why)}") from why
            number += 1
            time.sleep(PAUSE)
