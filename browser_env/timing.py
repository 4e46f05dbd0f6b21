"""Durations of the phases of a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class Timing(Mapping[str, float]):
    """Milliseconds by phase: `act`, `settle`, `observe`, `score`, `total`. Scoring overlaps with observing.

    All timings compare equal: wall-clock time is not part of an environment's determinism, and
    `gymnasium.utils.env_checker.check_env` compares infos.
    """

    PHASES = ("act", "settle", "observe", "score", "total")

    def __init__(self, **seconds: float) -> None:
        self._values = {phase: round(seconds.get(phase, 0.0) * 1000, 3) for phase in self.PHASES}

    def __getitem__(self, phase: str) -> float:
        return self._values[phase]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timing)

    def __hash__(self) -> int:
        return hash(Timing)

    def __repr__(self) -> str:
        return f"Timing({', '.join(f'{phase}={value:g} ms' for phase, value in self._values.items())})"
