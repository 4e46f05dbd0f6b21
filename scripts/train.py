"""`selfsurf train`: trains an adapter by SDFT on tasks, or on recorded episodes."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import typer
from pydantic import Field, ValidationError

from selfsurf.scripts.terminal.arguments import Model, Set, check_tasks, make_folder, read_set, wrong_settings
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.console import console, quiet_libraries, remarks, training_progress

ELSEWHERE = {"tasks": "arguments", "model": "--model", "steps": "--steps", "seed": "--seed"}
"""Settings that `--set` does not change, and what does."""


def _list_settings(wanted: bool) -> bool:
    """Print the settings with their defaults and what they mean, and end."""
    if not wanted:
        return False
    from selfsurf.sdft.settings import fields

    for name, field in fields().items():
        if name not in ELSEWHERE:
            print(f"{name} = {json.dumps(field.default, default=dict)}")
            print(textwrap.indent(textwrap.fill(" ".join((field.description or "").split()), 110), "    "))
    raise typer.Exit


class Settings(Arguments):
    """What is trained, and on what."""

    tasks: Annotated[tuple[str, ...], typer.Argument()] = ()
    """Gymnasium ids, e.g. MiniWoB/click-link-v0; those of --demonstrations if not given."""
    out: Path = Path("runs/train")
    """Folder for adapter, checkpoints and metrics."""
    demonstrations: tuple[Path, ...] = ()
    """Folder of a recorded episode that reached its goal, or of many, to learn from."""
    model: Model = "smollm2"
    steps: int = Field(default=28, ge=1)
    """Optimizer steps."""
    seed: int = 0
    """Seed of everything random."""
    set_: Set = Field(default_factory=list)
    """Another setting, name=JSON value; --settings lists them."""
    resume: bool = False
    """Resume from the last checkpoint in --out."""
    list_settings: Annotated[bool, typer.Option("--settings", is_eager=True, callback=_list_settings)] = False
    """List what --set can change."""


@command
def main(settings: Settings) -> int:
    """Train an adapter on the model's own episodes, taught by oracles, recorded episodes, or their outcomes."""
    quiet_libraries()
    check_tasks(settings.tasks)
    from selfsurf.sdft.settings import TrainSettings, fields

    more = read_set(settings.set_)
    for name, instead in ELSEWHERE.items():
        if name in more:
            raise typer.BadParameter(f"--set {name}: give {instead} instead.")
    try:
        common = settings.model_dump(include={"model", "tasks", "steps", "seed"})
        training = TrainSettings(**common, **{**_learned_from(settings.demonstrations), **more})
    except ValidationError as error:
        raise typer.BadParameter(wrong_settings(error, fields())) from None
    for task in training.evaluate_tasks:
        if task not in gymnasium.registry:
            raise typer.BadParameter(f"There is no environment {task!r} to evaluate; `selfsurf envs` lists them.")
    out, steps = settings.out, settings.steps
    make_folder(out)
    from selfsurf.sdft import train
    from selfsurf.sdft.rollouts import RolloutError
    from selfsurf.sdft.run.checkpoint_files import last_step
    from selfsurf.sdft.run.processes import is_first

    try:
        spoken = remarks("selfsurf.sdft") if is_first() else nullcontext()  # one process speaks for all
        with spoken, training_progress("Training", steps) as update:
            summary = train(training, out, resume=settings.resume, progress=update)
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
    print(json.dumps(summary, indent=1) if settings.as_json else _summary_text(summary))
    return 0


def _learned_from(demonstrations: Sequence[Path]) -> dict[str, Any]:
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
