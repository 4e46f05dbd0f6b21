"""`selfsurf bench run`: an agent on every task of a suite, resumable, into one folder."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from selfsurf.scripts.suite.plan import Logs
from selfsurf.scripts.terminal.agent_options import AgentArguments, checked_options, read_options
from selfsurf.scripts.terminal.arguments import Agent, Out, Seeds, read_seeds
from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.console import console, progress

if TYPE_CHECKING:
    from selfsurf.envs_registry.suites import Suite


class Settings(AgentArguments):
    """What is run, and how."""

    suite: Annotated[str, typer.Argument()]
    """Name of a suite (see `selfsurf bench suites`), or a .toml or .py file."""
    agent: Agent = "oracle"
    seeds: Seeds = ""
    """How many (`5` is 0 to 4), or which: `0-4,7`. The suite's by default."""
    split: tuple[str, ...] = ()
    """Only this split; repeatable."""
    group: tuple[str, ...] = ()
    """Only this group; repeatable."""
    task: tuple[str, ...] = ()
    """Only this task; repeatable."""
    max_steps: int | None = Field(default=None, ge=1)
    """Step limit of every task instead of its own."""
    data_mode: str = ""
    """MiniWoB++: train or test data, where a task has both."""
    time_limit: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """MiniWoB++: ms that a page gives an episode; lifted by default."""
    workers: int = Field(default=4, ge=1)
    """Episodes at the same time, over all processes."""
    processes: int = Field(default=1, ge=1)
    """Worker processes, each with a browser and the agent."""
    ray: Annotated[bool, typer.Option("--ray")] = False
    """Workers as actors of a Ray cluster ($RAY_ADDRESS, or local)."""
    retries: int = Field(default=2, ge=0)
    """Further attempts at an episode that the infrastructure failed."""
    episode_timeout: float = Field(default=600.0, ge=1)
    """Seconds that an episode may take."""
    deadline: float | None = Field(default=None, ge=1)
    """Seconds for the whole run, which the same command resumes later."""
    logs: Logs = "all"
    """Whose steps are kept: all, unsolved or none."""
    screenshots: Annotated[bool, typer.Option("--screenshots")] = False
    """A screenshot of every step in the logs."""
    headful: Annotated[bool, typer.Option("--headful")] = False
    """Show the browser."""
    out: Out = None
    """Folder of the run; one that holds this run is resumed."""


@command
def main(settings: Settings) -> None:
    """Run an agent on a suite. Exit code 0: every episode asked for has a result; 1: some are missing; 130: Ctrl-C."""
    from selfsurf.agents.play.record import versions
    from selfsurf.browser_env.record.episode import new_folder
    from selfsurf.browser_env.session.browsers import require_window
    from selfsurf.scripts.report.report import headline, write_report
    from selfsurf.scripts.suite.agents import agent_about
    from selfsurf.scripts.suite.plan import Plan
    from selfsurf.scripts.suite.pool import LocalPool
    from selfsurf.scripts.suite.ray_pool import RayPool
    from selfsurf.scripts.suite.records import Records, RecordsError
    from selfsurf.scripts.suite.run import Run, RunError
    from selfsurf.scripts.terminal.interrupts import Interrupts

    chosen = _suite(settings)
    options = checked_options(settings.agent, read_options(settings.set_, settings.model, settings.adapter), 0)
    if settings.headful:
        require_window()
    seeds = read_seeds(settings.seeds) if settings.seeds else list(chosen.seeds)
    tasks, limit = chosen.about(), settings.max_steps or chosen.max_steps
    about = {
        "format": 1, "suite": chosen.name, "agent": agent_about(settings.agent, options), "tasks": tasks,
        "seeds": seeds, "max_steps": limit, "retries": settings.retries, "versions": versions(), "git": _git(),
        "command": sys.argv, "host": _host(), "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }  # fmt: skip
    folder = (settings.out or new_folder("bench")).resolve()
    same = settings.model_dump(include={"processes", "episode_timeout", "logs", "screenshots", "retries", "deadline"})
    plan = Plan(
        str(folder), tuple(tasks), settings.agent, tuple(seeds), options, limit, headless=not settings.headful,
        slots=-(-settings.workers // settings.processes), **same,
    )  # fmt: skip
    with Interrupts() as interrupts:
        try:
            records = Records(folder, about)
        except RecordsError as error:
            raise typer.BadParameter(str(error)) from None
        with records:
            total, before = len(tasks) * len(seeds), len(records.done)
            process = settings.model_dump(include={"workers", "processes", "ray"})
            records.begin({**process, "command": sys.argv, "host": _host()})
            try:
                with progress(f"{chosen.name}, {settings.agent}", total) as update:
                    pool = RayPool(plan) if settings.ray else LocalPool(plan)
                    outcomes = Counter(str(record["outcome"]) for record in records.done.values())

                    def told(record: dict[str, Any]) -> None:
                        outcomes[record["outcome"]] += 1
                        with contextlib.suppress(OSError):  # the terminal is gone
                            update(outcomes.total(), note=f"{outcomes['solved']} solved")

                    update(before)
                    Run(plan, records, pool, told).work()
            except RunError as error:
                console.print(str(error), style="red", markup=False)
            except KeyboardInterrupt:
                pass
            finally:
                records.note()
            missing = total - len(records.done)
            raised = sum(record["agent_raised"] for record in records.done.values())
        summary, written = write_report(folder)
    if raised:
        console.print(f"The agent's own code raised in {raised} episodes; they count as failed.", style="red")
    if before == total:
        console.print("Every episode has a result already; nothing was run.")
    print(json.dumps(summary.as_json(), indent=1) if settings.as_json else "\n".join(headline(summary)))
    typer.echo(f"Written: {folder}, {', '.join(path.name for path in written)}", err=True)
    raise typer.Exit(interrupts.exit_code or int(missing > 0))


def _suite(settings: Settings) -> Suite:
    """Load the suite and make each task once, so that a wrong one is refused before anything runs."""
    from selfsurf.envs_registry.suites import load_suite

    options = {name: value for name in ("data_mode", "time_limit") if (value := getattr(settings, name))}
    try:
        suite = load_suite(settings.suite).only(
            splits=settings.split, groups=settings.group, ids=settings.task, **options
        )
        lacking = [task.id for task in suite.tasks if not task.make().has_oracle]
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from None
    if settings.agent == "oracle" and lacking:
        console.print(f"No oracle, so infeasible: {', '.join(lacking)}", markup=False)
    return suite


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
