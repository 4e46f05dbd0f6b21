"""`selfsurf bench judge`: agreement of judges with the tasks' own scores, which the judges don't see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from selfsurf.scripts.judge import checker_of, episodes_in, make_judge
from selfsurf.scripts.report.markdown import table
from selfsurf.scripts.terminal.agent_options import read_options
from selfsurf.scripts.terminal.arguments import Model, Set
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.console import progress

if TYPE_CHECKING:
    from selfsurf.browser_env.record.episode import Episode
    from selfsurf.sdft.measure.statistics import Confusion

ENDED = ("solved", "failed")
"""Outcomes of episodes that the page ended, which counts as the agent's claim to be done."""


class Settings(Arguments):
    """Options of `selfsurf bench judge`: the episodes, and the judge model."""

    folders: Annotated[list[Path], typer.Argument()]
    """Runs of `selfsurf bench run` on MiniWoB++, or single episodes. Tasks without a specification are left out."""
    judge: str = ""
    """Judge model to compare as well: a backend (transformers, openai, ...) or module:Class."""
    model: Model = ""
    set_: Set = Field(default_factory=list)
    """Further option of the judge model, name=value. Repeatable."""


@command
def main(settings: Settings) -> int:
    """Compare judges with the tasks' scores: confusion, base rate, precision, recall, kappa. No episode is marked."""
    from selfsurf.agents import PolicyError
    from selfsurf.browser_env.goal.check import SuccessChecker
    from selfsurf.browser_env.goal.evidence import evidence_of
    from selfsurf.browser_env.goal.spec import Criterion, GoalSpec
    from selfsurf.browser_env.record.episode import Episode, EpisodeError
    from selfsurf.sdft.measure.statistics import Confusion

    ask = make_judge(settings.judge, read_options(settings.set_, settings.model, "")) if settings.judge else None
    question = GoalSpec(goal="?", criteria=(Criterion(question="Was the goal reached?"),))
    pairs: dict[str, list[tuple[bool, bool | None]]] = {"specification": []}
    asked: list[tuple[bool, bool | None]] = []
    tasks, left_out = set(), []
    folders = episodes_in(settings.folders)
    with progress("Judging", len(folders)) as update:
        for number, folder in enumerate(folders, 1):
            try:
                episode = Episode(folder)
                evidence = evidence_of(episode)
            except EpisodeError as error:
                left_out.append(str(error))
                continue
            if not _scored(episode):
                continue
            tasks.add(episode.meta["env_id"])
            truth = episode.meta["outcome"] == "solved"
            says = checker_of(None, episode.meta, None).judge(evidence).says
            pairs["specification"].append((truth, _said(says)))
            if ask is not None and episode.meta["outcome"] in ENDED:
                evidence.ended = True
                try:
                    said = _said(SuccessChecker(question, ask).judge(evidence).says)
                except PolicyError as error:
                    left_out.append(f"{folder}: the model could not answer: {error}")
                    continue
                asked.append((truth, said))
                pairs[f"{ask.name}, where the agent claims success"] = asked
            update(number)
    if not pairs["specification"]:
        raise typer.BadParameter(
            "None of the episodes is of a MiniWoB++ task that has both a specification and a score."
        )
    found = {name: Confusion.of(some) for name, some in pairs.items()}
    if settings.as_json:
        figures = {name: confusion_figures(one) for name, one in found.items()}
        print(json.dumps({"tasks": len(tasks), "judges": figures, "left_out": left_out}, indent=1))
    else:
        for text in left_out:
            typer.echo(f"Left out: {text}", err=True)
        print(f"{len(pairs['specification'])} episodes of {len(tasks)} tasks")
        print("\n".join(confusion_table(found)))
    return int(bool(left_out))


def _scored(episode: Episode) -> bool:
    """Whether a MiniWoB++ task that has a specification scored the episode."""
    from selfsurf.tasks.miniwob.goals import goal_specs

    meta = episode.meta
    name = str(meta["env_id"]).removeprefix("MiniWoB/").removesuffix("-v0")
    return name in goal_specs() and meta["outcome"] in ("solved", "failed", "infeasible", "timeout")


def _said(says: str) -> bool | None:
    return None if says == "unknown" else says == "solved"


def confusion_figures(one: Confusion) -> dict[str, Any]:
    """Return the counts and rates of a judge for JSON."""
    return {**asdict(one), **{name: getattr(one, name) for name in ("base_rate", "precision", "recall", "kappa")}}


def confusion_table(found: Mapping[str, Confusion]) -> list[str]:
    """Return a Markdown table with a row per judge."""
    heads = ["judge", "judged", "unknown", "base rate", "hits", "false alarms", "misses", "rejections", "precision",
             "recall", "kappa"]  # fmt: skip
    rows = []
    for name, one in found.items():
        counts = [one.hits, one.false_alarms, one.misses, one.rejections]
        shares = ["" if share is None else f"{share:.2f}" for share in (one.precision, one.recall, one.kappa)]
        rate = "" if one.base_rate is None else f"{one.base_rate:.2f}"
        rows.append([name, str(one.judged), str(one.unknown), rate, *map(str, counts), *shares])
    return table(heads, rows)
