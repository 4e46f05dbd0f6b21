"""Times of contenders that take turns in rounds, as ratios with targets."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

OURS = "selfsurf"
RAW = "raw limit"
RAW_HELD = "raw limit, frames on demand"
LIMITS = (RAW, RAW_HELD)
"""Contenders that do the minimum of work."""

Rounds = list[list[float]]
"""Seconds per sample, in a list per round."""


@dataclass
class Workload:
    """A workload that every contender performs in turn."""

    name: str
    targets: dict[str, float] = field(default_factory=dict)
    """Target ratio by contender: contender's time / ours (minimum); for a raw limit, ours / raw (maximum)."""
    times: dict[str, Rounds] = field(default_factory=dict)

    def add(self, contender: str, seconds: list[float]) -> None:
        """Add the times of a round, in seconds."""
        self.times.setdefault(contender, []).append(seconds)

    def summary(self) -> dict[str, Any]:
        """Return medians in milliseconds and the ratio of every contender to ours.

        A ratio is computed from the medians over all rounds; its `min` and `max` are those of the rounds. `met` is None
        without a target.
        """
        contenders = {name: rounds for name, rounds in self.times.items() if any(rounds)}
        found: dict[str, Any] = {
            "ms": {name: round(_median(rounds) * 1000, 2) for name, rounds in contenders.items()},
            "samples": {name: sum(map(len, rounds)) for name, rounds in contenders.items()},
            "ratios": {},
        }
        for name, rounds in contenders.items():
            if name != OURS and OURS in contenders:
                found["ratios"][name] = self._ratio(name, rounds, contenders[OURS])
        return found

    def _ratio(self, name: str, theirs: Rounds, ours: Rounds) -> dict[str, Any]:
        above, below = (ours, theirs) if name in LIMITS else (theirs, ours)
        value = _median(above) / _median(below)
        each = [statistics.median(a) / statistics.median(b) for a, b in zip(above, below, strict=False) if a and b]
        target = self.targets.get(name)
        met = None if target is None else value <= target if name in LIMITS else value >= target
        return {
            "ratio": round(value, 3),
            "min": round(min(each, default=value), 3),
            "max": round(max(each, default=value), 3),
            "target": target,
            "bound": "at most" if name in LIMITS else "at least",
            "met": met,
        }


def _median(rounds: Rounds) -> float:
    return statistics.median([seconds for one in rounds for seconds in one])
