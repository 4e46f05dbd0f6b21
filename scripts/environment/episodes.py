"""Times whole episodes a minute, beside BrowserGym on the same tasks, in one run."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from selfsurf.envs_registry.suites import load_suite
from selfsurf.scripts.environment.contenders import Peers
from selfsurf.scripts.environment.loopback import serving
from selfsurf.scripts.peers import PeerError
from selfsurf.scripts.report.turns import OURS, Work
from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.suite.pool import LocalPool
from selfsurf.scripts.suite.records import Records
from selfsurf.scripts.suite.run import Run
from selfsurf.scripts.terminal.console import progress
from selfsurf.tasks.miniwob.task import html_root

TASKS = ("click-test", "click-button", "click-option", "enter-text", "login-user")
"""What the script of BrowserGym's side can solve (`scripts.peers.browsergym_side.SOLVED`)."""

TARGET = 20.0
"""How often our episodes shall fit into BrowserGym's time."""

PEER_SEEDS = 2
"""Episodes of each task that BrowserGym runs in a round."""


def measure(rounds: int, seeds: int, workers: int, *, peers: bool) -> dict[str, Any]:
    """Run the tasks by the oracle, with the suite's runner and, if wanted, in BrowserGym by the same actions.

    Ours is timed from when the worker is ready to its last record, with browser, contexts and logs; BrowserGym's from
    the making of each environment to its end. Python's own start counts on neither side.

    Args:
        rounds: how often they take turns.
        seeds: episodes of each task in a round of ours.
        workers: episodes at the same time; beside this, ours is timed with one, as BrowserGym's are.
        peers: BrowserGym, too; it is installed first if need be.

    Returns:
        `work`: seconds an episode and ratios (`Work.summary`); `per_minute`: episodes; `errors`.
    """
    ours, alone = f"{OURS}, {workers} at a time", OURS
    work = Work("episode", {"BrowserGym": TARGET})
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
    """Return the seconds an episode of ours takes."""
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
    """Return the seconds an episode of BrowserGym's takes."""
    elapsed, solved = 0.0, 0
    seeds = list(range(number * PEER_SEEDS, (number + 1) * PEER_SEEDS))
    for task in TASKS:
        found = opened.get("browsergym").solve(base_url, task, seeds, delay=delay)
        elapsed += found["elapsed"]
        solved += found["solved"]
    if solved < len(TASKS) * len(seeds):
        raise PeerError(f"the script solved {solved} of {len(TASKS) * len(seeds)} episodes")
    return elapsed / (len(TASKS) * len(seeds))
