"""`selfsurf run`: one agent pursues one goal, and the episode is recorded on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from pydantic import Field

from selfsurf.agents.play import Environments, EpisodeRequest, Job, Result
from selfsurf.scripts.run_episode import RunEpisode
from selfsurf.scripts.terminal.agent_options import AgentArguments, checked_options, offered, read_options, refusals
from selfsurf.scripts.terminal.arguments import (
    Agent,
    Name,
    Out,
    answer_form,
    browser_starts,
    check_address,
    check_browser,
    chosen_task,
    episode_folder,
    refused_together,
    specified_task,
)
from selfsurf.scripts.terminal.attempt_log import LogArguments, attempt_log, check_logs
from selfsurf.scripts.terminal.caching import open_cache
from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.configuration import absolute
from selfsurf.scripts.terminal.console import console, show_error
from selfsurf.scripts.terminal.environment import EnvironmentArguments, asking, environment_options, tell_confirmation
from selfsurf.scripts.terminal.interrupts import Interrupts
from selfsurf.scripts.terminal.limits import LimitArguments
from selfsurf.scripts.terminal.live import State, view
from selfsurf.scripts.terminal.uploading import Upload
from selfsurf.scripts.training.after_run import check_trainable, learn_from, prompt_settings, said
from selfsurf.scripts.waiting.kept import WaitingRun
from selfsurf.scripts.waiting.person import Person

if TYPE_CHECKING:
    from selfsurf.browser_env import Task

OPEN_STEPS = 10
"""Step limit of a goal if neither its task nor the command sets one."""


class Redacted(StrEnum):
    """Extent of the redaction of a recorded episode."""

    SECRETS = "secrets"
    FULL = "full"


class Settings(AgentArguments, LimitArguments, LogArguments, EnvironmentArguments):
    """Options of `selfsurf run`: the goal, the agent, and the environment."""

    table: ClassVar[str] = "run"

    goal: str = ""
    """Goal in words. Not with --task."""
    url: str = ""
    """Address of the start page; a blank tab if not given, from which the agent navigates. Not with --task."""
    schema_: Annotated[str, typer.Option("--schema")] = ""
    """Form of the answer: FILE.json with a JSON schema, or a pydantic model as file.py:Model or module:Model. Not with
    --task."""
    task: str = ""
    """Task (an id, file.py:Class, suite.toml#ID) instead of a goal and a URL."""
    spec: Path | None = None
    """TOML file of a goal's specification, which judges the episode. --url replaces its start page, and --goal its
    goal, if the goal has a pattern."""
    agent: Agent = "transformers"
    seed: int = Field(default=0, ge=0)
    """Seed of the episode."""
    max_steps: int | None = Field(
        default=None, ge=1, description=f"Step limit; by default the task's own, or {OPEN_STEPS}."
    )
    headful: bool = False
    """Show the browser window."""
    wait: bool = False
    """Ask a person to confirm risky actions and to answer the agent's questions, and wait, for days if necessary: the
    run's browser outlives it, and `selfsurf answer` continues the run. --confirm and --user override whom to ask. Not
    with --task."""
    cache: Path | None = None
    """Folder of solved flows. A flow for this goal and page is replayed without a model as far as it certainly applies;
    then the agent takes over. A run judged solved is added. Not with --train."""
    train: bool = False
    """Train on the run once it has been judged: a short update into a new adapter, beside the episode."""
    upload: bool = False
    """Upload the finished episode to the training service at SELFSURF_SERVER_URL, with pages and screenshots; `selfsurf
    deploy` trains on it there."""
    redacted: Redacted = Redacted.SECRETS
    """Redaction of the episode: `secrets`, or `full` for all private data and every picture, which leaves nothing to
    train on."""
    out: Out = None
    """Folder of the episode; a new folder under runs/ if not given."""
    name: Name = ""


@command
def main(settings: Settings) -> int:
    """Run an agent for one goal.

    Exit code 0: the task was solved, or the agent claims to be done with a goal that no task judges; 1: a limit was
    reached, which ends the episode as `stopped`, or any other failure; 2: an option is invalid, and there is no
    episode; 130: Ctrl-C ended the episode as `stopped`; 143: a SIGTERM did the same, except that a run that waits for a
    person remains for `selfsurf answer`. An agent that raises has failed. An agent that can't be constructed leaves no
    episode, nor does a browser that doesn't start, unless it is that of a profile.
    """
    given = settings.spec or settings.goal
    if bool(settings.task) == bool(given) or (settings.task and (settings.goal or settings.url or settings.schema_)):
        raise typer.BadParameter(
            "Give --task, --goal or --spec. A goal starts at --url, by default on a blank tab. With --spec, --goal and "
            "--url override its goal and start page."
        )
    if settings.url:
        check_address(settings.url)
    if settings.cache is not None and settings.train:
        raise typer.BadParameter("Leave out --cache: --train learns from a model's own actions.")
    if (settings.train or settings.upload) and settings.redacted is Redacted.FULL:
        raise typer.BadParameter("--train and --upload need --redacted secrets: fully redacted episodes teach nothing.")
    if settings.wait and settings.redacted is Redacted.FULL:
        raise typer.BadParameter(
            "--wait needs --redacted secrets: a run continues from its episode, which must hold the whole goal."
        )
    if settings.wait and settings.task:
        raise typer.BadParameter(
            "--wait needs --goal or --spec: a task's state and the pages that it serves end with this process. Give "
            "the goal and --url of the task, or its success criteria as --spec."
        )
    return carry_out(asking(settings, wait=settings.wait))


def carry_out(settings: Settings, kept: WaitingRun | None = None, answer: str | None = None) -> int:
    """Run the command, or continue a run that was killed; return the exit code.

    Args:
        settings: Settings of the command.
        kept: The run to continue, locked by this process.
        answer: A person's answer to the run's open question, if there is one.

    Raises:
        typer.BadParameter: An option is invalid.
    """
    task, agent, headless, silent = settings.task, settings.agent, not settings.headful, settings.as_json
    from selfsurf.agents import PolicyError
    from selfsurf.agents.model_files import ModelError
    from selfsurf.browser_env.record.episode import EpisodeError, new_folder

    with Interrupts() as interrupts:
        attempt: RunEpisode | None = None
        try:
            around: dict[str, Any] = {}
            with refused_together() as checking:
                with checking():
                    if settings.spec is None:
                        name, wanted = chosen_task(task, settings.url, settings.goal)
                    else:
                        name, wanted = specified_task(settings.spec, settings.url, settings.goal)
                    wanted.answer_form = answer_form(settings.schema_)
                    if agent == "oracle" and not wanted.has_oracle:
                        raise typer.BadParameter(
                            "There is no oracle for this. Some of the tasks that `selfsurf envs` lists have one."
                        )
                with checking():
                    around = environment_options(settings.environment, later=True, wait=settings.wait)
                with checking():
                    options = read_options(settings.set_, settings.model, settings.adapter)
                    settings.limits.check(agent, options)
                    options = offered(agent, options, ["ask_user"] * (settings.user != "none"))
                    options = checked_options(agent, options, settings.seed, settings.set_)
                with checking():
                    folder = kept.folder if kept is not None else episode_folder(settings.out, settings.name)
                with checking():
                    cache = None if settings.cache is None else open_cache(settings.cache)
                with checking():
                    check_logs(settings.log_settings)
                with checking():
                    upload = Upload() if settings.upload else None
                with checking():
                    if settings.train:
                        check_trainable(agent, options, folder)
                with checking():
                    check_browser(headless=headless, around=around)
            if kept is None:
                tell_confirmation(settings)
            around["headless"] = headless
            if not browser_starts(around):
                return interrupts.exit_code or 1
            about = task or ("Browser-v0" if settings.spec is None else name)
            meta = {"env_id": about, "task": name, "seed": settings.seed, "goal": wanted.goal or "",
                    "url": None if task else wanted.start_url or None, "agent": agent,
                    "model": settings.model or None, "adapter": settings.adapter or None,
                    "environment": settings.environment.given(), "redacted": settings.redacted.value}  # fmt: skip
            interrupts.hold()  # the folder must not be left without a finished episode
            attempt = _begin(wanted, folder or new_folder("run"), meta, settings, around, kept)
            interrupts.release()
            with attempt.view:
                attempt.work(agent, options, interrupts, answer, cache)
            interrupts.hold()
        except KeyboardInterrupt:
            pass
        except EpisodeError as error:  # another process created it first
            raise typer.BadParameter(f"--out: {error}") from None
        except (Exception, SystemExit) as error:
            if attempt is not None:
                attempt.fail(error)
            elif not interrupts.seen:
                raise
        finally:
            interrupts.hold()
            if attempt is not None:
                attempt.finish(interrupted=interrupts.seen)
        if attempt is None:  # interrupted before the episode began
            return interrupts.exit_code
        if attempt.refusal is None:
            after = partial(_after, settings, attempt, options, interrupts, upload)
            return attempt.report(as_json=silent, interrupts=interrupts, after=after)
        if isinstance(attempt.refusal, (*refusals(), ModelError, PolicyError)):
            raise typer.BadParameter(attempt.result.detail)
        show_error(f"The agent can't be made: {attempt.result.detail}", attempt.result.traceback)
        return 1


def _after(
    settings: Settings, attempt: RunEpisode, options: dict[str, Any], interrupts: Interrupts, upload: Upload | None
) -> dict[str, Any]:
    """Train on a finished run and upload it; return the additions to its report."""
    learned = _learn(settings, attempt, options, interrupts) if settings.train else {}
    if upload is None or interrupts.seen:
        return learned
    return {**learned, "upload": upload.send(attempt.writer.folder, interrupts, silent=settings.as_json)}


def _learn(settings: Settings, attempt: RunEpisode, options: dict[str, Any], interrupts: Interrupts) -> dict[str, Any]:
    """Train on a finished run; return the addition to its report."""
    if interrupts.seen or attempt.agent is None:
        return {}
    prompt, attempt.agent, attempt.player = prompt_settings(attempt.agent.agent), None, None
    learned = learn_from(attempt.writer.folder, options, prompt, interrupts, silent=settings.as_json)
    if not settings.as_json:
        names = ("task", "goal", "url", "spec", "model")
        given = [(f"--{name}", str(getattr(settings, name) or "")) for name in names]
        print(said(learned, options, ["selfsurf", "run", *(part for one in given if one[1] for part in one)]))
    return {"training": asdict(learned)}


def _begin(
    task: Task, folder: Path, meta: dict[str, Any], settings: Settings, around: dict[str, Any], kept: WaitingRun | None
) -> RunEpisode:
    """Create the parts of a new episode, or with `kept` those of an episode to continue."""
    from selfsurf.agents.play.provenance import versions
    from selfsurf.browser_env import AsyncBrowserEnv
    from selfsurf.browser_env.record.episode import EpisodeWriter
    from selfsurf.browser_env.router.logged_env import LoggedEnv

    steps = settings.max_steps or task.max_steps or OPEN_STEPS
    state = State(meta["goal"], steps)
    ask = EpisodeRequest(0, Job(meta["env_id"], meta["seed"]))
    shown, goes_on = view(state, console, silent=settings.as_json), kept is not None
    if settings.wait:
        kept = kept or WaitingRun.begin(folder, json.dumps({**absolute(settings), "attempt_log": settings.log_root}))
        around["session"] = replace(around["session"], detached=kept.browser)
    journal = kept.journal() if kept is not None else None
    if journal is not None and goes_on:
        writer = EpisodeWriter.reopen(folder, journal)
    else:
        about = {"episode_id": folder.name, **meta, "versions": versions()}
        writer = EpisodeWriter(folder, about, journal=journal)
    log = attempt_log(settings.log_settings, writer.trace_id)
    make: Callable[..., AsyncBrowserEnv] = AsyncBrowserEnv
    if log is not None:
        writer.note(traceId=log.trace_id)
        make = partial(LoggedEnv, log=log, trace_id=log.trace_id)
    return RunEpisode(
        ask=ask,
        task=task,
        environments=Environments(lambda name: task, 1, make=make, screenshot=True, max_episode_steps=steps, **around),
        log=log,
        writer=writer,
        state=state,
        limits=settings.limits,
        view=shown,
        result=Result(ask.job, "running", trainable=False),
        kept=kept,
        person=Person(writer, shown, kept, None if settings.as_json else console),
        goes_on=goes_on,
    )
