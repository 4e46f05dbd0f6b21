"""The report of one run."""

from __future__ import annotations

from pathlib import Path

from selfsurf.scripts.report import formats
from selfsurf.scripts.report.charts import Bar, Line, curves, forest
from selfsurf.scripts.report.document import (
    Banner,
    Block,
    Cell,
    Column,
    Grid,
    Heading,
    Html,
    Notes,
    Words,
    figure_columns,
)
from selfsurf.scripts.report.failures import failures
from selfsurf.scripts.report.formats import amount, count, duration, share, share_interval
from selfsurf.scripts.report.page import about, card, legend, missing
from selfsurf.scripts.report.reading import Line as Episode
from selfsurf.scripts.report.reading import Results
from selfsurf.scripts.report.summary import OUTCOMES, Mean, Row, Summary

MOST_FAILURES = 100
"""Failures in the Markdown table; report.json and report.html have all."""

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


def run_report(summary: Summary, folder: Path) -> list[Block]:
    """The report; `folder` is where its page will be, which its links start from."""
    results, row = summary.results, summary.overall
    name, tasks = Column("Task", lambda row: row.name, number=False), Column("Tasks", lambda row: str(row.tasks))
    blocks: list[Block] = [
        Heading(f"{results.run.agent.name} on {results.run.suite}", "Benchmark report"),
        *missing(results),
        *([Banner("The last line of results.jsonl was cut off when the run was killed, and is left out.")]
          if results.cut else []),
        Words(
            f"Strict success {share(row.strict)} (95% {share_interval(row.strict)}; {row.solved:,} of "
            f"{count(row.episodes, 'episode')}), lenient {share(row.lenient)} ({share_interval(row.lenient)}), "
            f"time-scaled reward {formats.mean(row.time_reward)} ({formats.mean_interval(row.time_reward)}). "
            f"{row.env_errors:,} ended as env_error, beside the score."
            + (f" {amount(results.per_minute)} episodes a minute." if results.per_minute else "")
            + (f" Cost {amount(row.cost)}." if row.cost is not None else "")
        ),
        Html(f'<div class="charts">{"".join(_charts(summary))}</div>'),
        Heading("Outcomes"),
        Grid([Column("Ended as", lambda each: _outcome(each[0]), number=False),
              Column("Episodes", lambda each: f"{each[1]:,}")],
             [(name, row.outcomes[name]) for name in OUTCOMES if name in row.outcomes]),
        Heading("By split and group"),
        Grid([Column("Tasks of", name.cell, number=False), tasks, *figure_columns()], summary.parts),
        Heading("By task"),
        Grid(
            [name, Column("Split", lambda row: row.split, number=False), _seeds(results), *figure_columns(),
             Column("Groups", lambda row: ", ".join(row.groups), number=False, only_html=True)],
            summary.tasks, id="tasks",
        ),
        Heading(f"Failures ({len(summary.failures):,})"),
        Html(failures(results, summary.failures, folder)) if summary.failures else Words("None."),
        Grid(
            [_task, _seed, Column("Outcome", lambda line: line.outcome, number=False),
             Column("Steps", lambda line: str(line.steps)),
             Column("Reason", lambda line: line.reason or line.outcome_detail, number=False)],
            summary.failures, only_markdown=True, most=MOST_FAILURES,
        ),
    ]  # fmt: skip
    if results.env_errors:
        details = Column("What happened", lambda line: line.outcome_detail, number=False)
        attempts = Column("Attempts", lambda line: str(line.attempts))
        blocks += [
            Heading(f"env_error ({len(results.env_errors):,}, beside the score)"),
            Grid([_task, _seed, attempts, details], results.env_errors),
        ]
    return [*blocks, Heading("How it was run"), about(results.run), Heading("How to read it"), Notes(METHOD)]


_task = Column("Task", lambda line: line.task, number=False)
_seed = Column("Seed", lambda line: str(line.seed))


def _outcome(name: str) -> Cell:
    return Cell(name, html=f'<span class="key o-{name}"></span>{name}')


def _seeds(results: Results) -> Column:
    """The episodes of each task as small squares, a seed each."""
    numbers = sorted(results.run.seeds)
    lines: dict[tuple[str, int], Episode] = {(line.task, line.seed): line for line in results.lines}

    def square(line: Episode | None, seed: int) -> str:
        note = f"seed {seed}: " + (f"{line.outcome}, {count(line.steps, 'step')}" if line else "missing")
        return f'<i class="o-{line.outcome if line else "missing"}" title="{note}"></i>'

    def cell(row: Row) -> Cell:
        squares = "".join(square(lines.get((row.name, seed)), seed) for seed in numbers)
        return Cell("", row.solved, f'<span class="cells">{squares}</span>')

    return Column("Seeds", cell, number=False, only_html=True)


def _charts(summary: Summary) -> list[str]:
    charts = []
    bars = [
        Bar(row.name, row.strict.mean, row.strict.interval, _noted(row.strict)) for row in summary.parts if row.strict
    ]
    if len(bars) > 1:
        charts.append(card("Strict success by split and group", forest(bars)))
    if summary.step_curve:
        points = summary.step_curve
        lines = [
            Line("lenient", "lenient", [(each.steps, each.lenient) for each in points]),
            Line(
                "strict", "accent", [(each.steps, each.strict) for each in points], [each.interval for each in points]
            ),
        ]
        colours = (("strict", "accent"), ("lenient", "lenient"))
        charts.append(
            card(
                "Solved within so many steps",
                legend(*colours, remark="shaded: 95%"),
                curves(lines, "steps", lambda x: f"{x:g}"),
            )
        )
        few = summary.time_curve[:: max(1, len(summary.time_curve) // 300)]
        lines = [
            Line("lenient", "lenient", [(each.seconds, each.lenient) for each in few]),
            Line("strict", "accent", [(each.seconds, each.strict) for each in few]),
        ]
        charts.append(
            card(
                "Success so far, in the order of finishing",
                legend(*colours),
                curves(lines, "episode time, added up", duration),
            )
        )
    return charts  # fmt: skip


def _noted(value: Mean) -> str:
    interval = value.interval
    return share(value) + (f" ({100 * interval.low:.0f} to {100 * interval.high:.0f}%)" if interval else "")
