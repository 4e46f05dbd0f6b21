"""The HTML report of one run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from selfsurf.scripts.report import formats
from selfsurf.scripts.report.charts import Bar, Line, columns, curves, forest
from selfsurf.scripts.report.failures import failures
from selfsurf.scripts.report.formats import NONE, amount, count, date, duration, share, share_interval
from selfsurf.scripts.report.page import (
    Cell,
    Column,
    about,
    banner,
    bar_cell,
    card,
    document,
    figures,
    interval_cell,
    mean_cell,
    missing,
    number,
    outcome_bar,
    spread_cell,
    table,
    text,
    tile,
)
from selfsurf.scripts.report.reading import Line as Episode
from selfsurf.scripts.report.reading import Results
from selfsurf.scripts.report.summary import Mean, Row, Summary

METHOD = (
    "Strict success: the task's own reward is 1. Lenient success: it is above 0. The time-scaled reward is the task's "
    "own, reduced by the time that was used, and -1 where the task was failed.",
    "Episodes that ended as env_error, an infrastructure failure, are in no mean, median or curve; they are counted "
    "beside the score and listed. Every other outcome counts, whatever its reason.",
    "Intervals hold 95%. They come from a bootstrap over tasks and, inside each drawn task, over its seeds; they lean "
    "to the wide side. A single task has Wilson's interval over its seeds. Where all tasks show the same value, "
    "Wilson's interval counts every task as one trial.",
    "Steps, tokens and seconds are given as median / 90th percentile over counted episodes.",
)


SUCCESS = (("strict", "accent"), ("lenient", "lenient"))
"""The two ways to count success, with their colours."""


def report_html(summary: Summary, folder: Path) -> str:
    """The page; `folder` is where it will be, which its links start from."""
    results = summary.results
    body = [
        _head(summary),
        missing(results),
        _remarks(results),
        _tiles(summary.overall, results.per_minute),
        "<h2>Success</h2>",
        '<div class="charts">',
        *_charts(summary),
        "</div>",
        "<h2>By split and group</h2>",
        figures(_columns("Tasks of"), summary.parts),
        f"<h2>By task <span class='soft small'>{len(summary.tasks)}</span></h2>",
        '<div class="tools"><input type="search" data-filter="tasks" placeholder="Filter tasks, splits, groups" '
        'aria-label="Filter tasks"></div>',
        figures(_task_columns(results), summary.tasks, "tasks", tall=True),
        f"<h2>Failures <span class='soft small'>{len(summary.failures):,}</span></h2>",
        failures(results, summary.failures, folder) if summary.failures else '<p class="soft">None.</p>',
        _env_errors(results.env_errors),
        "<h2>How it was run</h2>",
        about(results.run),
        "<h2>How to read it</h2>",
        f'<ul class="method">{"".join(f"<li>{line}</li>" for line in METHOD)}</ul>',
        "<footer>Written by selfsurf bench report; report.json holds every figure.</footer>",
    ]
    return document(f"{results.run.agent.name} on {results.run.suite}: {share(summary.overall.strict)}", body)


def _head(summary: Summary) -> str:
    run = summary.results.run
    facts = [
        ("model", run.agent.model), ("adapter", run.agent.adapter), ("tasks", len(run.tasks)),
        ("seeds", formats.seeds(run.seeds)),
        ("at most", None if run.max_steps is None else count(run.max_steps, "step")),
        ("started", date(run.started) or None),
        ("git", run.git and run.git.revision[:10] + (" + changes" if run.git.dirty else "")),
    ]  # fmt: skip
    shown = "".join(f"<span>{name} <b>{text(value)}</b></span>" for name, value in facts if value is not None)
    return (
        f'<div class="eyebrow">Benchmark report</div><h1>{text(run.agent.name)} on {text(run.suite)}</h1>'
        f'<div class="facts">{shown}</div>'
    )


def _remarks(results: Results) -> str:
    remarks = []
    if results.env_errors:
        remarks.append(
            f"{count(len(results.env_errors), 'episode')} ended as env_error: beside the score, not in it. "
            '<a href="#env-errors">Which</a>'
        )
    if results.cut:
        remarks.append("The last line of results.jsonl was cut off when the run was killed, and is left out.")
    return "".join(banner(remark) for remark in remarks)


def _tiles(row: Row, per_minute: float | None) -> str:
    solved = f"{row.solved:,} of {count(row.episodes, 'episode')}"
    tokens = row.completion_tokens
    cost = f", cost {amount(row.cost)}" if row.cost is not None else ""
    return "".join([
        '<div class="tiles">',
        tile("Strict success", share(row.strict), f"95% {share_interval(row.strict)}, {solved}", wide=True),
        tile("Lenient success", share(row.lenient), share_interval(row.lenient)),
        tile("Time-scaled reward", formats.mean(row.time_reward), formats.mean_interval(row.time_reward)),
        tile("Steps", amount(row.steps.median) if row.steps else NONE, _ninetieth(row, "steps")),
        tile("Seconds an episode", amount(row.seconds.median) if row.seconds else NONE,
             f"{_ninetieth(row, 'seconds')}, {amount(per_minute)} episodes a minute"),
        tile("Tokens written", amount(tokens.median) if tokens else NONE,
             f"{_ninetieth(row, 'completion_tokens')}{cost}" if tokens else "not told by the agent"),
        tile("env_error", f"{row.env_errors:,}", f"{row.missing:,} missing"),
        "</div>",
    ])  # fmt: skip


def _ninetieth(row: Row, field: str) -> str:
    value = getattr(row, field)
    return f"90th percentile {amount(value.p90)}" if value else ""


def _charts(summary: Summary) -> list[str]:
    charts = [card("How episodes ended", outcome_bar(summary.overall))]
    rows = [row for row in summary.parts if row.strict]
    if len(rows) > 1:
        bars = [Bar(row.name, row.strict.mean, row.strict.interval, _noted(row.strict)) for row in rows if row.strict]
        charts.insert(0, card("Strict success by split and group", forest(bars)))
    if summary.step_curve:
        charts += [_steps(summary), _tasks(summary), _lengths(summary), _time(summary)]
    return charts


def _tasks(summary: Summary) -> str:
    """How many tasks are always, sometimes and never solved."""
    shares = [row.strict.mean for row in summary.tasks if row.strict]
    parts = min(10, max(row.episodes for row in summary.tasks))
    bins = Counter(round(share * parts) for share in shares)
    drawn = [(f"{100 * at / parts:.0f}%", [("accent", "tasks", bins[at])]) for at in range(parts + 1)]
    return card("Tasks by how much of their seeds is solved", columns(drawn, "strict success of the task"))


def _lengths(summary: Summary) -> str:
    """How many steps episodes took, solved and not."""
    lines = summary.results.counted
    wide = math.ceil((max(line.steps for line in lines) + 1) / 24)
    bins = Counter((line.steps // wide, line.strict) for line in lines)
    drawn = []
    for at in range(max(at for at, _ in bins) + 1):
        label = f"{at * wide}" if wide == 1 else f"{at * wide}-{at * wide + wide - 1}"
        parts = [("accent", "solved", bins[at, True]), ("rest", "not solved", bins[at, False])]
        drawn.append((label, parts))
    return card("Steps of an episode", _keys(("solved", "accent"), ("not solved", "rest")), columns(drawn, "steps"))


def _noted(value: Mean) -> str:
    interval = value.interval
    return share(value) + (f" ({100 * interval.low:.0f} to {100 * interval.high:.0f}%)" if interval else "")


def _steps(summary: Summary) -> str:
    points = summary.step_curve
    lines = [
        Line("lenient", "lenient", [(each.steps, each.lenient) for each in points]),
        Line("strict", "accent", [(each.steps, each.strict) for each in points], [each.interval for each in points]),
    ]
    return card(
        "Solved within so many steps", _keys(*SUCCESS, remark="shaded: 95%"), curves(lines, "steps", lambda x: f"{x:g}")
    )


def _time(summary: Summary) -> str:
    points = summary.time_curve
    marks = sorted({round(len(points) * part / 4) for part in (1, 2, 3, 4)} - {0})
    above = [(points[at - 1].seconds, f"{at:,}") for at in marks]
    few = points[:: max(1, len(points) // 300)]
    few = few if few[-1] is points[-1] else (*few, points[-1])
    lines = [
        Line("lenient", "lenient", [(each.seconds, each.lenient) for each in few]),
        Line("strict", "accent", [(each.seconds, each.strict) for each in few]),
    ]
    return card(
        "Success so far, in the order of finishing",
        _keys(*SUCCESS, remark="above: episodes finished"),
        curves(lines, "episode time, added up", duration, above),
    )


def _keys(*names: tuple[str, str], remark: str = "") -> str:
    keys = "".join(
        f'<span><span class="key" style="background:var(--{colour})"></span>{name}</span>' for name, colour in names
    )
    return f'<div class="legend">{keys}<span>{remark}</span></div>'


def _columns(title: str) -> list[Column]:
    return [
        Column(title, lambda row: Cell(text(row.name)), number=False),
        Column("Tasks", lambda row: number(row.tasks, str(row.tasks))),
        Column("Solved", lambda row: number(row.solved, f"{row.solved}/{row.episodes}")),
        *_figure_columns(),
    ]


def _task_columns(results: Results) -> list[Column]:
    cells = _Cells(results)
    return [
        Column("Task", lambda row: Cell(text(row.name)), number=False),
        Column("Split", lambda row: Cell(text(row.split)), number=False),
        Column("Seeds", cells.cell, number=False),
        Column("Solved", lambda row: number(row.solved, f"{row.solved}/{row.episodes}")),
        *_figure_columns(),
        Column("Groups", lambda row: Cell(f'<span class="soft">{text(", ".join(row.groups))}</span>'), number=False),
    ]


def _figure_columns() -> list[Column]:
    return [
        Column("Strict", lambda row: mean_cell(row.strict, share)),
        Column("", lambda row: bar_cell(row.strict), number=False),
        Column("95%", lambda row: interval_cell(row.strict)),
        Column("Lenient", lambda row: mean_cell(row.lenient, share)),
        Column("Time-scaled", lambda row: mean_cell(row.time_reward, formats.mean)),
        Column("Steps", lambda row: spread_cell(row.steps)),
        Column("Seconds", lambda row: spread_cell(row.seconds)),
        Column("Tokens read", lambda row: spread_cell(row.prompt_tokens)),
        Column("Tokens written", lambda row: spread_cell(row.completion_tokens)),
        Column("env_error", lambda row: number(row.env_errors, str(row.env_errors) if row.env_errors else "")),
        Column("Missing", lambda row: number(row.missing, str(row.missing) if row.missing else "")),
    ]


class _Cells:
    """The episodes of each task as small squares, a seed each."""

    def __init__(self, results: Results) -> None:
        self._seeds = sorted(results.run.seeds)
        self._lines = {(line.task, line.seed): line for line in results.lines}

    def cell(self, row: Row) -> Cell:
        squares = []
        for seed in self._seeds:
            line = self._lines.get((row.name, seed))
            said = f"seed {seed}: " + (f"{line.outcome}, {count(line.steps, 'step')}" if line else "missing")
            squares.append(f'<i class="o-{line.outcome if line else "missing"}" title="{said}"></i>')
        return Cell(f'<span class="cells">{"".join(squares)}</span>', row.solved)


def _env_errors(lines: Sequence[Episode]) -> str:
    if not lines:
        return ""
    rows = [
        [Cell(text(line.task)), Cell(str(line.seed)), Cell(str(line.attempts)), Cell(text(line.outcome_detail))]
        for line in lines
    ]
    heads = [("Task", False), ("Seed", True), ("Attempts", True), ("What happened", False)]
    return (
        f'<h2 id="env-errors">env_error <span class="soft small">{len(lines):,}, beside the score</span></h2>'
        + table(heads, rows, tall=len(rows) > 20)
    )
