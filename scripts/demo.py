"""`selfsurf demo`: train a small model on its own episodes, and measure its success before and after."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import Field

from selfsurf.scripts.terminal.agent_options import check_model
from selfsurf.scripts.terminal.arguments import Model
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.console import console
from selfsurf.scripts.terminal.interrupts import Interrupts
from selfsurf.scripts.terminal.results import print_table


class Settings(Arguments):
    """Options of `selfsurf demo`."""

    out: Path = Path("runs/demo")
    """Folder of the run."""
    model: Model = "smollm2"
    seed: int = 0
    """Seed of the training run."""
    seeds: int = Field(default=40, ge=1)
    """Number of evaluation seeds per task."""
    steps: int | None = Field(default=None, ge=1)
    """Number of optimizer steps; the measured default if not given."""


@command
def main(settings: Settings) -> int:
    """Evaluate a small model, train it on its own episodes, evaluate it again.

    An interrupted run is resumed by the same command.
    """
    from selfsurf.scripts.learning.demonstration import default_settings, run

    check_model(settings.model)
    chosen = default_settings(settings.model, settings.seed, settings.seeds, settings.steps)
    with Interrupts() as interrupts:
        try:
            report = run(chosen, settings.out)
        except KeyboardInterrupt:
            console.print("Interrupted. The same command resumes from here.")
            return interrupts.exit_code or 130
    if settings.as_json:
        print(json.dumps(report, indent=1))
    else:
        show(report)
    return 0


def show(report: dict[str, Any]) -> None:
    """Print the results as a table, with the gain, the durations and the paths of the files."""
    from selfsurf.scripts.learning.settings import short

    arms = report["arms"]
    trained = report["settings"]["training"]["tasks"]
    names = {task: short(task) + ("" if task in trained else " (never trained)") for task in arms["trained"]["tasks"]}
    rows = [[name, *(_cell(arm["tasks"][task]) for arm in arms.values())] for task, name in names.items()]
    text, blanks = report["perplexity"], [""] * (len(arms) - 2)
    after = f"{text['after']:.2f} ({text['rise']:+.1%})"
    rows += [
        [],
        ["mean of trained tasks", *(_cell(arm["groups"]["trained"]) for arm in arms.values())],
        ["perplexity, general text", f"{text['before']:.2f}", *blanks, after],
    ]
    title = "Success (raw reward 1) on seeds that training did not use, with 95% intervals"
    print_table(("task", *arms), rows, title, width=150)
    seconds = report["seconds"]
    total = sum(value for name, value in seconds.items() if name != "this_start")
    folder = Path(report["curve"]).parent
    episode = f"{folder}/episodes/trained/{trained[0].replace('/', '_')}_{report['settings']['first_seed']}"
    print(f"Gain over the constrained base on the trained tasks: {report['gain']:+.2f}")
    print(f"Wall-clock: {total:.0f} s, of which training {seconds['training']:.0f} s")
    print(f"Curve: {report['curve']}\nReport: {folder / 'report.json'}\nAdapter: {report['training']['adapter']}")
    print(f"Replay one: {sys.argv[0]} view {episode}")


def _cell(rate: dict[str, Any]) -> str:
    return "no data" if rate["success"] is None else "{success:.2f} \\[{low:.2f}, {high:.2f}]".format(**rate)
