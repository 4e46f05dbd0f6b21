"""LoRA adapters of one model: loaded by name, activated alone or as a weighted sum, dropped again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfsurf.agents.adapters.identity import check_base, check_peft
from selfsurf.agents.policies.local.policy import LocalPolicy

_OWN = "adapter_"


class LoraPolicy(LocalPolicy):
    """A policy around a torch model, with adapters. Loading the first one wraps the model with PEFT.

    They are cast to the model's precision: compared with float32 over bfloat16 this changes log-probabilities by less
    than bfloat16 itself does, and takes half the time. (Merging would be as fast, but loses small changes.)
    """

    model: Any
    """The model itself, wrapped by PEFT while an adapter is loaded; the base model's weights never change."""
    source: str | Path | None
    """Where it was loaded from, by which it is known whether an adapter belongs to it; None for a model in memory."""

    def _start(self, model: Any) -> None:
        """Begin with a model. Adapters that it already has belong to its owner: they stay, and others are refused."""
        self.model = model
        self.adapter_weights: dict[str, float] = {}
        """The active adapters and the weight of each; empty for the base model."""
        self._loaded: dict[str, Path] = {}
        self._loads = 0
        self._own: str | None = None  # the name of the adapter that set_adapter loaded
        self._owned = hasattr(model, "peft_config")

    @property
    def adapters(self) -> dict[str, Path]:
        """The folders of the adapters loaded by `load_adapter`, by name."""
        return {name: path for name, path in self._loaded.items() if name != self._own}

    def set_adapter(self, path: str | Path | None) -> None:
        """Switch to another LoRA adapter; None goes back to the base model. The weights are read at every call.

        To switch between several without reading them again, use `load_adapter` and `use_adapters`.

        Raises:
            FileNotFoundError: the folder does not exist or holds no adapter.
            agents.adapters.identity.WrongBase: the adapter belongs to another base model.
            ValueError: the model is a PEFT model in memory, whose adapters are its owner's.
        """
        if path is None:
            self.use_adapters([])
            return
        name = f"{_OWN}{self._loads + 1}"
        self._load(name, path)
        self.use_adapters([name])
        if self._own is not None:
            self.unload_adapter(self._own)
        self._own = name

    def load_adapter(self, name: str, path: str | Path) -> None:
        """Read an adapter from its folder and keep it under a name, for `use_adapters`.

        Raises:
            FileNotFoundError: the folder does not exist or holds no adapter.
            agents.adapters.identity.WrongBase: the adapter belongs to another base model.
            ValueError: the name is taken or can't be one, the adapter is not LoRA, or the model is a PEFT model in
                memory, whose adapters are its owner's.
        """
        if name.startswith(_OWN):
            raise ValueError(f"Names of adapters don't begin with {_OWN!r}.")
        if not name.isidentifier():
            raise ValueError(f"An adapter's name is letters, digits and underscores, not {name!r}.")
        if name in self._loaded:
            raise ValueError(f"There is an adapter {name!r} already, from {self._loaded[name]}; unload it first.")
        self._load(name, path)

    def use_adapters(self, names: Sequence[str], weights: Sequence[float] | None = None) -> None:
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
        for name in names:
            self._check_loaded(name)
        if len(set(names)) != len(names):
            raise ValueError(f"An adapter is named twice: {', '.join(names)}. Give it a weight instead.")
        if len(factors) != len(names) or not all(math.isfinite(factor) for factor in factors):
            raise ValueError(f"{len(names)} adapters need as many finite weights, not {factors}.")
        alone = factors == [1.0]
        if names and not alone:
            self._check_linear(names)
        if names:
            self.model.active_adapter = names[0]  # PEFT's outer model knows one only, and asks its configuration
            self.model.base_model.set_adapter(list(names), inference_mode=True)
            for module in self.model.modules():
                if hasattr(module, "set_scale"):
                    for name, factor in zip(names, factors, strict=True):
                        module.set_scale(name, factor)
        self.adapter_weights = dict(zip(names, factors, strict=True))
        self.adapter = self._loaded[names[0]] if alone else None

    def unload_adapter(self, name: str) -> None:
        """Drop an adapter and free its memory.

        Raises:
            ValueError: it is not loaded, or it is active.
        """
        self._check_loaded(name)
        if name in self.adapter_weights:
            raise ValueError(f"The adapter {name!r} is active; activate others first.")
        others = [other for other in self._loaded if other != name]
        if others:
            # PEFT's active adapter must be one that stays.
            active = list(self.adapter_weights) or others[:1]
            self.model.set_adapter(active[0], inference_mode=True)
            self.model.base_model.set_adapter(active, inference_mode=True)
            self.model.delete_adapter(name)
        else:
            self.model = self.model.unload()
        del self._loaded[name]

    def _load(self, name: str, path: str | Path) -> None:
        from peft import PeftConfig, PeftModel

        self._check_ours()
        folder = Path(path).expanduser()
        check_peft(folder)
        check_base(folder, self.source, model=self.model, name=self.name)
        config = PeftConfig.from_pretrained(str(folder))
        if config.peft_type != "LORA":
            raise ValueError(f"{folder} is a {config.peft_type} adapter; only LoRA is supported.")
        dtype = self.model.get_input_embeddings().weight.dtype
        if self._loaded:
            self.model.load_adapter(str(folder), adapter_name=name)
        else:
            self.model = PeftModel.from_pretrained(self.model, str(folder), adapter_name=name)
        for key, parameter in self.model.named_parameters():
            if f".{name}." in key:
                parameter.data = parameter.data.to(dtype)
        self.model.eval()
        self._loaded[name] = folder
        self._loads += 1

    def _check_ours(self) -> None:
        if self._owned:
            raise ValueError("The adapters of a PEFT model in memory belong to its owner; use its own set_adapter.")

    def _check_loaded(self, name: str) -> None:
        if name not in self._loaded:
            raise ValueError(f"No adapter {name!r} is loaded; there are: {', '.join(self._loaded) or 'none'}.")

    def _check_linear(self, names: Sequence[str]) -> None:
        for name in names:
            config = self.model.peft_config[name]
            if config.use_dora or config.modules_to_save or config.bias != "none":
                raise ValueError(
                    f"The adapter {name!r} can't be summed or weighted: it is more than low-rank changes "
                    "(DoRA, biases, or whole layers of its own)."
                )
