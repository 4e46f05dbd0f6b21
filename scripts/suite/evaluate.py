"""Evaluation of an agent on a suite from Python, `selfsurf.evaluate`; `selfsurf bench run` uses the same functions."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from selfsurf.agents.play.provenance import versions
from selfsurf.browser_env import Task
from selfsurf.browser_env.disk import NoRoom
from selfsurf.browser_env.record.episode import new_folder
from selfsurf.envs_registry.loading import arguments_of
from selfsurf.envs_registry.suites import Suite, SuiteTask, fingerprint_of, load_suite
from selfsurf.scripts.report.report import write_report
from selfsurf.scripts.report.summary import Summary
from selfsurf.scripts.report.trackers import track
from selfsurf.scripts.suite.agents import agent_about, at_once, maker_of, public_command
from selfsurf.scripts.suite.plan import KeptEpisodes, Plan
from selfsurf.scripts.suite.pool import InProcess, LocalPool
from selfsurf.scripts.suite.ray_pool import RayPool
from selfsurf.scripts.suite.records import Records
from selfsurf.scripts.suite.run import Pool, Run
from selfsurf.sdft.run.reporters import check_reporters

Tasks = str | Path | Suite | Task | type[Task] | Sequence[Task | type[Task]]


def evaluate(
    suite: Tasks,
    agent: Any = "oracle",
    *,
    agent_options: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    max_steps: int | None = None,
    workers: int = 4,
    processes: int = 0,
    ray: bool = False,
    retries: int = 2,
    episode_timeout: float = 600.0,
    deadline: float | None = None,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    keep_episodes: KeptEpisodes = "all",
    screenshots: bool = False,
    headless: bool = True,
    report_to: Sequence[str] = (),
) -> Summary:
    """Run an agent on every task of a suite, on every seed, and return the summary of its results folder.

        summary = selfsurf.evaluate("miniwob", "random", seeds=2)
        print(summary.overall.strict.mean, summary.complete)

    Episodes that already have a verdict in the folder are not run again, so the same call resumes a run, and a call
    with further tasks or seeds extends it.

    Args:
        suite: Name or file of a suite, a `Suite`, a task or its class, or several of these.
        agent: Name of an agent, as for `--agent`; or an object with `act(obs)`, `act_batch` or `decide`, or its class.
        agent_options: Options of a named agent, or of a class.
        seeds: Number of seeds from 0 on, or a list of seeds; the suite's by default.
        out: Folder of the run; a new one under `runs/` by default.
        max_steps: Step limit instead of each task's own.
        workers: Concurrent episodes over all processes. An object that has only `act` plays one at a time.
        processes: Worker processes; 0 to play in this process, where a hung agent can't be killed. Agents and tasks
            given
            as objects only play in this process. A script with worker processes needs `if __name__ == "__main__":`.
        ray: Whether the processes are actors of a Ray cluster.
        retries: Further attempts at an episode that ended as `env_error`.
        episode_timeout: Seconds until an episode times out.
        deadline: Seconds for the whole run; None for no limit.
        max_tokens: Tokens, prompt and completion, after which no new episode begins.
        max_cost: US dollars after which no new episode begins; the policy needs prices.
        keep_episodes: Episodes whose steps are kept: all, unsolved or none.
        screenshots: Whether the logs have a screenshot of every step.
        headless: Whether the browser has no window.
        report_to: Trackers besides the folder: tensorboard, wandb or trackio.

    Returns:
        The summary; `summary.complete` is False if a limit ended the run early.

    Raises:
        ValueError: An unknown suite, task, agent or tracker, or a combination that isn't supported.
        RecordsError: The folder can't be used for this run.
        RunError: The run can't continue: nothing works, or the agent can't be made or raises in every episode.
    """
    check_reporters(report_to)
    chosen, own = _chosen(suite, seeds)
    in_process = bool(own) or not isinstance(agent, str)
    if in_process and (processes or ray):
        raise ValueError(
            "Tasks and agents given as objects run in this process only: give their names to use other processes."
        )
    options = dict(agent_options or {})
    if options and not isinstance(agent, (str, type)):
        raise ValueError("agent_options can't be given with an agent object, which already has its options.")
    maker = None if isinstance(agent, str) else maker_of(agent, options)
    about = about_run(chosen.name, own_about(own) or chosen.about(), list(chosen.seeds), agent, options, retries)
    about["max_steps"] = max_steps or chosen.max_steps
    plan = Plan(
        str(Path(out or new_folder("bench")).resolve()), tuple(about["tasks"]), about["agent"]["name"], chosen.seeds,
        options, about["max_steps"], episode_timeout, keep_episodes, screenshots, headless, max(processes, 1),
        workers if at_once(agent) else 1, retries, deadline, max_tokens, max_cost,
    )  # fmt: skip

    def pool() -> Pool:
        return RayPool(plan) if ray else LocalPool(plan) if processes else InProcess(plan, maker, own)

    with Records(Path(plan.folder), about) as records:
        played(plan, records, pool, {"workers": workers, "processes": processes, "ray": ray})
    summary, _ = write_report(Path(plan.folder))
    track(report_to, summary)
    return summary


def played(
    plan: Plan,
    records: Records,
    pool: Callable[[], Pool],
    session: Mapping[str, Any],
    told: Callable[[dict[str, Any]], None] = lambda record: None,
    said: Callable[[str], None] = lambda text: None,
) -> str:
    """Run the episodes that have no verdict yet; return the limit that ended the run early, empty if none did.

    Args:
        plan: Plan of the run.
        records: Records of the run.
        pool: Returns the pool of workers.
        session: Description of this process for `run.json`.
        told: Callback for new records, as for `Run`.
        said: Callback for messages about workers, as for `Run`.

    Raises:
        RunError: The run can't continue.
    """
    records.begin({**session, "command": public_command(sys.argv), "host": host()})
    stopped = "The run was interrupted."
    try:
        stopped = Run(plan, records, pool(), told, said).work()
        return stopped
    except Exception as error:
        stopped = str(error)
        raise
    finally:
        with suppress(NoRoom):  # a full disk has ended the run
            records.note(stopped=stopped)


def about_run(
    suite: str, tasks: list[dict[str, Any]], seeds: list[int], agent: Any, options: dict[str, Any], retries: int
) -> dict[str, Any]:
    """Return the contents of `run.json`, except the step limit."""
    return {
        "format": 1, "suite": suite, "agent": agent_about(agent, options), "tasks": tasks, "seeds": seeds,
        "retries": retries, "versions": versions(), "git": _git(), "command": public_command(sys.argv), "host": host(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }  # fmt: skip


def host() -> dict[str, Any]:
    """Return a run's description of its machine."""
    return {"system": platform.platform(), "machine": platform.machine(), "cores": os.cpu_count()}


