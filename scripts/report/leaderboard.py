"""Leaderboard of results folders: a table per suite and seeds, ranked by strict success.

A table compares only runs of the same tasks and seeds. A run that lacks verdicts is listed below the others without a
rank, because the missing episodes may be failures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from selfsurf.scripts.report import document as doc
from selfsurf.scripts.report.formats import NONE, count, date, seeds
from selfsurf.scripts.report.page import write
from selfsurf.scripts.report.reading import read
from selfsurf.scripts.report.summary import Summary, summarise

METHOD = (
    "Ranked by strict success: the task's own reward is 1. Lenient: the reward is above 0. Equal shares have equal "
    "ranks. If 95% intervals overlap, the ranks may be due to chance: compare the two runs. A run has a rank if each "
    "of its episodes has a verdict. Tasks whose code or pages differ are in separate tables.",
    "Episodes that ended as env_error are in no share and are counted separately. Steps, tokens and seconds per "
    "episode are medians. Episodes per minute are measured by the wall clock, with all workers.",
)


@dataclass(frozen=True)
class LeaderboardRow:
    """A row of a leaderboard: a run with its rank."""

    rank: int | None
    """Rank from 1; None for a run that lacks verdicts."""
    summary: Summary


@dataclass(frozen=True)
class Leaderboard:
    """A table of a leaderboard: the runs of one suite, list of tasks, list of seeds and environment."""

    title: str
    places: tuple[LeaderboardRow, ...]


def write_leaderboard(folders: Sequence[Path], out: Path) -> tuple[list[Leaderboard], list[Path]]:
    """Write `leaderboard.md` and `leaderboard.html` into the folder `out`.

    Raises:
        ResultsError: A folder can't be read.
    """
    found = boards([summarise(read(folder)) for folder in folders])
    return found, write(out, "leaderboard", "Leaderboard", leaderboard_report(found, out))


def boards(summaries: Sequence[Summary]) -> list[Leaderboard]:
    """Group runs by suite, tasks, seeds and environment, and rank each group."""
    together: dict[tuple[str, tuple[tuple[str, str, str], ...], tuple[int, ...], str], list[Summary]] = {}
    for summary in summaries:
        run = summary.results.run
        tasks = tuple(sorted((task.id, json.dumps(task.options, sort_keys=True), task.sha256) for task in run.tasks))
        around = json.dumps(run.environment, sort_keys=True) if run.environment else ""
        asked = (run.suite, tasks, tuple(sorted(run.seeds)), around)
        together.setdefault(asked, []).append(summary)
    return [
        Leaderboard(
            f"{suite}, {count(len(tasks), 'task')}{_options(tasks)}, seeds {seeds(numbers)}"
            + (f", environment {around}" if around else ""),
            _ranked(runs),
        )
        for (suite, tasks, numbers, around), runs in sorted(together.items())
    ]


def _options(tasks: Sequence[tuple[str, str, str]]) -> str:
    """Return the task options as part of a title; empty for default options."""
    options = {given for _, given, _ in tasks}
    return " with various options" if len(options) > 1 else "" if options == {"{}"} else f" with {options.pop()}"


def listed(found: Sequence[Leaderboard]) -> list[dict[str, Any]]:
    """Return the tables as plain data."""
    return [{"title": board.title, "places": [_listed(place) for place in board.places]} for board in found]


def _listed(place: LeaderboardRow) -> dict[str, Any]:
    return {"rank": place.rank, **place.summary.head, "folder": str(place.summary.results.folder)}


def _ranked(runs: Sequence[Summary]) -> tuple[LeaderboardRow, ...]:
    ordered = sorted(runs, key=lambda run: (bool(_lacking(run)), -_share(run), run.results.run.agent.name))
    shares = [_share(run) for run in ordered if not _lacking(run)]
    return tuple(LeaderboardRow(None if _lacking(run) else shares.index(_share(run)) + 1, run) for run in ordered)


def _lacking(run: Summary) -> str:
    """Return which verdicts a run lacks; empty if it has all."""
    row = run.overall
    without = {"missing": row.missing, "ended as env_error": row.env_errors, "unjudged": row.unjudged}
    return ", ".join(f"{count(number, 'episode')} {what}" for what, number in without.items() if number)


def _share(run: Summary) -> float:
    return run.overall.strict.mean if run.overall.strict else 0.0


def leaderboard_report(found: Sequence[Leaderboard], folder: Path) -> list[doc.Block]:
    """Return the blocks of the leaderboard, with links relative to `folder`, where its page is written."""
    runs = sum(len(board.places) for board in found)
    blocks: list[doc.Block] = [doc.heading("Leaderboard", "Benchmark"), doc.paragraph(count(runs, "run"))]
    unranked = [place.summary for board in found for place in board.places if place.rank is None]
    if unranked:
        names = ", ".join(f"{run.results.run.agent.name} ({_lacking(run)})" for run in unranked)
        blocks.append(doc.banner(f"Without a rank, because not every episode has a verdict: {names}."))
    for board in found:
        blocks += [doc.heading(board.title), doc.grid(_columns(folder), board.places)]
    return [*blocks, doc.heading("How to read it"), doc.notes(METHOD)]


def _columns(folder: Path) -> list[doc.Column]:
    def limit(place: LeaderboardRow) -> doc.Cell:
        most = place.summary.results.run.max_steps
        return doc.number(most, "own" if most is None else str(most))

    return [
        doc.Column("Rank", lambda place: doc.number(place.rank, str(place.rank or NONE))),
        doc.Column("Agent", lambda place: _agent(place.summary, folder), number=False),
        doc.Column("Model", lambda place: place.summary.results.run.agent.model or "", number=False),
        doc.Column("Adapter", lambda place: place.summary.results.run.agent.adapter or "", number=False),
        *(column.of(lambda place: place.summary.overall) for column in doc.figure_columns()),
        doc.Column("Step limit", limit),
        doc.Column("Episodes per minute", lambda place: doc.number(place.summary.results.per_minute)),
        doc.Column("Cost", lambda place: doc.number(place.summary.overall.cost)),
        doc.Column("Date", lambda place: date(place.summary.results.run.started)[:10], number=False),
        doc.Column("Git", lambda place: _git(place.summary), number=False),
    ]


def _agent(summary: Summary, folder: Path) -> doc.Cell:
    """Return a cell with the agent's name, linked to its report if that exists."""
    name, report = summary.results.run.agent.name, summary.results.folder / "report.html"
    if not report.exists():
        return doc.Cell(name)
    link = quote(Path(os.path.relpath(report.resolve(), folder.resolve())).as_posix())
    return doc.Cell(name, name, f'<a href="./{link}">{doc.text(name)}</a>')


def _git(summary: Summary) -> str:
    run = summary.results.run
    found = [git for git in (run.git, *(session.git for session in run.sessions)) if git]
    return ", ".join(dict.fromkeys(f"{git.revision[:8]}{' + changes' * git.dirty}" for git in found)) or NONE
