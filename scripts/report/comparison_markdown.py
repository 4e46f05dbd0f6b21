"""The Markdown text that sets two runs or more side by side."""

from __future__ import annotations

from selfsurf.scripts.report import formats
from selfsurf.scripts.report.comparison import Against, Comparison
from selfsurf.scripts.report.formats import chance, count, percent, points, points_interval, share, share_interval
from selfsurf.scripts.report.markdown import plain, table
from selfsurf.scripts.report.report_markdown import facts, missing

MOST_CHANGES = 20
"""Changed tasks in a table; comparison.json and comparison.html have all."""


def comparison_markdown(comparison: Comparison) -> str:
    """The text of `comparison.md`."""
    labels, summaries = comparison.labels, comparison.summaries
    rows = [
        [
            plain(label), share(row.strict), share_interval(row.strict), share(row.lenient),
            formats.mean(row.time_reward), f"{row.episodes:,}", f"{row.env_errors:,}", f"{row.missing:,}",
        ]
        for label, row in zip(labels, [summary.overall for summary in summaries], strict=True)
    ]  # fmt: skip
    heads = ["run", "strict", "95%", "lenient", "time-scaled", "episodes", "env_error", "missing"]
    lines = [f"# {plain(', '.join(labels[1:]))} against {plain(labels[0])}", ""]
    for label, summary in zip(labels, summaries, strict=True):
        lines += missing(summary.results, label)
    lines += [f"> {plain(note)}\n" for note in comparison.warnings]
    lines += table(heads, rows)
    for against in comparison.against:
        lines += _against(labels[0], against)
    for label, summary in zip(labels, summaries, strict=True):
        lines += [f"## How {plain(label)} was run", "", *facts(summary.results), ""]
    lines.append(
        "Differences: over pairs of task and seed that both runs have and neither ended as env_error, in percentage "
        "points. Intervals: bootstrap over tasks. p: exact two-sided sign-flip test by task, not corrected for the "
        "number of runs."
    )
    return "\n".join(lines) + "\n"


def _against(first: str, against: Against) -> list[str]:
    counts = against.counts
    changed = [change for change in against.changes if change.difference]
    rows = [
        [name, points(each.mean), points_interval(each.interval), chance(each.p)]
        for name, each in (("strict", against.strict), ("lenient", against.lenient))
    ]
    lines = [
        f"## {plain(against.label)} against {plain(first)}",
        "",
        f"{count(against.pairs, 'pair')} of {count(against.tasks, 'task')}, {against.left_out:,} left out for "
        f"env_error: {percent(against.first_rate)} to {percent(against.other_rate)} strict.",
        *table(["success", "difference", "95%", "p"], rows),
    ]
    if against.time_reward:
        interval = against.time_reward.interval
        said = f" (95% {interval.low:+.3f} to {interval.high:+.3f})" if interval else ""
        lines += [f"Time-scaled reward: {against.time_reward.mean:+.3f}{said}.", ""]
    lines += [
        f"Strictly solved by both {counts.both:,}, only by the first {counts.only_first:,}, only by the other "
        f"{counts.only_other:,}, by neither {counts.neither:,}.",
        "",
        f"Changed tasks: {len(changed)} of {against.tasks}"
        + (f", the largest {MOST_CHANGES}:" if len(changed) > MOST_CHANGES else "."),
    ]
    if changed:
        lines += table(
            ["task", plain(first), plain(against.label), "difference"],
            [[plain(each.task), f"{each.first}/{each.pairs}", f"{each.other}/{each.pairs}", points(each.difference)]
             for each in changed[:MOST_CHANGES]],
        )  # fmt: skip
    return lines
