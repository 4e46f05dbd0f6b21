"""The queue of a policy worker, without Ray: its actor is an ordinary class."""

import asyncio
import threading

from selfsurf.agents.policy import Completion, Message
from selfsurf.sdft.rollouts.models import Asked
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


def test_a_call_that_was_given_up_is_not_made_any_more():
    model = Slow()

    async def calls():
        worker = PolicyWorker(model, callers=1, most=1, pull_timeout=60)

        def call(text):
            weights = asyncio.get_running_loop().create_future()
            weights.set_result(b"")
            return asyncio.create_task(worker.complete(0, [weights], Asked([[Message("user", text)]], {}, {})))

        first = call("first")
        assert await asyncio.to_thread(model.begun.wait, 60)
        given_up, last = call("given up"), call("last")
        await asyncio.sleep(0)  # both are in the queue
        given_up.cancel()
        model.go_on.set()
        return [completion.text for one in (first, last) for completion in await one]

    assert asyncio.run(calls()) == ["first", "last"]
    assert model.seen == ["first", "last"]
