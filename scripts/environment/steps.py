"""Measurement of steps, resets and observations against their raw limit and, optionally, peers.

The contenders take turns, round by round, so that a busy machine slows down all of them. The ratios are compared.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from selfsurf.browser_env.errors import EnvError
from selfsurf.scripts.environment.contenders import (
    Contender,
    Kinds,
    OursOnTask,
    PageObservations,
    Peers,
    browsergym_on_task,
    raw_on_task,
)
from selfsurf.scripts.machine.loopback import serving
from selfsurf.scripts.peers import PeerError
from selfsurf.scripts.report.turns import LIMITS, OURS, RAW, RAW_HELD, Workload
from selfsurf.scripts.terminal.console import progress
from selfsurf.tasks.miniwob.task import html_root

REAL_CLOCK = "with the real clock"

LOOKED_AT = {"observation, functions": "library/functions.html", "observation, genindex": "genindex-all.html"}
"""Observed pages of the Python documentation, of 290 KB and 1.7 MB, by the name of the work."""

TARGETS: dict[str, dict[str, float]] = {
    "step": {RAW: 2, RAW_HELD: 1.5, "BrowserGym": 80, "BrowserGym, no delay": 30},
    "step, no screenshot": {RAW: 2, RAW_HELD: 1.5},
    "reset": {RAW: 3, RAW_HELD: 1.5, "BrowserGym": 80},
    "observation, functions": {RAW: 2, "BrowserGym": 40, "browser-use": 15},
    "observation, genindex": {RAW: 2, "BrowserGym": 200, "browser-use": 60},
}


def measure(task: str, rounds: int, *, peers: bool = False, docs: Path | None = None) -> dict[str, Any]:
    """Time steps and resets of a task, steps by kind of action, and observations of the Python documentation.

    Args:
        task: Name of a MiniWoB++ task whose first checkboxes can be clicked without ending the episode.
        rounds: Number of rounds, in which the contenders take turns.
        peers: Whether to measure BrowserGym and browser-use, too; they are installed if necessary.
        docs: Folder of the Python documentation; None to find or download it.

    Returns:
        `works`: medians in milliseconds and ratios of each (`Workload.summary`); `phases` of selfsurf's step in
        milliseconds;
        `characters` of the text that each contender gives its model, by work; `notes` on single figures; `errors`: the
        parts that could not be measured, with reasons.
    """
    works = {name: Workload(name, targets) for name, targets in TARGETS.items()}
    errors: dict[str, str] = {}
    with ExitStack() as stack:
        base_url = f"{stack.enter_context(serving(html_root()))}/miniwob/"
        opened = stack.enter_context(closing(Peers()))
        ours = OursOnTask(task, stack)
        contenders: list[tuple[str, Contender]] = [(OURS, ours)]
        contenders += [(name, raw_on_task(base_url, task, ours, stack, held=name == RAW_HELD)) for name in LIMITS]
        contenders += [(OURS, Kinds(stack)), (REAL_CLOCK, Kinds(stack, clock="real"))]
        if peers:
            for name, delay in (("BrowserGym", True), ("BrowserGym, no delay", False)):
                contenders.append((name, browsergym_on_task(base_url, task, opened, delay=delay)))
        looks = PageObservations({}, stack)
        try:
            origin = stack.enter_context(serving(python_docs(docs)))
        except EnvError as error:
            errors["observation"] = str(error)
        else:
            looks = PageObservations({work: f"{origin}/{page}" for work, page in LOOKED_AT.items()}, stack)
            contenders += [(OURS, looks.ours), (RAW, looks.raw)]
            for work in LOOKED_AT if peers else ():
                contenders += [(name, looks.of_peer(name, work, opened)) for name in ("BrowserGym", "browser-use")]
        with progress("Rounds", rounds) as update:
            for number in range(rounds):
                _round(number, contenders, works, errors)
                update(number + 1)
    notes = [
        f"{name}, {work}: stopped at its own time limits on the {' and the '.join(sorted(missing))}, so its time and "
        "the ratio are lower bounds."
        for (name, work), missing in looks.missing.items()
        if missing
    ]
    phases = {phase: round(statistics.median(values), 2) for phase, values in ours.phases.items()}
    summaries = {name: work.summary() for name, work in works.items() if work.times}
    return {
        "task": task, "rounds": rounds, "works": summaries, "phases": phases, "characters": looks.characters,
        "notes": notes, "errors": errors,
    }  # fmt: skip


def python_docs(folder: Path | None) -> Path:
    """Return the folder of the Python documentation, by default that of Debian's package in the cache.

    Raises:
        EnvError: The folder is not the documentation, or the package can't be downloaded.
    """
    from selfsurf.scripts.machine.install import Unavailable
    from selfsurf.scripts.observation.pages.table import SOURCES

    try:
        found = folder or SOURCES["python3-doc"].install()
    except Unavailable as error:
        raise EnvError(
            f"The Python documentation could not be fetched: {error}. Give its folder with --docs."
        ) from None
    if not all((found / page).is_file() for page in LOOKED_AT.values()):
        raise EnvError(f"{found} is not the Python documentation: it needs the pages {', '.join(LOOKED_AT.values())}.")
    return found


def _round(
    number: int, contenders: list[tuple[str, Contender]], works: dict[str, Workload], errors: dict[str, str]
) -> None:
    """Let every contender work for a round; a peer that fails is excluded from later rounds."""
    for name, contender in list(contenders):
        try:
            times = contender(number)
        except PeerError as error:
            contenders.remove((name, contender))
            errors[name] = str(error)
            continue
        for work, seconds in times.items():
            works.setdefault(work, Workload(work, {REAL_CLOCK: 1})).add(name, seconds)
