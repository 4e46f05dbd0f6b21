"""Scenarios carried out by the router's providers: a fixed script each, on a page that judges itself.

A script repeats the actions of the scenario's oracle. Elements are identified by role and name, so that every provider
can run the script, however it numbers elements. Each run is a request with a log of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from gymnasium.utils import seeding

from selfsurf.agents.play import Job, Result
from selfsurf.agents.scripted import OracleAgent
from selfsurf.browser_env.actions import BaseAction
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.attempts.settings import LogSettings
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.router.calls import ObserveResult
from selfsurf.browser_env.router.policy import Policy
from selfsurf.browser_env.router.provider import Provider
from selfsurf.browser_env.router.router import CallFailed, Router
from selfsurf.scripts.machine.loopback import QuietHandler
from selfsurf.sdft.measure.statistics import wilson_interval
from selfsurf.sdft.rollouts import Rollouts
from selfsurf.tasks.scenarios import Scenario, scenario
from selfsurf.tasks.scenarios.scenario import HTML

SCENARIOS = (
    "register", "move", "reserve", "reserve-format", "order", "phone", "pages", "cookies", "slow", "scroll",
    "delete", "told",
)  # fmt: skip
"""Scenarios in a single tab, without files, whose page itself receives the result."""

PATIENCE = 8.0
"""Seconds until a scripted element must appear, and until the page must have received the result."""

_LOOKS = 0.3
"""Seconds between two checks of a page."""

_LINE = re.compile(r"\[(\d+)\] (\w+)(?:: (.*))?")
"""Pattern of an element in the outline of a provider that doesn't list elements."""

_ROLES = {"select": "combobox"}
"""Standard role for each differing role name in the outline of a provider without an element list."""

_NO_ACT = ("finish", "infeasible", "wait")


class Move(NamedTuple):
    """An action of a script."""

    action: BaseAction
    role: str
    name: str
    place: int
    """Index among the elements of the same role and name."""


class Page(NamedTuple):
    """A scenario with one seed, and the result its page must receive."""

    name: str
    seed: int
    goal: str
    script: tuple[Move, ...]
    wanted: dict[str, Any]


