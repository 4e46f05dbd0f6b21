"""The lines of `attempt.jsonl` and what they come to in `summary.json`. Knows neither files nor pages."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

Outcome = Literal["start", "success", "failure", "cancelled", "fallback", "disabled"]
"""What a line tells of an attempt."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

ENDS: tuple[Outcome, ...] = ("success", "failure", "cancelled")
"""Outcomes of lines that end an attempt."""

FIELDS: dict[str, type | tuple[type, ...]] = {
    "ts": str, "traceId": str, "stepId": str, "attemptId": str, "action": str, "provider": str,
    "durationMs": (int, float, type(None)), "outcome": str, "reason": str, "retryUsed": bool,
    "stagehandDisabled": bool, "toolArgsHash": str,
}  # fmt: skip
"""The fields that every line has. Others stand in some: `url` and `artifacts`, `cut`; `status` of a page that was
answered with an error; `errorType` and `retryable` of an attempt that failed or was cancelled; `to` of a fallback;
`arguments` of a start."""


def misfits(line: Any) -> list[str]:
    """Return the fields of a line that are missing or of another type; `["line"]` if it is no object at all."""
    if not isinstance(line, Mapping):
        return ["line"]
    kinds = {**FIELDS, "errorType": str} if line.get("outcome") == "failure" else FIELDS
    wrong = [name for name, kind in kinds.items() if name not in line or not isinstance(line[name], kind)]
    return wrong or ([] if line["outcome"] in OUTCOMES else ["outcome"])


def summarise(lines: Iterable[Mapping[str, Any]], decision: str, reason: str = "") -> dict[str, Any]:
    """Return the summary of a run.

    Args:
        lines: of its `attempt.jsonl`, sound ones.
        decision: what came of it.
        reason: why, where the attempts don't say.
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
