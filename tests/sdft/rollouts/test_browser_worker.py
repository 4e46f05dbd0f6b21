"""A browser worker, without Ray: its actor is an ordinary class."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")

from selfsurf.agents.play import EpisodeRequest, Job, PlayOptions
from selfsurf.browser_env import Finish, patience
from selfsurf.sdft.rollouts import ray_browser
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.rollouts.ray_browser import BrowserWorker, Hangs, Setup

ASK = EpisodeRequest(0, Job("MiniWoB/click-test-v0", 0))


class Stuck:
    """Doesn't decide before it is told to."""

    def __init__(self):
        self.asked, self.go_on = threading.Event(), threading.Event()

    def act_batch(self, observations, slots=None):
        self.asked.set()
        assert self.go_on.wait(60)
        return [Finish() for _ in observations]


@pytest.fixture
def agent():
    agent = Stuck()
    yield agent
    agent.go_on.set()


def worker_of(agent, limit):
    layout = RolloutSettings(workers=1, contexts=1, episode_timeout=limit)
    return BrowserWorker(Setup(lambda policy: agent, layout, PlayOptions(), {}), [], 0, None)


@pytest.mark.slow
def test_an_episode_that_does_not_end_is_told_later_on_a_crowded_machine(agent, monkeypatch):
    monkeypatch.setattr(ray_browser, "RemotePolicy", lambda *_: SimpleNamespace(use=lambda *_: None))  # it is not asked
    monkeypatch.setattr(ray_browser, "SLACK", 0.0)
    monkeypatch.setattr(patience, "cpu_share", lambda: 0.125)
    worker = worker_of(agent, 2.0)

    async def play(*, crowded):
        playing = asyncio.create_task(worker.play(ASK, [], []))
        assert await asyncio.to_thread(agent.asked.wait, 60)
        agent.asked.clear()
        if crowded:
            await asyncio.sleep(3)
            agent.go_on.set()
        return await playing

    result = asyncio.run(play(crowded=True))
    assert result.outcome != "env_error", result.detail
    agent.go_on.clear()
    monkeypatch.setattr(patience, "cpu_share", lambda: 1.0)
    with pytest.raises(Hangs, match=r"did not end within 2 s"):
        asyncio.run(play(crowded=False))
    agent.go_on.set()
    asyncio.run(worker.close())
