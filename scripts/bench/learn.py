"""`selfsurf bench learn`: compare training methods on the same episodes, by learning and forgetting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from selfsurf.scripts.learning import arms as ways
from selfsurf.scripts.terminal import arguments
from selfsurf.scripts.terminal.arguments import Model, Seeds, Set
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.interrupts import Interrupts
from selfsurf.scripts.terminal.results import print_table

if TYPE_CHECKING:
    from selfsurf.scripts.learning.run import Comparison
    from selfsurf.scripts.learning.settings import LearnSettings


def _list_settings(wanted: bool) -> bool:
    """Print the settings with their defaults and descriptions, and exit."""
    if not wanted:
        return False
    from selfsurf.scripts.learning.settings import default_settings
    from selfsurf.sdft.settings import fields

    own, training = default_settings(), fields()
    values = {**own.training.model_dump(exclude={"rollouts"})}
    values |= {f"rollouts.{name}": value for name, value in own.training.rollouts.model_dump().items()}
    arguments.print_settings(
        [
            *((name, values[name], field.description or "") for name, field in training.items()),
            *((name, getattr(own, name), field.description or "") for name, field in type(own).model_fields.items()
              if name != "training"),
        ]
    )  # fmt: skip
    raise typer.Exit


class Settings(Arguments):
    """Options of `selfsurf bench learn`. Options not given keep the values of the folder's comparison."""

    out: Path = Path("runs/learn")
    """Folder of the comparison; an unfinished one is resumed."""
    arms: Annotated[
        str,
        typer.Option(
            help=f"Arms, separated by commas: {', '.join(ways.KINDS)}, or kind:label for an ablation. "
            "sdft-ungated needs a comparison with a gate, such as --set min_confidence=0.5."
        ),
    ] = ",".join(ways.DEFAULT)
    seeds: Seeds = "1"
    """Training seeds: a number (`3` is 0 to 2), or a list such as `0-2,7`."""
    tasks: str = ""
    """Trained tasks, separated by commas, such as click-link."""
    unseen: str = ""
    """Unseen tasks, separated by commas."""
    first: str = ""
    """Trained tasks that come first in a sequence, separated by commas."""
    model: Model = ""
    steps: int | None = Field(default=None, ge=1)
    """Number of optimizer steps."""
    minutes: float | None = Field(default=None, ge=0.01)
    """Maximum minutes of a training."""
    episodes: int | None = Field(default=None, ge=1)
    """Evaluation seeds per task."""
    set_: Set = Field(default_factory=list)
    """Setting, name=value; with labelled arms, a training setting of these arms. --settings lists the settings.
    Repeatable."""
    list_settings: Annotated[bool, typer.Option("--settings", is_eager=True, callback=_list_settings)] = False
    """List the settings that --set can change."""
    report_only: Annotated[bool, typer.Option("--report-only")] = False
    """Write the report on the finished measurements without running any."""


@command
def main(settings: Settings) -> int:
    """Train with several methods on the same episodes, and measure success, unseen tasks and retention.

    The first call in a folder fixes the settings that all arms share; later or concurrent calls add arms and training
    seeds. Exit code 0: all requested arms are done; 1: an arm failed, and the others and the report are done.
    """
    from selfsurf.scripts.learning.report import write_report
    from selfsurf.scripts.learning.run import Comparison

    out, seeds = settings.out.resolve(), arguments.read_seeds(settings.seeds)
    shared, arms = _prepared(settings, out, seeds)
    with Interrupts() as interrupts:
        try:
            failed = [] if settings.report_only else _run(Comparison(shared, out), arms, seeds)
        except KeyboardInterrupt:
            typer.echo("Interrupted. The same command resumes.", err=True)
            return interrupts.exit_code or 130
    found = write_report(shared, out)
    print(json.dumps(found, indent=1)) if settings.as_json else show(found)
    typer.echo(f"Report: {', '.join([str(out / 'report.md'), 'report.json', *found['curves']])}", err=True)
    if failed:
        typer.echo(f"Failed: {', '.join(failed)}. The same command tries again.", err=True)
    return int(bool(failed))


def _prepared(settings: Settings, out: Path, seeds: list[int]) -> tuple[LearnSettings, list[ways.Arm]]:
    """Validate the options and save the settings; return the shared settings and the arms."""
    from pydantic import ValidationError

    from selfsurf.scripts.learning.run import check
    from selfsurf.scripts.learning.settings import LearnSettings, default_settings, prepare_folder, saved_settings
    from selfsurf.sdft.settings import fields

    changes = arguments.read_set(settings.set_)
    if settings.report_only and saved_settings(out) is None:
        raise typer.BadParameter(f"There is no comparison in {out}.")
    try:
        arms = ways.read_arms(settings.arms, changes)
        shared = _shared(settings, saved_settings(out) or default_settings(), {} if arms[0].label else changes)
        arguments.check_learnable(shared.tasks)
        wanted = [] if settings.report_only else arms
        for arm in wanted:
            check(arm, shared, seeds)
        arguments.make_folder(out)
        prepare_folder(shared, out)
        for arm in wanted:
            ways.note(arm, out)
    except ValidationError as error:
        known = [*fields(), *(name for name in LearnSettings.model_fields if name != "training")]
        raise typer.BadParameter(arguments.wrong_settings(error, known)) from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return shared, arms


def _run(comparison: Comparison, chosen: list[ways.Arm], seeds: list[int]) -> list[str]:
    """Run the arms, continuing after failures; return the names of the failed arms."""
    from selfsurf.scripts.terminal.console import console

    failed = []
    for seed in seeds:  # seed by seed, so that an interrupted run still compares all arms
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


def _shared(settings: Settings, saved: LearnSettings, changes: dict[str, Any]) -> LearnSettings:
    """Return the settings shared by all arms, updated from the command line."""
    from selfsurf.scripts.learning.settings import LearnSettings, env_id

    data = saved.model_dump()
    training = data["training"]
    given = settings.model_dump(include={"steps", "minutes"}) | {"seeds": settings.episodes} | changes
    for name, value in {"model": settings.model or None, **given}.items():
        if value is not None:
            (data if name in data else training)[name] = value
    tasks, unseen, first = (
        tuple(env_id(name) for name in text.split(",") if name)
        for text in (settings.tasks, settings.unseen, settings.first)
    )
    if tasks:
        training["tasks"] = tasks
        data["first_group"] = tasks[: len(tasks) // 2]
        data["unseen_tasks"] = tuple(task for task in data["unseen_tasks"] if task not in tasks)
    data["unseen_tasks"] = unseen or data["unseen_tasks"]
    data["first_group"] = first or data["first_group"]
    return arguments.settings_of(LearnSettings, data)


def show(found: dict[str, Any]) -> None:
    """Print the table of arms."""
    from selfsurf.scripts.learning.report import ARM_HEADS, arm_rows

    rows = [[cell.replace("[", "\\[") for cell in row] for row in arm_rows(found)]
    print_table(ARM_HEADS, rows, "What was learned and forgotten", width=190)
