"""`selfsurf bench train`: time learning steps against TRL's stock `SDFTTrainer`, on rows of real episodes."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from selfsurf.scripts.terminal.arguments import Figures, Model
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, met, print_table


class Settings(Arguments):
    """Options of `selfsurf bench train`."""

    model: Model = "smollm2"
    rows: int = Field(default=10, ge=1)
    """Rows per batch."""
    rounds: int = Field(default=5, ge=1)
    """Rounds, in which both trainers take turns."""
    out: Figures = None
    """Folder for train.json; by default no file is written."""


@command
def main(settings: Settings) -> int:
    """Time learning steps against TRL's stock SDFTTrainer, on the same rows. Exit code 0: both were measured."""
    from selfsurf.scripts.terminal.console import quiet_libraries
    from selfsurf.scripts.training.speed import measure

    quiet_libraries()
    figures = measure(settings.model, rows=settings.rows, rounds=settings.rounds)
    return finish(figures, show, as_json=settings.as_json, out=settings.out, name="train")


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    from selfsurf.scripts.training.speed import TARGET, TRL

    phases = figures["phases"]
    rows = [["samples per second", *(f"{figures['samples_per_second'][name]:.2f}" for name in phases)]]
    rows += [
        [f"ms: {phase}", *(f"{each[phase]:.0f}" for each in phases.values())] for phase in next(iter(phases.values()))
    ]
    for key, words in (("loss", "first loss"), ("grad_norm", "first gradient norm")):
        rows.append([words, *(f"{figures['first_step'][name][key]:.4f}" for name in phases)])
    title = f"{figures['model']}, {figures['dtype']}, {figures['device']}, {figures['threads']} threads"
    print_table(("", *phases), rows, title)
    tokens = figures["tokens"]
    student, teacher = tokens["prompt"], tokens["teacher_prompt"]
    print(
        f"{figures['rows']} prompt rows of {student['mean']:.0f} tokens (teacher {teacher['mean']:.0f}) with "
        f"{tokens['completion']:.1f} sampled tokens; tokens read per row (student and teacher): padded "
        f"{student['padded']:.0f} and {teacher['padded']:.0f}, packed {student['packed']:.0f} and "
        f"{teacher['packed']:.0f}"
    )
    ratio = figures["step"]["ratios"][TRL]
    print(
        f"{ratio['ratio']:.2f} times the samples per second of TRL's trainer (rounds: {ratio['min']:.2f} to "
        f"{ratio['max']:.2f}; {met(ratio['ratio'], TARGET)})"
    )
