"""Write the reports of results folders: of one a report, of several a comparison, each as JSON, Markdown and HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfsurf.scripts.report.comparison import Comparison, compare
from selfsurf.scripts.report.comparison_report import comparison_report, comparison_title
from selfsurf.scripts.report.document import Block
from selfsurf.scripts.report.formats import between, chance, count, incomplete, mean, mean_interval, points
from selfsurf.scripts.report.page import write
from selfsurf.scripts.report.reading import Results, read
from selfsurf.scripts.report.run_report import run_report
from selfsurf.scripts.report.summary import Summary, summarise


def write_report(folder: Path, out: Path | None = None) -> tuple[Summary, list[Path]]:
    """Write `report.json`, `report.md` and `report.html` into the results folder, or into `out`.

    Raises:
        ResultsError: the folder can't be read.
    """
    summary, out = summarise(read(folder)), out or folder
    run = summary.results.run
    title = f"{run.agent.name} on {run.suite}: {mean(summary.overall.strict)}"
    return summary, _write(out, "report", summary.as_json(), title, run_report(summary, out))


def write_comparison(folders: Sequence[Path], out: Path | None = None) -> tuple[Comparison, list[Path]]:
    """Write `comparison.json`, `comparison.md` and `comparison.html` into the first results folder, or into `out`.

    Raises:
        ResultsError: a folder can't be read, or has nothing in common with the first.
    """
    comparison, out = compare([summarise(read(folder)) for folder in folders]), out or folders[0]
    title, blocks = comparison_title(comparison), comparison_report(comparison)
    return comparison, _write(out, "comparison", comparison.as_json(), title, blocks)


def headline(figures: Summary | Comparison) -> list[str]:
    """What the figures come to, in a few lines."""
    if isinstance(figures, Summary):
        row, results = figures.overall, figures.results
        lacking = _lacking(results)
        beside = f", {row.env_errors} env_error beside" if row.env_errors else ""
        return [
            *lacking,
            f"{mean(row.strict)} strict ({mean_interval(row.strict)}), {mean(row.lenient)} lenient, "
            f"{count(row.episodes, 'episode')}{beside}",
        ]
    runs = list(zip(figures.labels, figures.summaries, strict=True))
    return [
        *(line for label, summary in runs for line in _lacking(summary.results, label)),
        *figures.warnings,
        *(
            f"{each.label} against {figures.labels[0]}: {points(each.strict.mean)} points strict "
            f"(95% {between(each.strict.interval, points)}), p {chance(each.strict.p)}, {count(each.pairs, 'pair')}"
            for each in figures.against
        ),
    ]


def _lacking(results: Results, whose: str = "") -> list[str]:
    """How much is missing, and the first of it."""
    if not results.missing:
        return []
    names = ", ".join(f"{task} #{seed}" for task, seed in results.missing[:10])
    return [f"{incomplete(results, whose)} {names}{' ...' if len(results.missing) > 10 else ''}"]


def _write(out: Path, name: str, figures: dict[str, Any], title: str, blocks: Sequence[Block]) -> list[Path]:
    pages = write(out, name, title, blocks)
    data = out / f"{name}.json"
    data.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return [data, *pages]
