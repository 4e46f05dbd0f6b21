"""The HTML page that sets two runs or more side by side."""

from __future__ import annotations

from collections.abc import Sequence

from selfsurf.scripts.report import formats
from selfsurf.scripts.report.charts import Bar, Line, curves, dumbbells, forest
from selfsurf.scripts.report.comparison import Against, Change, Comparison, Difference
from selfsurf.scripts.report.formats import chance, count, percent, points, points_interval, share, short
from selfsurf.scripts.report.page import (
    Cell,
    about,
    banner,
    bar_cell,
    card,
    document,
    interval_cell,
    key,
    mean_cell,
    missing,
    number,
    spread_cell,
    table,
    text,
)
from selfsurf.scripts.report.summary import Summary

MOST_CHANGES = 12
"""Tasks in the chart of the largest changes; the table has all."""

COLOURS = 6
"""Runs that have a colour of their own; further ones share them."""

METHOD = (
    "Every run is set beside the first on the tasks and seeds that both have; a pair of which either ended as "
    "env_error is left out. A difference is the other run minus the first, in percentage points.",
    "The 95% interval of a difference resamples tasks with all their pairs. p is exact and two-sided: the share of all "
    "choices of signs for the tasks' differences that come out at least as far from zero. Both take the task as the "
    "unit, since pairs of one task resemble each other. With several runs the p values are not corrected for their "
    "number.",
    "The pairs by who solved them show what a difference is made of: few pairs that changed hands, or many both ways.",
)


def comparison_html(comparison: Comparison) -> str:
    """The page."""
    labels, summaries = comparison.labels, comparison.summaries
    title = f"{labels[1]} against {labels[0]}" if len(labels) == 2 else f"{len(labels)} runs, each against {labels[0]}"
    body = [
        f'<div class="eyebrow">Benchmark comparison</div><h1>{text(title)}</h1>',
        *(missing(summary.results, label) for label, summary in zip(labels, summaries, strict=True)),
        *(banner(text(note)) for note in comparison.warnings),
        "<h2>Runs</h2>",
        _runs(labels, summaries),
        *(part for at, each in enumerate(comparison.against, 1) for part in _against(labels[0], each, at, comparison)),
        "<h2>By task, strictly solved</h2>",
        '<div class="tools"><input type="search" data-filter="tasks" placeholder="Filter tasks" '
        'aria-label="Filter tasks"></div>',
        _tasks(comparison),
        *(f"<h2>How {text(label)} was run</h2>{about(summary.results.run)}"
          for label, summary in zip(labels, summaries, strict=True)),
        "<h2>How to read it</h2>",
        f'<ul class="method">{"".join(f"<li>{line}</li>" for line in METHOD)}</ul>',
        "<footer>Written by selfsurf bench report; comparison.json holds every figure.</footer>",
    ]  # fmt: skip
    return document(title, body)


def _runs(labels: Sequence[str], summaries: Sequence[Summary]) -> str:
    heads = [
        ("Run", False), ("Strict", True), ("", False), ("95%", True), ("Lenient", True), ("Time-scaled", True),
        ("Episodes", True), ("env_error", True), ("Missing", True), ("Steps", True), ("Seconds", True),
        ("Tokens written", True), ("Model", False), ("Adapter", False),
    ]  # fmt: skip
    rows = []
    for at, (label, summary) in enumerate(zip(labels, summaries, strict=True)):
        row, agent = summary.overall, summary.results.run.agent
        rows.append([
            Cell(_key(at, label), label),
            mean_cell(row.strict, share),
            bar_cell(row.strict),
            interval_cell(row.strict),
            mean_cell(row.lenient, share),
            mean_cell(row.time_reward, formats.mean),
            number(row.episodes, f"{row.episodes:,}"),
            number(row.env_errors, f"{row.env_errors:,}"),
            number(row.missing, f"{row.missing:,}"),
            spread_cell(row.steps),
            spread_cell(row.seconds),
            spread_cell(row.completion_tokens),
            Cell(text(agent.model or "")),
            Cell(text(agent.adapter or "")),
        ])  # fmt: skip
    return table(heads, rows)


def _against(first: str, against: Against, at: int, comparison: Comparison) -> list[str]:
    strict = against.strict
    left_out = f", {count(against.left_out, 'pair')} left out for env_error" if against.left_out else ""
    return [
        f"<h2>{text(against.label)} against {text(first)}</h2>",
        f'<p class="soft">{count(against.pairs, "pair")} of {count(against.tasks, "task")}{left_out}: '
        f"{percent(against.first_rate)} to {percent(against.other_rate)} strict, "
        f"<b>{points(strict.mean)} points</b>, 95% {points_interval(strict.interval)}, p {chance(strict.p)}.</p>",
        '<div class="charts">',
        card("Difference in percentage points", _differences(against), _quad(first, against)),
        _curves(comparison, at),
        _changes(first, against, at),
        "</div>",
    ]


