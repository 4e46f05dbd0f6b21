"""One point of `selfsurf bench vector`: N environments in one process, against a bare loop and a single one.

`python -m selfsurf.scripts.environment.vector_point '{"task": ..., "count": N, "screenshot": true, "rounds": 3,
"seconds": 1.0}'` prints one JSON object. Each point has a process of its own, so that neither memory nor a crash
affects the next one.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import statistics
import sys
import time
from collections.abc import Coroutine, Iterable
from contextlib import ExitStack, closing
from typing import Any, TypeVar

import gymnasium
from PIL import Image

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.scripts.environment.contenders import clickable
from selfsurf.scripts.environment.raw import RawMiniWob
from selfsurf.scripts.machine.loopback import serving
from selfsurf.scripts.machine.processes import cpu_seconds, memory
from selfsurf.tasks.miniwob.task import html_root

Boxes = list[list[Any]]
"""Bounding boxes of the elements to click, for each environment."""

DECODES = 20

T = TypeVar("T")


def main(task: str, count: int, screenshot: bool, rounds: int, seconds: float) -> dict[str, Any]:
    """Measure one number of environments.

    Args:
        task: A MiniWoB++ task whose first checkboxes can be clicked without ending the episode.
        count: Number of environments.
        screenshot: Whether observations have screenshots.
        rounds: Number of rounds, in which vector, bare loop and single environment take turns.
        seconds: Approximate duration of each of them in a round.

    Returns:
        Steps per second (`vector`, `loop`, `single`, medians of the rounds, and their `rounds`); `memory` in MiB and
        `cpu`
        in milliseconds per step, by process, None if unknown; `phases` in milliseconds per step.
    """
    with ExitStack() as stack:
        base_url = f"{stack.enter_context(serving(html_root()))}/miniwob/"
        options: dict[str, Any] = {"screenshot": screenshot, "max_episode_steps": 1_000_000}
        envs = stack.enter_context(closing(gymnasium.make_vec(f"MiniWoB/{task}-v0", num_envs=count, **options)))
        vector = VectorContender(envs)
        vector.steps(0.5)
        used = memory(os.getpid())
        single = SingleContender(stack.enter_context(closing(gymnasium.make(f"MiniWoB/{task}-v0", **options))))
        loop = AsyncioContender(base_url, task, vector.boxes, screenshot)
        stack.callback(loop.close)
        single.steps(0.3)
        loop.steps(0.3)
        vector.phases.clear()
        speeds: dict[str, list[float]] = {"vector": [], "loop": [], "single": []}
        spent: list[dict[str, float]] = []
        for _ in range(rounds):
            before = cpu_seconds(os.getpid())
            done, took = vector.steps(seconds)
            after = cpu_seconds(os.getpid())
            if before and after:
                spent.append({kind: (after[kind] - before[kind]) * 1000 / done for kind in after})
            speeds["vector"].append(done / took)
            for name, contender in (("loop", loop), ("single", single)):
                done, took = contender.steps(seconds)
                speeds[name].append(done / took)
        phases = {phase: round(statistics.mean(values), 2) for phase, values in vector.phases.items()}
        if screenshot:
            phases["decode"] = runtime().run(decoding(loop.pages[0]))
        return {
            "envs": count,
            "screenshot": screenshot,
            **{name: round(statistics.median(values), 1) for name, values in speeds.items()},
            "rounds": {name: [round(value, 1) for value in values] for name, values in speeds.items()},
            "memory": None if used is None else round(used, 1),
            "cpu": {kind: round(statistics.median(one[kind] for one in spent), 2) for kind in before or ()} or None,
            "phases": phases,
        }


class VectorContender:
    """The native vector environment as a contender."""

    def __init__(self, envs: Any) -> None:
        self._envs = envs
        observation, _ = envs.reset(seed=0)
        self._ids = [[e["id"] for e in clickable(elements)] for elements in observation["elements"]]
        self.boxes: Boxes = [[e["bbox"] for e in clickable(elements)] for elements in observation["elements"]]
        self._turn = 0
        self.phases: dict[str, list[float]] = {}
        """Milliseconds of the phases of a batch step, averaged over the environments, and of the batch as a whole."""

    def steps(self, seconds: float) -> tuple[int, float]:
        """Step for `seconds`; return the steps of all environments together, and the elapsed seconds."""
        start, batches = time.perf_counter(), 0
        while (took := time.perf_counter() - start) < seconds:
            actions = [{"action": "click", "id": ids[self._turn % len(ids)]} for ids in self._ids]
            began = time.perf_counter()
            _, _, terminated, truncated, info = self._envs.step(actions)
            wall = (time.perf_counter() - began) * 1000
            if terminated.any() or truncated.any() or any(path != "mouse" for path in info["action_path"]):
                raise RuntimeError(f"The benchmark's clicks did not go as planned: {info}")
            timings = list(info["timing"])
            for phase in timings[0]:
                self.phases.setdefault(phase, []).append(statistics.mean(timing[phase] for timing in timings))
            self.phases.setdefault("batch", []).append(wall)
            self.phases.setdefault("rest", []).append(wall - max(timing["total"] for timing in timings))
            self._turn += 1
            batches += 1
        return batches * len(self._ids), took


class SingleContender:
    """A single ordinary environment as a contender."""

    def __init__(self, env: Any) -> None:
        self._env = env
        observation, _ = env.reset(seed=0)
        self._ids = [element["id"] for element in clickable(observation["elements"])]

    def steps(self, seconds: float) -> tuple[int, float]:
        """Step for `seconds`; return the steps and the elapsed seconds."""
        start, done = time.perf_counter(), 0
        while (took := time.perf_counter() - start) < seconds:
            self._env.step({"action": "click", "id": self._ids[done % len(self._ids)]})
            done += 1
        return done, took


class AsyncioContender:
    """The bare asyncio loop as a contender: contexts that click, pass and take screenshots independently."""

    def __init__(self, base_url: str, task: str, boxes: Boxes, screenshot: bool) -> None:
        self.pages = runtime().run(_together(RawMiniWob.open(base_url, task, held=True) for _ in boxes))
        self._boxes = boxes
        self._screenshot = screenshot

    def steps(self, seconds: float) -> tuple[int, float]:
        """Work for `seconds`; return the clicks of all contexts together, and the elapsed seconds."""
        start = time.perf_counter()
        work = zip(self.pages, self._boxes, strict=True)
        done = runtime().run(_together(self._work(page, boxes, start + seconds) for page, boxes in work))
        return sum(done), time.perf_counter() - start

    async def _work(self, page: RawMiniWob, boxes: list[Any], end: float) -> int:
        done = 0
        while time.perf_counter() < end:
            await page.click(boxes[done % len(boxes)], screenshot=self._screenshot)
            done += 1
        return done

    def close(self) -> None:
        """Close the browser contexts."""
        runtime().run(_together(page.raw.close() for page in self.pages), timeout=120)


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    return await asyncio.gather(*work)


async def decoding(page: RawMiniWob) -> float:
    """Return the milliseconds in which Python decodes one screenshot of this size."""
    png = await page.raw.screenshot()
    start = time.perf_counter()
    for _ in range(DECODES):
        Image.open(io.BytesIO(png)).convert("RGB")
    return round((time.perf_counter() - start) * 1000 / DECODES, 2)


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
