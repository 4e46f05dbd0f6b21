"""The Markdown report of one run: what is read in a terminal, a pull request or a diff."""

from __future__ import annotations

from collections.abc import Sequence

from selfsurf.scripts.report import formats
from selfsurf.scripts.report.formats import count, date, incomplete, seeds, share, share_interval, spread
from selfsurf.scripts.report.markdown import plain, table
from selfsurf.scripts.report.reading import Results
from selfsurf.scripts.report.summary import Row, Summary

MOST_FAILURES = 100
"""Failures in the table; report.json and report.html have all."""

_HEADS = ("solved", "strict", "95%", "lenient", "time-scaled", "steps", "seconds", "tokens written", "env_error")


def report_markdown(summary: Summary) -> str:
    """The text of `report.md`."""
    results = summary.results
    run, row = results.run, summary.overall
    lines = [f"# {plain(run.agent.name)} on {plain(run.suite)}", ""]
    lines += missing(results)
    lines += [
        f"**{share(row.strict)} strict success** (95% {share_interval(row.strict)}; {row.solved:,} of "
        f"{count(row.episodes, 'episode')}), {share(row.lenient)} lenient ({share_interval(row.lenient)}), "
        f"time-scaled reward {formats.mean(row.time_reward)} ({formats.mean_interval(row.time_reward)}).",
        "",
        *facts(results),
        *(["- The last line of results.jsonl was cut off by a kill, and is left out."] if results.cut else []),
        "",
        "## By split and group",
        *table(["", "tasks", *_HEADS], [[plain(part.name), str(part.tasks), *_cells(part)] for part in summary.parts]),
        "## Outcomes",
        *table(["outcome", "episodes"], [[plain(name), f"{number:,}"] for name, number in row.outcomes.items()]),
        "## By task",
        *table(["task", "split", *_HEADS],
               [[plain(task.name), plain(task.split), *_cells(task)] for task in summary.tasks]),
        f"## Failures ({len(summary.failures):,})",
        *_failures(summary),
    ]  # fmt: skip
    if results.env_errors:
        lines += [
            f"## env_error ({len(results.env_errors):,}, beside the score)",
            *table(["task", "seed", "attempts", "what happened"],
                   [[plain(line.task), str(line.seed), str(line.attempts), plain(line.outcome_detail)]
                    for line in results.env_errors]),
        ]  # fmt: skip
    lines += [
        "Strict: the task's own reward is 1; lenient: above 0. env_error, an infrastructure failure, is in no figure "
        "but its own. Intervals: bootstrap over tasks and their seeds; for one task Wilson's. Steps, seconds and "
        "tokens: median / 90th percentile.",
    ]
    return "\n".join(lines) + "\n"


def missing(results: Results, whose: str = "") -> list[str]:
    """What an incomplete run lacks, loudly; or nothing."""
    if not results.missing:
        return []
    names = ", ".join(plain(f"{task} #{seed}") for task, seed in results.missing[:50])
    more = f", and {len(results.missing) - 50:,} more" if len(results.missing) > 50 else ""
    return [
        f"> **{plain(incomplete(results, whose))}** Every figure is of the episodes that are there.",
        ">",
        f"> {names}{more}",
        "",
    ]


def facts(results: Results) -> list[str]:
    """How it was run, as a list."""
    run = results.run
    git = f"{run.git.revision[:12]}{' with uncommitted changes' if run.git.dirty else ''}" if run.git else "unknown"
    limit = "each task's own step limit" if run.max_steps is None else f"at most {count(run.max_steps, 'step')}"
    return [
        f"- {count(len(run.tasks), 'task')}, seeds {seeds(run.seeds)}, {limit}; started {plain(date(run.started))}; "
        f"git {plain(git)}",
        f"- model {plain(run.agent.model or 'none')}, adapter {plain(run.agent.adapter or 'none')}",
        *([f"- `{' '.join(run.command).replace('`', '')}`"] if run.command else []),
    ]


def _cells(row: Row) -> Sequence[str]:
    return [
        f"{row.solved}/{row.episodes}",
        share(row.strict),
        share_interval(row.strict),
        share(row.lenient),
        formats.mean(row.time_reward),
        spread(row.steps),
        spread(row.seconds),
        spread(row.completion_tokens),
        str(row.env_errors or ""),
    ]


def _failures(summary: Summary) -> list[str]:
    shown = summary.failures[:MOST_FAILURES]
    rows = [
        [plain(line.task), str(line.seed), line.outcome, str(line.steps), plain(line.reason or line.outcome_detail)]
        for line in shown
    ]
    rest = len(summary.failures) - len(shown)

    return [
        *table(["task", "seed", "outcome", "steps", "reason"], rows),
        *([f"{count(rest, 'failure')} more in report.html and report.json.", ""] if rest else []),
    ]
