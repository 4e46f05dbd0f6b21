"""`selfsurf record`: what a person does in a browser's window becomes an episode; `--replay` plays one again."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from selfsurf.scripts.terminal.arguments import Out, check_address, check_new_episode, chosen_task
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.console import console

if TYPE_CHECKING:
    from selfsurf.browser_env.record.episode import Episode

PATIENCE = 600.0
"""Seconds that a dialog may stay open, which the person has to answer."""


class Settings(Arguments):
    """What is recorded, or replayed."""

    url: str = ""
    """Where to start. Not with --task."""
    goal: str = ""
    """What is to be shown, in words. Not with --task."""
    task: str = ""
    """Gymnasium id of a task, instead of a goal and a URL."""
    seed: int = 0
    """Seed of the episode."""
    out: Out = None
    """Folder of the episode; a new one under runs/ if not given."""
    profile: Path | None = None
    """Folder of a browser profile, for logins that are kept."""
    outcome: str = "ask"
    """What to say of it at the end, unless a task judges: ask, solved, failed or stopped."""
    answer: str = ""
    """With the outcome solved: the answer to the goal."""
    replay: Path | None = None
    """Folder of an episode: play it again instead."""
    files: Path | None = None
    """With --replay: folder of the files that are uploaded."""
    secret: tuple[str, ...] = ()
    """NAME=VARIABLE: a secret, by the environment variable that holds it."""
    headful: bool = False
    """With --replay: show the browser's window."""


@command
def main(settings: Settings) -> int:
    """Record an episode by hand.

    The recording ends when the window is closed, when the task is done, or with Ctrl-C or SIGTERM. The exit code of a
    recording is 0 unless the browser was lost; that of a replay is 0 if every action could be done and the end is the
    same.
    """
    from selfsurf.browser_env import EnvError
    from selfsurf.browser_env.record.episode import Episode, new_folder

    url, task, out, outcome = settings.url, settings.task, settings.out, settings.outcome
    try:
        if settings.replay is not None:
            if settings.files is not None and not settings.files.is_dir():
                raise typer.BadParameter(f"--files: {settings.files} is not a folder.")
            return _replay(settings, Episode(settings.replay))
        if bool(task) == bool(url):
            raise typer.BadParameter("Give either --url (and --goal), or --task, or --replay.")
        if task and settings.goal:
            raise typer.BadParameter("A task has its own goal; leave --goal out.")
        if url:
            check_address(url)
        if out is not None:
            check_new_episode(out)
        if outcome not in ("ask", "solved", "failed", "stopped"):
            raise typer.BadParameter(f"--outcome is ask, solved, failed or stopped, not {outcome!r}.")
        return _record(settings, out or new_folder("record"))
    except EnvError as error:
        console.print(str(error), style="red", markup=False)
        return 1


def _options(settings: Settings, **safety: Any) -> dict[str, Any]:
    """The environment's options: the secrets, and the profile if there is one."""
    from selfsurf.browser_env import Safety, Secret, SessionOptions

    pairs = [each.partition("=") for each in settings.secret]
    if any(not name or not variable for name, _, variable in pairs):
        raise typer.BadParameter("--secret is NAME=VARIABLE, such as password=SHOP_PASSWORD.")
    secrets = {name: Secret.from_env(variable) for name, _, variable in pairs}
    session = {"session": SessionOptions(profile=settings.profile)} if settings.profile else {}
    return {"safety": Safety(secrets=secrets, **safety), **session}


def _record(settings: Settings, folder: Path) -> int:
    from selfsurf.agents.play.record import versions
    from selfsurf.browser_env import AsyncBrowserEnv
    from selfsurf.browser_env.record.recorder import Recorder
    from selfsurf.browser_env.session.browsers import require_window

    options = _options(settings)
    require_window()
    options |= {"step_timeout": PATIENCE, "hang_timeout": PATIENCE}  # a dialog waits for the person
    task = chosen_task(settings.task, settings.url, settings.goal)
    env = AsyncBrowserEnv(task=task, headless=False, dialogs="leave", **options)
    meta = {"env_id": settings.task or "Browser-v0", "versions": versions()}
    recorder = Recorder(env, folder, meta=meta, shown=_shown)
    with console.status("Opening the window"):
        observation = recorder.start(settings.seed)
    console.print(f"Recording. Goal: {observation['goal'] or 'none'}", markup=False)
    console.print("Close the window, or press Ctrl-C here, to end.")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C
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
    return 1 if summary["outcome"] == "env_error" else 0


def _shown(step: dict[str, Any]) -> None:
    console.print(f"{step['step'] + 1:3d}  {step['action']}  {step['element']}", markup=False, highlight=False)


def _asked(answer: str) -> tuple[str, str]:
    """Ask whether the goal was reached; where nobody can be asked, the episode was stopped."""
    if not sys.stdin.isatty():
        return "stopped", answer
    said = typer.prompt("Was the goal reached? yes, no, or nothing to say", default="", show_default=False, err=True)
    outcome = {"y": "solved", "n": "failed"}.get(said.strip().lower()[:1], "stopped")
    if outcome == "solved" and not answer:
        answer = typer.prompt("The answer, if the goal asked for one", default="", show_default=False, err=True)
    return outcome, answer


def _replay(settings: Settings, episode: Episode) -> int:
    from selfsurf.agents.play.replay import ReplayedStep, replay
    from selfsurf.browser_env.session.browsers import require_window

    meta, files = episode.meta, settings.files
    if (episode.folder / "manifest.json").exists():
        for damage in episode.damage():
            console.print(f"The episode is damaged: {damage}", style="red", markup=False)
    first = next(episode.steps(), None)
    url = meta["url"] or (first["observation"].get("url", "") if first else "")
    task = chosen_task("" if meta["env_id"] == "Browser-v0" else meta["env_id"], url, meta["goal"])
    options = _options(settings, **({} if files is None else {"upload_from": (files,)}))
    if settings.headful:
        require_window()
    size = tuple(meta["viewport"]) if meta["viewport"] else None

    def shown(step: ReplayedStep) -> None:
        said = f"{step.step + 1:3d}  {step.action}  {step.error or 'done'}"
        console.print(said, markup=False, highlight=False)

    result = replay(episode, task, files=files, shown=shown, headless=not settings.headful, viewport=size, **options)
    done = sum(step.done for step in result.steps)
    if settings.as_json:
        print(json.dumps(result.to_dict()))
    else:
        print(f"{done} of {len(result.steps)} actions done. {result.difference or 'It ended as it did.'}")
    return 0 if result.complete and result.same_outcome else 1
