"""A leaderboard of results folders: a table for every suite and its seeds, ranked by strict success.

Only runs that were asked for the same tasks and seeds stand in one table. An incomplete run is listed below the
others without a rank: what it lacks may be what it would have failed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from selfsurf.scripts.report import formats
from selfsurf.scripts.report.formats import NONE, amount, count, date, seeds, share, share_interval
from selfsurf.scripts.report.markdown import plain
from selfsurf.scripts.report.markdown import table as markdown_table
from selfsurf.scripts.report.page import (
    Cell,
    banner,
    bar_cell,
    document,
    interval_cell,
    mean_cell,
    number,
    table,
    text,
)
from selfsurf.scripts.report.reading import ResultsError, read
from selfsurf.scripts.report.summary import Spread, Summary, summarise

METHOD = (
    "Ranked by strict success: the task's own reward is 1. Lenient: it is above 0. Equal shares have equal ranks; "
    "ranks whose 95% intervals overlap may be chance: a comparison of the two runs tells.",
    "Episodes that ended as env_error are in no share and are counted beside. Steps, tokens and seconds of an "
    "episode are medians. Episodes a minute are by the clock on the wall, with all workers.",
)


@dataclass(frozen=True)
class Place:
    """A run in a table."""

    rank: int | None
    """None for an incomplete run."""
    summary: Summary


@dataclass(frozen=True)
class Board:
    """The runs of one suite, task list and list of seeds."""

    title: str
    places: tuple[Place, ...]


def write_leaderboard(folders: Sequence[Path], out: Path) -> tuple[list[Board], list[Path]]:
    """Write the page to `out`, and the same as Markdown beside it.

    Raises:
        ResultsError: a folder can't be read, or `out` is not a name that ends in `.html`.
    """
    if out.suffix != ".html":
        raise ResultsError(f"{out} is to be a page: give it a name that ends in .html.")
    found = boards([summarise(read(folder)) for folder in folders])
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_suffix(".md")
    out.write_text(leaderboard_html(found, out.parent), encoding="utf-8")
    beside.write_text(leaderboard_markdown(found), encoding="utf-8")
    return found, [out, beside]


def boards(summaries: Sequence[Summary]) -> list[Board]:
    """Put runs of the same suite, tasks and seeds together and rank them."""
    together: dict[tuple[str, tuple[tuple[str, str], ...], tuple[int, ...]], list[Summary]] = {}
    for summary in summaries:
        run = summary.results.run
        tasks = tuple(sorted((task.id, json.dumps(task.options, sort_keys=True)) for task in run.tasks))
        asked = (run.suite, tasks, tuple(sorted(run.seeds)))
        together.setdefault(asked, []).append(summary)
    return [
        Board(f"{suite}, {count(len(tasks), 'task')}{_options(tasks)}, seeds {seeds(numbers)}", _ranked(runs))
        for (suite, tasks, numbers), runs in sorted(together.items())
    ]


def _options(tasks: Sequence[tuple[str, str]]) -> str:
    """What sets these tasks apart from the same tasks with other options."""
    options = {given for _, given in tasks}
    return " with various options" if len(options) > 1 else "" if options == {"{}"} else f" with {options.pop()}"


def listed(found: Sequence[Board]) -> list[dict[str, Any]]:
    """The tables as data."""
    return [
        {
            "title": board.title,
            "places": [
                {
                    "rank": place.rank,
                    "folder": str(place.summary.results.folder),
                    "run": place.summary.results.run.model_dump(mode="json"),
                    "overall": asdict(place.summary.overall),
                }
                for place in board.places
            ],
        }
        for board in found
    ]


def _ranked(runs: Sequence[Summary]) -> tuple[Place, ...]:
    ordered = sorted(runs, key=_standing)
    shares = [_share(run) for run in ordered if run.complete]
    return tuple(Place(shares.index(_share(run)) + 1 if run.complete else None, run) for run in ordered)


def _standing(run: Summary) -> tuple[bool, float, str]:
    return not run.complete, -_share(run), run.results.run.agent.name


def _share(run: Summary) -> float:
    return run.overall.strict.mean if run.overall.strict else 0.0


def leaderboard_html(found: Sequence[Board], folder: Path) -> str:
    """The page; `folder` is where it will be, which its links start from."""
    runs = sum(len(board.places) for board in found)
    incomplete = [place.summary for board in found for place in board.places if place.rank is None]
    body = ['<div class="eyebrow">Benchmark</div><h1>Leaderboard</h1>', f'<p class="soft">{count(runs, "run")}</p>']
    if incomplete:
        names = ", ".join(
            f"{text(run.results.run.agent.name)} ({count(len(run.results.missing), 'episode')} missing)"
            for run in incomplete
        )
        body.append(banner(f"Incomplete, and so without a rank: {names}.", bad=True))
    for board in found:
        body += [f"<h2>{text(board.title)}</h2>", table(_HEADS, [_row(place, folder) for place in board.places])]
    body += [
        "<h2>How to read it</h2>",
        f'<ul class="method">{"".join(f"<li>{line}</li>" for line in METHOD)}</ul>',
        "<footer>Written by selfsurf bench leaderboard.</footer>",
    ]
    return document("Leaderboard", body)


_HEADS = (
    ("", True), ("Agent, model, adapter", False), ("Strict", True), ("", False), ("95%", True), ("Lenient", True),
    ("Time-scaled", True), ("Step limit", True), ("Steps", True), ("Episodes", True), ("env_error", True),
    ("Missing", True), ("Episodes a minute", True), ("Seconds", True), ("Tokens read", True), ("Tokens written", True),
    ("Cost", True), ("Date, git", False),
)  # fmt: skip


def _row(place: Place, folder: Path) -> list[Cell]:
    summary = place.summary
    row, run = summary.overall, summary.results.run
    rate = summary.results.per_minute
    return [
        number(place.rank, str(place.rank or NONE)),
        Cell(f'<b>{_linked(summary, folder)}</b><div class="soft small">{text(_model(summary))}</div>', run.agent.name),
        mean_cell(row.strict, share),
        bar_cell(row.strict),
        interval_cell(row.strict),
        mean_cell(row.lenient, share),
        mean_cell(row.time_reward, formats.mean),
        number(run.max_steps, str(run.max_steps if run.max_steps is not None else "own")),
        _median(row.steps),
        number(row.episodes, f"{row.episodes:,}"),
        number(row.env_errors, f"{row.env_errors:,}"),
        number(row.missing, f"{row.missing:,}"),
        number(rate, amount(rate)),
        _median(row.seconds),
        _median(row.prompt_tokens),
        _median(row.completion_tokens),
        number(row.cost, amount(row.cost)),
        Cell(f'{text(date(run.started)[:10])}<div class="soft small">{text(_git(summary))}</div>', run.started),
    ]


def _median(value: Spread | None) -> Cell:
    median = value.median if value else None
    return number(median, amount(median))


def _model(summary: Summary) -> str:
    agent = summary.results.run.agent
    return ", ".join(part for part in (agent.model, agent.adapter) if part)


def _linked(summary: Summary, folder: Path) -> str:
    """The agent's name, as a link to its report if that has been written."""
    name, report = text(summary.results.run.agent.name), summary.results.folder / "report.html"
    if not report.exists():
        return name
    return f'<a href="./{quote(Path(os.path.relpath(report.resolve(), folder.resolve())).as_posix())}">{name}</a>'


