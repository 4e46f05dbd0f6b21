"""Settings of the comparison of training methods, which all arms share for a fair comparison."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.scripts.terminal.arguments import settings_of
from selfsurf.sdft.settings import TrainSettings, from_earlier, overlap, sdft_only

T = TypeVar("T", bound=TrainSettings)

FIRST_GROUP = (
    "click-button", "click-link", "click-dialog-2", "click-tab", "click-color", "focus-text-2", "navigate-tree",
    "click-option", "click-collapsible-nodelay", "click-button-sequence",
)  # fmt: skip
"""Tasks of a single click each, or of two clicks in the last three tasks."""

SECOND_GROUP = ("enter-text", "enter-password", "login-user", "click-checkboxes")
"""Tasks with typing, a login, or several checkboxes that the goal names."""

UNSEEN = (
    "click-dialog", "click-test-2", "click-widget", "focus-text", "click-checkboxes-transfer", "enter-text-dynamic",
)  # fmt: skip
"""Tasks of the same kinds that are never trained on."""

SEEDS_BETWEEN = 100_000
"""Distance between the first episode seeds of consecutive training seeds."""

RATES = "sft-learning-rates"
"""Name of the stages in which SFT's learning rate is chosen."""

ALL_GATES_OFF: dict[str, Any] = {"min_confidence": 0.0}
"""Settings of a training run without gates."""


EQUAL_FOR_ALL = (
    "model", "tasks", "steps", "episodes_per_step", "max_rows", "max_episode_steps", "minutes", "seed",
    "first_episode_seed", "start_from", "max_prompt_tokens", "actions", "vision", "max_image_side",
)  # fmt: skip
"""Settings that no ablation may change, because they define the training data, the training budget, and the evaluation.
"""


def env_id(name: str) -> str:
    """Return the Gymnasium id of a MiniWoB++ task's short name; other names unchanged."""
    return name if set("/:") & set(name) else f"MiniWoB/{name}-v0"


def short(task: str) -> str:
    """Return the short name of a MiniWoB++ task."""
    return task.removeprefix("MiniWoB/").removesuffix("-v0")


