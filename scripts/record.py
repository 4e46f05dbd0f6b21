"""`selfsurf record`: what a person does in a browser's window becomes an episode; `--replay` plays one again."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from selfsurf.scripts.terminal.arguments import check_address, check_new_episode
from selfsurf.scripts.terminal.console import console

if TYPE_CHECKING:
    from selfsurf.agents.play.replay import Replay, ReplayAgent
    from selfsurf.browser_env import AsyncBrowserEnv


PATIENCE = 600.0
"""Seconds that a dialog may stay open, which the person has to answer."""


def main(
    url: Annotated[str, typer.Option(help="Where to start. Not with --task.")] = "",
    goal: Annotated[str, typer.Option(help="What is to be shown, in words. Not with --task.")] = "",
    task: Annotated[str, typer.Option(help="Gymnasium id of a task, instead of a goal and a URL.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the episode.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the episode; a new one under runs/ if not given.")] = None,
    profile: Annotated[Path | None, typer.Option(help="Folder of a browser profile, for logins that are kept.")] = None,
    outcome: Annotated[
        str, typer.Option(help="What to say of it at the end, unless a task judges: ask, solved, failed or stopped.")
    ] = "ask",
    answer: Annotated[str, typer.Option(help="With the outcome solved: the answer to the goal.")] = "",
    replay: Annotated[Path | None, typer.Option(help="Folder of an episode: play it again instead.")] = None,
    files: Annotated[Path | None, typer.Option(help="With --replay: folder of the files that are uploaded.")] = None,
    secret: Annotated[
        list[str] | None, typer.Option(help="NAME=VARIABLE: a secret, by the environment variable that holds it.")
    ] = None,
    headful: Annotated[bool, typer.Option(help="With --replay: show the browser's window.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Record an episode by hand.

    The recording ends when the window is closed, when the task is done, or with Ctrl-C or SIGTERM. The exit code of a
    recording is 0 unless the browser was lost; that of a replay is 0 if every action could be done and the end is the
    same.
    """
    from selfsurf.browser_env import EnvError

    try:
        if replay is not None:
            if files is not None and not files.is_dir():
                raise typer.BadParameter(f"--files: {files} is not a folder.")
            return _replay(replay, profile, files, _secrets(secret), headful, as_json)
        if bool(task) == bool(url):
            raise typer.BadParameter("Give either --url (and --goal), or --task, or --replay.")
        if task and goal:
            raise typer.BadParameter("A task has its own goal; leave --goal out.")
        if url:
            check_address(url)
        if out is not None:
            check_new_episode(out)
        if outcome not in ("ask", "solved", "failed", "stopped"):
            raise typer.BadParameter(f"--outcome is ask, solved, failed or stopped, not {outcome!r}.")
        from selfsurf.browser_env.record.episode import new_folder

        folder = out or new_folder("record")
        about = {"url": url, "goal": goal, "task": task, "profile": profile, "secrets": _secrets(secret)}
        return _record(about, seed, folder, outcome, answer, as_json)
    except EnvError as error:
        console.print(str(error), style="red", markup=False)
        return 1


def _secrets(given: list[str] | None) -> dict[str, Any]:
    from selfsurf.browser_env import Secret

    pairs = [each.partition("=") for each in given or []]
    if any(not name or not variable for name, _, variable in pairs):
        raise typer.BadParameter("--secret is NAME=VARIABLE, such as password=SHOP_PASSWORD.")
    return {name: Secret.from_env(variable) for name, _, variable in pairs}


def _environment(about: dict[str, Any], **options: Any) -> AsyncBrowserEnv:
    from selfsurf.browser_env import AsyncBrowserEnv, Safety, SessionOptions
    from selfsurf.envs_registry import task_of

    options["safety"] = Safety(secrets=about["secrets"], **options.pop("safety", {}))
    if about["profile"] is not None:
        options["session"] = SessionOptions(profile=about["profile"])
    if not about["task"]:
        return AsyncBrowserEnv(start_url=about["url"], goal=about["goal"], **options)
    try:
        return AsyncBrowserEnv(task=task_of(about["task"]), **options)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _record(about: dict[str, Any], seed: int, folder: Path, outcome: str, answer: str, as_json: bool) -> int:
    from selfsurf.agents.play.record import versions
    from selfsurf.browser_env.record.recorder import Recorder
    from selfsurf.browser_env.session.browsers import require_window

    require_window()
    patience = {"step_timeout": PATIENCE, "hang_timeout": PATIENCE}
    env = _environment(about, headless=False, dialogs="leave", **patience)
    meta = {"env_id": about["task"] or "Browser-v0", "versions": versions()}
    recorder = Recorder(env, folder, meta=meta, shown=_shown)
    with console.status("Opening the window"):
        observation = recorder.start(seed)
    console.print(f"Recording. Goal: {observation['goal'] or 'none'}", markup=False)
    console.print("Close the window, or press Ctrl-C here, to end.")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C
    try:
        recorder.wait()
    except KeyboardInterrupt:
        console.print("Ending.")
    finally:
        signal.signal(signal.SIGTERM, before)
    said: str | None = None
    if recorder.outcome == "running":
        said, answer = _asked(answer) if outcome == "ask" else (outcome, answer)
    summary = recorder.finish(said, answer)
    if as_json:
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


async def play_again(agent: ReplayAgent, env: AsyncBrowserEnv) -> Replay:
    """Play an episode again, in an environment of the same task or start page."""
    from selfsurf.agents.play.replay import RecordingEnded

    observation, info = await env.reset(seed=agent.episode.meta["seed"])
    agent.reset()
    total, ended = 0.0, False
    with contextlib.suppress(RecordingEnded):
        while not ended:
            observation, reward, terminated, truncated, info = await env.step(agent.act(observation))
            total, ended = total + reward, terminated or truncated
    return agent.result(observation, outcome=info["outcome"], reward=total)


def _replay(
    folder: Path, profile: Path | None, files: Path | None, secrets: dict[str, Any], headful: bool, as_json: bool
) -> int:
    from selfsurf.agents.play.replay import ReplayAgent, ReplayedStep, recorded_answers
    from selfsurf.browser_env.record.episode import Episode
    from selfsurf.browser_env.session.browsers import require_window
    from selfsurf.browser_env.session.runtime import runtime

    episode = Episode(folder)
    meta = episode.meta
    task = "" if meta["env_id"] == "Browser-v0" else meta["env_id"]
    first = next(episode.steps(), None)
    url = meta["url"] or (first["observation"]["url"] if first else "")
    if headful:
        require_window()
    about = {"url": url, "goal": meta["goal"], "task": task, "profile": profile, "secrets": secrets}
    options: dict[str, Any] = {"safety": {"upload_from": (files,)}} if files is not None else {}
    size = tuple(meta["viewport"]) if meta["viewport"] else None
    options["dialogs"] = recorded_answers(episode)
    env = _environment(about, headless=not headful, screenshot=False, viewport=size, **options)

    def shown(step: ReplayedStep) -> None:
        said = f"{step.step + 1:3d}  {step.action}  {step.error or 'done'}"
        console.print(said, markup=False, highlight=False)

    try:
        result = runtime().run(play_again(ReplayAgent(episode, files=files, shown=shown), env))
    finally:
        runtime().run(env.core.close())
    done = sum(step.done for step in result.steps)
    if as_json:
        print(json.dumps(result.to_dict()))
    else:
        print(f"{done} of {len(result.steps)} actions done. {result.difference or 'It ended as it did.'}")
    return 0 if result.complete and result.same_outcome else 1