def _differences(against: Against) -> str:
    bars = [_bar("strict", against.strict), _bar("lenient", against.lenient)]
    ends = [abs(end) for bar in bars for end in _ends(bar)]
    reach = next(each for each in (0.05, 0.1, 0.25, 0.5, 1) if max(ends) <= each or each == 1)
    chart = forest(bars, -reach, reach, points)
    lines = [f"strict: p {chance(against.strict.p)}", f"lenient: p {chance(against.lenient.p)}"]
    if against.time_reward:
        timed, interval = against.time_reward.mean, against.time_reward.interval
        said = f", 95% {interval.low:+.3f} to {interval.high:+.3f}" if interval else ""
        lines.append(f"time-scaled reward: {timed:+.3f}{said}")
    return f'{chart}<p class="soft small">{"; ".join(lines)}</p>'


def _bar(name: str, difference: Difference) -> Bar:
    interval = difference.interval
    said = f" ({100 * interval.low:+.0f} to {100 * interval.high:+.0f})" if interval else ""
    return Bar(name, difference.mean, interval, points(difference.mean) + said)


def _ends(bar: Bar) -> tuple[float, ...]:
    return (bar.value, bar.interval.low, bar.interval.high) if bar.interval else (bar.value,)


def _quad(first: str, against: Against) -> str:
    counts, other = against.counts, text(against.label)
    return (
        '<h3 class="apart">Pairs by who solved them, strictly</h3>'
        f'<div class="quad"><span></span><span>{text(first)} solved</span><span>{text(first)} not</span>'
        f"<span>{other} solved</span><b>{counts.both:,}</b><b class='gain'>{counts.only_other:,}</b>"
        f"<span>{other} not</span><b class='loss'>{counts.only_first:,}</b><b>{counts.neither:,}</b></div>"
    )


def _curves(comparison: Comparison, at: int) -> str:
    runs = [(each, comparison.summaries[each]) for each in (0, at) if comparison.summaries[each].step_curve]
    lines = [
        Line(
            comparison.labels[each],
            f"run-{each % COLOURS}",
            [(point.steps, point.strict) for point in run.step_curve],
            [point.interval for point in run.step_curve],
        )
        for each, run in runs
    ]
    legend = "".join(_key(each, comparison.labels[each]) for each, _ in runs)
    return card(
        "Strictly solved within so many steps, each on all its episodes",
        f'<div class="legend">{legend}<span>shaded: 95%</span></div>',
        curves(lines, "steps", lambda x: f"{x:g}"),
    )


def _changes(first: str, against: Against, at: int) -> str:
    changed = [change for change in against.changes if change.difference][:MOST_CHANGES]
    if not changed:
        return card("Largest changes", '<p class="soft">No task changed.</p>')
    rows = [
        (
            short(each.task),
            each.first / each.pairs,
            each.other / each.pairs,
            f"{each.first} to {each.other} of {each.pairs}",
        )
        for each in changed
    ]
    legend = f'<div class="legend">{_key(0, first)}{_key(at, against.label)}</div>'
    return card("Largest changes", legend, dumbbells(rows, ("run-0", f"run-{at % COLOURS}")))


def _tasks(comparison: Comparison) -> str:
    """Every common task: what each run solved of the common pairs, and the difference."""
    heads = [("Task", False)]
    found: dict[str, dict[int, Change]] = {}
    for at, against in enumerate(comparison.against):
        heads += [(comparison.labels[0], True), (against.label, True), ("Difference", True)]
        for change in against.changes:
            found.setdefault(change.task, {})[at] = change
    rows = []
    for task, changes in found.items():
        cells = [Cell(text(task))]
        for at in range(len(comparison.against)):
            cells += _change(changes.get(at))
        rows.append(cells)
    return table(heads, rows, "tasks", tall=len(rows) > 25)


def _change(change: Change | None) -> list[Cell]:
    if change is None:
        return [Cell(""), Cell(""), Cell("")]
    return [
        number(change.first / change.pairs, f"{change.first}/{change.pairs}"),
        number(change.other / change.pairs, f"{change.other}/{change.pairs}"),
        number(change.difference, points(change.difference)),
    ]


def _key(at: int, label: str) -> str:
    return key(f"r-{at % COLOURS}", text(label))
