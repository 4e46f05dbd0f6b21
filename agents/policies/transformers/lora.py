"""LoRA adapters of one model: loaded by name, activated alone or as a weighted sum, dropped again."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.agents.adapters.identity import check_base

if TYPE_CHECKING:
    import torch


class Adapters:
    """The adapters of a model. Loading the first one wraps the model with PEFT; `model` is what to call.

    They are cast to the model's precision: compared with float32 over bfloat16 this changes log-probabilities by less
    than bfloat16 itself does, and takes half the time. (Merging would be as fast, but loses small changes.)

    Args:
        model: the base model, whose weights never change. Adapters that it already has belong to its owner: they stay
            as they are, and others are refused.
        dtype: the precision of the adapters' weights.
        source: where the model was loaded from, by which it is known whether an adapter belongs to it; None for a
            model in memory.
        name: how the model is called in messages.
    """

    def __init__(self, model: Any, dtype: torch.dtype, *, source: str | Path | None = None, name: str = "") -> None:
        self.model = model
        self.loaded: dict[str, Path] = {}
        """Where each adapter came from, by name."""
        self.weights: dict[str, float] = {}
        """The active adapters and the weight of each; empty for the base model."""
        self._loads = 0
        self._dtype = dtype
        self._source = source
        self._name = name
        self._owned = hasattr(model, "peft_config")

    def load(self, name: str, path: str | Path) -> None:
        """Read an adapter from its folder without activating it.

        Raises:
            FileNotFoundError: the folder does not exist or holds no adapter.
            agents.adapters.identity.WrongBase: the adapter belongs to another base model.
            ValueError: the name is taken or not an identifier, the adapter is not LoRA, or the model is a PEFT model in
                memory, whose adapters are its owner's.
        """
        from peft import PeftConfig, PeftModel

        self._check_ours()
        if not name.isidentifier():
            raise ValueError(f"An adapter's name is letters, digits and underscores, not {name!r}.")
        if name in self.loaded:
            raise ValueError(f"There is an adapter {name!r} already, from {self.loaded[name]}; unload it first.")
        folder = Path(path).expanduser()
        check_base(folder, self._source, model=self.model, name=self._name)
        config = PeftConfig.from_pretrained(str(folder))
        if config.peft_type != "LORA":
            raise ValueError(f"{folder} is a {config.peft_type} adapter; only LoRA is supported.")
        if self.loaded:
            self.model.load_adapter(str(folder), adapter_name=name)
        else:
            self.model = PeftModel.from_pretrained(self.model, str(folder), adapter_name=name)
        for key, parameter in self.model.named_parameters():
            if f".{name}." in key:
                parameter.data = parameter.data.to(self._dtype)
        self.model.eval()
        self.loaded[name] = folder
        self._loads += 1

    def use(self, names: Sequence[str], weights: Sequence[float] | None = None) -> None:
        """Activate adapters: what they add to the base model is summed. An empty list gives the base model.

        Nothing is read or copied, so this is cheap enough for every call.

        Args:
            names: of loaded adapters.
            weights: the factor of each; 1 if None.

        Raises:
            ValueError: an adapter that is not loaded or named twice, weights that do not match the names, adapters
                that can't be summed (DoRA, biases, or whole layers of their own), or a PEFT model in memory.
        """
        self._check_ours()
        factors = [1.0] * len(names) if weights is None else [float(weight) for weight in weights]
        missing = [name for name in names if name not in self.loaded]
        if missing:
            raise ValueError(f"No adapter {missing[0]!r} is loaded; there are: {', '.join(self.loaded) or 'none'}.")
        if len(set(names)) != len(names):
            raise ValueError(f"An adapter is named twice: {', '.join(names)}. Give it a weight instead.")
        if len(factors) != len(names) or not all(math.isfinite(factor) for factor in factors):
            raise ValueError(f"{len(names)} adapters need as many finite weights, not {factors}.")
        if names and (len(names) > 1 or factors != [1.0]):
            self._check_linear(names)
        if names:
            self.model.active_adapter = names[0]  # PEFT's outer model knows one only, and asks its configuration
            self.model.base_model.set_adapter(list(names), inference_mode=True)
            for module in self.model.modules():
                if hasattr(module, "set_scale"):
                    for name, factor in zip(names, factors, strict=True):
                        module.set_scale(name, factor)
        self.weights = dict(zip(names, factors, strict=True))

    def unload(self, name: str) -> None:
        """Drop an adapter and free its memory.

        Raises:
            ValueError: it is not loaded, or it is active.
        """
        if name not in self.loaded:
            raise ValueError(f"No adapter {name!r} is loaded; there are: {', '.join(self.loaded) or 'none'}.")
        if name in self.weights:
            raise ValueError(f"The adapter {name!r} is active; activate others first.")
        others = [other for other in self.loaded if other != name]
        if others:
            # PEFT's active adapter must be one that stays.
            active = list(self.weights) or others[:1]
            self.model.set_adapter(active[0], inference_mode=True)
            self.model.base_model.set_adapter(active, inference_mode=True)
            self.model.delete_adapter(name)
        else:
            self.model = self.model.unload()
        del self.loaded[name]

    def in_use(self) -> Hashable:
        """A key of the active adapters, which changes when they do."""
        return (self._loads, tuple(self.weights.items()))

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Call the model with the adapters that `use` chose: PEFT keeps one active even where that is none."""
        if self.loaded and not self.weights:
            with self.model.disable_adapter():
                yield
        else:
            yield

    def _check_ours(self) -> None:
        if self._owned:
            raise ValueError("The adapters of a PEFT model in memory belong to its owner; use its own set_adapter.")

    def _check_linear(self, names: Sequence[str]) -> None:
        for name in names:
            config = self.model.peft_config[name]
            if config.use_dora or config.modules_to_save or config.bias != "none":
                raise ValueError(
                    f"The adapter {name!r} can't be summed or weighted: it is more than low-rank changes "
                    "(DoRA, biases, or whole layers of its own)."
                )
