"""Measurement of whole episodes per minute, compared with BrowserGym on the same tasks."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from selfsurf.envs_registry.suites import load_suite
from selfsurf.scripts.environment.contenders import Peers
from selfsurf.scripts.machine.loopback import serving
from selfsurf.scripts.peers import PeerError
from selfsurf.scripts.report.turns import OURS, Workload
from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.suite.pool import LocalPool
from selfsurf.scripts.suite.records import Records
from selfsurf.scripts.suite.run import Run
from selfsurf.scripts.terminal.console import progress
from selfsurf.tasks.miniwob.task import html_root

TASKS = ("click-test", "click-button", "click-option", "enter-text", "login-user")
"""Tasks that BrowserGym's script can solve (`scripts.peers.browsergym_side.SOLVED`)."""

TARGET = 20.0
"""Minimum ratio of BrowserGym's time per episode to selfsurf's."""

PEER_SEEDS = 2
"""Episodes of each task that BrowserGym plays in a round."""


def measure(rounds: int, seeds: int, workers: int, *, peers: bool) -> dict[str, Any]:
    """Play the tasks by the oracle with the suite's runner, and optionally by the same actions in BrowserGym.

    Selfsurf is timed from the moment the worker is ready to its last record, including browser, contexts and logs;
    BrowserGym is timed from the creation of each environment to its end. Python's startup is excluded on both sides.

    Args:
        rounds: Number of rounds, in which the contenders take turns.
        seeds: Episodes of each task per round of selfsurf.
        workers: Concurrent episodes; selfsurf is also timed with one at a time, as BrowserGym is.
        peers: Whether to measure BrowserGym, too; it is installed if necessary.

    Returns:
        `work`: seconds per episode and ratios (`Workload.summary`); `per_minute`: episodes; `errors`.
    """
    ours, alone = f"{OURS}, {workers} at a time", OURS
    work = Workload("episode", {"BrowserGym": TARGET})
    errors: dict[str, str] = {}
    with ExitStack() as stack, progress("Rounds", rounds) as update:
        base_url = f"{stack.enter_context(serving(html_root()))}/miniwob/"
        opened = stack.enter_context(closing(Peers()))
        for number in range(rounds):
            for name, slots in ((ours, workers), (alone, 1)):
                work.add(name, [_run(seeds, slots, number)])
            for name, delay in (("BrowserGym", True), ("BrowserGym, no delay", False)) if peers and not errors else ():
                try:
                    work.add(name, [_peer(opened, base_url, number, delay=delay)])
                except PeerError as error:
                    errors[name] = str(error)
            update(number + 1)
    summary = work.summary()
    return {
        "tasks": TASKS, "rounds": rounds, "seeds": seeds, "workers": workers, "work": summary, "errors": errors,
        "per_minute": {name: round(60_000 / ms, 1) for name, ms in summary["ms"].items()},
    }  # fmt: skip


def _run(seeds: int, slots: int, number: int) -> float:
    """Return the seconds per episode in selfsurf."""
    suite = load_suite("miniwob").only(ids=TASKS)
    numbers = tuple(range(number * seeds, (number + 1) * seeds))
    ended: list[tuple[float, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(folder, tuple(suite.about()), "oracle", numbers, slots=slots)
        with Records(Path(folder), {"tasks": suite.about(), "seeds": numbers}) as records:
            run = Run(
                plan, records, LocalPool(plan), lambda record: ended.append((time.monotonic(), record["outcome"]))
            )
            run.work()
    assert run.began is not None
    solved = sum(outcome == "solved" for _, outcome in ended)
    if solved < len(ended):
        raise RuntimeError(f"The oracle solved {solved} of {len(ended)} episodes.")
    return (max(ended)[0] - run.began) / len(ended)


def _peer(opened: Peers, base_url: str, number: int, *, delay: bool) -> float:
    """Return the seconds per episode in BrowserGym."""
    elapsed, solved = 0.0, 0
    seeds = list(range(number * PEER_SEEDS, (number + 1) * PEER_SEEDS))
    for task in TASKS:
        found = opened.get("browsergym").solve(base_url, task, seeds, delay=delay)
        elapsed += found["elapsed"]
        solved += found["solved"]
    if solved < len(TASKS) * len(seeds):
        raise PeerError(f"the script solved {solved} of {len(TASKS) * len(seeds)} episodes")
    return elapsed / (len(TASKS) * len(seeds))
