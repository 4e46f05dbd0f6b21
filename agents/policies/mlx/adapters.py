"""LoRA adapters on a running MLX model: applied, exchanged and removed without reloading the model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from selfsurf.agents.adapters.convert import peft_to_mlx
from selfsurf.agents.adapters.identity import PEFT_WEIGHTS, AdapterError, check_base, read_config
from selfsurf.agents.adapters.mlx import MLX_WEIGHTS, load_mlx_adapter


class Adapters:
    """The adapter of one model.

    Args:
        model: an mlx-lm or mlx-vlm model without adapters.
        folder: of the base model, to check that an adapter belongs to it.
        vision: whether it is one of mlx-vlm.
    """

    def __init__(self, model: Any, folder: Path, vision: bool) -> None:
        self._model = model
        self._folder = folder
        self._vision = vision
        self._plain: dict[str, Any] = dict(model.named_modules())

    def put(self, adapter: Path) -> None:
        """Apply this adapter alone.

        Args:
            adapter: a folder in the format of MLX, or of PEFT, which is converted.

        Raises:
            AdapterError: the adapter belongs to another base model, or does not fit this one.
            FileNotFoundError: the folder does not exist or holds no adapter.
        """
        if read_config(adapter).get("fine_tune_type") == "full":
            raise AdapterError(f"{adapter} replaces the model's own weights: load it as a model, not as an adapter.")
        if (adapter / MLX_WEIGHTS).is_file():
            check_base(adapter, self._folder)
            self._put(adapter)
        elif (adapter / PEFT_WEIGHTS).is_file():
            with tempfile.TemporaryDirectory(prefix="selfsurf-mlx-") as temporary:
                self._put(peft_to_mlx(adapter, temporary, base=self._folder))
        else:
            raise FileNotFoundError(f"There are no adapter weights at {adapter} ({MLX_WEIGHTS} or {PEFT_WEIGHTS}).")

    def remove(self) -> None:
        """Go back to the base model."""
        from mlx.utils import tree_unflatten

        now = dict(self._model.named_modules())
        replaced = [(name, module) for name, module in self._plain.items() if now.get(name) is not module]
        if replaced:
            self._model.update_modules(tree_unflatten(replaced))

    def _put(self, adapter: Path) -> None:
        self.remove()
        try:
            load_mlx_adapter(self._model, adapter, vision=self._vision)
        except Exception:
            self.remove()
            raise
