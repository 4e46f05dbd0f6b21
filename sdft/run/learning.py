"""Is anything being learned? Told by what the student achieves in its own episodes, which the loss doesn't say."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from transformers import TrainerCallback

from selfsurf.sdft.run.processes import is_first

SIGNS = {"episodes/success": "success", "steps/right": "right steps"}
"""Columns of the metrics that rise when something is learned, and how they are called."""

DISTILLED = "recorded/distilled"
"""Column of the metrics: the share of the rows with a known action that are learned from the teacher."""

FEWEST = 6
"""Steps before which nothing is said: the first and the last of fewer are too few to compare."""

LEAST_GAIN, GOOD = 0.1, 0.9
"""A sign has risen by the first, or there was nothing to learn at the second."""

_log = logging.getLogger(__name__)


class Learning(TrainerCallback):
    """Compares the first steps of a run with the latest, and warns halfway and in the end if nothing has risen.

    Args:
        lines: of the metrics of the run's earlier starts.
    """

    def __init__(self, lines: Iterable[Mapping[str, Any]] = ()) -> None:
        self._distilled: list[float] = []
        self._rates: dict[str, list[float]] = {sign: [] for sign in SIGNS}
        for line in lines:
            self._add(line)

    def _add(self, figures: Mapping[str, Any]) -> None:
        if figures.get(DISTILLED) is not None:
            self._distilled.append(figures[DISTILLED])
        for sign, rates in self._rates.items():
            if figures.get(sign) is not None:
                rates.append(figures[sign])

    @property
    def distilled(self) -> float | None:
        """The share of the rows with a known action that were learned from the teacher, the mean over steps."""
        return round(sum(self._distilled) / len(self._distilled), 4) if self._distilled else None

    def figures(self) -> dict[str, dict[str, float]]:
        """Return for each sign that the run has the mean of the `first` and of the `last` so many `steps`."""
        found = {}
        for sign, rates in self._rates.items():
            count = max(FEWEST // 2, len(rates) // 3)
            if len(rates) >= FEWEST:
                first, last = (round(sum(part) / count, 4) for part in (rates[:count], rates[-count:]))
                found[sign] = {"first": first, "last": last, "steps": count}
        return found

    def warning(self) -> str:
        """Say that nothing is being learned; empty where something is, or where it can't be told."""
        found = self.figures()
        if not found or any(
            max(one["first"], one["last"]) >= GOOD or one["last"] - one["first"] >= LEAST_GAIN for one in found.values()
        ):
            return ""
        told = ", ".join(
            f"{SIGNS[sign]} {one['first']:.2f} in the first {one['steps']} steps and {one['last']:.2f} in the last"
            for sign, one in found.items()
        )
        teacher = "The teacher must have something to say: told/... in metrics.jsonl counts when."
        if self.distilled is not None:
            teacher = f"{self.distilled:.0%} of the rows with a recorded action are learned from the teacher."
        return (
            f"Nothing is being learned: {told}. What may help: more steps, more episodes_per_step and max_rows, a "
            f"higher learning_rate. {teacher}"
        )

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Count a step in, and warn halfway."""
        if not is_first() or not logs or "loss" not in logs:
            return
        self._add(logs)
        if state.global_step == state.max_steps // 2:
            self._warn()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Warn in the end."""
        self._warn()

    def _warn(self) -> None:
        if told := self.warning():
            _log.warning(told)
