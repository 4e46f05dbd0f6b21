"""`selfsurf bench gpu`: time learning steps of a large model against TRL's trainer, in bf16 and in four bits."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from selfsurf.scripts.terminal.arguments import Model, make_folder
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, print_table


class Precision(StrEnum):
    """Precision of the frozen weights."""

    BF16 = "bf16"
    NF4 = "nf4"


class Settings(Arguments):
    """Options of `selfsurf bench gpu`."""

    model: Model = ""
    """Text model; a model with random weights if not given."""
    size: Literal["1b", "8b", "tiny"] = "8b"
    """Size of the random model."""
    precision: tuple[Precision, ...] = (Precision.BF16, Precision.NF4)
    """Precision of the frozen weights. Repeatable."""
    rows: int = Field(default=10, ge=1)
    """Rows per batch."""
    rounds: int = Field(default=3, ge=1)
    """Rounds, in which both trainers take turns."""
    out: Path = Path("runs/gpu")
    """Folder for the random model and gpu.json."""


@command
def main(settings: Settings) -> int:
    """Time learning steps on the GPU against TRL's stock SDFTTrainer; the report names the GPU.

    Without a GPU, the CPU is measured and named in the report. Exit code 0: all were measured.
    """
    import torch

    from selfsurf.agents import model_files
    from selfsurf.scripts.terminal.console import quiet_libraries
    from selfsurf.scripts.training.random_models import random_model
    from selfsurf.scripts.training.speed import measure

    quiet_libraries()
    make_folder(settings.out)
    cuda = torch.cuda.is_available()
    card = torch.cuda.get_device_name() if cuda else "CPU (no GPU)"
    model = settings.model or str(
        random_model(settings.size, settings.out / settings.size, model_files.pull("smollm2"))
    )
    figures: dict[str, Any] = {"card": card, "torch": torch.__version__, "cuda": torch.version.cuda, "runs": {}}
    for precision in settings.precision:
        quantization: Any = None if precision is Precision.BF16 else str(precision)
        figures["runs"][str(precision)] = measure(
            model, rows=settings.rows, rounds=settings.rounds, quantization=quantization
        )
    return finish(figures, show, as_json=settings.as_json, out=settings.out, name="gpu")


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    from selfsurf.scripts.report.turns import OURS
    from selfsurf.scripts.training.speed import TRL

    rows = []
    for precision, run in figures["runs"].items():
        ratio = run["step"]["ratios"][TRL]
        for name in (OURS, TRL):
            peak = run["peak_gb"].get(name)
            speed, loss = run["samples_per_second"][name], run["first_step"][name]["loss"]
            again = f"{ratio['ratio']:.2f}" if name == OURS else ""
            rows.append([precision, name, f"{speed:.2f}", again, f"{loss:.4f}", "" if peak is None else f"{peak:.1f}"])
    heads = ("weights", "trainer", "samples/s", "ratio to TRL", "first loss", "peak GB without weights")
    model = next(iter(figures["runs"].values()))["model"]
    print_table(heads, rows, f"{figures['card']}: {model}", texts=("trainer",))
