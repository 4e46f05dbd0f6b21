"""Figures of all attempt logs below a root: success by provider and action, errors, latency, fallbacks, failures.

Reads `attempt.jsonl` and `summary.json` (`browser_env.attempts`). A damaged file is named and left out.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from selfsurf.browser_env.attempts.events import ENDS, summarise
from selfsurf.browser_env.attempts.log import read_lines
from selfsurf.sdft.measure.statistics import wilson_interval

FORMAT = 1
"""Format version of the figures, which a later report reads as its baseline."""

WORST = 10
"""Number of failed attempts that are shown."""

PERCENTILES = (50, 90, 99)


_Example = tuple[int, str, int, dict[str, Any]]
"""Failed attempt for display: failures in its run, timestamp, tie-breaking number, and the data."""


@dataclass
class _Group:
    successes: int = 0
    durations: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    unfinished: int = 0
    cancelled: int = 0
    """Attempts that their callers cancelled, which no rate counts."""
    retries: int = 0

    def add(self, start: Mapping[str, Any] | None, end: Mapping[str, Any] | None) -> None:
        line = end or start or {}
        self.retries += bool(line.get("retryUsed"))
        if end is None:
            self.unfinished += 1
            return
        if end["outcome"] == "cancelled":
            self.cancelled += 1
            return
        self.ended += 1
        if end["durationMs"] is not None:
            self.durations.append(float(end["durationMs"]))
        if end["outcome"] == "success":
            self.successes += 1
        else:
            self.errors[end["errorType"]] += 1

    def as_json(self) -> dict[str, Any]:
        share = self.successes / self.ended if self.ended else None
        interval = wilson_interval(share, self.ended) if share is not None else None
        times = np.percentile(self.durations, PERCENTILES).round(1).tolist() if self.durations else [None] * 3
        return {
            "attempts": self.ended, "successes": self.successes, "success": share,
            "interval": list(interval.ends) if interval else None, "unfinished": self.unfinished,
            "cancelled": self.cancelled, "retries": self.retries, "errors": dict(self.errors.most_common()),
            "ms": {f"p{percent}": time for percent, time in zip(PERCENTILES, times, strict=True)},
        }  # fmt: skip


def figures(folder: Path, since: str = "") -> dict[str, Any]:
    """Return the figures of all runs below a `browser-automation` folder, as plain data.

    Args:
        folder: Folder that holds a folder per day.
        since: First day to count, as `2026-11-25`; all days if empty.
    """
    groups: defaultdict[tuple[str, str], _Group] = defaultdict(_Group)
    fallbacks: Counter[tuple[str, str]] = Counter()
    decisions: Counter[str] = Counter()
    disabled: Counter[str] = Counter()
    days: list[str] = []
    damaged: list[dict[str, str]] = []
    worst: defaultdict[tuple[str, str, str], list[_Example]] = defaultdict(list)
    number = itertools.count()
    runs = 0
    for run in sorted(one for one in folder.glob("????-??-??/[!.]*") if one.is_dir() and one.parent.name >= since):
        lines = _sound(run, damaged)
        if lines is None:
            continue
        runs += 1
        days.append(run.parent.name)
        decisions[_decision(run, lines, damaged)] += 1
        started = {line["attemptId"]: line for line in lines if line["outcome"] == "start"}
        ended = {line["attemptId"]: line for line in lines if line["outcome"] in ENDS}
        failures = sum(line["outcome"] == "failure" for line in ended.values())
        for id in {**started, **ended}:
            line = ended.get(id) or started[id]
            for key in ((line["provider"], ""), (line["provider"], line["action"])):
                groups[key].add(started.get(id), ended.get(id))
            if line["outcome"] == "failure":
                example = _example(run, line, started.get(id))
                kind = worst[example["provider"], example["action"], example["error"]]
                heapq.heappush(kind, (failures, line["ts"], next(number), example))
                if len(kind) > WORST:
                    heapq.heappop(kind)
        for line in lines:
            if line["outcome"] == "fallback":
                fallbacks[line["provider"], str(line.get("to", ""))] += 1
            elif line["outcome"] == "disabled":
                disabled[line["provider"]] += 1
    return {
        "format": FORMAT,
        "folder": str(folder),
        "days": [days[0], days[-1]] if days else None,
        "runs": runs,
        "decisions": dict(decisions.most_common()),
        "providers": {
            provider: {
                **groups[provider, ""].as_json(),
                "disabled": disabled[provider],
                "actions": {
                    action: group.as_json()
                    for (whose, action), group in sorted(groups.items())
                    if whose == provider and action
                },
            }
            for provider in sorted({provider for provider, _ in groups})
        },
        "fallbacks": [{"from": a, "to": b, "times": times} for (a, b), times in fallbacks.most_common()],
        "worst": _worst(worst.values()),
        "damaged": damaged,
    }


def _sound(run: Path, damaged: list[dict[str, str]]) -> list[dict[str, Any]] | None:
    """Return the lines of a run's log, or None after listing an unreadable log in `damaged`."""
    path = run / "attempt.jsonl"
    try:
        return list(read_lines(path)) if path.exists() else []
    except (OSError, ValueError) as error:
        damaged.append({"file": str(path), "why": str(error)})
        return None


def _decision(run: Path, lines: list[dict[str, Any]], damaged: list[dict[str, str]]) -> str:
    """Return the decision in a run's summary; `cut off` without a summary."""
    path = run / "summary.json"
    try:
        summary = json.loads(path.read_text(encoding="utf8"))
        decision = summary["decision"]
        if not isinstance(decision, str):
            raise TypeError("the decision is not a string")
    except FileNotFoundError:
        return "cut off"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        damaged.append({"file": str(path), "why": f"{type(error).__name__}: {error}"})
        return "unknown"
    counted = summarise(lines, decision)
    if any(summary.get(name) != counted[name] for name in ("attempts", "failures")):
        damaged.append(
            {"file": str(path), "why": "the totals differ from those of attempt.jsonl, which are used instead"}
        )
    return decision


def _example(run: Path, line: Mapping[str, Any], start: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "run": str(run), "traceId": line["traceId"], "attemptId": line["attemptId"], "provider": line["provider"],
        "action": line["action"], "error": line["errorType"], "reason": line["reason"],
        "url": line.get("url", ""), "arguments": (start or {}).get("arguments"),
        "artifacts": [name for name in line.get("artifacts", ()) if isinstance(name, str) and (run / name).is_file()],
    }  # fmt: skip


def _worst(kinds: Iterable[list[_Example]]) -> list[dict[str, Any]]:
    """Return the failures of the runs with the most failures: the first of each kind, then further ones."""
    ordered = [sorted(kind, reverse=True) for kind in kinds]
    first = sorted((kind[0] for kind in ordered), reverse=True)
    further = sorted((one for kind in ordered for one in kind[1:]), reverse=True)
    return [example for *_, example in [*first, *further][:WORST]]