def run(
    providers: Sequence[Provider],
    names: Sequence[str],
    seeds: Sequence[int],
    logs: Path,
    told: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run the scenarios with each provider on its own, without fallback.

    Args:
        providers: Providers, not yet started.
        names: Names from `SCENARIOS`.
        seeds: Seeds of each scenario.
        logs: Root of the attempt logs.
        told: Callback for a line about each run.

    Returns:
        `rows`: for each provider `provider`, `solved` of `runs`, `success` with its 95% interval `low`, `high`, and
        `failed`: scenario, seed, trace id and reason; `logs`.
    """
    with tempfile.TemporaryDirectory() as folder, _sites(Path(folder)) as (address, got):
        pages = _prepared(names, seeds, Path(folder))
        rows = asyncio.run(_all(providers, pages, address, got, logs, told))
    return {"rows": rows, "logs": str(logs)}


async def _all(
    providers: Sequence[Provider],
    pages: Sequence[Page],
    address: str,
    got: dict[str, Any],
    logs: Path,
    told: Callable[[str], None],
) -> list[dict[str, Any]]:
    rows = []
    for provider in providers:
        failed = []
        router = Router([provider], policy=Policy(retries=0))
        for page in pages:
            trace = f"{provider.name}-{page.name}-{page.seed}-{router.begin()}"
            log = FileLog(trace, LogSettings(root=logs))
            router.begin(log=log, trace_id=trace)
            why = await _carried_out(router, page, address, got)
            router.end(str(Outcome.FAILED if why else Outcome.SOLVED), why)
            log.flush()
            told(f"{provider.name}: {page.name}, seed {page.seed}: {why or 'solved'}")
            if why:
                failed.append({"scenario": page.name, "seed": page.seed, "traceId": trace, "why": why})
        await router.close()
        solved = len(pages) - len(failed)
        low, high = wilson_interval(solved / len(pages), len(pages)).ends
        rows.append(
            {"provider": provider.name, "runs": len(pages), "solved": solved, "success": solved / len(pages),
             "low": low, "high": high, "failed": failed}
        )  # fmt: skip
    return rows


async def _carried_out(router: Router, page: Page, address: str, got: dict[str, Any]) -> str:
    """Run a script; return why it failed, empty if the page received the expected result."""
    key = f"{page.name}-{page.seed}"
    got.pop(key, None)
    try:
        await router.navigate(f"{address}/{key}.html")
        for move in page.script:
            action = await _placed(router, move)
            if action is None:
                return f'there was no {move.role} "{move.name}"'
            await router.act(action)
        for _ in range(int(PATIENCE / _LOOKS)):
            if key in got:
                break
            await asyncio.sleep(_LOOKS)
    except CallFailed as error:
        return f"{error.failure.type}: {error.failure.message}"
    if key not in got:
        return "the page received nothing"
    return "" if got[key] == page.wanted else f"the page received {json.dumps(got[key])}"


async def _placed(router: Router, move: Move) -> BaseAction | None:
    """Return a script's action with the provider's id of its element; None if the element doesn't appear in time."""
    if not move.role:
        return move.action
    end = asyncio.get_running_loop().time() + PATIENCE
    while True:
        alike = [id for id, role, name in _elements(await router.observe()) if (role, name) == (move.role, move.name)]
        if len(alike) > move.place:
            return move.action.model_copy(update={"id": alike[move.place]})
        if asyncio.get_running_loop().time() > end:
            return None
        await asyncio.sleep(_LOOKS)


def _elements(seen: ObserveResult) -> list[tuple[int, str, str]]:
    if seen.elements:
        return [(one["id"], one["role"], one["name"]) for one in seen.elements]
    return [(int(id), _ROLES.get(role, role), name) for id, role, name in _LINE.findall(seen.outline)]


def _prepared(names: Sequence[str], seeds: Sequence[int], folder: Path) -> list[Page]:
    """Play the scenarios with their oracles, and write pages that start in the same state."""
    shutil.copytree(HTML, folder, dirs_exist_ok=True)
    jobs = [Job(f"Scenario/{name}-v0", seed) for name in names for seed in seeds]
    with Rollouts(4) as rollouts:
        results = rollouts.run(OracleAgent(), jobs)
    pages = []
    for (name, seed), result in zip([(name, seed) for name in names for seed in seeds], results, strict=True):
        if not result.solved:
            raise RuntimeError(f"The oracle of {name} did not solve seed {seed}: {result.outcome}, {result.detail}.")
        task, goal, drawn = _drawn(name, seed)
        script = f"<script>begin({json.dumps(f'{name}-{seed}')}, {json.dumps(drawn)})</script>"
        site = (HTML / f"{task.site}.html").read_text(encoding="utf8")
        (folder / f"{name}-{seed}.html").write_text(f"{site}\n<script>{_BEGIN}</script>{script}", encoding="utf8")
        pages.append(Page(name, seed, goal, _script(result), json.loads(json.dumps(task.wanted))))
    return pages


_BEGIN = """
function begin(name, drawn) {
  addEventListener('DOMContentLoaded', () => {
    start(drawn);
    const asking = setInterval(() => {
      if (!state.done) return;
      clearInterval(asking);
      fetch(`got/${name}`, {method: 'POST', body: JSON.stringify(state.done)});
    }, 50);
  });
}
"""
"""Script that starts a site as its task does, and posts the result that the page received."""


class _SetupPage:
    """A stand-in for the page in a task's setup, which keeps the data that the page is started with."""

    url = ""
    drawn: Any = None

    async def goto(self, *args: Any, **options: Any) -> None:
        """Ignore the navigation."""

    async def evaluate(self, script: str, drawn: Any = None) -> None:
        """Keep the random data drawn for the task."""
        self.drawn = drawn


def _drawn(name: str, seed: int) -> tuple[Scenario, str, Any]:
    task, page = scenario(name), _SetupPage()
    goal = asyncio.run(task.setup(page, seeding.np_random(seed)[0]))
    return task, goal, page.drawn


def _script(result: Result) -> tuple[Move, ...]:
    moves = []
    for step in result.steps:
        action, elements = step.decision.action, step.observation["elements"]
        if not isinstance(action, BaseAction) or action.name in _NO_ACT:
            continue
        one = next((one for one in elements if one["id"] == getattr(action, "id", None)), None)
        alike = [each["id"] for each in elements if one and (each["role"], each["name"]) == (one["role"], one["name"])]
        moves.append(Move(action, one["role"], one["name"], alike.index(one["id"])) if one else Move(action, "", "", 0))
    return tuple(moves)


class _Judge(QuietHandler):
    """Server of the sites, which records the results that their pages post."""

    def __init__(self, *args: Any, got: dict[str, Any], **options: Any) -> None:
        self._got = got
        super().__init__(*args, **options)

    def do_POST(self) -> None:  # noqa: N802  (as it is called)
        """Record the result that a page posts."""
        length = int(self.headers.get("content-length", 0))
        self._got[self.path.rpartition("/")[2]] = json.loads(self.rfile.read(length))
        self.send_response(204)
        self.end_headers()


@contextmanager
def _sites(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    got: dict[str, Any] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Judge, got=got, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", got
    finally:
        server.shutdown()
        server.server_close()
