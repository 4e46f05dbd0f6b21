"""The ways to learn that are compared, by name: `sft`, or with a label and settings of its own `sdft:reverse`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNTRAINED = ("base", "demonstrated")
"""The base model; the base model with the demonstration in its prompt, much as SDFT's teacher has it at the start."""

OFFLINE = ("sft-offline", "sdft-offline")
"""Adapters that learn from the same recorded episodes of the oracles."""

STARTED = "sft-sdft"
"""A short SFT, from which SDFT goes on with the average of the adapter's weights as its teacher."""

START = "start-of-"
"""The stages of that SFT are named so, beside those of what goes on from it."""

TRAINED = ("sft", "sdft", "sdft-ungated", "grpo", *OFFLINE, STARTED)
"""Adapters on all trained tasks."""

SEQUENCES = ("sequence-sft", "sequence-sdft")
"""Adapters on the first group of tasks, then, going on from there, on the second."""

OWN = {**dict.fromkeys(OFFLINE, "recordings"), STARTED: "start_steps"}
"""What an arm with a label may have its own of, besides training settings: a setting of the comparison."""

KINDS = (*UNTRAINED, *TRAINED, *SEQUENCES)

DEFAULT = ("base", "demonstrated", "sft", "sdft", "grpo")

_LABEL = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True)
class Arm:
    """One way to learn."""

    kind: str
    label: str = ""
    """Of an ablation."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Settings of its own."""

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        return f"{self.kind}:{self.label}" if self.label else self.kind

    @property
    def is_sft(self) -> bool:
        """Whether it learns from demonstrations alone."""
        return self.kind in ("sft", "sft-offline", "sequence-sft")

    @property
    def asks_for_rate(self) -> bool:
        """Whether the learning rate that is best for SFT has to be known."""
        return (self.is_sft and "learning_rate" not in self.changes) or self.kind == STARTED

    @property
    def training(self) -> dict[str, Any]:
        """Its changes of training settings."""
        return {name: value for name, value in self.changes.items() if name != OWN.get(self.kind)}

    @property
    def comparison(self) -> dict[str, Any]:
        """Its changes of the comparison's settings (`OWN`)."""
        return {name: value for name, value in self.changes.items() if name == OWN.get(self.kind)}

    @property
    def folder(self) -> str:
        """Its folder's name."""
        return self.name.replace(":", "+")


def start_of(name: str) -> str:
    """Return the name of the SFT that a training, such as `sft-sdft/seed-0`, goes on from."""
    arm, _, seed = name.rpartition("/")
    return f"{arm}/{START}{seed}"


def read_arms(text: str, changes: dict[str, Any]) -> list[Arm]:
    """Read arms from the command line.

    Args:
        text: names with commas between.
        changes: settings of the labelled ones.

    Raises:
        ValueError: there is no such arm, or the changes have no arm to go to.
    """
    arms = []
    for name in filter(None, text.split(",")):
        kind, _, label = name.partition(":")
        if kind not in KINDS:
            raise ValueError(f"There is no arm {kind!r}; there are {', '.join(KINDS)}.")
        if ":" in name and (kind in UNTRAINED or not _LABEL.fullmatch(label)):
            raise ValueError(f"{name!r}: an arm that is trained may have a label of small letters, digits, - and dots.")
        arms.append(Arm(kind, label, changes if label else {}))
    if not arms:
        raise ValueError(f"No arm is named; there are {', '.join(KINDS)}.")
    labelled = [arm.name for arm in arms if arm.label]
    if labelled and not changes:
        raise ValueError(f"{', '.join(labelled)}: say with --set what is different there.")
    if labelled and len(labelled) < len(arms):
        raise ValueError("--set is for the labelled arms alone here: name them in a call of their own.")
    return arms


def note(arm: Arm, out: Path) -> None:
    """Write down what an arm that is trained is about, or make sure that it is the same as before.

    Until one of its trainings has left something to resume from, its settings may still change.

    Raises:
        ValueError: it is another, and was begun.
    """
    if arm.kind in UNTRAINED:
        return
    from selfsurf.browser_env.record.episode import write_atomically  # here: naming the arms loads no environment

    folder = out / "arms" / arm.folder
    path = folder / "changes.json"
    before = json.loads(path.read_text(encoding="utf8")) if path.exists() else None
    if before == arm.changes:
        return
    begun = any(
        found for name in ("checkpoints/checkpoint-*", "adapter") for found in folder.glob(f"*seed-*/**/{name}")
    )
    if before is not None and begun:
        raise ValueError(f"{arm.name} was begun with --set {before}; choose another label for {arm.changes}.")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(arm.changes))
