"""Report on a single run."""

from __future__ import annotations

from pathlib import Path

from selfsurf.scripts.report import document as doc
from selfsurf.scripts.report.charts import Bar, Line, curves, forest
from selfsurf.scripts.report.failures import failures
from selfsurf.scripts.report.formats import amount, count, duration, mean, mean_interval, reward
from selfsurf.scripts.report.page import about, card, legend, missing
from selfsurf.scripts.report.reading import Line as Episode
from selfsurf.scripts.report.reading import Results
from selfsurf.scripts.report.summary import OUTCOMES, Mean, Row, Summary

MOST_FAILURES = 100
"""Maximum number of failures in the Markdown table; report.json and report.html have all."""

METHOD = (
    "Strict success: the task's own reward is 1. Lenient success: the reward is above 0. The time-scaled reward is "
    "the task's own, reduced by the time used, or -1 if the task was failed. A false claim is an episode that the "
    "agent ended as done, without strict success.",
    "Episodes that ended as env_error, an infrastructure failure, are in no mean, median or curve; they are counted "
    "and listed separately. Every other outcome counts, whatever its reason.",
    "Episodes that end as env_error are run again. An episode that does so three times while the agent's action is "
    "carried out counts as failed.",
    "Intervals are 95% intervals from a bootstrap over tasks and, within each drawn task, over its seeds; they tend "
    "to be wide. A single task has Wilson's interval over its seeds. If all tasks have the same value, Wilson's "
    "interval counts every task as one trial.",
    "Steps, tokens and seconds are given as median / 90th percentile over counted episodes.",
)


def run_report(summary: Summary, folder: Path) -> list[doc.Block]:
    """Return the blocks of the report, with links relative to `folder`, where its page is written."""
    results, row = summary.results, summary.overall
    name, tasks = (
        doc.Column("Task", lambda row: row.name, number=False),
        doc.Column("Tasks", lambda row: str(row.tasks)),
    )
    failed = doc.grid(
        [_task, _seed, doc.Column("Outcome", lambda line: line.outcome, number=False),
         doc.Column("Steps", lambda line: str(line.steps)),
         doc.Column("Reason", lambda line: line.reason or line.outcome_detail, number=False)],
        summary.failures, most=MOST_FAILURES,
    )  # fmt: skip
    blocks: list[doc.Block] = [
        doc.heading(f"{results.run.agent.name} on {results.run.suite}", "Benchmark report"),
        *missing(results),
        *([doc.banner("The last line of results.jsonl was cut off when the run was killed, and is left out.")]
          if results.cut else []),
        doc.paragraph(
            f"Strict success {mean(row.strict)} (95% {mean_interval(row.strict)}; {row.solved:,} of "
            f"{count(row.episodes, 'episode')}), lenient {mean(row.lenient)} ({mean_interval(row.lenient)}), "
            f"time-scaled reward {mean(row.time_reward, reward)} ({mean_interval(row.time_reward, reward)}). "
            f"{row.env_errors:,} ended as env_error and are not in the score."
            + (f" {amount(results.per_minute)} episodes per minute." if results.per_minute else "")
            + (f" Cost {amount(row.cost)}." if row.cost is not None else "")
        ),
        doc.Block(f'<div class="charts">{"".join(_charts(summary))}</div>'),
        doc.heading("Outcomes"),
        doc.grid([doc.Column("Ended as", lambda each: _outcome(each[0]), number=False),
              doc.Column("Episodes", lambda each: f"{each[1]:,}")],
             [(name, row.outcomes[name]) for name in OUTCOMES if name in row.outcomes]),
        doc.heading("By split and group"),
        doc.grid([doc.Column("Tasks of", name.cell, number=False), tasks, *doc.figure_columns()], summary.parts),
        doc.heading("By task"),
        doc.grid(
            [name, doc.Column("Split", lambda row: row.split, number=False), _seeds(results), *doc.figure_columns(),
             doc.Column("Groups", lambda row: ", ".join(row.groups), number=False, only_html=True)],
            summary.tasks, id="tasks",
        ),
        doc.heading(f"Failures ({len(summary.failures):,})"),
        doc.Block(failures(results, summary.failures, folder), failed.markdown)
        if summary.failures else doc.paragraph("None."),
    ]  # fmt: skip
    details = doc.Column("What happened", lambda line: line.outcome_detail, number=False)
    attempts = doc.Column("Attempts", lambda line: str(line.attempts))
    if results.env_errors:
        blocks += [
            doc.heading(f"env_error ({len(results.env_errors):,}, not in the score)"),
            doc.grid([_task, _seed, attempts, details], results.env_errors),
        ]
    if again := [line for line in results.counted if line.env_errors]:
        blocks += [
            doc.heading(f"Judged after an env_error ({len(again):,})"),
            doc.grid(
                [_task, _seed, doc.Column("Ended as", lambda line: line.outcome, number=False),
                 doc.Column("env_error", lambda line: str(line.env_errors)),
                 doc.Column("During an action", lambda line: str(line.crashes))],
                again,
            ),
        ]  # fmt: skip
    if results.superseded:
        blocks += [
            doc.heading(f"Superseded ({len(results.superseded):,}, run again by a later command)"),
            doc.grid([_task, _seed, attempts, details], results.superseded),
        ]
    return [
        *blocks,
        doc.heading("How it was run"),
        about(results.run),
        doc.heading("How to read it"),
        doc.notes(METHOD),
    ]


