"""LoRA adapters of a model: loading by name, activation alone or as a weighted sum, and unloading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfsurf.agents.adapters.identity import check_base, check_peft
from selfsurf.agents.policies.local.policy import LocalPolicy

_OWN = "adapter_"
_CHANGING = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Initialisations of an adapter (`init_lora_weights`) that change the base model's weights."""


class LoraPolicy(LocalPolicy):
    """A policy around a torch model with adapters. Loading the first adapter wraps the model with PEFT.

    Adapters are cast to the model's precision: compared with float32 over bfloat16, this changes log-probabilities by
    less than bfloat16 itself does, and takes half the time. (Merging would be as fast, but loses small changes.)
    """

    model: Any
    """The model itself, wrapped by PEFT while an adapter is loaded; the base model's weights never change."""
    source: str | Path | None
    """Source of the model, against which adapters are checked; None for a model in memory."""

    def _start(self, model: Any) -> None:
        """Set the model. Adapters already in the model belong to its owner: they stay, and no others can be loaded."""
        self.model = model
        self.adapter_weights: dict[str, float] = {}
        """Weights of the active adapters by name; empty for the base model."""
        self._loaded: dict[str, Path] = {}
        self._loads = 0
        self._own: str | None = None  # name of the adapter loaded by set_adapter
        self._owned = hasattr(model, "peft_config")

    @property
    def adapters(self) -> dict[str, Path]:
        """Folders of the adapters loaded by `load_adapter`, by name."""
        return {name: path for name, path in self._loaded.items() if name != self._own}

    def set_adapter(self, path: str | Path | None) -> None:
        """Switch to another LoRA adapter, or to the base model (None). The weights are read at every call.

        To switch between several adapters without reading them again, use `load_adapter` and `use_adapters`.

        Raises:
            FileNotFoundError: the folder does not exist or contains no adapter.
            agents.adapters.identity.WrongBase: the adapter belongs to another base model.
            ValueError: as for `load_adapter`.
        """
        if path is None:
            self.use_adapters([])
            return
        name = f"{_OWN}{self._loads + 1}"
        self._load(name, path, replaces=self._own)
        self.use_adapters([name])
        if self._own is not None:
            self.unload_adapter(self._own)
        self._own = name

    def load_adapter(self, name: str, path: str | Path) -> None:
        """Load an adapter from its folder under a name, for `use_adapters`.

        Raises:
            FileNotFoundError: the folder does not exist or contains no adapter.
            agents.adapters.identity.WrongBase: the adapter belongs to another base model.
            ValueError: the name is invalid or in use; the adapter is not LoRA, would change the base model, or trains
                rows of the embedding (`trainable_token_indices`) and is not the only adapter; or the model is a PEFT
                model in memory, whose adapters belong to its owner.
        """
        if name.startswith(_OWN):
            raise ValueError(f"An adapter's name must not begin with {_OWN!r}.")
        if not name.isidentifier():
            raise ValueError(f"An adapter's name must consist of letters, digits and underscores, not {name!r}.")
        if name in self._loaded:
            raise ValueError(f"An adapter {name!r} is already loaded from {self._loaded[name]}; unload it first.")
        self._load(name, path)

    def use_adapters(self, names: Sequence[str], weights: Sequence[float] | None = None) -> None:
        """Activate adapters, whose contributions to the base model are summed. An empty list activates the base model.

        Nothing is read or copied, so this is cheap enough for every call.

        Args:
            names: names of loaded adapters.
            weights: factor of each adapter; 1 if None.

        Raises:
            ValueError: an adapter that is not loaded or named twice, weights that do not match the names, adapters that
                can't be summed (DoRA, or with whole layers or token rows), or a PEFT model in memory.
        """
        self._check_ours()
        factors = [1.0] * len(names) if weights is None else [float(weight) for weight in weights]
        for name in names:
            self._check_loaded(name)
        if len(set(names)) != len(names):
            raise ValueError(f"An adapter is listed twice: {', '.join(names)}. Give the adapter a weight instead.")
        if len(factors) != len(names) or not all(math.isfinite(factor) for factor in factors):
            raise ValueError(f"{len(names)} adapters need one finite weight each, not {factors}.")
        alone = factors == [1.0]
        if names and not alone:
            self._check_linear(names)
        if names:
            self.model.active_adapter = names[0]  # PEFT's outer model reads the configuration of one active adapter
            self.model.base_model.set_adapter(list(names), inference_mode=True)
            for module in self.model.modules():
                if hasattr(module, "set_scale"):
                    for name, factor in zip(names, factors, strict=True):
                        module.set_scale(name, factor)
        self.adapter_weights = dict(zip(names, factors, strict=True))
        self.adapter = self._loaded[names[0]] if alone else None

    def unload_adapter(self, name: str) -> None:
        """Unload an adapter and free its memory.

        Raises:
            ValueError: the adapter is not loaded, or is active.
        """
        self._check_loaded(name)
        if name in self.adapter_weights:
            raise ValueError(f"The adapter {name!r} is active; activate other adapters first.")
        self._drop(name)

    def _drop(self, name: str) -> None:
        others = [other for other in self._loaded if other != name]
        if others:
            # PEFT's active adapter must be one that remains.
            active = list(self.adapter_weights) or others[:1]
            self.model.set_adapter(active[0], inference_mode=True)
            self.model.base_model.set_adapter(active, inference_mode=True)
            self.model.delete_adapter(name)
        else:
            self.model = self.model.unload()
        self._loaded.pop(name, None)

    def _load(self, name: str, path: str | Path, replaces: str | None = None) -> None:
        """Load an adapter. A failed load leaves the other adapters unchanged.

        Args:
            name: a new name.
            path: folder of the adapter.
            replaces: the adapter that the caller unloads afterwards.
        """
        from peft import PeftConfig, PeftModel

        self._check_ours()
        folder = Path(path).expanduser()
        check_peft(folder)
        check_base(folder, self.source, model=self.model, name=self.name)
        config = PeftConfig.from_pretrained(str(folder))
        if config.peft_type != "LORA":
            raise ValueError(f"{folder} is a {config.peft_type} adapter; only LoRA is supported.")
        _check_base_stays(config, folder, self.model)
        self._make_room(config, folder, replaces)
        dtype = self.model.get_input_embeddings().weight.dtype
        if self._loaded:
            try:
                self.model.load_adapter(str(folder), adapter_name=name)
            except BaseException:
                if name in self.model.peft_config:
                    self._drop(name)
                raise
        else:
            children = {module: dict(module._modules) for module in self.model.modules()}
            try:
                self.model = PeftModel.from_pretrained(self.model, str(folder), adapter_name=name)
            except BaseException:
                for module, own in children.items():
                    module._modules.clear()
                    module._modules.update(own)
                raise
        for key, parameter in self.model.named_parameters():
            if f".{name}." in key:
                parameter.data = parameter.data.to(dtype)
        self.model.eval()
        self._loaded[name] = folder
        self._loads += 1

    def _make_room(self, config: Any, folder: Path, replaces: str | None) -> None:
        """Make sure that an adapter with token rows is the only one, since PEFT can't load or sum others beside it."""
        with_rows = [name for name in self._loaded if self.model.peft_config[name].trainable_token_indices]
        if not config.trainable_token_indices and not with_rows:
            return
        others = [name for name in self._loaded if name != replaces]
        if others:
            raise ValueError(
                f"{folder} can't be loaded beside {', '.join(others)}: an adapter that trains rows of the embedding "
                "(trainable_token_indices) must be the only adapter. Unload the others first."
            )
        if replaces is not None:
            self.use_adapters([])
            self.unload_adapter(replaces)
            self._own = None

    def _check_ours(self) -> None:
        if self._owned:
            raise ValueError(
                "The adapters of a PEFT model in memory belong to its owner; use the model's own set_adapter."
            )

    def _check_loaded(self, name: str) -> None:
        if name not in self._loaded:
            raise ValueError(f"No adapter {name!r} is loaded; loaded adapters: {', '.join(self._loaded) or 'none'}.")

    def _check_linear(self, names: Sequence[str]) -> None:
        for name in names:
            config = self.model.peft_config[name]
            if config.use_dora or config.modules_to_save or config.trainable_token_indices:
                raise ValueError(
                    f"The adapter {name!r} can't be summed or weighted: it contains more than low-rank "
                    "changes (DoRA, whole layers or rows of the embedding)."
                )


def _check_base_stays(config: Any, folder: Path, model: Any) -> None:
    """Refuse an adapter that PEFT loads by changing the base model, or that depends on the preceding text.

    Raises:
        ValueError: the adapter is of such a kind.
    """
    started = config.init_lora_weights
    if isinstance(started, str) and started.startswith(_CHANGING):
        raise ValueError(
            f"{folder} can't be used: loading it changes the base model's weights (init_lora_weights={started!r}). "
            "Save it as plain LoRA with PEFT's save_pretrained(path_initial_model_for_weight_conversion=...)."
        )
    if config.bias != "none" and any(key.endswith(".bias") for key, _ in model.named_parameters()):
        raise ValueError(f"{folder} can't be used: loading it changes the base model's biases (bias={config.bias!r}).")
    for field in ("layer_replication", "alora_invocation_tokens", "arrow_config"):
        if getattr(config, field):
            raise ValueError(f"{folder} can't be used: {field} is not supported.")
