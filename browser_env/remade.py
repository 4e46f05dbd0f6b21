"""Environments that pickle: what travels is how they were made, not the page."""

from __future__ import annotations

from typing import Any

from gymnasium.utils import EzPickle

_KEPT = ("spec", "_seeds", "_np_random", "_np_random_seed", "_rng", "_rngs")
"""Attributes that a copy takes over: which episodes come next."""


class Remade(EzPickle):
    """An environment whose copy, by pickle or `copy.deepcopy`, is made anew by its constructor's arguments.

    The copy has no open page: it starts with a reset, and continues with the seeds that would have come next.
    """

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name in _KEPT}
        return {**super().__getstate__(), "kept": kept}

    def __setstate__(self, d: dict[str, Any]) -> None:
        super().__setstate__(d)
        self.__dict__.update(d["kept"])
