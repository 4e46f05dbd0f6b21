"""Report writers for one results folder or a comparison of several, as JSON, Markdown and HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfsurf.browser_env.disk import write_atomically
from selfsurf.browser_env.record.episode import numbered
from selfsurf.scripts.report.comparison import Comparison, compare, folder_names
from selfsurf.scripts.report.comparison_report import comparison_report, comparison_title
from selfsurf.scripts.report.document import Block
from selfsurf.scripts.report.formats import (
    between,
    chance,
    count,
    incomplete,
    mean,
    mean_interval,
    no_verdict,
    points,
    unjudged,
)
from selfsurf.scripts.report.page import write
from selfsurf.scripts.report.reading import Pair, Results, read
from selfsurf.scripts.report.run_report import run_report
from selfsurf.scripts.report.summary import Summary, summarise

LONGEST_NAME = 200
"""Maximum length of the name of a comparison's folder."""


def write_report(folder: Path, out: Path | None = None) -> tuple[Summary, list[Path]]:
    """Write `report.json`, `report.md` and `report.html` into the results folder, or into `out`.

    Raises:
        ResultsError: The folder can't be read.
        NoRoom: The disk is full.
    """
    summary, out = summarise(read(folder)), out or folder
    run = summary.results.run
    title = f"{run.agent.name} on {run.suite}: {mean(summary.overall.strict)}"
    return summary, _write(out, "report", summary.as_json(), title, run_report(summary, out))


def write_comparison(folders: Sequence[Path], out: Path | None = None) -> tuple[Comparison, list[Path]]:
    """Write `comparison.json`, `comparison.md` and `comparison.html` into `out`, or into a folder beside the first one.

    Without `out`, a new folder named after the runs is created, such as `comparison-BASE-TUNED`.

    Raises:
        ResultsError: A folder can't be read, or has no episodes in common with the first.
    """
    comparison = compare([summarise(read(folder)) for folder in folders])
    if out is None:
        name = "-".join(["comparison", *folder_names(folders)]).replace("/", "-")[:LONGEST_NAME]
        out = numbered(folders[0].resolve().parent / name)
    title, blocks = comparison_title(comparison), comparison_report(comparison)
    return comparison, _write(out, "comparison", comparison.as_json(), title, blocks)


def headline(figures: Summary | Comparison, *, done: bool = False) -> list[str]:
    """Return the main figures as a few lines of text.

    Args:
        figures: Figures of one run, or a comparison.
        done: Whether all episodes of the current command have a verdict, even if earlier commands asked for more.
    """
    if isinstance(figures, Summary):
        row, results = figures.overall, figures.results
        lacking = _larger(results) if done else _lacking(results)
        beside = f", {row.env_errors} env_error not counted" if row.env_errors else ""
        if results.unjudged and not row.episodes:
            return lacking
        return [
            *lacking,
            f"{mean(row.strict)} strict ({mean_interval(row.strict)}; the whole reward), {mean(row.lenient)} lenient "
            f"(any reward), {count(row.episodes, 'episode')}{beside}",
        ]
    runs = list(zip(figures.labels, figures.summaries, strict=True))
    return [
        *(line for label, summary in runs for line in _lacking(summary.results, label)),
        *figures.warnings,
        *(
            f"{each.label} against {figures.labels[0]}: {points(each.strict.mean)} points strict "
            f"(95% {between(each.strict.interval, points)}), p {chance(each.strict.p)} by {each.unit}, "
            f"{count(each.pairs, 'pair')} of {count(each.tasks, 'task')}"
            for each in figures.against
        ),
    ]


def _lacking(results: Results, whose: str = "") -> list[str]:
    """Return lines that count the missing and unjudged episodes and name the first ones."""
    lines = [f"{incomplete(results, whose)} {_first(results.missing)}"] if results.missing else []
    if results.env_errors:
        lines.append(f"{no_verdict(results, whose)} {_first([line.pair for line in results.env_errors])}")
    if results.unjudged:
        lines.append(f"{unjudged(results, whose)} {_first([line.pair for line in results.unjudged])}")
    return lines


def _larger(results: Results) -> list[str]:
    """Return a line on the episodes without a verdict that other commands asked for."""
    lacking = [*results.missing, *(line.pair for line in (*results.env_errors, *results.unjudged))]
    if not lacking:
        return []
    asked = count(len(results.run.tasks) * len(results.run.seeds), "episode")
    return [
        f"Every requested episode has a verdict. The folder holds a larger run: {len(lacking):,} of its {asked} have "
        f"no verdict and are not in the figures: {_first(lacking)}"
    ]


def _first(pairs: Sequence[Pair]) -> str:
    return ", ".join(f"{task} #{seed}" for task, seed in pairs[:10]) + " ..." * (len(pairs) > 10)


def _write(out: Path, name: str, figures: dict[str, Any], title: str, blocks: Sequence[Block]) -> list[Path]:
    pages = write(out, name, title, blocks)
    data = out / f"{name}.json"
    write_atomically(data, json.dumps(figures, indent=1) + "\n")
    return [data, *pages]
