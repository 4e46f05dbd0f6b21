"""BrowserGym's side of the measurements. Runs in its own Python, under `worker.py`."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from typing import Any

import browsergym.core
import browsergym.miniwob  # registers the tasks
import gymnasium
from browsergym.utils.obs import flatten_axtree_to_str

KEPT = 2
"""Open pages that are kept, since a benchmark goes to and fro between two; each is two browsers."""

BOXES = 5
"""Elements that are clicked in turn."""


class Side:
    """What can be asked for. Times are seconds."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, Any] = OrderedDict()
        self._tasks: dict[tuple[str, bool], Any] = {}

    def observe(self, url: str, repeat: int) -> dict[str, Any]:
        """Time the observation that each of its steps takes, screenshot included, after one that is not counted."""
        env = self._pages.pop(url, None)
        if env is None:
            while len(self._pages) >= KEPT:
                self._pages.popitem(last=False)[1].close()
            env = gymnasium.make(
                "browsergym/openended", task_kwargs={"start_url": url}, disable_env_checker=True
            ).unwrapped
            try:
                env.reset()
            except BaseException:
                env.close()
                raise
        self._pages[url] = env
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            observation = env._get_obs()
            seconds.append(time.perf_counter() - start)
            if observation["screenshot"].size == 0:
                raise RuntimeError("the observation has no screenshot")
        text = flatten_axtree_to_str(observation["axtree_object"])
        return {"seconds": seconds, "characters": len(text), "missing": []}

    def miniwob(
        self, base_url: str, task: str, role: str, seed: int, resets: int, steps: int, delay: bool
    ) -> dict[str, Any]:
        """Time resets and clicks on the first elements with a role; `delay`: with its default sleep in a step."""
        os.environ["MINIWOB_URL"] = base_url
        env = self._tasks.get((task, delay))
        if env is None:
            options = {} if delay else {"pre_observation_delay": 0}
            env = gymnasium.make(f"browsergym/miniwob.{task}", disable_env_checker=True, **options)
            self._tasks[task, delay] = env
            env.reset(seed=seed)  # the first one pays for the driver's start
        times: dict[str, list[float]] = {"reset": [], "step": []}
        for index in range(resets):
            start = time.perf_counter()
            observation, _ = env.reset(seed=seed + index)
            times["reset"].append(time.perf_counter() - start)
        boxes = [
            node["browsergym_id"]
            for node in observation["axtree_object"]["nodes"]
            if node["role"]["value"] == role and node.get("browsergym_id")
        ][:BOXES]
        for index in range(steps):
            start = time.perf_counter()
            observation, _, terminated, truncated, _ = env.step(f"click('{boxes[index % len(boxes)]}')")
            times["step"].append(time.perf_counter() - start)
            if terminated or truncated or observation["last_action_error"] or observation["screenshot"].size == 0:
                raise RuntimeError(f"a click did not go as planned: {observation['last_action_error']}")
        return times

    def close(self) -> None:
        """Close all its browsers."""
        for env in [*self._pages.values(), *self._tasks.values()]:
            env.close()
        browsergym.core._get_global_playwright().stop()
