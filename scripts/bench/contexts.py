"""`selfsurf bench contexts`: how much more likely the right action becomes with each context of a teacher."""

from __future__ import annotations

from typing import Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import Model, check_learnable
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, print_table


class Settings(Arguments):
    """Options of `selfsurf bench contexts`."""

    model: Model = "smollm2"
    task: tuple[str, ...] = ()
    """Task with an oracle, such as click-link; repeatable."""
    seeds: int = Field(default=4, ge=1)
    """Episodes per task."""
    seed: int = 1_000_000
    """First seed of the episodes of each task."""
    lead: float = Field(default=0.0, ge=0, lt=1)
    """Probability that the oracle takes the first step, and each further step after one of its own."""
    wording: tuple[str, ...] = ()
    """Additional template for the hint about the oracle's action, containing {action}; repeatable."""


@command
def main(settings: Settings) -> int:
    """Measure how much more likely the right action becomes with each context of a teacher."""
    from selfsurf.agents.prompt.prompt import check_wording
    from selfsurf.scripts.learning.settings import env_id, short
    from selfsurf.scripts.terminal.console import quiet_libraries
    from selfsurf.scripts.training.contexts import TASKS, measure

    try:
        wordings = [check_wording(text) for text in settings.wording]
    except ValueError as error:
        raise typer.BadParameter(f"--wording {error}.") from None
    quiet_libraries()
    names = [short(one) for one in settings.task or TASKS]
    check_learnable([env_id(name) for name in names])
    figures = measure(settings.model, names, settings.seeds, settings.seed, lead=settings.lead, wordings=wordings)
    return finish(figures, show, as_json=settings.as_json)


def show(figures: dict[str, Any]) -> None:
    """Print the table."""
    print_table(
        (
            "context", "states with context", "named an action", "oracle's action", "right action", "likeliest",
            "student's wrong action",
        ),
        [
            [
                name, f"{row['told']} of {row['states']}", row["named"], row["agrees"],
                *(_change(row[what]) for what in ("right", "likeliest", "wrong")),
            ]
            for name, row in figures["contexts"].items()
        ],
        f"{figures['model']}: mean probability without and with each context",
    )  # fmt: skip


def _change(pair: dict[str, float | None]) -> str:
    without, told = pair["without"], pair["with"]
    return "-" if without is None or told is None else f"{without:.2f} -> {told:.2f} ({told - without:+.2f})"
