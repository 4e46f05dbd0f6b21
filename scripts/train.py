"""`selfsurf train`: trains an adapter by SDFT on tasks, or on recorded episodes."""

from __future__ import annotations

import json
import textwrap
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import typer

from selfsurf.scripts.terminal.arguments import check_tasks, make_folder, read_set, wrong_settings
from selfsurf.scripts.terminal.console import console, progress, quiet_libraries, remarks

ELSEWHERE = {"tasks": "arguments", "model": "--model", "steps": "--steps", "seed": "--seed"}
"""Settings that `--set` does not change, and what does."""


def _list_settings(wanted: bool) -> None:
    """Print the settings with their defaults and what they mean, and end."""
    if not wanted:
        return
    from selfsurf.sdft.settings import fields

    for name, field in fields().items():
        if name not in ELSEWHERE:
            print(f"{name} = {json.dumps(field.default, default=dict)}")
            print(textwrap.indent(textwrap.fill(" ".join((field.description or "").split()), 110), "    "))
    raise typer.Exit


def main(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(help="Gymnasium ids, e.g. MiniWoB/click-link-v0; those of --demonstrations if not given."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for adapter, checkpoints and metrics.")] = Path("runs/train"),
    demonstrations: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of a recorded episode that reached its goal, or of many, to learn from."),
    ] = None,
    model: Annotated[str, typer.Option(help="Short name, hub id or folder of the model.")] = "smollm2",
    steps: Annotated[int, typer.Option(help="Optimizer steps.", min=1)] = 28,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Another setting, name=JSON value; --settings lists them.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Resume from the last checkpoint in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    list_settings: Annotated[
        bool, typer.Option("--settings", is_eager=True, callback=_list_settings, help="List what --set can change.")
    ] = False,
) -> int:
    """Train an adapter on the model's own episodes, taught by oracles, recorded episodes, or their outcomes."""
    quiet_libraries()
    check_tasks(tasks or [])
    from pydantic import ValidationError

    from selfsurf.sdft.settings import TrainSettings, fields

    more = read_set(set_ or [])
    for name, instead in ELSEWHERE.items():
        if name in more:
            raise typer.BadParameter(f"--set {name}: give {instead} instead.")
    try:
        chosen = {**_learned_from(demonstrations or []), **more}
        settings = TrainSettings(model=model, tasks=tuple(tasks or ()), steps=steps, seed=seed, **chosen)
    except ValidationError as error:
        raise typer.BadParameter(wrong_settings(error, fields())) from None
    for task in settings.evaluate_tasks:
        if task not in gymnasium.registry:
            raise typer.BadParameter(f"There is no environment {task!r} to evaluate; `selfsurf envs` lists them.")
    make_folder(out)
    from selfsurf.sdft import train
    from selfsurf.sdft.rollouts import RolloutError
    from selfsurf.sdft.run.checkpoint_files import last_step
    from selfsurf.sdft.run.processes import is_first

    try:
        spoken = remarks("selfsurf.sdft") if is_first() else nullcontext()  # one process speaks for all
        with spoken, progress("Training", steps) as update:
            summary = train(
                settings, out, resume=resume, progress=lambda step, logs: update(step, note=_note(logs)),
            )  # fmt: skip
    except (ValueError, RolloutError) as error:
        console.print(str(error), style="red")
        return 1
    except KeyboardInterrupt:
        last = last_step(out)
        console.print(
            "Interrupted before the first checkpoint: the same command begins again."
            if last is None
            else f"Interrupted. The same command with --resume goes on from step {last} of {steps}."
        )
        raise
    if not is_first():
        return 0
    del summary["model"]
    print(json.dumps(summary, indent=1) if as_json else _summary_text(summary))
    return 0


def _learned_from(demonstrations: list[Path]) -> dict[str, Any]:
    """The settings that follow from recorded episodes: their kinds of actions and their length are allowed."""
    if not demonstrations:
        return {}
    from selfsurf.agents.reply.kinds import KINDS
    from selfsurf.sdft.settings import TrainSettings
    from selfsurf.sdft.teacher.recording import load_recordings

    recordings = load_recordings(demonstrations)
    fields = TrainSettings.model_fields
    known = fields["actions"].default
    done = sorted({shown.action.name for recording in recordings for shown in recording.steps})
    longest = max(len(recording.steps) for recording in recordings)
    return {
        "contexts": ("demonstration",),
        "demonstrations": tuple(str(folder) for folder in demonstrations),
        "actions": (*known, *(name for name in done if name in KINDS and name not in known)),
        "max_episode_steps": max(fields["max_episode_steps"].default, longest),
    }


def _note(logs: dict[str, float]) -> str:
    """Say in a few words how a step went."""
    note = f"loss {logs['loss']:.3f}"
    return note + (f", held-out success {logs['evaluation/success']:.2f}" if "evaluation/success" in logs else "")


def _summary_text(summary: dict[str, Any]) -> str:
    """Say in a sentence what a run left."""
    text = f"Adapter: {summary['adapter']}"
    if "evaluation" not in summary:
        return text
    found = summary["evaluation"]
    (best, base), times = (found["best"], found["base"]), found["rollbacks"]
    rates = ["unknown" if one["success"] is None else f"{one['success']:.2f}" for one in (base, best)]
    return (
        f"{text}, the state after step {best['step']}: held-out success {rates[0]} before, {rates[1]} after; "
        f"perplexity {base['perplexity']:.2f} before, {best['perplexity']:.2f} after; "
        f"{times} return{'' if times == 1 else 's'} to the best state"
    )
