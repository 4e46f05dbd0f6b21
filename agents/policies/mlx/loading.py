"""Loading of models into MLX from ordinary Hugging Face folders: mlx-lm for text, mlx-vlm for vision and language.

Both libraries read the `config.json` of transformers 4. transformers 5 stores some settings elsewhere, and neither
library reports the difference: a missing `rope_theta` falls back to a default, and every logit is wrong. So the
configuration is converted before loading (`fix_text_config`, `fix_vision_config`), and the loaded model is checked
against it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

from selfsurf.agents.adapters.base import quantisation
from selfsurf.agents.adapters.identity import read_json
from selfsurf.agents.model_files import ModelError
from selfsurf.agents.policies.local.policy import WIDENED

Dtype: TypeAlias = Literal["float32", "bfloat16", "float16"]
"""Precision of the weights."""

Config: TypeAlias = dict[str, Any]
"""Content of a `config.json`."""

log = logging.getLogger(__name__)

_NEVER_COPIED = frozenset({"model_type", "architectures", "dtype", "torch_dtype", "transformers_version"})


def load_text(folder: str | Path, *, dtype: Dtype | None = None) -> tuple[Any, Any]:
    """Load a text model.

    Args:
        folder: a Hugging Face or MLX model folder.
        dtype: precision of the weights; None keeps the checkpoint's on a Mac's GPU, and elsewhere uses float32 if the
            model is small (`WIDENED`). Quantised weights stay packed on a Mac's GPU only.

    Returns:
        The mlx-lm model (from token ids (B, T) to logits (B, T, V)) and the Hugging Face tokenizer.

    Raises:
        agents.model_files.ModelError: the folder contains no model, or a model that mlx-lm can't load.
    """
    folder = Path(folder).expanduser()
    config = model_config(folder)
    with _limits_kept():
        from mlx_lm.utils import load_model
        from transformers import AutoTokenizer
    try:
        model, _ = load_model(folder, model_config=config)
    except (ValueError, FileNotFoundError, TypeError) as error:
        raise ModelError(f"mlx-lm can't load {folder}: {error}") from error
    _check_rope(config, getattr(model, "args", None), folder)
    _cast(_unpacked(model, folder), dtype)
    return model, AutoTokenizer.from_pretrained(folder)


def load_vision(folder: str | Path, *, dtype: Dtype | None = None) -> tuple[Any, Any]:
    """Load a vision-language model.

    Args:
        folder: a Hugging Face or MLX model folder with its processor.
        dtype: precision of the weights; None keeps the checkpoint's on a Mac's GPU, and elsewhere uses float32 if the
            model is small (`WIDENED`). Quantised weights stay packed on a Mac's GPU only.

    Returns:
        The mlx-vlm model and its processor (`processor.tokenizer` is the Hugging Face tokenizer).

    Raises:
        agents.model_files.ModelError: the folder contains no model, or a model that mlx-vlm can't load.
    """
    folder = Path(folder).expanduser()
    original = read_config(folder)
    if original.get("model_file"):
        raise ModelError(f"{folder} requires running its own code ({original['model_file']}), which is not allowed.")
    with _limits_kept(), _own_processors():
        from mlx_vlm.utils import get_model_and_args, load_image_processor, load_model, load_processor
    try:
        with _own_processors():
            package, _ = get_model_and_args(original)
            processor = load_processor(folder, add_detokenizer=False, trust_remote_code=False)
        default = getattr(getattr(package, "VisionConfig", None), "model_type", "")
        config = fix_vision_config(original, vision_type=default if isinstance(default, str) else "")
        with _view(folder, config) as view:
            model = load_model(view)
        model.model_path = folder
        own = load_image_processor(folder)
    except (ValueError, FileNotFoundError, TypeError) as error:
        raise ModelError(f"mlx-vlm can't load {folder}: {error}") from error
    if own is not None:
        processor.image_processor = own
    _check_rope(config.get("text_config", config), model.config.text_config, folder)
    _cast(_unpacked(model, folder), dtype)
    return model, processor


def is_vision(folder: str | Path) -> bool:
    """Whether the folder contains a model that sees images.

    Raises:
        agents.model_files.ModelError: the folder contains no model.
    """
    return isinstance(read_config(Path(folder).expanduser()).get("vision_config"), Mapping)


def read_config(folder: Path) -> Config:
    """Return the content of the folder's `config.json`.

    Raises:
        agents.model_files.ModelError: the file is missing, or is not a JSON object.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} contains no model (no config.json).")
    return read_json(folder / "config.json")


def model_config(folder: Path) -> Config:
    """Return a model folder's configuration, converted by `fix_text_config`; errors are those of `read_config`."""
    return fix_text_config(read_config(folder))


def fix_text_config(config: Mapping[str, Any]) -> Config:
    """Return the configuration with the settings of rotary embedding and attention in the form of transformers 4.

    transformers 5 has `rope_parameters: {rope_theta, rope_type, ...}`, in some models for each kind of layer; mlx reads
    `rope_theta`, `rope_scaling`, `partial_rotary_factor`, and for two kinds of layers `rope_local_base_freq` and
    `rope_global_base_freq`. transformers 5 lists the kind of each layer in `layer_types`; mlx reads the period of
    layers with full attention, `sliding_window_pattern`. Existing settings are kept.
    """
    fixed = dict(config)
    given = fixed.get("rope_parameters")
    if isinstance(given, Mapping):
        local = given.get("sliding_attention")
        if isinstance(local, Mapping):
            _fill(fixed, "rope_local_base_freq", local.get("rope_theta"))
        whole = given.get("full_attention")
        if isinstance(whole, Mapping):
            _fill(fixed, "rope_global_base_freq", whole.get("rope_theta"))
            given = whole
        _fill(fixed, "rope_theta", given.get("rope_theta"))
        _fill(fixed, "partial_rotary_factor", given.get("partial_rotary_factor"))
        _fill(fixed, "rope_scaling", _rope_scaling(given))
    _fill(fixed, "sliding_window_pattern", _pattern(fixed.get("layer_types")))
    if isinstance(fixed.get("text_config"), Mapping):
        fixed["text_config"] = fix_text_config(fixed["text_config"])
    return fixed