_task = doc.Column("Task", lambda line: line.task, number=False)
_seed = doc.Column("Seed", lambda line: str(line.seed))


def _outcome(name: str) -> doc.Cell:
    return doc.Cell(name, html=f'<span class="key o-{name}"></span>{name}')


def _seeds(results: Results) -> doc.Column:
    """Return a column that shows the episodes of each task as small squares, one per seed."""
    numbers = sorted(results.run.seeds)
    lines: dict[tuple[str, int], Episode] = {(line.task, line.seed): line for line in results.lines}

    def square(line: Episode | None, seed: int) -> str:
        note = f"seed {seed}: " + (f"{line.outcome}, {count(line.steps, 'step')}" if line else "missing")
        return f'<i class="o-{line.outcome if line else "missing"}" title="{note}"></i>'

    def cell(row: Row) -> doc.Cell:
        squares = "".join(square(lines.get((row.name, seed)), seed) for seed in numbers)
        return doc.Cell("", row.solved, f'<span class="cells">{squares}</span>')

    return doc.Column("Seeds", cell, number=False, only_html=True)


def _charts(summary: Summary) -> list[str]:
    charts = []
    bars = [
        Bar(row.name, row.strict.mean, row.strict.interval, _noted(row.strict)) for row in summary.parts if row.strict
    ]
    if len(bars) > 1:
        charts.append(card("Strict success by split and group", forest(bars)))
    if summary.step_curve:
        curve, time = summary.step_curve, summary.time_curve[:: max(1, len(summary.time_curve) // 300)]
        lines = [
            Line("lenient", "lenient", [(each.steps, each.lenient, None) for each in curve]),
            Line("strict", "accent", [(each.steps, each.strict, each.interval) for each in curve]),
        ]
        keys = (("strict", "accent"), ("lenient", "lenient"))
        steps = curves(lines, "steps", lambda x: f"{x:g}")
        charts.append(card("Success by number of steps", legend(*keys, remark="shaded: 95%"), steps))
        lines = [
            Line("lenient", "lenient", [(each.seconds, each.lenient, None) for each in time]),
            Line("strict", "accent", [(each.seconds, each.strict, None) for each in time]),
        ]
        drawn = curves(lines, "cumulative episode time", duration)
        charts.append(card("Success so far, in order of completion", legend(*keys), drawn))
    return charts


def _noted(value: Mean) -> str:
    interval = value.interval
    return mean(value) + (f" ({100 * interval.low:.0f} to {100 * interval.high:.0f}%)" if interval else "")
