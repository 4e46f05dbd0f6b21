"""Measurement of how much a troubled environment slows down others in the same process."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import gymnasium

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.browser_env import BrowserEnv
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.scripts.environment.contenders import clickable
from selfsurf.scripts.terminal.console import progress

SEVEN = 7

TARGET = 0.8
"""Minimum share of their speed that the others must keep, compared with a working neighbour."""

LAYOUT = """<button onclick="lay()">Go</button><div id=d></div><script>function lay() {
d.innerHTML = '<table>' + '<tr><td>some words that wrap</td><td>more</td></tr>'.repeat(60000) + '</table>'
for (let i = 0; i < 30; i++) { d.style.width = 300 + i + 'px'; d.offsetHeight } }</script>"""

TROUBLES = {
    "loops": "<button onclick='for (;;);'>Go</button>",
    "dialogs without end": "<button onclick='for (;;) alert(1)'>Go</button>",
    "layout for seconds": LAYOUT,
    "crashes": "<button>Go</button>",
}
"""Pages by the trouble that a click on their button starts; the last page's tab is crashed instead."""

HUNG = 3.0
"""Seconds until the troubled page counts as hung."""

BEGUN = 1.5
"""Seconds from the start of the trouble until the measurement begins."""


def measure(task: str, *, rounds: int, seconds: float) -> dict[str, Any]:
    """Measure seven environments, each stepped by a thread, beside an eighth: idle, working, or in trouble.

    Args:
        task: A MiniWoB++ task whose first checkboxes can be clicked without ending the episode.
        rounds: Number of rounds, in which the cases take turns.
        seconds: Duration of each case in a round.

    Returns:
        `steps`: steps per second of the seven together, by the eighth's case; `kept`: the share relative to a working
        eighth, with its `target`.
    """
    cases = ["rests", "works", *TROUBLES]
    speeds: dict[str, list[float]] = {case: [] for case in cases}
    with ExitStack() as stack, progress("Neighbours", rounds * len(cases)) as update:
        seven = [_Worker(task, stack) for _ in range(SEVEN)]
        for turn in range(rounds):
            for at, case in enumerate(cases):
                with _eighth(task, case):
                    speeds[case].append(_speed(seven, seconds))
                update(turn * len(cases) + at + 1)
    steps = {case: round(statistics.median(values), 1) for case, values in speeds.items()}
    kept = {
        case: round(statistics.median(mine / works for mine, works in zip(values, speeds["works"], strict=True)), 2)
        for case, values in speeds.items()
        if case not in ("rests", "works")
    }
    return {"steps": steps, "kept": kept, "target": TARGET}


class _Worker:
    """An environment in which checkboxes are clicked."""

    def __init__(self, task: str, stack: ExitStack) -> None:
        self._env = stack.enter_context(
            closing(gymnasium.make(f"MiniWoB/{task}-v0", screenshot=False, max_episode_steps=1_000_000))
        )
        observation, _ = self._env.reset(seed=0)
        self._ids = [element["id"] for element in clickable(observation["elements"])]
        self.done = 0

    def step(self) -> None:
        *_, info = self._env.step({"action": "click", "id": self._ids[self.done % len(self._ids)]})
        if info["outcome"] != "running":
            raise RuntimeError(f"The benchmark's clicks did not go as planned: {info}")
        self.done += 1


def _speed(workers: list[_Worker], seconds: float) -> float:
    """Return the steps per second of all workers together."""

    def work(worker: _Worker) -> None:
        while time.perf_counter() < end:
            worker.step()

    before, began = sum(worker.done for worker in workers), time.perf_counter()
    end = began + seconds
    with ThreadPoolExecutor(len(workers)) as threads:
        list(threads.map(work, workers))
    return (sum(worker.done for worker in workers) - before) / (time.perf_counter() - began)


@contextmanager
def _eighth(task: str, case: str) -> Iterator[None]:
    """Keep the eighth environment in the given state within this context."""
    over = threading.Event()

    def work() -> None:
        with ExitStack() as stack:
            if case == "works":
                worker = _Worker(task, stack)
                while not over.is_set():
                    worker.step()
                return
            page = "data:text/html," + TROUBLES[case].replace("#", "%23")
            env = stack.enter_context(
                closing(
                    gymnasium.make("Browser-v0", start_url=page, screenshot=False, clock="virtual", hang_timeout=HUNG)
                )
            )
            while not over.is_set():
                env.reset(seed=0)
                if case == "crashes":
                    _crash(env.unwrapped)  # type: ignore[arg-type]
                env.step({"action": "click", "id": 1})

    if case == "rests":
        yield
        return
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work)
        time.sleep(BEGUN)
        try:
            yield
        finally:
            over.set()
        working.result()


def _crash(env: BrowserEnv) -> None:
    session = env.core.session
    assert session is not None

    async def crash() -> None:
        said = asyncio.ensure_future(session.active.protocol.send("Page.crash"))
        await asyncio.wait({said}, timeout=1)
        # consumes the expected error, or cancels a call without a response
        said.cancel() if not said.done() else said.exception()

    runtime().run(crash())
