"""Worker code for measuring BrowserGym. Runs in BrowserGym's own Python, under `worker.py`."""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeAlias

import browsergym.core
import browsergym.miniwob  # registers the tasks
import gymnasium
from browsergym.utils.obs import flatten_axtree_to_str

KEPT = 2
"""Number of pages kept open, because a benchmark alternates between two; each takes two browsers."""

BOXES = 5
"""Number of elements that are clicked in turn."""


Move: TypeAlias = tuple[str, str, str | None]
"""Role, name and text of a move: a click if the text is None, else a fill. The first character of the text is the index
of the element among those of its role."""


def _option(goal: str) -> list[Move]:
    found = re.match(r"Select (.*) and click Submit", goal)
    return [("radio", found.group(1) if found else "", None), ("button", "Submit", None)]


def _fields(count: int, button: str) -> Callable[[str], list[Move]]:
    def moves(goal: str) -> list[Move]:
        texts = re.findall(r'"(.*?)"', goal)[:count]
        return [*(("textbox", "", f"{place}{text}") for place, text in enumerate(texts)), ("button", button, None)]

    return moves


SOLVED: dict[str, Callable[[str], list[Move]]] = {
    "click-test": lambda goal: [("button", "", None)],
    "click-button": lambda goal: [("button", re.findall(r'"(.*?)"', goal)[0], None)],
    "click-option": _option,
    "enter-text": _fields(1, "Submit"),
    "login-user": _fields(2, "Login"),
}
"""Functions that return the solving moves for a goal, by task."""


def _make(base_url: str, task: str, delay: bool) -> Any:
    os.environ["MINIWOB_URL"] = base_url
    options = {} if delay else {"pre_observation_delay": 0}
    return gymnasium.make(f"browsergym/miniwob.{task}", disable_env_checker=True, **options)


def _found(observation: Any, role: str, name: str = "") -> list[str]:
    """Return the ids of the elements with a role and, if given, a name."""
    return [
        node["browsergym_id"]
        for node in observation["axtree_object"]["nodes"]
        if node["role"]["value"] == role and node.get("browsergym_id") and (not name or node["name"]["value"] == name)
    ]


class Side:
    """Requests that the worker answers. Times are in seconds."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, Any] = OrderedDict()
        self._tasks: dict[tuple[str, bool], Any] = {}

    def observe(self, url: str, repeat: int) -> dict[str, Any]:
        """Time the observation that each step takes, including the screenshot, after an untimed first one."""
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
        """Time resets and clicks on the first elements with a role; `delay` keeps the default sleep in a step."""
        env = self._tasks.get((task, delay))
        if env is None:
            env = self._tasks[task, delay] = _make(base_url, task, delay)
            env.reset(seed=seed)  # the first reset includes the driver's start
        times: dict[str, list[float]] = {"reset": [], "step": []}
        for index in range(resets):
            start = time.perf_counter()
            observation, _ = env.reset(seed=seed + index)
            times["reset"].append(time.perf_counter() - start)
        boxes = _found(observation, role)[:BOXES]
        for index in range(steps):
            start = time.perf_counter()
            observation, _, terminated, truncated, _ = env.step(f"click('{boxes[index % len(boxes)]}')")
            times["step"].append(time.perf_counter() - start)
            if terminated or truncated or observation["last_action_error"] or observation["screenshot"].size == 0:
                raise RuntimeError(f"a click did not go as planned: {observation['last_action_error']}")
        return times

    def solve(self, base_url: str, task: str, seeds: list[int], delay: bool) -> dict[str, Any]:
        """Time episodes of a task in `SOLVED` from reset to success; `delay` keeps the default sleep in a step."""
        begun = time.perf_counter()
        env = _make(base_url, task, delay)
        seconds, steps, solved = [], 0, 0
        for seed in seeds:
            start = time.perf_counter()
            observation, _ = env.reset(seed=seed)
            reward = 0.0
            for role, name, text in SOLVED[task](observation["goal"]):
                found = _found(observation, role, name)
                place = 0 if name or text is None else int(text[0])
                call = f"click({found[place]!r})" if text is None else f"fill({found[place]!r}, {text[1:]!r})"
                observation, given, ended, _, _ = env.step(call)
                reward, steps = float(given), steps + 1
                if ended:
                    break
            seconds.append(time.perf_counter() - start)
            solved += reward > 0
        env.close()
        return {"seconds": seconds, "elapsed": time.perf_counter() - begun, "steps": steps, "solved": solved}

    def close(self) -> None:
        """Close all browsers."""
        for env in [*self._pages.values(), *self._tasks.values()]:
            env.close()
        browsergym.core._get_global_playwright().stop()
