"""The student on MLX: a model with LoRA layers, its weights by name, and its teacher's weights.

Weights are passed to the model for every computation instead of being read from it, because a compiled function treats
a model's weights as constants.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten
from numpy.typing import NDArray

from selfsurf.agents.adapters.convert import mlx_to_peft
from selfsurf.agents.adapters.identity import CONFIG, identity, write_about
from selfsurf.agents.adapters.mlx import MLX_WEIGHTS
from selfsurf.agents.policies.mlx.policy import MLXPolicy
from selfsurf.sdft.mlx.loss import logits_at
from selfsurf.sdft.rollouts.models import reuse
from selfsurf.sdft.settings import TrainSettings

Weights: TypeAlias = dict[str, mx.array]
"""LoRA matrices by their names in MLX."""

_DTYPES: dict[str, Any] = {"auto": "auto", "bf16": "bfloat16", "fp32": "float32"}


class Student:
    """A model in training.

    Args:
        policy: policy of a model that has LoRA layers.
    """

    def __init__(self, policy: TrainedPolicy) -> None:
        from mlx_lm.tuner.lora import LoRALinear

        self.policy = policy
        self.net = policy.model
        self.net.eval()
        layers = {name: module for name, module in self.net.named_modules() if isinstance(module, LoRALinear)}
        flat: list[tuple[str, mx.array]] = tree_flatten(self.net.parameters())
        self.weights: Weights = {
            name: value.astype(mx.float32) for name, value in flat if name.endswith((".lora_a", ".lora_b"))
        }
        if len(self.weights) != 2 * len(layers):
            raise ValueError(f"{policy.name} has LoRA matrices on layers that aren't linear: train it with torch.")
        (self.rank,) = {module.lora_a.shape[1] for module in layers.values()}
        (self.scale,) = {float(module.scale) for module in layers.values()}
        self.teacher: Weights | None = None
        """Average of the student's weights; None before the first `follow`."""
        self.use(self.weights)
        policy.student = self

    @property
    def base(self) -> Weights:
        """LoRA weights with which the model exactly equals the untrained model."""
        return {
            name: mx.zeros_like(value) if name.endswith(".lora_b") else value for name, value in self.weights.items()
        }

    def use(self, weights: Weights) -> None:
        """Put weights into the model."""
        self.net.update(tree_unflatten(list(weights.items())))

    @contextmanager
    def as_(self, weights: Weights) -> Iterator[None]:
        """Put weights into the model within this context, and restore the student's afterwards."""
        self.use(weights)
        try:
            yield
        finally:
            self.use(self.weights)

    def put(self, weights: Weights) -> None:
        """Replace the student's weights."""
        mx.eval(weights)
        self.weights = weights
        self.use(weights)
        self.policy.forget()  # cached prompts belong to the old weights

    def follow(self, rate: float) -> None:
        """Move the teacher: `teacher = (1 - rate) * teacher + rate * student`. A new teacher copies the student."""
        if self.teacher is None:
            self.teacher = dict(self.weights)
            return
        self.teacher = {name: old + rate * (self.weights[name] - old) for name, old in self.teacher.items()}
        mx.eval(self.teacher)

    def save(self, folder: Path) -> None:
        """Write the adapter in MLX's format into a folder."""
        write(folder / MLX_WEIGHTS, self.weights)
        keys = sorted({name.rpartition(".")[0] for name in self.weights})
        told = {"rank": self.rank, "scale": self.scale, "dropout": 0.0, "keys": keys}
        config = {"fine_tune_type": "lora", "num_layers": -1, "lora_parameters": told}
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf8")

    def save_pretrained(self, folder: str) -> None:
        """Write the adapter in PEFT's format into an empty folder."""
        with tempfile.TemporaryDirectory(prefix="selfsurf-mlx-") as temporary:
            made = Path(temporary)
            self.save(made)
            write_about(made, identity(self.policy.name, self.policy.source))
            mlx_to_peft(made, folder, base=self.policy.source)


def write(path: Path, arrays: Weights) -> None:
    """Write arrays such that equal arrays give equal bytes, whatever their order."""
    mx.save_safetensors(str(path), dict(sorted(arrays.items())))


class TrainedPolicy(MLXPolicy):
    """A policy whose model is in training. Its options are those of `MLXPolicy`."""

    student: Student | None = None

    def text_logprobs(self, ids: list[int], *, base: bool = False) -> NDArray[np.float32]:
        """Return the log-probabilities (T, V) after each of T tokens of text, with or without the adapter."""
        assert self.student is not None
        with self.student.as_(self.student.base if base else self.student.weights):
            logits = logits_at(self.model, mx.array([ids]), mx.arange(len(ids))[None])[0]
            return np.array(nn.log_softmax(logits, axis=-1))


def load(settings: TrainSettings) -> TrainedPolicy:
    """Load the model that a run trains.

    Raises:
        agents.model_files.ModelError: the model can't be found, fetched or loaded.
    """
    return TrainedPolicy(settings.model, dtype=_DTYPES[settings.dtype], reuse=reuse(settings.rollouts.batch))


def student(policy: TrainedPolicy, settings: TrainSettings) -> dict[str, Any]:
    """Return the trainer's arguments: the student, with a new adapter or one from disk.

    Raises:
        ValueError: `lora_targets` contains a name that no linear layer has.
        agents.adapters.identity.AdapterError: the adapter on disk belongs to another base model, or doesn't fit.
    """
    if settings.start_from is not None:
        policy.set_adapter(settings.start_from)
    else:
        _add_layers(policy.model, settings)
    made = Student(policy)
    return {"model": made, "peft_config": {"r": made.rank}}


def _add_layers(net: Any, settings: TrainSettings) -> None:
    """Add adapters to the layers in `lora_targets`, initialized as by PEFT: B zero, A uniform."""
    from mlx_lm.tuner.lora import LoRALinear

    linear = {name: one for name, one in net.named_modules() if isinstance(one, (nn.Linear, nn.QuantizedLinear))}
    ends = {name.rpartition(".")[2] for name in linear}
    if unknown := [target for target in settings.lora_targets if target not in ends]:
        raise ValueError(
            f"lora_targets names {', '.join(unknown)}, but there is no such linear layer in the model. Available are "
            f"{', '.join(sorted(ends))}."
        )
    rank, key, made = settings.lora_rank, mx.random.key(settings.seed), []
    for name, layer in sorted(linear.items()):
        if name.rpartition(".")[2] in settings.lora_targets:
            lora = LoRALinear.from_base(layer, r=rank, dropout=0.0, scale=2.0)
            key, own = mx.random.split(key)
            bound = lora.lora_a.shape[0] ** -0.5
            lora.lora_a = mx.random.uniform(-bound, bound, lora.lora_a.shape, key=own)
            made.append((name, lora))
    net.update_modules(tree_unflatten(made))