def _git(summary: Summary) -> str:
    git = summary.results.run.git
    return f"{git.revision[:8]}{' + changes' if git.dirty else ''}" if git else NONE


def leaderboard_markdown(found: Sequence[Board]) -> str:
    """The same as Markdown, with the columns that fit."""
    heads = (
        "rank", "agent", "model", "adapter", "strict", "95%", "lenient", "time-scaled", "step limit", "steps",
        "episodes/min", "tokens written", "cost", "env_error", "missing", "date", "git",
    )  # fmt: skip
    lines = ["# Leaderboard", ""]
    for board in found:
        lines.append(f"## {plain(board.title)}")
        lines += markdown_table(heads, [_markdown_row(place) for place in board.places])
    lines.append(" ".join(METHOD))
    return "\n".join(lines) + "\n"


def _markdown_row(place: Place) -> list[str]:
    summary = place.summary
    row, run = summary.overall, summary.results.run
    return [
        str(place.rank or "incomplete"), plain(run.agent.name), plain(run.agent.model or ""),
        plain(run.agent.adapter or ""), share(row.strict), share_interval(row.strict), share(row.lenient),
        formats.mean(row.time_reward), str(run.max_steps if run.max_steps is not None else "own"),
        _median(row.steps).html, amount(summary.results.per_minute), _median(row.completion_tokens).html,
        amount(row.cost), str(row.env_errors), str(row.missing), plain(date(run.started)[:10]), plain(_git(summary)),
    ]  # fmt: skip
