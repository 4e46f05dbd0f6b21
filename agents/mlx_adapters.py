"""LoRA adapters on MLX models: put on, taken off again, and refused if one of their weights finds no place.

mlx-vlm loads adapters without looking whether their names exist in the model, so that a wrong name loads nothing.
"""

from __future__ import annotations

import json
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from agents.models import ModelError

WEIGHTS = "adapters.safetensors"
_CONFIG = "adapter_config.json"
_PEFT_WEIGHTS = "adapter_model.safetensors"


class Adapters:
    """The adapter of one model.

    Args:
        model: an mlx-lm or mlx-vlm model without adapters.
        folder: of the base model, by which it is known whether an adapter belongs to it.
        vision: whether it is one of mlx-vlm.
    """

    def __init__(self, model: Any, folder: Path, vision: bool) -> None:
        self._model = model
        self._folder = folder
        self._vision = vision
        self._plain: dict[str, Any] = dict(model.named_modules())

    def put(self, adapter: Path) -> None:
        """Put this adapter on, and no other.

        Args:
            adapter: a folder in the format of MLX, or of PEFT, which is converted.

        Raises:
            agents.models.ModelError: the adapter belongs to another base model, or does not fit this one.
            FileNotFoundError: the folder does not exist or holds no adapter.
        """
        if not (adapter / _CONFIG).is_file():
            raise FileNotFoundError(f"There is no LoRA adapter at {adapter} (no {_CONFIG}).")
        if (adapter / WEIGHTS).is_file():
            _converter("identity").check_base(adapter, self._folder)
            self._put(adapter)
        elif (adapter / _PEFT_WEIGHTS).is_file():
            with tempfile.TemporaryDirectory(prefix="selfsurf-mlx-") as temporary:
                self._put(_converter("convert").peft_to_mlx(adapter, Path(temporary), base=self._folder))
        else:
            raise FileNotFoundError(f"There are no adapter weights at {adapter} ({WEIGHTS} or {_PEFT_WEIGHTS}).")

    def remove(self) -> None:
        """Go back to the base model."""
        from mlx.utils import tree_unflatten

        now = dict(self._model.named_modules())
        replaced = [(name, module) for name, module in self._plain.items() if now.get(name) is not module]
        if replaced:
            self._model.update_modules(tree_unflatten(replaced))

    def _put(self, adapter: Path) -> None:
        self.remove()
        if json.loads((adapter / _CONFIG).read_text("utf8")).get("fine_tune_type", "lora") == "full":
            raise ModelError(f"{adapter} replaces the model's own weights; load it as a model, not as an adapter.")
        try:
            if self._vision:
                from mlx_vlm.trainer.peft.utils import apply_lora_layers

                apply_lora_layers(self._model, adapter)
            else:
                from mlx_lm.tuner.utils import load_adapters

                load_adapters(self._model, str(adapter))
            self._check(adapter)
        except (ModelError, ValueError, KeyError, AttributeError) as error:
            self.remove()
            raise ModelError(f"The adapter at {adapter} does not fit the model at {self._folder}: {error}") from error
        self._model.eval()  # the new layers' dropout

    def _check(self, adapter: Path) -> None:
        """Make sure that each of the adapter's weights is in the model, and that it has no others."""
        import mlx.core as mx
        from mlx.utils import tree_flatten

        given: Any = mx.load(str(adapter / WEIGHTS))
        taken = dict(tree_flatten(self._model.parameters()))
        unused = [
            key
            for key, value in given.items()
            if key not in taken or taken[key].shape != value.shape or not mx.array_equal(taken[key], value).item()
        ]
        if unused or not given:
            raise ModelError(f"{len(unused)} of its {len(given)} weights have no place there: {', '.join(unused[:3])}.")
        empty = [key for key in taken if key.endswith((".lora_a", ".lora_b")) and key not in given]
        if empty:
            raise ModelError(f"it has no weights for {len(empty)} of its own layers: {', '.join(empty[:3])}.")


def _converter(module: str) -> Any:
    return import_module(f"agents.adapters.{module}")
