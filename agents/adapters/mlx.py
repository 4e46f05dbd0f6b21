"""Loading of an adapter onto a model in MLX, with a check that all of its weights are used."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from selfsurf.agents.adapters.identity import CONFIG, AdapterError

MLX_WEIGHTS = "adapters.safetensors"


def load_mlx_adapter(model: Any, folder: str | Path, *, vision: bool) -> int:
    """Load an MLX LoRA adapter onto a model, in place, and make sure that every key of the adapter is used.

    mlx-vlm itself ignores unknown names and then answers like the base model.

    Args:
        model: a model of mlx-lm or mlx-vlm, without adapter.
        folder: folder of the adapter, in MLX's format.
        vision: whether the model is mlx-vlm's.

    Returns:
        Number of modules that the adapter changes.

    Raises:
        FileNotFoundError: there is no adapter.
        AdapterError: part of the adapter does not fit the model. The model can't be used any more.
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
        what = f"{unused[0]} is not used" if unused else f"{empty[0]} is missing"
        raise AdapterError(f"The adapter at {folder} does not fit the model: {what} ({len(unused) + len(empty)} keys).")
    for name, value in given.items():
        if value.shape != there[name].shape or not core.array_equal(value, there[name]).item():
            raise AdapterError(f"The adapter at {folder} does not fit the model: {name} was not loaded.")
    return len(given) // 2
