"""`selfsurf bench run`: run an agent on every task of a suite, resumable, into one folder."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from pydantic import Field

from selfsurf.scripts.suite.plan import KeptEpisodes
from selfsurf.scripts.terminal.agent_options import AgentArguments, checked_options, offered, read_options
from selfsurf.scripts.terminal.arguments import Agent, Out, Seeds, check_browser, read_seeds
from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.console import console, progress, show_error
from selfsurf.scripts.terminal.environment import EnvironmentArguments, environment_options, tell_confirmation
from selfsurf.scripts.terminal.limits import Limits

if TYPE_CHECKING:
    from selfsurf.envs_registry.suites import Suite


class Settings(AgentArguments, EnvironmentArguments):
    """Options of `selfsurf bench run`: the suite, the agent, and the limits."""

    table: ClassVar[str] = "bench"

    suite: Annotated[str, typer.Argument()]
    """Name of a suite (see `selfsurf bench suites`), or a .toml or .py file."""
    agent: Agent = "oracle"
    seeds: Seeds = ""
    """Seeds: a number (`5` is 0 to 4), or a list such as `0-4,7`; the suite's by default."""
    split: tuple[str, ...] = ()
    """Split to run; repeatable. All splits if not given."""
    group: tuple[str, ...] = ()
    """Group of tasks to run; repeatable. All groups if not given."""
    task: tuple[str, ...] = ()
    """Task to run; repeatable. All tasks if not given."""
    max_steps: int | None = Field(default=None, ge=1)
    """Step limit of every task, overriding the task's own."""
    data_mode: str = ""
    """Data of MiniWoB++ tasks that have both kinds: train or test."""
    time_limit: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Time limit of a MiniWoB++ episode in milliseconds of page time; none by default."""
    ends: str = ""
    """End of an episode in MiniWoB++ and scenarios: `finish` lets only the agent end it, by claiming to be done."""
    workers: int = Field(default=4, ge=1)
    """Concurrent episodes over all processes; each process plays at least one."""
    processes: int = Field(default=1, ge=1)
    """Worker processes, each with a browser and the agent."""
    ray: Annotated[bool, typer.Option("--ray")] = False
    """Run the workers as actors of a Ray cluster ($RAY_ADDRESS, or a local one)."""
    retries: int = Field(default=2, ge=0)
    """Further attempts at an episode after an infrastructure failure."""
    episode_timeout: float = Field(default=600.0, ge=1)
    """Seconds until an episode times out."""
    deadline: float | None = Field(default=None, ge=1)
    """Seconds for the whole run; the same command resumes it later."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens, prompt and completion, after which no new episode begins; the same command resumes."""
    max_cost: float | None = Field(default=None, gt=0)
    """US dollars after which no new episode begins; the same command resumes."""
    keep_episodes: KeptEpisodes = "all"
    """Episodes whose steps are kept: all, unsolved or none."""
    screenshots: Annotated[bool, typer.Option("--screenshots")] = False
    """Keep a screenshot of every step in the logs."""
    headful: Annotated[bool, typer.Option("--headful")] = False
    """Show the browser window."""
    report_to: tuple[str, ...] = ()
    """Tracker that also receives results and episodes: tensorboard, wandb or trackio; repeatable."""
    out: Out = None
    """Folder of the run; an existing run is resumed, or extended by more tasks or seeds."""


_PLANNED = {
    "processes", "episode_timeout", "keep_episodes", "screenshots", "retries", "deadline", "max_tokens", "max_cost",
}  # fmt: skip
"""Settings that are copied into the plan."""


