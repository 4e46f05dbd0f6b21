"""A task's verdict as an expression, which the environment reads beside the observation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from selfsurf.browser_env import BrowserEnv, EpisodeState, Score, Task

PAGE = """data:text/html,<title>Shop</title><script>window.bought = 0</script>
<button onclick="window.bought += 1">Buy</button>"""


class Shop(Task):
    start_url = PAGE
    goal = "Buy two."
    verdict = "[document.title, window.bought ?? -1]"

    def score_of(self, verdict: Any, episode: EpisodeState) -> Score:
        title, bought = verdict
        return Score(float(bought == 2), done=bought == 2, details={"title": title, "bought": bought})


class Promised(Shop):
    verdict = "new Promise((done) => setTimeout(done, 20, [document.title, window.bought]))"


class Twice(Shop):
    """Scores by code of its own, on top of what it inherits."""

    async def score(self, page: Any, episode: EpisodeState) -> Score:
        score = await super().score(page, episode)
        return Score(score.reward, done=score.done, details={**score.details, "steps": episode.steps})


def details(task: Task, *ids: int) -> list[dict[str, Any]]:
    env = BrowserEnv(task=task, screenshot=False)
    _, info = env.reset(seed=0)
    found = [info["score"]]
    for number in ids:
        *_, info = env.step({"action": "click", "id": number})
        found.append(info["score"])
    env.close()
    return found


class Levels(Task):
    """The score is what the page shows, and the episode goes on until the agent says that it is done."""

    start_url = """data:text/html,<button onclick="i++">Next</button>
    <script>i = 0; levels = [0, 0.1, 0.1, 0.7, 0.4, 1]</script>"""
    verdict = "levels[i]"

    def score_of(self, verdict: Any, episode: EpisodeState) -> Score:
        return Score(verdict, done=episode.finished)


def test_a_step_is_paid_by_how_much_the_score_has_risen() -> None:
    env = BrowserEnv(task=Levels(), screenshot=False)
    env.reset(seed=0)
    rewards = [env.step({"action": "click", "id": 1})[1] for _ in range(5)]
    rewards.append(env.step({"action": "finish"})[1])
    assert rewards == pytest.approx([0.1, 0, 0.6, -0.3, 0.6, 0])
    assert sum(rewards) == 1
    env.reset(seed=0)
    assert env.step({"action": "click", "id": 1})[1] == 0.1
    env.close()


def test_it_is_that_of_the_page_that_the_step_led_to(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<title>Shop</title><script>bought = 1</script><a href=paid.html>Pay</a>")
    (tmp_path / "paid.html").write_text("<title>Paid</title>")
    task = Shop(start_url="http://shop.test/index.html")
    task.sites = {"http://shop.test": tmp_path}
    assert details(task, 1)[-1] == {"title": "Paid", "bought": -1}


def test_a_promise_is_awaited() -> None:
    assert details(Promised(), 1)[-1] == {"title": "Shop", "bought": 1}


def test_a_score_of_its_own_comes_first_and_can_build_on_it() -> None:
    assert details(Twice(), 1)[-1] == {"title": "Shop", "bought": 1, "steps": 1}


def test_it_solves_the_task_which_so_is_no_open_one() -> None:
    assert not Shop().open_ended
    env = BrowserEnv(task=Shop(), screenshot=False)
    env.reset(seed=0)
    env.step({"action": "click", "id": 1})
    _, reward, terminated, _, info = env.step({"action": "click", "id": 1})
    env.close()
    assert (reward, terminated, info["outcome"]) == (1.0, True, "solved")
