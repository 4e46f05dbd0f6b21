"""Conversion of adapters between PEFT's and MLX's formats, file to file.

Every key is converted without changing a value, or the adapter is refused. MLX transposes both matrices and has a
single rank and scale for all modules. Its modules are listed by full name, so that exactly those of the PEFT adapter
change, whatever their layers. (`num_layers`, which mlx-lm requires, concerns only names relative to a layer.) PEFT's
configuration is kept inside MLX's, and restored by the conversion back.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from selfsurf.agents.adapters import base as bases
from selfsurf.agents.adapters import tensors
from selfsurf.agents.adapters.identity import (
    CONFIG,
    PEFT_WEIGHTS,
    AdapterError,
    check_base,
    check_modules,
    identity,
    read_about,
    read_config,
    write_about,
)  # fmt: skip
from selfsurf.agents.adapters.mlx import MLX_WEIGHTS
from selfsurf.agents.adapters.naming import from_mlx, to_mlx
from selfsurf.agents.adapters.tensors import Tensor
from selfsurf.browser_env.record.episode import write_atomically

_PEFT_KEY = re.compile(r"^base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight$")
_MLX_KEY = re.compile(r"^(?P<module>.+)\.lora_(?P<side>[ab])$")
_KEPT = "peft_config"
_HARMLESS = frozenset({
    "alpha_pattern", "auto_mapping", "base_model_name_or_path", "bias", "corda_config", "ensure_weight_tying",
    "eva_config", "exclude_modules", "inference_mode", "init_lora_weights", "layers_pattern", "layers_to_transform",
    "loftq_config", "lora_alpha", "lora_dropout", "lora_ga_config", "megatron_core", "peft_type", "peft_version",
    "qalora_group_size", "r", "rank_pattern", "revision", "target_modules", "task_type", "use_rslora",
})  # fmt: skip
"""PEFT's settings that the conversion handles, or that don't affect the output of a loaded adapter."""
_PLAIN_LORA = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none", "inference_mode": True}
_BASE_KEPT = (True, False, "gaussian", "eva", "orthogonal")
"""Initialisations of an adapter that leave the base model's weights unchanged."""


def peft_to_mlx(folder: str | Path, out: str | Path, *, base: str | Path) -> Path:
    """Convert a PEFT LoRA adapter to MLX's format, for mlx-lm or mlx-vlm depending on the base model.

    Args:
        folder: folder of the adapter.
        out: a folder that does not exist yet, or is empty.
        base: the adapter's base model: short name, folder, or the hub id of a cached model.

    Returns:
        `out`.

    Raises:
        WrongBase: the adapter belongs to another base model.
        AdapterError: MLX's LoRA can't express the adapter, or `out` is not empty.
        FileNotFoundError: there is no adapter.
    """
    folder, out = Path(folder).expanduser(), _empty(out)
    config = _config(folder, base, "lora_parameters", "MLX")
    base_folder, model_config = _base(base)
    _refuse_unsupported(folder, config)
    pairs = _pairs(folder / PEFT_WEIGHTS, _PEFT_KEY)
    ranks = _ranks(folder, pairs, base, bases.shapes(base_folder))
    rank, scale = _rank_and_scale(folder, config, ranks)
    names = {module: to_mlx(module, model_config) for module in pairs}
    converted = {
        f"{names[module]}.lora_{side}": matrix.transposed()
        for module, pair in pairs.items()
        for side, matrix in pair.items()
    }
    mlx = {
        "fine_tune_type": "lora",
        "num_layers": len({match[0] for module in pairs if (match := re.search(r".*?\.\d+\.", module))}),
        "lora_parameters": {
            "rank": rank, "scale": scale, "dropout": config.get("lora_dropout", 0.0), "keys": sorted(names.values()),
        },
        _KEPT: config,
    }  # fmt: skip
    _write(out, MLX_WEIGHTS, converted, mlx, {"format": "mlx"}, read_about(folder))
    return out


def mlx_to_peft(folder: str | Path, out: str | Path, *, base: str | Path) -> Path:
    """Convert an MLX LoRA adapter (of mlx-lm or mlx-vlm) to PEFT's format.

    An adapter without an identity gets that of `base`. Arguments, result and errors are those of `peft_to_mlx`.
    """
    folder, out = Path(folder).expanduser(), _empty(out)
    config = _config(folder, base, "peft_type", "PEFT")
    base_folder, model_config = _base(base)
    kind = config.get("fine_tune_type", "lora")
    if kind != "lora" or "lora_parameters" not in config:
        what = "kind unknown" if kind == "lora" else f"fine_tune_type {kind}"
        raise AdapterError(f"The adapter at {folder} ({what}) is not a plain LoRA of mlx-lm or mlx-vlm.")
    settings = config["lora_parameters"]
    found = {
        from_mlx(module, model_config): {side: matrix.transposed() for side, matrix in pair.items()}
        for module, pair in _pairs(folder / MLX_WEIGHTS, _MLX_KEY).items()
    }
    known = bases.shapes(base_folder)
    ranks = _ranks(folder, found, base, known)
    rank, scale = int(settings["rank"]), float(settings["scale"])
    if set(ranks.values()) != {rank}:
        raise AdapterError(
            f"The configuration of the adapter at {folder} gives rank {rank}, but its matrices have "
            f"{sorted(set(ranks.values()))}."
        )
    converted = {
        f"base_model.model.{module}.lora_{side.upper()}.weight": matrix
        for module, pair in found.items()
        for side, matrix in pair.items()
    }
    peft = config.get(_KEPT) or {
        "base_model_name_or_path": str(base_folder),
        "r": rank,
        "lora_alpha": _plain(scale * rank),
        "lora_dropout": settings.get("dropout", 0.0),
        "target_modules": _targets(found, known),
        **_PLAIN_LORA,
    }
    found_rank, found_scale = _rank_and_scale(folder, peft, ranks)
    if found_rank != rank or not math.isclose(found_scale, scale):  # `scale * rank / rank` may differ in the last bit
        raise AdapterError(f"The adapter at {folder} differs in rank or scale from the PEFT settings kept in {CONFIG}.")
    about = read_about(folder) or identity(str(base), base)
    _write(out, PEFT_WEIGHTS, converted, peft, {"format": "pt"}, about)
    return out