class LearnSettings(BaseModel):
    """Settings shared by all arms of a comparison. Frozen, and saved in its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    training: TrainSettings
    """Training settings of every arm, with the trained tasks. Seed and episodes depend on the training seed, and each
    arm changes the settings that define it."""
    unseen_tasks: tuple[str, ...]
    """Gymnasium ids of tasks of the same kinds that no arm trains on."""
    first_group: tuple[str, ...]
    """Trained tasks that are learned first in a sequence; the others are learned second."""
    first_seed: int = 3_000_000
    """First evaluation seed; no evaluation seed is ever trained on."""
    seeds: int = Field(default=10, ge=1)
    """Evaluation seeds per task."""
    first_validation_seed: int = 1_500_000
    """First seed of the episodes used to choose a learning rate and draw curves, which are neither trained on nor used
    for evaluation."""
    validation_seeds: int = Field(default=5, ge=1)
    """Validation seeds per task."""
    sft_learning_rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    """Candidates for the learning rate of SFT."""
    grpo_learning_rate: float = 3e-4
    """Learning rate of GRPO."""
    group_size: int = Field(default=5, ge=2)
    """Episodes per group of GRPO."""
    recordings: int = Field(default=50, ge=1)
    """Recorded episodes per task for offline arms; a labelled arm may have its own number."""
    start_steps: int = Field(default=25, ge=1)
    """Optimizer steps of the initial SFT in sft-sdft."""
    evaluation_steps: int = Field(default=8, ge=1)
    """Step limit of evaluation episodes, the same for every arm."""
    parallel: int = Field(default=8, ge=1)
    """Number of concurrent episodes in evaluation."""

    @model_validator(mode="after")
    def _fair(self) -> LearnSettings:
        both = set(self.training.tasks) & set(self.unseen_tasks)
        if both:
            raise ValueError(f"{', '.join(sorted(both))}: listed as both trained and unseen")
        if told := sdft_only(self.training):
            raise ValueError(f"{' and '.join(told)}: not supported by all of the compared arms")
        if not set(self.first_group) < set(self.training.tasks):
            raise ValueError(
                f"the first group ({', '.join(map(short, self.first_group))}) must hold some, but not all, of the "
                f"trained tasks ({', '.join(map(short, self.training.tasks))}): choose it with --first"
            )
        if self.training.contexts != ("oracle",) or self.training.demonstrations:
            raise ValueError(
                "only SDFT uses contexts and demonstrations: set them for a labelled arm, such as sdft:shown"
            )
        if own := [name for name in ("seed", "first_episode_seed") if getattr(self.training, name)]:
            raise ValueError(f"{' and '.join(own)}: set by the training seeds; choose those with --seeds")
        if overlap(self.test_range, self.validation_range):
            raise ValueError(
                f"the validation seeds ({_range(self.validation_range)}) overlap with the test seeds "
                f"({_range(self.test_range)}): choose another first_validation_seed"
            )
        return self

    @property
    def test_range(self) -> range:
        """Evaluation seeds of each task."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def validation_range(self) -> range:
        """Validation seeds of each task."""
        return range(self.first_validation_seed, self.first_validation_seed + self.validation_seeds)

    def recorded_range(self, seed: int) -> range:
        """Return the seeds of a task's recordings for a training seed."""
        return range(seed * SEEDS_BETWEEN, seed * SEEDS_BETWEEN + self.recordings)

    def check_training_seed(self, seed: int, tasks: Sequence[str]) -> None:
        """Check that a training on these tasks, or on recordings of them, uses no validation or evaluation seed.

        Raises:
            ValueError: The seeds overlap.
        """
        played = self.training_for(seed, {"tasks": tuple(tasks)}, TrainSettings).episode_seeds
        trained = max(played, self.recorded_range(seed), key=len)
        judging = {"first_validation_seed": self.validation_range, "first_seed": self.test_range}
        for which, judged in judging.items():
            if overlap(trained, judged):
                name = "validation" if judged == self.validation_range else "testing"
                raise ValueError(
                    f"The episode seeds of training seed {seed} ({_range(trained)}) overlap with those of {name} "
                    f"({_range(judged)}): choose other training seeds, or begin a comparison with another {which}."
                )

    def changed(self, **changes: Any) -> LearnSettings:
        """Return a copy of the settings with changes.

        Raises:
            pydantic.ValidationError: A change is invalid.
        """
        return LearnSettings.model_validate({**self.model_dump(), **changes})

    @property
    def second_group(self) -> tuple[str, ...]:
        """Trained tasks that are learned second in a sequence."""
        return tuple(task for task in self.training.tasks if task not in self.first_group)

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks, the trained ones first."""
        return (*self.training.tasks, *self.unseen_tasks)

    def training_for(self, seed: int, changes: Mapping[str, Any], kind: type[T]) -> T:
        """Return the training settings of a training seed, with the changes that define the arm."""
        own = {"seed": seed, "first_episode_seed": seed * SEEDS_BETWEEN}
        return settings_of(kind, {**self.training.model_dump(), **own, **changes})


def demonstrations(training: Mapping[str, Any]) -> str:
    """Return the name of the stage that collects a training's demonstrations, a hash of the relevant settings.

    Args:
        training: The training settings as JSON.
    """
    inputs = {
        name: training[name]
        for name in (
            "model", "tasks", "seed", "first_episode_seed", "steps", "episodes_per_step", "max_rows",
            "max_episode_steps", "max_prompt_tokens", "actions",
        )
    }  # fmt: skip
    return f"demonstrations/{hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]}"


def _range(seeds: range) -> str:
    return f"{seeds.start} to {seeds.stop - 1}"


def default_settings(**training: Any) -> LearnSettings:
    """Return the settings of the published comparison; `training` overrides training settings."""
    tasks = tuple(map(env_id, FIRST_GROUP + SECOND_GROUP))
    own = {
        "tasks": tasks, "steps": 100, "episodes_per_step": 10, "max_rows": 24, "max_episode_steps": 6, "minutes": 90.0,
        "rehearsal": 0.1, "rehearsal_rows": 2, "rollouts": {"contexts": 10}, "snapshot_every": 30,
    }  # fmt: skip
    return LearnSettings(
        training=TrainSettings(**{**own, **training}),
        unseen_tasks=tuple(map(env_id, UNSEEN)),
        first_group=tuple(map(env_id, FIRST_GROUP)),
    )


def saved_settings(out: Path) -> LearnSettings | None:
    """Return the settings of the comparison in a folder, or None if the folder is new.

    Raises:
        ValueError: The folder holds other files, or a comparison of an older version.
    """
    path = out / "settings.json"
    if path.exists():
        try:
            data = json.loads(path.read_text(encoding="utf8"))
            return LearnSettings.model_validate({**data, "training": from_earlier(data.get("training", {}), path)})
        except (ValidationError, json.JSONDecodeError, AttributeError):
            raise ValueError(
                f"{path} is not from a comparison, or is from an older version; choose another folder with --out."
            ) from None
    # another process is about to begin the comparison
    if out.exists() and any(path.suffix != ".partial" for path in out.iterdir()):
        raise ValueError(f"{out} holds other files; choose another folder with --out.")
    return None


def prepare_folder(settings: LearnSettings, out: Path) -> None:
    """Save the settings, or check that they equal those saved in the folder.

    Raises:
        ValueError: They differ, or the folder holds other files.
    """
    saved = saved_settings(out)
    if saved is None:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / "settings.json", settings.model_dump_json(indent=1))
    elif saved != settings:
        old, new = _flat(saved), _flat(settings)
        changed = ", ".join(f"{name} ({old[name]} there)" for name in old if old[name] != new[name])
        raise ValueError(f"{out} holds a comparison with other settings: {changed}. Choose another folder with --out.")


def _flat(settings: LearnSettings) -> dict[str, Any]:
    data = settings.model_dump(mode="json")
    training = data.pop("training")
    return {**{f"training.{name}": value for name, value in training.items()}, **data}
