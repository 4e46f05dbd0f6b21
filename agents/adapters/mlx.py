"""Putting an adapter on a model in MLX, with the proof that all of it is there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from selfsurf.agents.adapters.identity import CONFIG, AdapterError

MLX_WEIGHTS = "adapters.safetensors"


def load_mlx_adapter(model: Any, folder: str | Path, *, vision: bool) -> int:
    """Put an MLX LoRA adapter on a model, in place, and make sure that every one of its keys is used.

    mlx-vlm itself ignores names that it does not know, and then answers as the base model would.

    Args:
        model: of mlx-lm, or of mlx-vlm; without adapter.
        folder: the adapter, in MLX's format.
        vision: whether the model is of mlx-vlm.

    Returns:
        How many modules it changes.

    Raises:
        FileNotFoundError: there is no adapter.
        AdapterError: some of it does not fit the model. The model is then of no further use.
    """
    folder = Path(folder).expanduser()
    for file in (CONFIG, MLX_WEIGHTS):
        if not (folder / file).is_file():
            raise FileNotFoundError(f"There is no MLX adapter at {folder} (no {file}).")
    if vision:
        apply: Any = import_module("mlx_vlm.trainer.peft.utils").apply_lora_layers
    else:
        apply = import_module("mlx_lm.tuner.utils").load_adapters
    try:
        apply(model, str(folder))
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        raise AdapterError(f"The adapter at {folder} does not fit the model: {error}") from error
    model.eval()
    core, flatten = import_module("mlx.core"), import_module("mlx.utils").tree_flatten
    given = core.load(str(folder / MLX_WEIGHTS))
    there = {name: value for name, value in flatten(model.parameters()) if name.endswith((".lora_a", ".lora_b"))}
    unused, empty = sorted(set(given) - set(there)), sorted(set(there) - set(given))
    if unused or empty:
        what = f"{unused[0]} is not used" if unused else f"{empty[0]} is not in it"
        raise AdapterError(f"The adapter at {folder} does not fit the model: {what} ({len(unused) + len(empty)} keys).")
    for name, value in given.items():
        if value.shape != there[name].shape or not core.array_equal(value, there[name]).item():
            raise AdapterError(f"The adapter at {folder} does not fit the model: {name} was not taken over.")
    return len(given) // 2
