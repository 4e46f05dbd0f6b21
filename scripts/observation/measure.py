"""Measurement of the observation's fidelity, speed and size, page by page.

Every page is opened twice: once by default, for time and size (median of several observations with screenshot), and
once stamped and with unlimited reach beyond the viewport, for fidelity. The judge is Chromium's accessibility tree
(`scripts.observation.fidelity`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from selfsurf import browser_env  # noqa: F401  (registers Browser-v0)
from selfsurf.scripts.machine.install import Unavailable
from selfsurf.scripts.observation import fidelity
from selfsurf.scripts.observation.chromium_view import collect
from selfsurf.scripts.observation.fidelity import Disagreement, Region, Verdict
from selfsurf.scripts.observation.pages.serve import Pages
from selfsurf.scripts.observation.pages.table import Page
from selfsurf.scripts.peers.peer import open_peer
from selfsurf.scripts.terminal.console import console, progress

PEERS = ("browsergym", "browser-use")
VIEWPORT = (1280, 720)
REPEAT = 5
"""Number of timed observations."""

QUIET_MS, QUIET_TRIES = 300, 20
"""Milliseconds between two observations that must be equal before a page is measured, and the maximum number of tries.
"""

EXAMPLES = 3
"""Number of elements shown for each group of similar disagreements."""


@dataclass
class Row:
    """Results of one page."""

    page: Page
    url: str = ""
    verdict: Verdict = field(default_factory=Verdict)
    seconds: float = 0.0
    """Median seconds of an observation with screenshot."""
    characters: int = 0
    """Length of `dom`."""
    groups: list[list[Disagreement]] = field(default_factory=list)
    peers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Results of each peer for the same address: `seconds`, `characters`, and `missing`, the parts that the peer gave
    up on; or `error`."""
    problem: str = ""
    """Reason why the page could not be measured; empty if it was."""

    def figures(self) -> dict[str, Any]:
        """Return the results for JSON."""
        about = {"page": self.page.name, "kind": self.page.kind, "package": self.page.source.package}
        if self.problem:
            return {**about, "problem": self.problem}
        measured = {"seconds": round(self.seconds, 4), "characters": self.characters}
        return {**about, **self.verdict.figures(), **measured, "peers": self.peers}


def measure(pages: Sequence[Page], *, region: Region = "page", peers: Sequence[str] = ()) -> list[Row]:
    """Measure the observation on each page.

    Args:
        pages: Pages to measure.
        region: `page` to compare the whole page; `viewport` to compare its visible part, in a default observation.
        peers: Other environments, timed on the same addresses.

    Returns:
        A row for each page; its `problem` gives the reason if the page could not be measured.
    """
    rows = [Row(page) for page in pages]
    with Pages() as served, progress("Pages", len(pages)) as update:
        for number, row in enumerate(rows):
            try:
                row.url = served.base(row.page.source) + row.page.path
                _measure(row, region)
            except Unavailable as error:
                row.problem = f"skipped: {error}"
            except Exception as error:  # a failing page must not lose the results of the others
                message = str(error).strip() or "no message"
                row.problem = f"failed: {type(error).__name__}: {message.splitlines()[0][:200]}"
            if row.problem:
                console.print(f"{row.page.name}: {row.problem}", markup=False)
            update(number + 1, note=row.page.name)
        for name in peers:
            _measure_peer(name, [row for row in rows if not row.problem])
    return rows


def _measure(row: Row, region: Region) -> None:
    with closing(gymnasium.make("Browser-v0", start_url=row.url, viewport=VIEWPORT)) as env:
        quiet(env)
        looks = [_step(env, 0) for _ in range(REPEAT)]
        row.seconds = statistics.median(info["timing"]["observe"] / 1000 for _, info in looks)
        row.characters = len(looks[-1][0]["dom"])
    options: dict[str, Any] = {"stamp_ids": True, **({"reach": None} if region == "page" else {})}
    with closing(gymnasium.make("Browser-v0", start_url=row.url, viewport=VIEWPORT, **options)) as env:
        observation = quiet(env)
        core = env.unwrapped.core  # type: ignore[attr-defined]
        row.verdict = fidelity.judge(collect(core), observation["elements"], region, VIEWPORT)
        row.groups = fidelity.grouped(row.verdict.disagreements)


def quiet(env: gymnasium.Env[Any, Any]) -> Any:
    """Reset, wait until the page no longer changes, and return the observation."""
    observation, _ = env.reset(seed=0)
    for _ in range(QUIET_TRIES):
        before = observation["dom"]
        observation, _ = _step(env, QUIET_MS)
        if observation["dom"] == before:
            break
    return observation


def _step(env: gymnasium.Env[Any, Any], ms: int) -> tuple[Any, dict[str, Any]]:
    """Wait, and return observation and info."""
    observation, _, _, truncated, info = env.step({"action": "wait", "ms": ms})
    if truncated:
        raise RuntimeError(f"the environment failed: {info['outcome_detail']}")
    return observation, info


def _measure_peer(name: str, rows: Sequence[Row]) -> None:
    with open_peer(name) as peer, progress(name, len(rows)) as update:
        for number, row in enumerate(rows):
            start = time.monotonic()
            try:
                seen = peer.observe(row.url, 3)
                row.peers[name] = {**seen, "seconds": round(statistics.median(seen["seconds"]), 4)}
            except Exception as error:  # a peer's failure on a page is a result, too
                row.peers[name] = {"error": f"{type(error).__name__}: {str(error).strip()[:200]}"}
            update(number + 1, note=f"{row.page.name} {time.monotonic() - start:.0f} s")


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """Return averages over the measured pages for JSON: `micro` weights elements equally, `macro` pages."""
    verdicts = [row.verdict for row in rows if not row.problem]
    return {
        "pages": len(verdicts),
        "not_measured": [row.page.name for row in rows if row.problem],
        "micro": fidelity.total(verdicts).figures(),
        "macro": {name: round(value, 4) for name, value in fidelity.mean(verdicts).items()},
        "targets": fidelity.TARGETS,
        "met_on": sum(verdict.good for verdict in verdicts),
    }
