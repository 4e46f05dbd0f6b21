"""Times of contenders that took turns in rounds, as ratios with their targets."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

OURS = "selfsurf"
RAW = "raw limit"
RAW_HELD = "raw limit, frames on demand"
LIMITS = (RAW, RAW_HELD)
"""Contenders that do the least work."""

Rounds = list[list[float]]
"""Seconds, a list a round."""


@dataclass
class Work:
    """One piece of work, done by every contender in turn."""

    name: str
    targets: dict[str, float] = field(default_factory=dict)
    """Contender -> how often ours shall fit into its time, at least; for the raw limit: how often it may into ours."""
    times: dict[str, Rounds] = field(default_factory=dict)

    def add(self, contender: str, seconds: list[float]) -> None:
        """Add a round's times."""
        self.times.setdefault(contender, []).append(seconds)

    def summary(self) -> dict[str, Any]:
        """Return medians in milliseconds and the ratio of every contender to ours.

        A ratio is of the medians over all rounds; `min` and `max` are those of the rounds' own. `met` is None where
        there is no target.
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
