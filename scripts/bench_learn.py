"""`selfsurf bench learn`: ways to learn from the same episodes, compared by what is learned and what is forgotten."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from selfsurf.scripts.learning import arms as ways
from selfsurf.scripts.terminal.arguments import check_learnable, make_folder, more_settings, wrong_settings

if TYPE_CHECKING:
    from selfsurf.scripts.learning.run import Comparison
    from selfsurf.scripts.learning.settings import LearnSettings


def main(
    out: Annotated[Path, typer.Option(help="Folder of the comparison; an unfinished one is gone on with.")] = Path(
        "runs/learn"
    ),
    arms: Annotated[
        str, typer.Option(help=f"With commas between, of {', '.join(ways.KINDS)}; kind:label for an ablation.")
    ] = ",".join(ways.DEFAULT),
    seeds: Annotated[str, typer.Option(help="Training seeds, with commas between.")] = "0",
    tasks: Annotated[str | None, typer.Option(help="Trained tasks, with commas between, e.g. click-link.")] = None,
    unseen: Annotated[str | None, typer.Option(help="Unseen tasks, with commas between.")] = None,
    first: Annotated[str | None, typer.Option(help="Trained tasks that come first in a sequence.")] = None,
    model: Annotated[str | None, typer.Option(help="Short name, hub id or folder of the model.")] = None,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.", min=1)] = None,
    minutes: Annotated[float | None, typer.Option(help="Most minutes of one training.", min=0.01)] = None,
    episodes: Annotated[int | None, typer.Option(help="Evaluation seeds a task.", min=1)] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, name=JSON value; with labelled arms, a training setting of theirs."),
    ] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="Report what is there; run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Train in several ways on the same episodes and measure success, unseen tasks and retention.

    What is equal for all arms is fixed by the first call in a folder; later calls, also at the same time, add arms and
    training seeds. Exit code 0: all that was asked for is done; 1: an arm failed, the others and the report are done.
    """
    from pydantic import ValidationError

    from selfsurf.scripts.learning.report import write_report
    from selfsurf.scripts.learning.run import Comparison, check
    from selfsurf.scripts.learning.settings import LearnSettings, default_settings, prepare_folder, saved_settings
    from selfsurf.sdft.settings import TrainSettings

    out = out.resolve()
    changes = more_settings(set_ or [])
    if report_only and saved_settings(out) is None:
        raise typer.BadParameter(f"There is no comparison in {out}.")
    if not all(number.isdecimal() for number in seeds.split(",")):
        raise typer.BadParameter(f"--seeds are numbers from 0 on, with commas between, e.g. 0,1,2; not {seeds!r}.")
    numbers = [int(number) for number in seeds.split(",")]
    try:
        chosen = ways.read_arms(arms, changes)
        shared = {} if any(arm.label for arm in chosen) else changes
        given = {"model": model, "steps": steps, "minutes": minutes, "seeds": episodes, **shared}
        settings = _settings(
            saved_settings(out) or default_settings(), _names(tasks), _names(unseen), _names(first),
            {name: value for name, value in given.items() if value is not None},
        )  # fmt: skip
        check_learnable(settings.tasks)
        if not report_only:
            for arm in chosen:
                check(arm, settings, numbers)
            make_folder(out)
        prepare_folder(settings, out)
        if not report_only:
            for arm in chosen:
                ways.note(arm, out)
    except ValidationError as error:
        raise typer.BadParameter(
            wrong_settings(error, [*TrainSettings.model_fields, *LearnSettings.model_fields])
        ) from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        failed = [] if report_only else _run(Comparison(settings, out), chosen, numbers)
    except KeyboardInterrupt:
        typer.echo("Interrupted. The same command goes on where it was.", err=True)
        raise
    found = write_report(settings, out)
    print(json.dumps(found, indent=1)) if as_json else show(found)
    typer.echo(f"Report: {', '.join([str(out / 'report.md'), 'report.json', *found['curves']])}", err=True)
    if failed:
        typer.echo(f"Not done: {', '.join(failed)}. The same command goes on with it.", err=True)
        raise typer.Exit(1)


def _run(comparison: Comparison, chosen: list[ways.Arm], seeds: list[int]) -> list[str]:
    """Do the arms, going on with the others when one fails, and return which failed."""
    from selfsurf.scripts.terminal.console import console

    failed = []
    for seed in seeds:  # all arms of a training seed, then the next: a run that is cut short compares all arms
        for arm in chosen:
            if arm.kind in ways.UNTRAINED and seed != seeds[0]:
                continue
            try:
                comparison.run(arm, seed)
            except (ValueError, RuntimeError, OSError) as error:
                name = arm.name if arm.kind in ways.UNTRAINED else f"{arm.name}, training seed {seed}"
                console.print(f"{name} failed: {error}", style="red", markup=False, highlight=False)
                failed.append(name)
    return failed


def _settings(
    settings: LearnSettings,
    tasks: tuple[str, ...],
    unseen: tuple[str, ...],
    first: tuple[str, ...],
    given: dict[str, Any],
) -> LearnSettings:
    """The settings with what is said on the command line put in: the comparison's, and those of every training."""
    from selfsurf.scripts.learning.settings import LearnSettings

    data = settings.model_dump()
    for name, value in given.items():
        (data if name in LearnSettings.model_fields else data["training"])[name] = value
    if tasks:
        data["training"]["tasks"] = tasks
        data["first_group"] = first or tasks[: len(tasks) // 2]
        data["unseen_tasks"] = tuple(task for task in data["unseen_tasks"] if task not in tasks)
    data["unseen_tasks"] = unseen or data["unseen_tasks"]
    data["first_group"] = first or data["first_group"]
    return LearnSettings.model_validate(data)


def _names(text: str | None) -> tuple[str, ...]:
    from selfsurf.scripts.learning.settings import env_id

    return tuple(env_id(name) for name in (text or "").split(",") if name)


def show(found: dict[str, Any]) -> None:
    """Print the table of arms."""
    from rich.console import Console
    from rich.table import Table

    from selfsurf.scripts.learning.report import ARM_HEADS, arm_rows

    table = Table(title="What was learned and forgotten")
    for head in ARM_HEADS:
        table.add_column(head, justify="left" if head == "arm" else "right")
    for row in arm_rows(found):
        table.add_row(*row)
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 190).print(table)
