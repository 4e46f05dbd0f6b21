"""Formatting of figures, the same in every report."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from selfsurf.scripts.report.reading import RERUNS, Results
from selfsurf.scripts.report.summary import Mean, MedianAndP90
from selfsurf.sdft.measure.statistics import Interval

NONE = "–"
"""Placeholder for a missing figure."""


def percent(share: float | None) -> str:
    """Format a share such as `64.8%`."""
    return NONE if share is None else f"{100 * share:.1f}%"


def points(difference: float) -> str:
    """Format a difference of shares as signed percentage points."""
    return f"{100 * difference:+.1f}" if difference else "0"


def reward(value: float) -> str:
    """Format a reward with three decimals."""
    return f"{value:.3f}"


def between(interval: Interval | None, write: Callable[[float], str] = percent) -> str:
    """Format an interval such as `58.9 to 70.3%`."""
    return NONE if interval is None else f"{write(interval.low).removesuffix('%')} to {write(interval.high)}"


def mean(value: Mean | None, write: Callable[[float], str] = percent) -> str:
    """Format a mean, by default as a percentage."""
    return NONE if value is None else write(value.mean)


def mean_interval(value: Mean | None, write: Callable[[float], str] = percent) -> str:
    """Format the interval of a mean."""
    return between(value.interval if value else None, write)


def amount(number: float | None) -> str:
    """Format a number with three significant digits and thousands separators."""
    if number is None:
        return NONE
    return f"{number:,.0f}" if abs(number) >= 100 or number == round(number) else f"{number:.3g}"


def spread(value: MedianAndP90 | None) -> str:
    """Format a median and 90th percentile."""
    return NONE if value is None else f"{amount(value.median)} / {amount(value.p90)}"


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 120:
        return f"{amount(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def chance(p: float | None) -> str:
    """Format a p value."""
    if p is None:
        return NONE
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def count(number: int, noun: str) -> str:
    """Format a count with its noun, such as `1 episode` or `2 episodes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def seeds(numbers: Sequence[int]) -> str:
    """Format seeds in ascending order: a range as `0-4`, others as a list."""
    ordered = sorted(numbers)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[0] + len(ordered))):
        return f"{ordered[0]}-{ordered[-1]}"
    return ", ".join(map(str, ordered))


def short(task: str) -> str:
    """Return a task's id without prefix and version: `click-tab` for `MiniWoB/click-tab-v0`."""
    return re.sub(r"^\w+/|-v\d+$", "", task)


def incomplete(results: Results, whose: str = "") -> str:
    """Return a sentence on how many episodes an incomplete run lacks."""
    asked = len(results.run.tasks) * len(results.run.seeds)
    of = f" {whose}" if whose else ""
    return f"INCOMPLETE{of}: {len(results.missing):,} of {count(asked, 'episode')} missing."


def no_verdict(results: Results, whose: str = "") -> str:
    """Return a sentence on how many episodes of a run ended without a verdict."""
    asked = len(results.run.tasks) * len(results.run.seeds)
    of = f" {whose}" if whose else ""
    return f"NO VERDICT{of}: {len(results.env_errors):,} of {count(asked, 'episode')} ended as env_error."


def run_again(lost: int, given_up: int) -> list[str]:
    """Return sentences on whether the same command reruns the episodes that ended as `env_error`.

    Args:
        lost: Number of such episodes.
        given_up: Number of them that reached the limit of reruns.
    """
    sentences = ["The same command runs them again."] if given_up < lost else []
    if given_up:
        sentences.append(
            f"{given_up:,} were run by {RERUNS + 1} commands and are not run again. To run them, fix the cause and "
            "remove their lines from results.jsonl."
        )
    return sentences


def unjudged(results: Results, whose: str = "") -> str:
    """Return sentences on the unjudged episodes of a run, and on how to judge them."""
    asked = len(results.run.tasks) * len(results.run.seeds)
    of = f" {whose}" if whose else ""
    return (
        f"NO VERDICT{of}: {len(results.unjudged):,} of {count(asked, 'episode')} ended unjudged: the task needs a "
        "`score`. `selfsurf judge` judges the episodes, by --spec or --judge."
    )


def date(started: str) -> str:
    """Format an ISO time to the minute."""
    return started[:16].replace("T", " ")
