"""A task whose own code raises: whose it was, what, and where."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from selfsurf.agents.play import AgentAdapter, Environments, EpisodeRequest, Job, Player, PlayOptions
from selfsurf.agents.scripted import ScriptedAgent
from selfsurf.browser_env import BrowserEnv, EnvError, Safety, Score, Secret, Task
from tests.few import few


class Broken(Task):
    id = "shop.py:Broken"
    start_url = "data:text/html,<button>Buy</button>"

    def __init__(self, where: str) -> None:
        super().__init__(goal="Buy.")
        self.where = where

    async def setup(self, page: Any, rng: Any) -> str:
        goal = await super().setup(page, rng)
        if self.where == "setup":
            await page.click("#missing", timeout=50)
        if self.where == "secret":
            raise ValueError("the password is hunter2")
        return goal

    async def score(self, page: Any, episode: Any) -> Any:
        return 1 / 0


def test_a_score_that_raises_ends_the_episode_with_its_traceback() -> None:
    env = BrowserEnv(task=Broken("score"), screenshot=False)
    env.reset(seed=0)
    _, reward, _, truncated, info = env.step({"action": "wait", "ms": 1})
    env.close()
    assert (reward, truncated, info["outcome"], info["trainable"]) == (0, True, "env_error", False)
    assert info["outcome_detail"] == "the task's score raised ZeroDivisionError: division by zero"
    assert "return 1 / 0" in info["traceback"]


def test_a_setup_that_raises_keeps_its_traceback() -> None:
    env = BrowserEnv(task=Broken("setup"), screenshot=False)
    with pytest.raises(EnvError, match=r"shop.py:Broken could not be set up: Page.click: Timeout 50ms") as error:
        env.reset(seed=0)
    env.close()
    assert 'await page.click("#missing", timeout=50)' in error.value.traceback


def test_a_traceback_shows_no_secret() -> None:
    safety = Safety(secrets={"password": Secret("hunter2")})
    env = BrowserEnv(task=Broken("secret"), screenshot=False, safety=safety)
    with pytest.raises(EnvError, match="ValueError: the password is <secret:password>") as error:
        env.reset(seed=0)
    env.close()
    assert "in setup" in error.value.traceback
    assert "hunter2" not in error.value.traceback


def test_a_page_that_does_not_answer_is_nobodys_code() -> None:
    env = BrowserEnv("http://127.0.0.1:9/", "Look.", screenshot=False)
    with pytest.raises(EnvError, match="ERR_") as error:
        env.reset(seed=0)
    env.close()
    assert not error.value.traceback


class Hangs(Task):
    goal = "Buy."
    start_url = "data:text/html,<button onclick='setTimeout(() => {for(;;);}, 500)'>Buy</button><button>Look</button>"

    def __init__(self, *, polls: bool = False) -> None:
        super().__init__()
        self.polls = polls

    async def score(self, page: Any, episode: Any) -> Score:
        while self.polls and episode.steps > 1:
            with contextlib.suppress(Exception):
                time.sleep(0.05)  # noqa: ASYNC251
        await page.wait_for_selector("#missing" if episode.steps > 1 else "button", timeout=0)
        return Score()


@pytest.mark.parametrize("polls", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_score_that_hangs_is_the_tasks_failure_and_a_page_that_hangs_is_not(polls: bool) -> None:
    task = Hangs(polls=polls)
    env = BrowserEnv(task=Hangs(), screenshot=False, step_timeout=2.0)
    player = Player(
        AgentAdapter(ScriptedAgent([{"action": "click", "id": 2}] * 2)), Environments(lambda name: task, 1, step_timeout=3.0),
        1, PlayOptions(),
    )  # fmt: skip
    try:
        result = player.play(EpisodeRequest(0, Job("hangs", 0)))
        env.reset(seed=0)
        env.core.episode.steps = 1
        *_, info = env.step({"action": "click", "id": 1})
    finally:
        player.close()
        env.close()
    assert result.detail.startswith("the task's score did not return within"), result
    assert (result.outcome, result.trainable, result.crashed, result.length) == ("env_error", False, False, 2)
    assert (info["fault"], info["outcome"]) == ("timeout", "env_error")


class Returns(Task):
    start_url = "data:text/html,<button>Buy</button>"
    goal = "Buy."

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    async def score(self, page: Any, episode: Any) -> Any:
        return self.value() if callable(self.value) else self.value


def lacking() -> Score:
    raise EnvError("The shop's server is down.")


class Plain(Returns):
    def score(self, page: Any, episode: Any) -> Any:  # type: ignore[override]
        return Score()


class Seen(Returns):
    async def score(self, page: Any, episode: Any) -> Any:
        return Score()

    def score_seen(self, before: Any, after: Any, episode: Any) -> Any:
        return self.value


class SeenLater(Seen):
    async def score_seen(self, before: Any, after: Any, episode: Any) -> Any:  # type: ignore[override]
        return Score()


class Read(Returns):
    verdict = "window.bought || 0"

    def score_of(self, verdict: Any, episode: Any) -> Any:
        return self.value

    score = Task.score


class Throws(Read):
    verdict = "missing.bought"


class Unscored(Task):
    start_url, goal, verdict = Returns.start_url, "Buy.", "1"


@pytest.mark.parametrize(
    ("task", "said"),
    few(
        4,
        [
            (Read(0.5), "score_of must return a Score, not 0.5: Read in "),
            (Throws(None), "the task's verdict threw ReferenceError: missing is not defined"),
            (Unscored(), "the task's score_of raised NotImplementedError: a task with a verdict must define"),
            (Returns(None), "score must return a Score, not None: Returns in "),
            (Returns((0.5, True)), "score must return a Score, not (0.5, True): Returns in "),
            (
                Returns(lambda: Score(details="fine")),
                "the task's score raised ValueError: A score's details must be a dict",
            ),  # type: ignore[arg-type]
            (Returns(lacking), "The shop's server is down."),
            (Plain(None), "score must be async (`async def score`): Plain in "),
            (Seen(0), "score_seen must return a Score, not 0: Seen in "),
            (SeenLater(None), "score_seen must be a plain function (`def score_seen`), not async: SeenLater in "),
        ],
    ),
)
def test_what_a_task_returns_instead_of_a_score_is_its_own_error(task: Task, said: str) -> None:
    env = BrowserEnv(task=task, screenshot=False)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step({"action": "click", "id": 1})
    env.close()
    assert (reward, terminated, truncated, info["outcome"], info["fault"]) == (0, False, True, "env_error", "task")
    assert info["outcome_detail"].startswith(said)
    assert not said.endswith(" in ") or __file__ in info["outcome_detail"]
