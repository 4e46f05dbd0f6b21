"""Module names of vision-language models in mlx-vlm. mlx-lm keeps the names of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selfsurf.agents.adapters.identity import AdapterError

_HEAD = {"lm_head": "language_model.lm_head"}
_IDEFICS3 = {"model.text_model.": "language_model.", "model.vision_model.": "vision_model.",
             "model.connector.": "connector.", **_HEAD}  # fmt: skip
_QWEN = {"model.language_model.": "language_model.model.", "model.visual.": "vision_tower.", **_HEAD}
_GEMMA3 = {"model.language_model.": "language_model.model.", "model.vision_tower.": "vision_tower.vision_model.",
           **_HEAD}  # fmt: skip
_MLLAMA = {"model.language_model.": "language_model.model.", "model.vision_model.": "vision_tower.",
           "model.multi_modal_projector": "multi_modal_projector", **_HEAD}  # fmt: skip
VISION: dict[str, dict[str, str]] = {
    **dict.fromkeys(("idefics3", "smolvlm"), _IDEFICS3),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl"), _QWEN),
    "gemma3": _GEMMA3,
    "mllama": _MLLAMA,
}
"""Prefixes of module names in transformers, mapped to mlx-vlm's, by `model_type`."""


def to_mlx(module: str, config: Mapping[str, Any]) -> str:
    """Return MLX's name of a module of transformers.

    Args:
        module: the module's name in transformers.
        config: the base model's configuration.

    Raises:
        AdapterError: MLX's name of the module is unknown.
    """
    return _rename(module, _prefixes(config))


def from_mlx(module: str, config: Mapping[str, Any]) -> str:
    """Return transformers' name of a module of MLX. Arguments and errors are those of `to_mlx`."""
    return _rename(module, {theirs: ours for ours, theirs in _prefixes(config).items()})


def _prefixes(config: Mapping[str, Any]) -> dict[str, str]:
    if not isinstance(config.get("vision_config"), Mapping):
        return {"": ""}
    kind = str(config.get("model_type"))
    if kind not in VISION:
        raise AdapterError(
            f"MLX's names for the modules of {kind} are unknown; the known vision models are {', '.join(VISION)}. "
            "Add the model to VISION in agents/adapters/naming.py."
        )
    return VISION[kind]


def _rename(module: str, prefixes: Mapping[str, str]) -> str:
    for before in sorted(prefixes, key=len, reverse=True):
        if module.startswith(before):
            return prefixes[before] + module[len(before) :]
    raise AdapterError(f"Unknown module {module}: the model's modules begin with {', '.join(prefixes)}.")
