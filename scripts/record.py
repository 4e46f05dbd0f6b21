"""`selfsurf record`: record a person's actions in a browser window as an episode, or `--replay` one."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import typer

from selfsurf.scripts.terminal.arguments import (
    Name,
    Out,
    check_address,
    check_window,
    chosen_task,
    episode_folder,
    import_trusted,
    refused_together,
)
from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.console import console
from selfsurf.scripts.terminal.environment import EnvironmentArguments, environment_options
from selfsurf.scripts.terminal.prompts import goal_reached

if TYPE_CHECKING:
    from selfsurf.browser_env import Task
    from selfsurf.browser_env.record.episode import Episode

PATIENCE = 600.0
"""Seconds that a dialog may stay open for the person to answer."""


class Settings(EnvironmentArguments):
    """Options of `selfsurf record`."""

    table: ClassVar[str] = "record"

    url: str = ""
    """Address of the start page; a blank tab if only --goal is given. Not with --task."""
    goal: str = ""
    """Goal of the recording, in words. Not with --task."""
    task: str = ""
    """Task (an id, file.py:Class, ...) instead of a goal and a URL."""
    seed: int = 0
    """Seed of the episode."""
    out: Out = None
    """Folder of the episode; a new folder under runs/ if not given."""
    name: Name = ""
    outcome: str = "ask"
    """Outcome to record at the end, unless a task judges: ask, solved, failed or stopped."""
    answer: str = ""
    """Answer to the goal, with the outcome solved."""
    replay: Path | None = None
    """Folder of an episode to replay."""
    trust: tuple[str, ...] = ()
    """Trusted file or module that a replayed episode's task may be imported from; importing it runs its code. By
    default nothing is imported for an episode. Repeatable."""
    files: Path | None = None
    """Folder of the files to upload, with --replay."""
    headful: bool = False
    """Show the browser window, with --replay."""


@command
def main(settings: Settings) -> int:
    """Record an episode by hand.

    The recording ends when the window is closed, when the task is done, or with Ctrl-C or SIGTERM. The exit code of a
    recording is 0 unless the browser was lost; that of a replay is 0 if every action was carried out and the outcome is
    the same.
    """
    from selfsurf.browser_env import EnvError
    from selfsurf.browser_env.record.episode import Episode, new_folder

    url, task, outcome = settings.url, settings.task, settings.outcome
    try:
        if settings.replay is not None:
            if settings.files is not None and not settings.files.is_dir():
                raise typer.BadParameter(f"--files: {settings.files} is not a folder.")
            return _replay(settings, Episode(settings.replay))
        if bool(task) == bool(url or settings.goal) and not (task and settings.goal):
            raise typer.BadParameter("Give --url, --goal or both; or give --task; or give --replay.")
        if task and settings.goal:
            raise typer.BadParameter("Leave out --goal: a task has its own goal.")
        if url:
            check_address(url)
        with refused_together() as checking:
            with checking():
                chosen = chosen_task(task, url, settings.goal)
            with checking():
                folder = episode_folder(settings.out, settings.name)
            with checking():
                if outcome not in ("ask", "solved", "failed", "stopped"):
                    raise typer.BadParameter(f"--outcome must be ask, solved, failed or stopped, not {outcome!r}.")
            with checking():
                options = environment_options(settings.environment)
            with checking():
                check_window()
        return _record(settings, chosen, options, folder or new_folder("record"))
    except EnvError as error:
        console.print(str(error), style="red", markup=False)
        return 1


def _record(settings: Settings, chosen: tuple[str | None, Task], options: dict[str, Any], folder: Path) -> int:
    from selfsurf.agents.play.provenance import versions
    from selfsurf.browser_env import AsyncBrowserEnv
    from selfsurf.browser_env.record.recorder import Recorder

    patience = {"step_timeout": PATIENCE, "hang_timeout": PATIENCE}  # a dialog stays open until the person answers
    options = {"dialogs": "leave", **options, **patience}
    name, task = chosen
    env = AsyncBrowserEnv(task=task, headless=False, **options)
    meta = {
        "env_id": settings.task or "Browser-v0", "task": name, "versions": versions(),
        "environment": settings.environment.given(),
    }  # fmt: skip
    recorder = Recorder(env, folder, meta=meta, shown=_shown)
    with console.status("Opening the window"):
        observation = recorder.start(settings.seed)
    console.print(f"Recording. Goal: {observation['goal'] or 'none'}", markup=False)
    console.print("Close the window, or press Ctrl-C here, to end.")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends the recording like Ctrl-C
    try:
        recorder.wait()
    except KeyboardInterrupt:
        console.print("Ending.")
    finally:
        signal.signal(signal.SIGTERM, before)
    said, answer = None, settings.answer
    if recorder.outcome == "running":
        said, answer = _asked(answer) if settings.outcome == "ask" else (settings.outcome, answer)
    summary = recorder.finish(said, answer)
    if settings.as_json:
        print(json.dumps(summary))
    else:
        print(f"{summary['outcome']}, {summary['steps']} steps\nEpisode: {folder}")
        if summary["outcome"] == "solved":
            _tell_choices(folder)
    return 1 if summary["outcome"] == "env_error" else 0


def _tell_choices(folder: Path) -> None:
    """Print the choices that an adapter couldn't learn from this recording alone."""
    from selfsurf.browser_env.record.episode import Episode
    from selfsurf.sdft.measure.following import untold
    from selfsurf.sdft.teacher.recording import recording_of

    for one in untold([recording_of(Episode(folder))]):
        console.print(f"One recording can't teach this choice. {one.text()}.", markup=False, highlight=False)