def own_about(tasks: Mapping[str, Task]) -> list[dict[str, Any]]:
    """Return the description of tasks given as objects, as `Suite.about` does, with their constructor arguments."""
    return [
        {
            "id": name, "split": "", "groups": [], "folder": "", "sha256": fingerprint_of(task),
            "options": {key: _plain(value) for key, value in arguments_of(task).items()},
        }
        for name, task in tasks.items()
    ]  # fmt: skip


def _plain(argument: Any) -> Any:
    """Return an argument as JSON data, or else as text that is the same in every process."""
    try:
        return json.loads(json.dumps(argument))
    except (TypeError, ValueError):
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(argument))


def _chosen(given: Tasks, seeds: int | Sequence[int] | None) -> tuple[Suite, dict[str, Task]]:
    """Return the suite with its seeds, and the tasks given as objects, by name."""
    own: dict[str, Task] = {}
    if isinstance(given, Suite):
        suite = given
    elif isinstance(given, (str, Path)):
        suite = load_suite(given)
    else:
        several = [given] if isinstance(given, (Task, type)) else list(given)
        tasks = [task() if isinstance(task, type) else task for task in several]
        wrong = [task for task in tasks if not isinstance(task, Task)]
        if wrong:
            raise ValueError(f"A suite must be a name, a file, a Suite, or tasks, not {wrong[0]!r}.")
        for task in tasks:
            name = type(task).__name__
            own[name if name not in own else f"{name}-{len(own)}"] = task
        suite = Suite("+".join(own), tuple(map(SuiteTask, own)))
    chosen = suite if seeds is None else Suite(suite.name, suite.tasks, seeds, suite.max_steps)  # type: ignore[arg-type]
    return chosen, own


def _git() -> dict[str, Any] | None:
    """Return the git revision of the running code; None outside a checkout."""

    def ask(*words: str) -> str:
        run = subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        )
        return run.stdout.strip()

    try:
        return {"revision": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None
