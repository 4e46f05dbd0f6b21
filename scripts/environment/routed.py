"""Measurement of the router's overhead per step: without a log, and with all artifacts of every attempt."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from selfsurf.browser_env import AsyncBrowserEnv, Click
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.attempts.settings import LogSettings
from selfsurf.browser_env.router.providers.playwright import PlaywrightProvider
from selfsurf.browser_env.router.router import CallFailed, Router
from selfsurf.scripts.terminal.console import progress

PAGE = (
    'data:text/html,<title>Steps</title><h1>Steps</h1><button onclick="out.textContent = +out.textContent + 1">Go'
    "</button><output id=out>0</output><label>Name <input value=Ada></label><button disabled>Not yet</button>"
)
TARGET = 0.3
"""Maximum overhead of the router without artifacts, in milliseconds."""

_EVERY = 10
"""Interval in rounds between attempts with artifacts, which take several times as long."""


def measure(steps: int) -> dict[str, Any]:
    """Take steps in turn with the bare environment and with the router.

    Args:
        steps: Number of steps of each.

    Returns:
        Medians in milliseconds: `bare`, `routed`, and their difference `in_turn`; `added`, the time of a routed step
        outside the environment's own step; `logged`, `failed_bare` and `failed`, with all artifacts; `target` and
        `met`.
    """
    return asyncio.run(_measure(steps))


async def _measure(steps: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {
        name: [] for name in ("bare", "routed", "added", "logged", "failed_bare", "failed")
    }
    go, refused = Click(id=1), Click(id=3)
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncBrowserEnv(PAGE, screenshot=False) as env:
            await env.reset(seed=0)
            inside: list[float] = []
            own = env.step

            async def step(action: Any) -> Any:
                start = time.perf_counter()
                try:
                    return await own(action)
                finally:
                    inside.append(time.perf_counter() - start)

            env.step = step  # type: ignore[method-assign]
            router = Router([PlaywrightProvider(env)])
            logged = Router([PlaywrightProvider(env)], trace_id="bench")
            logged.log = log = FileLog("bench", LogSettings(root=Path(folder)))
            for _ in range(5):
                await router.act(go)
            with progress("Steps", steps) as update:
                for number in range(steps):
                    for name in ("bare", "routed") if number % 2 else ("routed", "bare"):
                        start = time.perf_counter()
                        await (own(go) if name == "bare" else router.act(go))
                        times[name].append(time.perf_counter() - start)
                        if name == "routed":
                            times["added"].append(times[name][-1] - inside[-1])
                    if number % _EVERY == 0:
                        await _with_artifacts(times, own, logged, go, refused)
                    update(number + 1)
            logged.end("stopped")
            written = log.flush(30)
    ms = {name: [1000 * each for each in values] for name, values in times.items()}
    median = {name: round(statistics.median(values), 3) for name, values in ms.items()}
    low, *_, high = statistics.quantiles(ms["added"], n=20)
    return {
        "steps": steps,
        **median,
        "added_90": [round(low, 3), round(high, 3)],
        "in_turn": round(median["routed"] - median["bare"], 3),
        "artifacts": round(median["logged"] - median["bare"], 3),
        "artifacts_of_failure": round(median["failed"] - median["failed_bare"], 3),
        "written": written,
        "target": TARGET,
        "met": median["added"] < TARGET,
    }


async def _with_artifacts(times: dict[str, list[float]], own: Any, logged: Router, go: Any, refused: Any) -> None:
    start = time.perf_counter()
    await logged.act(go)
    times["logged"].append(time.perf_counter() - start)
    start = time.perf_counter()
    await own(refused)
    times["failed_bare"].append(time.perf_counter() - start)
    start = time.perf_counter()
    try:
        await logged.act(refused)
    except CallFailed:
        times["failed"].append(time.perf_counter() - start)