def _empty(out: str | Path) -> Path:
    out = Path(out).expanduser()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AdapterError(f"{out} is not empty: choose another folder.")
    return out


def _config(folder: Path, base: str | Path, other: str, name: str) -> dict[str, Any]:
    """Return an adapter's configuration, refusing an adapter of another base or already in the target format."""
    config = read_config(folder)
    if other in config:
        raise AdapterError(f"The adapter at {folder} is already in {name}'s format.")
    check_base(folder, base)
    return config


def _base(base: str | Path) -> tuple[Path, dict[str, Any]]:
    """Return the base model's folder and configuration."""
    found = bases.local_folder(base)
    if found is None or not bases.weight_files(found):
        raise AdapterError(f"The base model {base} has no safetensors files on this machine: give its folder.")
    return found, json.loads((found / "config.json").read_text("utf8"))


def _ranks(
    folder: Path, pairs: Mapping[str, dict[str, Tensor]], base: str | Path, known: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Return the rank of each module's matrices, after checking that they fit the base model."""
    modules = {module: (pair["b"].shape[0], pair["a"].shape[1]) for module, pair in pairs.items()}
    check_modules(modules, known, f"The adapter at {folder} does not fit {base}", every=True)
    return {module: pair["a"].shape[0] for module, pair in pairs.items()}


def _write(
    out: Path, weights: str, found: Mapping[str, Tensor], config: Any, metadata: dict[str, str], about: Any
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    tensors.write(out / weights, found, metadata)
    if about:
        write_about(out, about)
    write_atomically(out / CONFIG, json.dumps(config, indent=2, sort_keys=True))  # written last to mark completion


def _refuse_unsupported(folder: Path, config: Mapping[str, Any]) -> None:
    unknown = {key: value for key, value in config.items() if value and key not in _HARMLESS}
    if config.get("peft_type") != "LORA":
        unknown["peft_type"] = config.get("peft_type")
    if config.get("bias", "none") != "none":
        unknown["bias"] = config["bias"]
    if config.get("init_lora_weights", True) not in _BASE_KEPT:
        unknown["init_lora_weights"] = config["init_lora_weights"]  # also changes the base model's weights
    if unknown:
        what = ", ".join(f"{key}={value!r}" for key, value in sorted(unknown.items()))
        raise AdapterError(f"The adapter at {folder} can't be converted: MLX's LoRA does not support {what}.")


def _pairs(file: Path, pattern: re.Pattern[str]) -> dict[str, dict[str, Tensor]]:
    """Return the matrices `a` and `b` of each module, in file order; other keys are refused."""
    if not file.is_file():
        raise FileNotFoundError(f"There are no adapter weights at {file}.")
    pairs: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.read(file).items():
        match = pattern.match(key)
        if match is None or len(tensor.shape) != 2:
            raise AdapterError(f"{file}: {key} of shape {tensor.shape} is not a LoRA matrix of a linear layer.")
        pairs.setdefault(match["module"], {})[match["side"].lower()] = tensor
    for module, pair in pairs.items():
        if set(pair) != {"a", "b"}:
            raise AdapterError(f"{file}: {module} has only lora_{'/'.join(pair)}, not both matrices.")
    if not pairs:
        raise AdapterError(f"{file} contains no LoRA matrices.")
    return pairs


def _rank_and_scale(folder: Path, config: Mapping[str, Any], ranks: Mapping[str, int]) -> tuple[int, float]:
    """Return the rank and scale that all modules of an adapter share."""
    found = set()
    for module, rank in ranks.items():
        said = _by_pattern(module, config.get("rank_pattern") or {}, config["r"])
        if said != rank:
            raise AdapterError(f"The adapter at {folder}: {module} has rank {rank}, but the configuration says {said}.")
        alpha = _by_pattern(module, config.get("alpha_pattern") or {}, config["lora_alpha"])
        found.add((rank, alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)))
    if len(found) > 1:
        raise AdapterError(
            f"The adapter at {folder} has modules of different ranks or scales {sorted(found)} (rank_pattern, "
            "alpha_pattern), but MLX supports only one rank and one scale per adapter."
        )
    return found.pop()


def _by_pattern(module: str, patterns: Mapping[str, Any], default: Any) -> Any:
    """Return a module's value by PEFT's rule: that of the first pattern that matches the end of its name."""
    return next((patterns[key] for key in patterns if re.match(rf"(.*\.)?({key})$", module)), default)


def _targets(modules: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return PEFT's `target_modules`: the last parts of the names, or full names if those would match other modules."""
    names = sorted(modules)
    ends = {name.rsplit(".", 1)[-1] for name in names}
    same_end = [name for name in known if name.endswith(".weight") and name.split(".")[-2] in ends]
    return sorted(ends) if len(same_end) == len(names) else names


def _plain(value: float) -> float:
    return int(value) if value == int(value) else value
