"""`selfsurf train`: trains an adapter by SDFT on tasks with an oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from scripts.arguments import check_learnable, more_settings
from scripts.console import console, progress, quiet_libraries


def main(
    tasks: Annotated[list[str], typer.Argument(help="Gymnasium ids, e.g. MiniWoB/click-link-v0.")],
    out: Annotated[Path, typer.Option(help="Folder for adapter, checkpoints and metrics.")] = Path("runs/train"),
    model: Annotated[str, typer.Option(help="Short name, hub id or folder of the model.")] = "smollm2",
    steps: Annotated[int, typer.Option(help="Optimizer steps.", min=1)] = 25,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Another setting, name=JSON value.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on from the last checkpoint in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> int:
    """Train an adapter on the tasks' own episodes, taught by their oracles."""
    quiet_libraries()
    check_learnable(tasks)
    from pydantic import ValidationError

    from sdft.settings import TrainSettings

    try:
        settings = TrainSettings(model=model, tasks=tuple(tasks), steps=steps, seed=seed, **more_settings(set_ or []))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        known = ", ".join(TrainSettings.model_fields)
        raise typer.BadParameter(f"{wrong}. The settings are {known}.") from None

    from sdft.processes import is_first
    from sdft.train import train

    try:
        with progress("Training", steps) as update:
            summary = train(
                settings, out, resume=resume,
                progress=lambda step, logs: update(step, note=f"divergence {logs['loss']:.3f}"),
            )  # fmt: skip
    except ValueError as error:
        console.print(str(error), style="red")
        return 1
    if not is_first():
        return 0
    del summary["model"]
    print(json.dumps(summary, indent=1) if as_json else f"Adapter: {summary['adapter']}")
    return 0
