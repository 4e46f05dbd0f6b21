"""Report that compares two or more runs."""

from __future__ import annotations

from selfsurf.scripts.report import document as doc
from selfsurf.scripts.report.charts import Bar, Line, curves, forest
from selfsurf.scripts.report.comparison import FEWEST_TASKS, Comparison, Difference, PairedComparison
from selfsurf.scripts.report.formats import between, chance, count, percent, points
from selfsurf.scripts.report.page import about, card, legend, missing

COLOURS = 6
"""Number of distinct run colours; further runs reuse them."""

MOST_CHANGES = 20
"""Maximum number of tasks in the Markdown table of changes; the HTML page lists all."""

METHOD = (
    "Every run is compared with the first on the tasks and seeds that both have. Pairs in which either episode ended "
    "as env_error are left out. A difference is the other run minus the first, in percentage points.",
    "The 95% interval of a difference resamples tasks with all their pairs. p is exact and two-sided: the share of "
    "all sign assignments to the tasks' differences whose mean is at least as far from zero. The unit of both is the "
    f"task, because pairs of one task resemble each other. With fewer than {FEWEST_TASKS} tasks the unit is the seed, "
    "and the result holds for these tasks only. The p values of several runs are not corrected for their number.",
    "The counts of pairs solved by both, one or neither run show how a difference arises: from few changes, or from "
    "many in both directions.",
)


def comparison_title(comparison: Comparison) -> str:
    """Return the title of a comparison, with the names of its runs."""
    labels = comparison.labels
    return f"{labels[1]} against {labels[0]}" if len(labels) == 2 else f"{len(labels)} runs, each against {labels[0]}"


def comparison_report(comparison: Comparison) -> list[doc.Block]:
    """Return the blocks of the report."""
    labels, summaries = comparison.labels, comparison.summaries
    runs = list(zip(labels, summaries, strict=True))
    label = doc.Column("Run", lambda run: run[0], number=False)
    return [
        doc.heading(comparison_title(comparison), "Benchmark comparison"),
        *(block for label, summary in runs for block in missing(summary.results, label)),
        *(doc.banner(note) for note in comparison.warnings),
        doc.heading("Runs"),
        doc.grid([label, *(column.of(lambda run: run[1].overall) for column in doc.figure_columns())], runs),
        *(block for at, each in enumerate(comparison.against, 1) for block in _against(comparison, each, at)),
        *(
            block
            for label, summary in runs
            for block in (doc.heading(f"How {label} was run"), about(summary.results.run))
        ),
        doc.heading("How to read it"),
        doc.notes(METHOD),
    ]


def _against(comparison: Comparison, against: PairedComparison, at: int) -> list[doc.Block]:
    first, other, counts = comparison.labels[0], against.label, against.counts
    kinds = [("strict", against.strict), ("lenient", against.lenient)]
    timed = against.time_reward
    interval = timed.interval if timed else None
    within = f", 95% {interval.low:+.3f} to {interval.high:+.3f}" if interval else ""
    return [
        doc.heading(f"{other} against {first}"),
        doc.paragraph(
            f"{count(against.pairs, 'pair')} of {count(against.tasks, 'task')}, {against.left_out:,} left out for "
            f"env_error: {percent(against.first_rate)} to {percent(against.other_rate)} strict, "
            f"{points(against.strict.mean)} points. Strictly solved by both {counts.both:,}, only by {first} "
            f"{counts.only_first:,}, only by {other} {counts.only_other:,}, by neither {counts.neither:,}."
            + (f" Time-scaled reward: {timed.mean:+.3f}{within}." if timed else "")
        ),
        doc.grid(
            [doc.Column("Success", lambda kind: kind[0], number=False),
             doc.Column("Difference", lambda kind: points(kind[1].mean)),
             doc.Column("95%", lambda kind: between(kind[1].interval, points)),
             doc.Column(f"p by {against.unit}", lambda kind: chance(kind[1].p))],
            kinds,
        ),
        doc.Block(f'<div class="charts">{_differences(kinds)}{_curves(comparison, at)}</div>'),
        doc.grid(
            [doc.Column("Task", lambda change: change.task, number=False),
             doc.Column(first, lambda change: _share(change.first, change.pairs)),
             doc.Column(other, lambda change: _share(change.other, change.pairs)),
             doc.Column("Difference", lambda change: doc.number(change.difference, points(change.difference)))],
            against.changes, id=f"tasks-{at}", most=MOST_CHANGES,
        ),
    ]  # fmt: skip


def _share(solved: int, pairs: int) -> doc.Cell:
    return doc.number(solved / pairs, f"{solved}/{pairs}")


def _differences(kinds: list[tuple[str, Difference]]) -> str:
    bars = [Bar(name, each.mean, each.interval, points(each.mean)) for name, each in kinds]
    ends = [abs(end) for bar in bars for end in (bar.value, *(bar.interval.ends if bar.interval else ()))]
    reach = next(each for each in (0.05, 0.1, 0.25, 0.5, 1) if max(ends) <= each or each == 1)
    return card("Difference in percentage points", forest(bars, -reach, reach, points))


def _curves(comparison: Comparison, at: int) -> str:
    lines = [
        Line(comparison.labels[each], f"run-{each % COLOURS}", curve)
        for each in (0, at)
        if (curve := [(point.steps, point.strict, point.interval) for point in comparison.summaries[each].step_curve])
    ]
    keys = legend(*((line.label, line.colour) for line in lines), remark="shaded: 95%")
    title = "Strict success by number of steps, each run on all its episodes"
    return card(title, keys, curves(lines, "steps", lambda x: f"{x:g}"))
