"""How close a step and a reset come to the raw work in them: mouse click, one in-page pass, screenshot.

The raw work runs in the same browser through the same driver, in a context of its own, and the two take turns, so
that a busy machine slows both. What is compared is the ratio.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import envs_registry  # noqa: F401  (registers the ids)
from browser_env.runtime import BrowserSpec, runtime
from browser_env.session import Session
from scripts.console import progress
from tasks.miniwob import MiniWobTask

STEPS_A_ROUND = 10
RESETS_A_ROUND = 5


def measure(task: str, rounds: int) -> dict[str, Any]:
    """Time steps and resets.

    Args:
        task: name of a MiniWoB++ task whose first elements can be clicked without ending the episode.
        rounds: how often raw work and environment take turns.

    Returns:
        Medians in milliseconds: `step` and `reset`, each `raw`, `env`, `ratio`; `phases` of the environment's step.
    """
    env = gymnasium.make(f"MiniWoB/{task}-v0", max_episode_steps=10_000)
    raw = runtime().run(_Raw.open(task))
    times: dict[str, list[float]] = {"raw step": [], "env step": [], "raw reset": [], "env reset": []}
    phases: dict[str, list[float]] = {}
    try:
        with progress("Steps and resets", rounds) as update:
            for number in range(rounds):
                observation, _ = env.reset(seed=number)
                boxes = [e for e in observation["elements"] if e["role"] == "checkbox" and e["in_viewport"]][:5]
                times["raw step"] += runtime().run(raw.steps([box["bbox"] for box in boxes]))
                for index in range(STEPS_A_ROUND):
                    start = time.perf_counter()
                    _, _, terminated, truncated, info = env.step(
                        {"action": "click", "id": boxes[index % len(boxes)]["id"]}
                    )
                    times["env step"].append(time.perf_counter() - start)
                    if terminated or truncated or info["action_path"] != "mouse":
                        raise RuntimeError(f"The benchmark's clicks did not go as planned: {info}")
                    for phase, value in info["timing"].items():
                        phases.setdefault(phase, []).append(value)
                times["raw reset"] += runtime().run(raw.resets(number))
                for index in range(RESETS_A_ROUND):
                    start = time.perf_counter()
                    env.reset(seed=1000 + number * RESETS_A_ROUND + index)
                    times["env reset"].append(time.perf_counter() - start)
                update(number + 1)
    finally:
        env.close()
        runtime().run(raw.session.close())
    medians = {name: statistics.median(values) * 1000 for name, values in times.items()}
    return {
        "task": task,
        "samples": {name: len(values) for name, values in times.items()},
        "step": _compare(medians["raw step"], medians["env step"]),
        "reset": _compare(medians["raw reset"], medians["env reset"]),
        "phases": {phase: round(statistics.median(values), 2) for phase, values in phases.items()},
        "unit": "ms, medians",
    }


class _Raw:
    """The raw work, awaited piece by piece as plainly as the driver allows."""

    def __init__(self, session: Session, task: MiniWobTask) -> None:
        self.session = session
        self.task = task
        self.tab = session.active

    @classmethod
    async def open(cls, name: str) -> _Raw:
        task = MiniWobTask(name)
        session = await Session.open(BrowserSpec(), task.viewport, sites=task.sites)
        raw = cls(session, task)
        await raw._start(0)
        return raw

    async def _start(self, seed: int) -> None:
        await self.task.setup(self.tab.page, np.random.default_rng(seed))

    async def _look(self) -> None:
        await self.tab.call("observe", firstId=1, stamp=False, origin=None)
        await self.tab.screenshot()

    async def steps(self, boxes: list[tuple[float, float, float, float]]) -> list[float]:
        async def one(index: int) -> None:
            x, y, width, height = boxes[index % len(boxes)]
            await self.tab.page.mouse.click(x + width / 2, y + height / 2)
            await self._look()

        return await _timed(one, STEPS_A_ROUND)

    async def resets(self, number: int) -> list[float]:
        async def one(index: int) -> None:
            await self._start(1000 + number * RESETS_A_ROUND + index)
            await self._look()

        return await _timed(one, RESETS_A_ROUND)


async def _timed(work: Callable[[int], Awaitable[None]], count: int) -> list[float]:
    times = []
    for index in range(count):
        start = time.perf_counter()
        await work(index)
        times.append(time.perf_counter() - start)
        await asyncio.sleep(0)
    return times


def _compare(raw: float, env: float) -> dict[str, float]:
    return {"raw": round(raw, 2), "env": round(env, 2), "ratio": round(env / raw, 2)}


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    table = Table(title=f"MiniWoB/{figures['task']}-v0, observation with screenshot; medians in ms")
    for column in ("work", "raw limit", "environment", "ratio"):
        table.add_column(column, justify="left" if column == "work" else "right")
    for work in ("step", "reset"):
        row = figures[work]
        table.add_row(work, f"{row['raw']:.1f}", f"{row['env']:.1f}", f"{row['ratio']:.2f}x")
    Console().print(table)
    print("Where a step goes: " + ", ".join(f"{name} {value:.1f}" for name, value in figures["phases"].items()))