def fix_vision_config(config: Mapping[str, Any], vision_type: str = "") -> Config:
    """Return the configuration converted by `fix_text_config`, with the further changes that mlx-vlm needs.

    - Some of its models (Qwen2-VL, Qwen2.5-VL and others) read the text model's settings from the root, where
      transformers 4 had them. So the settings of `text_config` are copied there, without overwriting any.
    - Some of its vision models accept only the transformers 4 name of their `model_type`, without `_vision`.

    Args:
        config: content of `config.json`.
        vision_type: default `model_type` of mlx-vlm's own vision configuration.
    """
    fixed = fix_text_config(config)
    text = fixed.get("text_config")
    if isinstance(text, Mapping):
        for key, value in text.items():
            if key not in _NEVER_COPIED:
                _fill(fixed, key, value)
    vision = fixed.get("vision_config")
    if isinstance(vision, Mapping) and vision_type and vision.get("model_type") == f"{vision_type}_vision":
        fixed["vision_config"] = {**vision, "model_type": vision_type}
    return fixed


def _rope_scaling(given: Mapping[str, Any]) -> Config | None:
    """Return the `rope_scaling` of transformers 4, or None if positions are not scaled."""
    kind = given.get("rope_type", given.get("type", "default"))
    if "mrope_section" in given:
        kind = "mrope"  # called `default` by transformers 5, but not by mlx
    if kind == "default":
        return None
    rest = {key: value for key, value in given.items() if key not in ("rope_theta", "partial_rotary_factor")}
    return {**rest, "type": kind, "rope_type": kind}


def _pattern(kinds: Any) -> int | None:
    """Return the period of full-attention layers among sliding-window layers; None if it is irregular."""
    if not isinstance(kinds, list) or "sliding_attention" not in kinds or "full_attention" not in kinds:
        return None
    period = kinds.index("full_attention") + 1
    regular = ["sliding_attention" if index % period else "full_attention" for index in range(1, len(kinds) + 1)]
    return period if kinds == regular else None


def _fill(config: Config, key: str, value: Any) -> None:
    if value is not None and config.get(key) is None:
        config[key] = value


def _check_rope(wanted: Mapping[str, Any], taken: Any, folder: Path) -> None:
    """Refuse a model with another rotary base than the configuration's, since its answers would be wrong."""
    for key in ("rope_theta", "rope_local_base_freq", "rope_global_base_freq"):
        expected, found = wanted.get(key), getattr(taken, key, None)
        if expected is not None and found is not None and float(found) != float(expected):
            raise ModelError(
                f"{folder}: MLX read {key}={found}, but config.json says {expected}. Don't use this model with MLX."
            )


def _unpacked(model: Any, folder: Path) -> Any:
    """Unpack quantised weights in place if there is no GPU, since MLX's CPU backend is very slow with packed weights.

    Results stay the same up to rounding.
    """
    if not quantisation(folder) or import_module("mlx.core").metal.is_available():
        return model
    log.warning(
        "%s is quantised, and without a Mac's GPU quantised weights make MLX extremely slow. The weights are unpacked, "
        "which takes more memory and is still slow.", folder,
    )  # fmt: skip
    return import_module("mlx_lm.utils").dequantize_model(model)


def _cast(model: Any, dtype: Dtype | None) -> None:
    core = import_module("mlx.core")
    if dtype is None:
        if core.metal.is_available() or import_module("mlx_lm.utils").get_total_parameters(model) > WIDENED:
            return
        dtype = "float32"
    model.set_dtype(getattr(core, dtype))
    core.eval(model.parameters())


@contextlib.contextmanager
def _view(folder: Path, config: Mapping[str, Any]) -> Iterator[Path]:
    """Create a temporary folder of links to the model's files, with another `config.json`."""
    with tempfile.TemporaryDirectory(prefix="selfsurf-mlx-") as temporary:
        view = Path(temporary)
        for file in folder.resolve().iterdir():
            if file.name != "config.json":
                (view / file.name).symlink_to(file)
        (view / "config.json").write_text(json.dumps(config), encoding="utf-8")
        yield view


_PROCESSORS: list[Any] = []
"""mlx-vlm's replacement of `AutoProcessor.from_pretrained`; empty until mlx-vlm is loaded."""


@contextlib.contextmanager
def _own_processors() -> Iterator[None]:
    """Let mlx-vlm replace `AutoProcessor.from_pretrained` only while it loads a processor.

    mlx-vlm replaces the method whenever one of its models is imported, and torch models in this process would get its
    processors.
    """
    from transformers import AutoProcessor

    original = AutoProcessor.__dict__["from_pretrained"]
    if _PROCESSORS:
        AutoProcessor.from_pretrained = _PROCESSORS[-1]
    try:
        yield
    finally:
        _PROCESSORS[:] = [AutoProcessor.__dict__["from_pretrained"]]
        AutoProcessor.from_pretrained = original


@contextlib.contextmanager
def _limits_kept() -> Iterator[None]:
    """Prevent the import of mlx_lm from limiting this process to 2048 open files, too few beside a browser."""
    import resource

    original = resource.setrlimit
    resource.setrlimit = lambda *_: None
    try:
        yield
    finally:
        resource.setrlimit = original
