"""The lines of `attempt.jsonl` and their summary in `summary.json`, independent of files and pages."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

Outcome = Literal["start", "success", "failure", "cancelled", "fallback", "disabled"]
"""Event of an attempt that a line of the log records."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

ENDS: tuple[Outcome, ...] = ("success", "failure", "cancelled")
"""Outcomes that end an attempt."""

FIELDS: dict[str, type | tuple[type, ...]] = {
    "ts": str, "traceId": str, "stepId": str, "attemptId": str, "action": str, "provider": str,
    "durationMs": (int, float, type(None)), "outcome": str, "reason": str, "retryUsed": bool,
    "stagehandDisabled": bool, "toolArgsHash": str,
}  # fmt: skip
"""Types of the fields that every line has. Some lines have more: `url`, `artifacts` and `cut`; `status` if the page was
answered with an HTTP error; `errorType` and `retryable` of a failed or cancelled attempt; `to` of a fallback;
`arguments` of a start."""


def misfits(line: Any) -> list[str]:
    """Return the names of a line's missing or invalid fields; `["line"]` if the line is not an object."""
    if not isinstance(line, Mapping):
        return ["line"]
    kinds = {**FIELDS, "errorType": str} if line.get("outcome") == "failure" else FIELDS
    wrong = [name for name, kind in kinds.items() if name not in line or not isinstance(line[name], kind)]
    return wrong or ([] if line["outcome"] in OUTCOMES else ["outcome"])


def summarise(lines: Iterable[Mapping[str, Any]], decision: str, reason: str = "") -> dict[str, Any]:
    """Return the summary of a run.

    Args:
        lines: valid lines of the run's `attempt.jsonl`.
        decision: result of the run.
        reason: explanation of the result, if the attempts don't contain it.
    """
    started: dict[str, Mapping[str, Any]] = {}
    ended: dict[str, Mapping[str, Any]] = {}
    counts: Counter[str] = Counter()
    first = last = trace = None
    disabled: dict[str, str] = {}
    for line in lines:
        first, last, trace = first or line["ts"], line["ts"], line["traceId"]
        counts[line["outcome"]] += 1
        if line["outcome"] == "start":
            started[line["attemptId"]] = line
        elif line["outcome"] in ENDS:
            ended[line["attemptId"]] = line
        elif line["outcome"] == "disabled":
            disabled[line["provider"]] = line["reason"]
    attempts = {**started, **ended}
    return {
        "traceId": trace,
        "decision": decision,
        "reason": reason,
        "started": first,
        "ended": last,
        "steps": len({line["stepId"] for line in attempts.values()}),
        "attempts": len(attempts),
        "successes": counts["success"],
        "failures": counts["failure"],
        "cancelled": counts["cancelled"],
        "unfinished": len(started.keys() - ended.keys()),
        "fallbacks": counts["fallback"],
        "errors": dict(Counter(str(one["errorType"]) for one in ended.values() if one["outcome"] == "failure")),
        "providers": {
            name: _of_provider([line for line in attempts.values() if line["provider"] == name], disabled.get(name))
            for name in dict.fromkeys(line["provider"] for line in attempts.values())
        },
    }  # fmt: skip


def _of_provider(lines: list[Mapping[str, Any]], disabled: str | None) -> dict[str, Any]:
    ended = [line for line in lines if line["outcome"] in ("success", "failure")]
    right = sum(line["outcome"] == "success" for line in ended)
    times = [line["durationMs"] for line in ended if line["durationMs"] is not None]
    return {
        "attempts": len(lines),
        "successes": right,
        "failures": len(ended) - right,
        "cancelled": sum(line["outcome"] == "cancelled" for line in lines),
        "successRate": right / len(ended) if ended else None,
        "retries": sum(line["retryUsed"] for line in lines),
        "medianMs": round(statistics.median(times), 3) if times else None,
        "disabled": disabled,
    }