def _shown(step: dict[str, Any]) -> None:
    console.print(f"{step['step'] + 1:3d}  {step['action']}  {step['element']}", markup=False, highlight=False)


def _asked(answer: str) -> tuple[str, str]:
    """Ask whether the goal was reached; the outcome is `stopped` without a terminal or an answer."""
    if not sys.stdin.isatty():
        return "stopped", answer
    try:
        outcome = goal_reached() or "stopped"
        if outcome == "solved" and not answer:
            answer = typer.prompt("The answer, if the goal asked for one", default="", show_default=False, err=True)
    except (typer.Abort, KeyboardInterrupt):
        return "stopped", answer
    return outcome, answer


def _replay(settings: Settings, episode: Episode) -> int:
    from selfsurf.agents.play.replay import ReplayedStep, replay
    from selfsurf.browser_env import EnvError, Safety
    from selfsurf.browser_env.safety.network import PRIVATE, host_and_port
    from selfsurf.envs_registry.loading import is_open, recorded_name, unloaded

    meta, files = episode.meta, settings.files
    if episode.being_written:
        raise typer.BadParameter(f"--replay: {episode.folder} is still being recorded: end the recording first.")
    if (episode.folder / "manifest.json").exists() and (damages := episode.damage()):
        raise typer.BadParameter(
            f"The episode is damaged: {' '.join(damages)} Nothing was played. If you changed the episode yourself, "
            f"delete {episode.folder / 'manifest.json'}."
        )
    first = next(episode.steps(), None)
    url = first["observation"].get("url", "") if first else ""
    import_trusted(settings.trust)
    name = recorded_name(meta, url)
    if foreign := unloaded(name):
        raise typer.BadParameter(
            f"The episode names a task in {foreign}, which is not imported without your permission: if you trust this "
            f"file, add --trust {foreign}."
        )
    _, task = chosen_task(name, "", "")
    given = settings.environment
    if is_open(name):
        _check_secrets(given.secret)
    if files is not None:
        given = given.model_copy(update={"upload_from": (*given.upload_from, files)})
    size = {"viewport": tuple(meta["viewport"])} if meta["viewport"] and not given.device else {}
    options = {**size, **environment_options(given)}
    if is_open(name):  # the start address comes from the episode file, which is not trusted
        options["safety"] = dataclasses.replace(options.get("safety") or Safety(), trust_start=False)
    if settings.headful:
        check_window()

    def shown(step: ReplayedStep) -> None:
        said = f"{step.step + 1:3d}  {step.action}  {step.error or 'done'}"
        console.print(said, markup=False, highlight=False)

    try:
        result = replay(episode, task, files=files, shown=shown, headless=not settings.headful, **options)
    except EnvError as error:
        host = host_and_port(task.start_url or "")[0]
        if PRIVATE in str(error) and host:
            why = str(error).rstrip(".")
            raise EnvError(f"{why}. If you trust the episode and the site, add --allowed {host}.") from error
        raise
    done = sum(step.done for step in result.steps)
    if settings.as_json:
        print(json.dumps(result.to_dict()))
    else:
        print(f"{done} of {len(result.steps)} actions done. {result.difference or 'The outcome is as recorded.'}")
    return 0 if result.complete and result.same_outcome else 1


def _check_secrets(given: tuple[str, ...]) -> None:
    """Refuse secrets without hosts, because an untrusted episode could type them on any site."""
    for item in given:
        name, _, reference = item.partition("=")
        if "@" not in name:
            raise typer.BadParameter(
                f"--secret {name}: the episode decides where the secret is typed. Name the hosts that may receive it: "
                f"--secret {name}@HOST={reference}"
            )
