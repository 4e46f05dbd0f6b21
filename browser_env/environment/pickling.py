"""Pickling and copying of environments by their constructor arguments, without the open page."""

from __future__ import annotations

from typing import Any

from gymnasium.utils import EzPickle

_KEPT = ("spec", "_seeds", "_np_random", "_np_random_seed", "_rng", "_rngs")
"""Attributes that a copy keeps, since they determine its next episodes."""


class PickleByConstruction(EzPickle):
    """An environment that is pickled and copied by its constructor arguments.

    The copy has no open page. It starts with a reset and continues with the seeds that would have come next.
    """

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name in _KEPT}
        return {**super().__getstate__(), "kept": kept}

    def __setstate__(self, d: dict[str, Any]) -> None:
        super().__setstate__(d)
        self.__dict__.update(d["kept"])
