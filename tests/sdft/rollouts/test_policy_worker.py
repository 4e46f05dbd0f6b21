"""The queue of a policy worker, without Ray: its actor is an ordinary class."""

import asyncio
import threading

import pytest

from selfsurf.agents.policy import Completion, Message
from selfsurf.browser_env import patience
from selfsurf.sdft.rollouts.models import CompletionArguments
from selfsurf.sdft.rollouts.ray_policy import PolicyWorker


class Slow:
    """A model that answers when it is told to, and makes itself."""

    def __init__(self):
        self.seen = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def make(self):
        return self

    def use(self, version, weights):
        pass

    def complete(self, asked):
        self.begun.set()
        assert self.go_on.wait(60)
        texts = [conversation[0].text for conversation in asked.conversations]
        self.seen += texts
        return [Completion(text, [1], [2], [0.0], None, "stop") for text in texts]


def call(worker, text):
    weights = asyncio.get_running_loop().create_future()
    weights.set_result(b"")
    return asyncio.create_task(worker.complete(0, [weights], CompletionArguments([[Message("user", text)]], {}, {})))


def test_a_call_that_was_given_up_is_not_made_any_more():
    model = Slow()

    async def calls():
        worker = PolicyWorker(model, callers=1, most=1, call_timeout=60)
        first = call(worker, "first")
        assert await asyncio.to_thread(model.begun.wait, 60)
        given_up, last = call(worker, "given up"), call(worker, "last")
        await asyncio.sleep(0)  # both are in the queue
        given_up.cancel()
        model.go_on.set()
        return [completion.text for one in (first, last) for completion in await one]

    assert asyncio.run(calls()) == ["first", "last"]
    assert model.seen == ["first", "last"]


def test_a_calls_limit_stretches_where_others_crowd_the_machine(monkeypatch):
    async def calls():
        model = Slow()
        worker = PolicyWorker(model, callers=1, most=1, call_timeout=0.5)
        with pytest.raises(TimeoutError):
            await call(worker, "late")
        assert (await worker.state()).busy >= 0.4
        monkeypatch.setattr(patience, "cpu_share", lambda: 0.125)
        busy = (await worker.state()).busy
        slow = call(worker, "slow")
        await asyncio.sleep(1.5)
        assert (await worker.state()).busy < busy + 0.5, "the driver takes no longer for a call that hangs"
        model.go_on.set()
        return [completion.text for completion in await slow]

    monkeypatch.setattr(patience, "cpu_share", lambda: 1.0)
    assert asyncio.run(calls()) == ["slow"]
