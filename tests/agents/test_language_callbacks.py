"""What the router's providers are handed. The model here answers when it is told to."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from selfsurf.agents.language_callbacks import complete_by, decide_by
from selfsurf.browser_env.router.provider import ProviderError
from selfsurf.browser_env.router.words import asked
from tests.processes import until

MESSAGES = [{"role": "user", "text": "Hello"}]


class Slow:
    """An agent and its policy in one, which note how many ask them at the same time."""

    guidance = "none"

    def __init__(self):
        self.go, self.asking, self.most = threading.Event(), 0, 0

    def _answer(self):
        self.asking += 1
        self.most = max(self.most, self.asking)
        self.go.wait(60)
        self.asking -= 1

    def complete(self, conversations, **options):
        self._answer()
        return [SimpleNamespace(text="Hello yourself")]

    def reset(self, goal):
        pass

    def act(self, seen):
        self._answer()
        return {"click": 1}


def test_a_model_whose_answer_was_given_up_is_not_asked_beside_it():
    model, asking = Slow(), threading.Lock()
    decide, complete = decide_by(model, asking), complete_by(model, asking)

    async def play():
        call = asyncio.ensure_future(asked(complete, MESSAGES, None))
        assert await asyncio.to_thread(until, lambda: model.asking == 1)
        call.cancel()
        for function, arguments in ((complete, (MESSAGES, None)), (decide, ("press Go", {}))):
            with pytest.raises(ProviderError, match="still busy with the last call") as caught:
                await asked(function, *arguments)
            assert (caught.value.failure.type, caught.value.failure.retryable) == ("model", True)
        model.go.set()
        assert await asyncio.to_thread(until, lambda: not asking.locked())
        assert await asked(decide, "press Go", {}) == {"click": 1}
        assert await asked(complete, MESSAGES, None) == "Hello yourself"

    asyncio.run(play())
    assert model.most == 1
