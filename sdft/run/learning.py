"""Detection of runs that learn nothing, by the student's success in its own episodes, which the loss doesn't show."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from transformers import TrainerCallback

from selfsurf.sdft.processes import is_first

SIGNS = {"episodes/success": "success", "steps/right": "right steps"}
"""Columns of the metrics that rise when something is learned, and their descriptions."""

DISTILLED = "recorded/distilled"
"""Column of the metrics with the share of rows with a known action that are learned from the teacher."""

FEWEST = 6
"""Minimum number of steps for a comparison of the first with the last."""

LEAST_GAIN, GOOD = 0.1, 0.9
"""Gain that counts as learning, and level at which nothing is left to learn."""

_log = logging.getLogger(__name__)


class Learning(TrainerCallback):
    """Callback that compares a run's first and latest steps, and warns halfway and at the end if nothing has improved.

    Args:
        lines: lines of metrics of the run's earlier starts.
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
        """Mean over steps of the share of rows with a known action that were learned from the teacher."""
        return round(sum(self._distilled) / len(self._distilled), 4) if self._distilled else None

    def figures(self) -> dict[str, dict[str, float]]:
        """Return by column the means of the `first` and the `last` steps, and the number of `steps` in each."""
        found = {}
        for sign, rates in self._rates.items():
            count = max(FEWEST // 2, len(rates) // 3)
            if len(rates) >= FEWEST:
                first, last = (round(sum(part) / count, 4) for part in (rates[:count], rates[-count:]))
                found[sign] = {"first": first, "last": last, "steps": count}
        return found

    def warning(self) -> str:
        """Return a warning that nothing is being learned; empty if something is, or if it is too early."""
        found = self.figures()
        if not found or any(
            max(one["first"], one["last"]) >= GOOD or one["last"] - one["first"] >= LEAST_GAIN for one in found.values()
        ):
            return ""
        told = ", ".join(
            f"{SIGNS[sign]} {one['first']:.2f} in the first {one['steps']} steps and {one['last']:.2f} in the last"
            for sign, one in found.items()
        )
        teacher = "Check in metrics.jsonl (told/...) at how many steps the teacher has a context."
        if self.distilled is not None:
            teacher = f"{self.distilled:.0%} of the rows with a recorded action are learned from the teacher."
        return (
            f"Nothing is being learned: {told}. Try more steps, higher episodes_per_step and max_rows, or a higher "
            f"learning_rate. {teacher}"
        )

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Add the metrics of a step, and warn halfway."""
        if not is_first() or not logs or "loss" not in logs:
            return
        self._add(logs)
        if state.global_step == state.max_steps // 2:
            self._warn()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Warn at the end."""
        self._warn()

    def _warn(self) -> None:
        if told := self.warning():
            _log.warning(told)
