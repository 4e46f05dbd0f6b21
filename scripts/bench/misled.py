"""`selfsurf bench misled`: tabulate how often deceptions misled agents on the suite `misled`, and what they solved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from selfsurf.scripts.report.reading import ResultsError, read
from selfsurf.scripts.terminal.arguments import Json

REASON = "misled: "
"""Prefix of the verdict on a misled episode (`tasks.misled`)."""

ALL = "all that lie"
"""Name of the group of all tasks outside `plain`."""


def main(
    folders: Annotated[list[Path], typer.Argument(help="Folders of `bench run misled`.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Tabulate the shares of misled and of solved episodes, by the kind of deception."""
    runs = [_run(folder) for folder in folders]
    if as_json:
        print(json.dumps(runs, indent=1))
        return
    groups = list(dict.fromkeys(group for run in runs for group in run["groups"]))
    print("| deception | " + " | ".join(f"{run['agent']}: misled / solved" for run in runs) + " |")
    print("| --- |" + " ---: |" * len(runs))
    for group in groups:
        cells = (run["groups"].get(group, {"episodes": 0, "misled": 0, "solved": 0}) for run in runs)
        print(f"| {group} | " + " | ".join(f"{c['misled']} / {c['solved']} of {c['episodes']}" for c in cells) + " |")


def _run(folder: Path) -> dict[str, Any]:
    """Return the counts of a run's episodes with a verdict, by the groups of their tasks."""
    try:
        results = read(folder)
    except ResultsError as error:
        raise typer.BadParameter(f"{error} Give a folder that `selfsurf bench run misled` wrote.") from None
    groups_of = {task.id: task.groups for task in results.run.tasks}
    names = [*dict.fromkeys(group for groups in groups_of.values() for group in groups), ALL]
    counts = {name: {"episodes": 0, "misled": 0, "solved": 0} for name in names}
    for line in results.counted:
        groups = groups_of[line.task]
        for group in groups if "plain" in groups else [*groups, ALL]:
            counts[group]["episodes"] += 1
            counts[group]["misled"] += line.reason.startswith(REASON)
            counts[group]["solved"] += line.outcome == "solved"
    return {"folder": str(folder), "agent": results.run.agent.name, "groups": counts}
