"""Arms of the comparison of training methods: a kind such as `sft`, or a labelled ablation such as `sdft:reverse`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNTRAINED = ("base", "demonstrated")
"""Arms without training: the base model, and the base model with the demonstration in its prompt, which resembles
SDFT's initial teacher."""

OFFLINE = ("sft-offline", "sdft-offline")
"""Arms whose adapters are trained on the same recorded episodes of the oracles."""

STARTED = "sft-sdft"
"""Arm that continues a short SFT with SDFT, taught by the average of the adapter's weights."""

START = "start-of-"
"""Prefix of the stage names of the SFT that an `sft-sdft` arm continues."""

TRAINED = ("sft", "sdft", "sdft-ungated", "grpo", *OFFLINE, STARTED)
"""Arms whose adapters are trained on all trained tasks."""

SEQUENCES = ("sequence-sft", "sequence-sdft")
"""Arms whose adapters are trained on the first group of tasks and then on the second."""

OWN = {**dict.fromkeys(OFFLINE, "recordings"), STARTED: "start_steps"}
"""Comparison setting that a labelled arm may change besides training settings, by kind of arm."""

KINDS = (*UNTRAINED, *TRAINED, *SEQUENCES)

DEFAULT = ("base", "demonstrated", "sft", "sdft", "grpo")

_LABEL = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True)
class Arm:
    """An arm of the comparison: a training method, or the base model without training."""

    kind: str
    label: str = ""
    """Label of an ablation; empty for the standard arm."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Settings that differ from the comparison's."""

    @property
    def name(self) -> str:
        """Name of the arm on the command line."""
        return f"{self.kind}:{self.label}" if self.label else self.kind

    @property
    def is_sft(self) -> bool:
        """Whether the arm is trained on demonstrations alone."""
        return self.kind in ("sft", "sft-offline", "sequence-sft")

    @property
    def asks_for_rate(self) -> bool:
        """Whether the best learning rate for SFT has to be found first."""
        return (self.is_sft and "learning_rate" not in self.changes) or self.kind == STARTED

    @property
    def training(self) -> dict[str, Any]:
        """Changes of the arm to training settings."""
        return {name: value for name, value in self.changes.items() if name != OWN.get(self.kind)}

    @property
    def comparison(self) -> dict[str, Any]:
        """Changes of the arm to the comparison's settings (`OWN`)."""
        return {name: value for name, value in self.changes.items() if name == OWN.get(self.kind)}

    @property
    def folder(self) -> str:
        """Name of the arm's folder."""
        return self.name.replace(":", "+")


def start_of(name: str) -> str:
    """Return the name of the SFT that a training, such as `sft-sdft/seed-0`, continues."""
    arm, _, seed = name.rpartition("/")
    return f"{arm}/{START}{seed}"


def read_arms(text: str, changes: dict[str, Any]) -> list[Arm]:
    """Parse arms from the command line.

    Args:
        text: Names separated by commas.
        changes: Settings of the labelled arms.

    Raises:
        ValueError: An arm is unknown, or changes and labels don't match.
    """
    arms = []
    for name in filter(None, text.split(",")):
        kind, _, label = name.partition(":")
        if kind not in KINDS:
            raise ValueError(f"There is no arm {kind!r}; choose from {', '.join(KINDS)}.")
        if ":" in name and (kind in UNTRAINED or not _LABEL.fullmatch(label)):
            raise ValueError(
                f"{name!r}: only trained arms can have a label, made of lowercase letters, digits, - and dots."
            )
        arms.append(Arm(kind, label, changes if label else {}))
    if not arms:
        raise ValueError(f"Name at least one arm of {', '.join(KINDS)}.")
    labelled = [arm.name for arm in arms if arm.label]
    if labelled and not changes:
        raise ValueError(f"{', '.join(labelled)}: give the settings of this arm with --set.")
    if labelled and len(labelled) < len(arms):
        raise ValueError("--set applies to labelled arms only: run the other arms in a separate command.")
    return arms


def note(arm: Arm, out: Path) -> None:
    """Save a trained arm's changes, or check that they equal the saved ones.

    The changes may differ until one of the arm's trainings has left something to resume.

    Raises:
        ValueError: The arm was begun with other changes.
    """
    if arm.kind in UNTRAINED:
        return
    # imported here, so that listing the arms doesn't load the environment
    from selfsurf.browser_env.record.episode import write_atomically

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
