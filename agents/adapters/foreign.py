"""Check of a LoRA adapter from an untrusted source before loading: configuration and weights.

PEFT's configuration can request other methods, more memory than the weights have, and whole additional modules. Only
settings that `selfsurf train` writes are accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from selfsurf.agents.adapters import tensors
from selfsurf.agents.adapters.identity import CONFIG, PEFT_WEIGHTS, AdapterError, check_peft, read_json

MOST_RANK = 256


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_MAY_BE: Mapping[str, Callable[[Any], bool]] = {
    "peft_type": lambda value: value == "LORA",
    "task_type": lambda value: value in (None, "CAUSAL_LM"),
    "r": lambda value: type(value) is int and 1 <= value <= MOST_RANK,
    "lora_alpha": lambda value: _is_number(value) and 0 < value <= 1e4,
    "lora_dropout": lambda value: _is_number(value) and 0 <= value < 1,
    "target_modules": lambda value: isinstance(value, list) and bool(value) and all(map(_is_text, value)),
    "bias": lambda value: value == "none",
    "init_lora_weights": lambda value: isinstance(value, bool),
    "inference_mode": lambda value: isinstance(value, bool),
    "use_rslora": lambda value: isinstance(value, bool),
    "base_model_name_or_path": lambda value: value is None or _is_text(value),
    "peft_version": _is_text,
    "megatron_core": _is_text,
    "qalora_group_size": lambda value: type(value) is int,
}
"""Validators of PEFT's settings by name; settings not listed must be off: null, false or empty."""


def check_foreign(folder: Path) -> None:
    """Make sure that a folder contains a plain LoRA adapter in PEFT's format.

    Raises:
        AdapterError: the folder contains something else; the message names the problem.
        agents.adapters.tensors.DamagedFile: the weights are damaged.
        FileNotFoundError: there is no adapter.
    """
    check_peft(folder)
    if not (folder / PEFT_WEIGHTS).is_file():
        raise AdapterError(f"it has no {PEFT_WEIGHTS}")
    config = read_json(folder / CONFIG)
    for name in ("peft_type", "r", "target_modules"):
        config.setdefault(name, None)
    for name, value in config.items():
        may_be = _MAY_BE.get(name, lambda value: not value)
        if not may_be(value):
            raise AdapterError(f"{CONFIG}: {name} can't be {str(value)[:80]!r}")
    _check_weights(folder / PEFT_WEIGHTS, config["r"])


def _check_weights(path: Path, rank: int) -> None:
    for name, one in tensors.read(path).items():
        place = 0 if ".lora_A." in name else 1 if ".lora_B." in name else None
        if place is None or len(one.shape) != 2 or one.dtype not in ("F32", "F16", "BF16"):
            raise AdapterError(f"{path.name}: {name[:120]} is not a matrix of a LoRA adapter")
        if one.shape[place] != rank:
            raise AdapterError(f"{path.name}: {name[:120]} has rank {one.shape[place]}, but {CONFIG} says {rank}")
        if not _is_finite(one):
            raise AdapterError(f"{path.name}: {name[:120]} has values that are not finite")


def _is_finite(one: tensors.Tensor) -> bool:
    if one.dtype == "BF16":  # bfloat16 is the upper half of a float32
        return not bool(((np.frombuffer(one.data, np.uint16) & 0x7F80) == 0x7F80).any())
    return bool(np.isfinite(np.frombuffer(one.data, np.float16 if one.dtype == "F16" else np.float32)).all())