@command
def main(settings: Settings) -> None:
    """Run an agent on a suite.

    Exit code 0: every requested episode has a verdict; 1: some have none; 2: an option is invalid; 130 after Ctrl-C and
    143 after a SIGTERM: the same command resumes.
    """
    from selfsurf.browser_env import shutdown
    from selfsurf.browser_env.disk import NoRoom
    from selfsurf.browser_env.record.episode import new_folder
    from selfsurf.scripts.report.report import headline, write_report
    from selfsurf.scripts.report.trackers import track
    from selfsurf.scripts.suite.evaluate import about_run, played
    from selfsurf.scripts.suite.plan import Plan
    from selfsurf.scripts.suite.pool import LocalPool
    from selfsurf.scripts.suite.ray_pool import RayPool
    from selfsurf.scripts.suite.reasons import reasons
    from selfsurf.scripts.suite.records import Records, RecordsError, unwritable
    from selfsurf.scripts.suite.run import RunError, asked
    from selfsurf.scripts.terminal.interrupts import Interrupts

    chosen = _suite(settings)
    options = read_options(settings.set_, settings.model, settings.adapter)
    options = offered(settings.agent, options, ["ask_user"] * (settings.user != "none"))
    _check_limits(settings, options)
    options = checked_options(settings.agent, options, 0, settings.set_)
    given = settings.environment
    around = environment_options(given, elsewhere=settings.ray)
    if not settings.ray:
        check_browser(headless=not settings.headful, around=around)
        shutdown()  # the workers start browsers of their own
    if settings.profile and (settings.processes > 1 or settings.ray):
        raise typer.BadParameter(
            "--profile serves one episode at a time: leave out --processes and --ray, or share the logins with "
            "--storage-state."
        )
    seeds = read_seeds(settings.seeds) if settings.seeds else list(chosen.seeds)
    tasks, limit = chosen.about(), settings.max_steps or chosen.max_steps
    about = {**about_run(chosen.name, tasks, seeds, settings.agent, options, settings.retries), "max_steps": limit}
    if given.given():
        about["environment"] = given.given()
    folder = (settings.out or new_folder("bench")).resolve()
    plan = Plan(
        str(folder), tuple(tasks), settings.agent, tuple(seeds), options, limit, headless=not settings.headful,
        slots=1 if settings.profile else settings.workers, environment=given.given(), env_options=around,
        **settings.model_dump(include=_PLANNED),
    )  # fmt: skip
    tell_confirmation(settings)
    stopped = ""
    with Interrupts() as interrupts:
        try:
            records = Records(folder, about)
        except RecordsError as error:
            raise typer.BadParameter(str(error)) from None
        with records:
            wanted = asked(plan)
            before = sum(map(records.played, wanted))
            try:
                with progress(f"{chosen.name}, {settings.agent}", len(wanted), still=bool(given.asks)) as update:
                    outcomes = Counter(str(records.done[key]["outcome"]) for key in filter(records.played, wanted))

                    def told(record: dict[str, Any]) -> None:
                        outcomes[record["outcome"]] += 1
                        with contextlib.suppress(OSError):  # the terminal is gone
                            update(outcomes.total(), note=f"{outcomes['solved']} solved")

                    update(before)
                    session = settings.model_dump(include={"workers", "processes", "ray"})
                    stopped = played(
                        plan, records, lambda: RayPool(plan) if settings.ray else LocalPool(plan), session, told, _say
                    )
            except RunError as error:
                stopped = str(error)
            except KeyboardInterrupt:
                pass
            there = [records.done[key] for key in wanted if key in records.done]
            lacking = sum(not records.played(key) or records.unjudged(key) for key in wanted)
            given_up = sum(not records.played(key) and not records.open(key) for key in wanted)
        if stopped:
            console.print(stopped, style="red", markup=False, highlight=False, soft_wrap=True)
        try:
            summary, written = write_report(folder)
        except NoRoom as error:
            why = unwritable(folder, error)
            show_error("No report was written." if why in stopped else f"{why} No report was written.")
            raise typer.Exit(interrupts.exit_code or 1) from None
        track(settings.report_to, summary)
    for text in reasons(there, given_up):
        _say(text)
    if before == len(wanted):
        _say(f"Nothing was run: every episode {'was played' if lacking else 'has a verdict'} already.")
    if interrupts.seen and lacking:
        where = "" if settings.out else f" with --out {folder}"
        _say(f"Interrupted. The same command{where} resumes and plays the episodes without a verdict.")
    print(
        json.dumps(summary.as_json(), indent=1) if settings.as_json else "\n".join(headline(summary, done=not lacking))
    )
    typer.echo(f"Written: {folder}, {', '.join(path.name for path in written)}", err=True)
    raise typer.Exit(interrupts.exit_code or int(lacking > 0))


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal is gone
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _check_limits(settings: Settings, options: dict[str, Any]) -> None:
    """Refuse limits that can't be enforced, and trackers that are not installed."""
    if settings.report_to:
        from selfsurf.sdft.run.reporters import check_reporters

        try:
            check_reporters(settings.report_to)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    Limits(settings.max_tokens, settings.max_cost).check(settings.agent, options)


def _suite(settings: Settings) -> Suite:
    """Load the suite and construct each task once, so that an invalid task is refused before the run."""
    from selfsurf.envs_registry.suites import load_suite

    options = {name: value for name in ("data_mode", "time_limit", "ends") if (value := getattr(settings, name))}
    try:
        suite = load_suite(settings.suite).only(
            splits=settings.split, groups=settings.group, ids=settings.task, **options
        )
        lacking = [task.id for task in suite.tasks if not task.make().has_oracle]
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from None
    if settings.agent == "oracle" and lacking:
        console.print(f"These tasks have no oracle, so they will end as infeasible: {', '.join(lacking)}", markup=False)
    return suite
