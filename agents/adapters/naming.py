"""What mlx-vlm calls the modules of a vision-language model. mlx-lm keeps transformers' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selfsurf.agents.adapters.identity import AdapterError

_IDEFICS3 = (
    ("model.text_model.", "language_model."),
    ("model.vision_model.", "vision_model."),
    ("model.connector.", "connector."),
    ("lm_head", "language_model.lm_head"),
)
_QWEN = (
    ("model.language_model.", "language_model.model."),
    ("model.visual.", "vision_tower."),
    ("lm_head", "language_model.lm_head"),
)
VISION: dict[str, tuple[tuple[str, str], ...]] = {
    "idefics3": _IDEFICS3,
    "smolvlm": _IDEFICS3,
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": _QWEN,
    "qwen3_vl": _QWEN,
}
"""By `model_type`: how names begin in transformers, and how in mlx-vlm."""


def to_mlx(module: str, config: Mapping[str, Any]) -> str:
    """Return MLX's name of a module of transformers.

    Args:
        module: its name in transformers.
        config: the base model's configuration.

    Raises:
        AdapterError: it is not known how the module is called there.
    """
    return _rename(module, [(ours, theirs) for ours, theirs in _prefixes(config)])


def from_mlx(module: str, config: Mapping[str, Any]) -> str:
    """Return transformers' name of a module of MLX. Arguments and errors are those of `to_mlx`."""
    return _rename(module, [(theirs, ours) for ours, theirs in _prefixes(config)])


def _prefixes(config: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    if not isinstance(config.get("vision_config"), Mapping):
        return (("", ""),)
    kind = str(config.get("model_type"))
    if kind not in VISION:
        raise AdapterError(
            f"It is not known how MLX names the modules of {kind}; the vision models known are {', '.join(VISION)}. "
            "Add it to VISION in agents/adapters/naming.py."
        )
    return VISION[kind]


def _rename(module: str, prefixes: list[tuple[str, str]]) -> str:
    for before, after in sorted(prefixes, key=lambda pair: -len(pair[0])):
        if module.startswith(before):
            return after + module[len(before) :]
    raise AdapterError(f"{module} is no module of such a model; they begin with {', '.join(p[0] for p in prefixes)}.")
