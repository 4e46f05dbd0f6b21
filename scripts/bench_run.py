"""`selfsurf bench run`: an agent on every task of a suite, resumable, into one folder."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from selfsurf.scripts.terminal.console import Update, console, progress

if TYPE_CHECKING:
    from selfsurf.envs_registry.suites import Suite


def main(
    suite: Annotated[
        str, typer.Argument(help="Name of a suite (see `selfsurf bench suites`), or a .toml or .py file.")
    ],
    agent: Annotated[
        str, typer.Option(help="A backend, random, oracle, or module:Class or file.py:Class of an agent or policy.")
    ] = "oracle",
    model: Annotated[str, typer.Option(help="Short name, folder or hub id of the model.")] = "",
    adapter: Annotated[str, typer.Option(help="Folder of a LoRA adapter.")] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the agent: name=value, the value as JSON.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="How many (`5` is 0 to 4), or which: `0-4,7`. The suite's by default.")
    ] = None,
    split: Annotated[list[str] | None, typer.Option(help="Only this split; may be repeated.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Only this group; may be repeated.")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only this task; may be repeated.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Step limit of every task instead of its own.", min=1)] = None,
    data_mode: Annotated[str, typer.Option(help="MiniWoB++: train or test data, where a task has both.")] = "",
    time_limit: Annotated[
        int | None,
        typer.Option(help="MiniWoB++: ms that a page gives an episode; lifted by default.", min=1, max=2**31 - 1),
    ] = None,
    workers: Annotated[int, typer.Option(help="Episodes at the same time, over all processes.", min=1)] = 4,
    processes: Annotated[int, typer.Option(help="Worker processes, each with a browser and the agent.", min=1)] = 1,
    ray: Annotated[
        bool, typer.Option("--ray", help="Workers as actors of a Ray cluster ($RAY_ADDRESS, or local).")
    ] = False,
    retries: Annotated[
        int, typer.Option(help="Further tries of an episode that the infrastructure failed.", min=0)
    ] = 2,
    episode_timeout: Annotated[float, typer.Option(help="Seconds that an episode may take.", min=1)] = 600.0,
    deadline: Annotated[float | None, typer.Option(help="Seconds for the whole run; go on later.", min=1)] = None,
    logs: Annotated[str, typer.Option(help="Whose steps are kept: all, unsolved or none.")] = "all",
    screenshots: Annotated[bool, typer.Option("--screenshots", help="A screenshot of every step in the logs.")] = False,
    headful: Annotated[bool, typer.Option("--headful", help="Show the browser.")] = False,
    out: Annotated[Path | None, typer.Option(help="The folder; one that holds this run is gone on with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run an agent on a suite. Exit code 0: every episode asked for has a result; 1: some are missing; 130: Ctrl-C."""
    from selfsurf.agents.play.record import versions
    from selfsurf.browser_env.record.episode import new_folder
    from selfsurf.browser_env.session.browsers import require_window
    from selfsurf.scripts.report.report import headline, write_report
    from selfsurf.scripts.suite.agents import agent_about, agent_options
    from selfsurf.scripts.suite.books import Books, BooksError
    from selfsurf.scripts.suite.plan import Logs, Plan
    from selfsurf.scripts.suite.pool import LocalPool, Pool
    from selfsurf.scripts.suite.ray_pool import RayPool
    from selfsurf.scripts.suite.run import Run, RunError
    from selfsurf.scripts.terminal.interrupts import Interrupts

    chosen = _suite(suite, agent, split or [], group or [], task or [], data_mode, time_limit)
    options = agent_options(agent, set_ or [], model, adapter)
    if logs not in get_args(Logs):
        raise typer.BadParameter(f"--logs is one of {', '.join(get_args(Logs))}, not {logs!r}.")
    if headful:
        require_window()
    slots = -(-workers // processes)
    tasks, limit = chosen.about(), max_steps or chosen.max_steps
    about = {
        "format": 1, "suite": chosen.name, "agent": agent_about(agent, options), "tasks": tasks,
        "seeds": list(chosen.seeds) if seeds is None else _seeds(seeds), "max_steps": limit,
        "retries": retries, "versions": versions(), "git": _git(), "command": sys.argv, "host": _host(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }  # fmt: skip
    folder = (out or new_folder("bench")).resolve()
    plan = Plan(
        str(folder), tuple(tasks), agent, options, limit, episode_timeout,
        cast("Logs", logs), screenshots, not headful,
    )  # fmt: skip
    with Interrupts() as interrupts:
        try:
            books = Books(folder, about)
        except BooksError as error:
            raise typer.BadParameter(str(error)) from None
        with books:
            seeds_of = tuple(books.about["seeds"])
            total, before = len(plan.tasks) * len(seeds_of), len(books.records)
            books.begin({"workers": workers, "processes": processes, "ray": ray, "command": sys.argv, "host": _host()})
            try:
                with progress(f"{chosen.name}, {agent}", total) as update:
                    pool: Pool = RayPool(plan, slots, processes) if ray else LocalPool(plan, slots)
                    solved = sum(record["outcome"] == "solved" for record in books.records.values())
                    tell = _Tell(update, before, solved)
                    update(before)
                    Run(
                        plan, seeds_of, books, pool, processes=processes, slots=slots, retries=retries,
                        deadline=deadline, told=tell,
                    ).work()  # fmt: skip
            except RunError as error:
                console.print(str(error), style="red", markup=False)
            except KeyboardInterrupt:
                pass
            finally:
                books.note()
            missing = total - len(books.records)
            raised = sum(record["agent_raised"] for record in books.records.values())
        summary, written = write_report(folder)
    if raised:
        console.print(f"The agent's own code raised in {raised} episodes; they count as failed.", style="red")
    if before == total:
        console.print("Everything was there already; nothing was run.")
    print(json.dumps(summary.as_json(), indent=1) if as_json else "\n".join(headline(summary)))
    typer.echo(f"Written: {folder}, {', '.join(path.name for path in written)}", err=True)
    raise typer.Exit(interrupts.exit_code or int(missing > 0))


class _Tell:
    """Moves the progress bar on."""

    def __init__(self, update: Update, done: int, solved: int) -> None:
        self._update, self._done, self._solved = update, done, solved

    def __call__(self, record: dict[str, Any]) -> None:
        self._done += 1
        self._solved += record["outcome"] == "solved"
        with contextlib.suppress(OSError):  # nobody looks any more
            self._update(self._done, note=f"{self._solved} solved")


def _suite(
    name: str, agent: str, splits: list[str], groups: list[str], ids: list[str], data_mode: str, time_limit: int | None
) -> Suite:
    """Load the suite and make each task once, so that a wrong one is said now."""
    from selfsurf.envs_registry.suites import load_suite

    options: dict[str, Any] = {"data_mode": data_mode} if data_mode else {}
    if time_limit is not None:
        options["time_limit"] = time_limit
    try:
        suite = load_suite(name).only(splits=splits, groups=groups, ids=ids, **options)
        lacking = [task.id for task in suite.tasks if not task.make().has_oracle]
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from None
    if agent == "oracle" and lacking:
        console.print(f"No oracle, so infeasible: {', '.join(lacking)}", markup=False)
    return suite


def _seeds(text: str) -> list[int]:
    """Return the seeds that `5` (0 to 4) or `0-4,7` means."""
    from selfsurf.envs_registry.suites import MOST_SEEDS

    found: list[int] = []
    with contextlib.suppress(ValueError):
        if text.strip().isdigit():
            found = list(range(min(int(text), MOST_SEEDS + 1)))
        else:
            for part in text.split(","):
                first, dash, last = part.partition("-")
                found += range(int(first), min(int(last if dash else first), int(first) + MOST_SEEDS) + 1)
    if not found or len(set(found)) < len(found) or len(found) > MOST_SEEDS:
        raise typer.BadParameter(f"--seeds {text}: give a number of seeds, or a list such as 0-4,7.")
    return found


def _git() -> dict[str, Any] | None:
    """Return the revision of the code that runs, if it is a checkout."""

    def ask(*words: str) -> str:
        run = subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        )
        return run.stdout.strip()

    try:
        return {"revision": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _host() -> dict[str, Any]:
    return {"system": platform.platform(), "machine": platform.machine(), "cores": os.cpu_count()}
