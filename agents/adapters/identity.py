"""Identity of an adapter's base model: written with the adapter, checked whenever the adapter is loaded.

On another base an adapter produces nonsense without any error, so it is refused. The hash of the base's weights
decides; names may differ, since the same base can be in another folder.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfsurf.agents import model_files
from selfsurf.agents.adapters import base, tensors
from selfsurf.browser_env.record.episode import write_atomically

ABOUT = "selfsurf.json"
"""Name of the file beside an adapter that records its base model and training."""
CONFIG = "adapter_config.json"
PEFT_WEIGHTS = "adapter_model.safetensors"

log = logging.getLogger(__name__)
_KEY = re.compile(r"^base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight$")
_TAIL = re.compile(r"\.(?:layers|blocks|h)\.\d+\..+$")


class AdapterError(model_files.ModelError):
    """An adapter could not be read, converted or used. The message includes the remedy."""


class WrongBase(AdapterError):
    """An adapter was loaded on a base model that it does not belong to."""


def read_about(folder: str | Path) -> dict[str, Any]:
    """Return the data saved beside an adapter; empty for adapters made by other software."""
    path = Path(folder) / ABOUT
    return read_json(path) if path.exists() else {}


def read_config(adapter: Path) -> dict[str, Any]:
    """Return an adapter's configuration, PEFT's or MLX's.

    Raises:
        FileNotFoundError: there is no adapter in the folder.
        AdapterError: the configuration is damaged.
    """
    if not (adapter / CONFIG).is_file():
        below = adapter / "adapter"
        meant = f"; did you mean {below}?" if (below / CONFIG).is_file() else "."
        raise FileNotFoundError(f"There is no LoRA adapter at {adapter} (no {CONFIG}){meant}")
    return read_json(adapter / CONFIG)


def rank(config: Mapping[str, Any]) -> int:
    """Return the highest rank of a PEFT adapter's matrices, according to its configuration."""
    return max([int(config.get("r", 8)), *map(int, (config.get("rank_pattern") or {}).values())])


def check_folder(adapter: str | Path | None) -> None:
    """Make sure that the folder contains a complete adapter, before its base model is loaded; None is accepted.

    Raises:
        FileNotFoundError: there is no adapter.
        AdapterError: the configuration is damaged.
        agents.adapters.tensors.DamagedFile: the weights are damaged.
    """
    if adapter is None:
        return
    folder = Path(adapter).expanduser()
    read_config(folder)
    for file in folder.glob("*.safetensors"):
        tensors.header(file)


def check_peft(adapter: str | Path | None) -> None:
    """Make sure that the folder contains a complete adapter in PEFT's format; None is accepted.

    Raises:
        FileNotFoundError: there is no adapter, or it has no weights.
        AdapterError: the adapter is in another format, or damaged.
        agents.adapters.tensors.DamagedFile: the weights are damaged.
    """
    check_folder(adapter)
    if adapter is None:
        return
    folder = Path(adapter).expanduser()
    config = read_config(folder)
    if "lora_parameters" in config or "fine_tune_type" in config:
        base = read_about(folder).get("base_model") or config.get("model") or "BASE"
        raise AdapterError(
            f"The adapter at {folder} is in MLX's format, but PEFT's format is needed. Convert the adapter: "
            f"selfsurf adapters convert {folder} NEW_FOLDER --to peft --base {base}"
        )
    if "peft_type" not in config:
        raise AdapterError(f"{folder} contains no adapter in PEFT's format: its {CONFIG} has no peft_type.")
    if not any((folder / name).is_file() for name in (PEFT_WEIGHTS, "adapter_model.bin")):
        raise FileNotFoundError(f"There are no adapter weights at {folder} (no {PEFT_WEIGHTS}).")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        AdapterError: the file contains no JSON object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise AdapterError(f"{path} is damaged (not valid JSON): {error}.") from None
    if not isinstance(data, dict):
        raise AdapterError(f"{path} is damaged: it does not contain a JSON object.")
    return data


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write `about` beside an adapter."""
    write_atomically(folder / ABOUT, json.dumps(about, indent=1, ensure_ascii=False))


def identity(name: str, source: str | Path | None = None, model: Any = None) -> dict[str, str]:
    """Return the identity of an adapter's base model, for `write_about`.

    Args:
        name: the base's name: a short name, a hub id or a folder.
        source: where the base was loaded from, as given to `agents.model_files.resolve`; None for a model that is only
            in memory.
        model: the torch model, required if `source` is None or has no safetensors files.

    Raises:
        ValueError: there is neither a folder with safetensors files nor a model.
    """
    folder = base.local_folder(source) if source is not None else None
    found = base.folder_hash(folder) if folder else None
    if folder is not None and found is not None:
        dtype = base.folder_dtype(folder)
    elif model is not None:
        found = base.memory_hash(model)
        dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    else:
        raise ValueError(f"{source} has no safetensors files, so the base model's weights can't be hashed.")
    told = {"base_model": name, "base_model_sha256": found, "base_model_dtype": dtype}
    if folder is not None:
        vectors, bits = base.vectors_hash(folder), base.quantisation(folder).get("bits")
        told |= {"base_model_vectors_sha256": vectors} if vectors else {}
        told |= {"base_model_bits": str(bits)} if bits else {}
    return told


def check_base(adapter: str | Path, source: str | Path | None = None, *, model: Any = None, name: str = "") -> None:
    """Make sure that an adapter belongs to a base model.

    An adapter without an identity (of other software) is accepted if its shapes fit, with a warning in the log about
    the base in its configuration.

    Args:
        adapter: folder of the adapter, in PEFT's or MLX's format.
        source: the base's folder, short name or hub id; for a converted base, or a base that is quantised on loading,
            the source of its original weights.
        model: the torch model if there is one; required if `source` is None.
        name: name of the base in messages; `source` by default.

    Raises:
        WrongBase: the adapter belongs to another base, its shapes do not fit, or the base's weights can't be hashed.
        FileNotFoundError: there is no adapter in the folder.
    """
    adapter = Path(adapter).expanduser()
    read_config(adapter)
    name = name or str(source or getattr(getattr(model, "config", None), "_name_or_path", "") or "the model in memory")
    quantised = getattr(model, "is_quantized", False)
    if source is None and quantised:
        origin = Path(str(getattr(model.config, "_name_or_path", "") or "?"))
        source = origin if origin.is_dir() else None
    folder = base.local_folder(source) if source is not None else None
    readable = None if quantised else model
    about = read_about(adapter)
    expected = about.get("base_model_sha256")
    if expected is None:
        _check_unnamed(adapter, folder, readable, name)
        return
    found = base.folder_hash(folder) if folder else None
    if found == expected or (folder is not None and _is_quantised_from(folder, about)):
        return
    if readable is not None:
        in_memory = base.memory_hash(readable, about.get("base_model_dtype", ""))
        if in_memory == expected:
            return
        found = found or in_memory
    whose = f"The adapter at {adapter} belongs to the base model {about.get('base_model', '?')}"
    if found is None:
        raise WrongBase(f"{whose}, but {name} can't be checked: it has no safetensors files on this machine.")
    raise WrongBase(
        f"{whose} (weights {expected[:12]}) and can't be used on {name} (weights {found[:12]}). Load the "
        "adapter on its own base model, or train an adapter for this base model."
    )


def _is_quantised_from(folder: Path, about: Mapping[str, Any]) -> bool:
    """Whether the model in a folder and an adapter's base are the same model, with one of them quantised by MLX.

    They are compared by their vectors (norms, biases). A LoRA merged into a base leaves the vectors unchanged and is
    not detected.
    """
    if not base.quantisation(folder) and "base_model_bits" not in about:
        return False
    vectors = about.get("base_model_vectors_sha256")
    if vectors is None:  # an older adapter without this hash: hash its own base if it is on this machine
        try:
            own = base.local_folder(str(about.get("base_model", "?")))
        except model_files.ModelError:
            return False
        if own is None or base.folder_hash(own) != about.get("base_model_sha256"):
            return False
        vectors = base.vectors_hash(own)
    if vectors is None or vectors != base.vectors_hash(folder):
        return False
    log.info("%s is the adapter's base model in another precision: their norms and biases are the same.", folder)
    return True


def check_base_on_disk(adapter: str | Path | None, model: str | Path) -> None:
    """Refuse an adapter of another base, judging by local files; nothing is downloaded or loaded.

    A base in another precision has other files and is accepted here: only the loaded model can be compared.

    Raises:
        WrongBase: the adapter belongs to another base.
    """
    if adapter is None or (str(model) in model_files.KNOWN and not model_files.pulled(str(model))):
        return
    about = read_about(Path(adapter).expanduser())
    folder = base.local_folder(model) if about.get("base_model_sha256") else None
    dtype = base.folder_dtype(folder) if folder is not None else ""
    if dtype and dtype == about.get("base_model_dtype", dtype):
        check_base(adapter, folder, name=str(model))


def check_modules(
    modules: Mapping[str, tuple[int, int]], known: Mapping[str, tuple[int, ...]], whose: str, *, every: bool
) -> None:
    """Make sure that a base model has the linear layers that an adapter changes, with the same shapes.

    Args:
        modules: (outputs, inputs) by transformers' name of the layer.
        known: shapes of the base's tensors by name, in files or in memory.
        whose: beginning of the error message.
        every: refuse if any layer is missing, instead of only if all are.

    Raises:
        WrongBase: a layer is missing or has another shape.
    """
    missing = []
    for module, shape in modules.items():
        # Names in memory and in files can differ before the layer's number.
        tail = _TAIL.search(f".{module}")
        exact = f"{module}.weight"
        ending = f"{tail[0]}.weight" if tail else f".{exact}"
        found = [known[exact]] if exact in known else [known[key] for key in known if f".{key}".endswith(ending)]
        if not found:
            missing.append(module)
        elif shape not in found and (every or shape[::-1] not in found):  # GPT-2's matrices are transposed
            raise WrongBase(f"{whose}: {module} has shape {found[0]}, but {shape} in the adapter (outputs, inputs).")
    if missing and (every or len(missing) == len(modules)):
        raise WrongBase(
            f"{whose}, which lacks {missing[0]} and {len(missing) - 1} more of the adapter's {len(modules)} layers."
        )


def _check_unnamed(adapter: Path, folder: Path | None, model: Any, name: str) -> None:
    """Check that an adapter without identity fits by its shapes, and log a warning that names its base."""
    config = read_config(adapter)
    named = str(config.get("base_model_name_or_path") or config.get("model") or "an unnamed base")
    known = base.memory_shapes(model) if model is not None else base.shapes(folder) if folder else {}
    file = adapter / PEFT_WEIGHTS
    if known and file.is_file():
        whose = f"The adapter at {adapter}, made for {named}, does not fit {name}"
        check_modules(_linear_shapes(file), known, whose, every=False)
    log.warning(
        "The adapter at %s has no hash of its base model. It was made for %s and is used on %s%s.",
        adapter, named, name, "" if _same_name(named, name) else ", which may be a different model",
    )  # fmt: skip


def _linear_shapes(file: Path) -> dict[str, tuple[int, int]]:
    """Return the (outputs, inputs) of each linear layer that a PEFT adapter changes, read from its file's header."""
    sides: dict[str, dict[str, tuple[int, ...]]] = {}
    for key, entry in tensors.header(file).items():
        match = _KEY.match(key)
        if match is not None and len(entry.shape) == 2:
            sides.setdefault(match["module"], {})[match["side"]] = entry.shape
    return {module: (pair["B"][0], pair["A"][1]) for module, pair in sides.items() if len(pair) == 2}


def _same_name(one: str, other: str) -> bool:
    """Whether two names may refer to the same model, judging by the last part of the path or hub id."""

    def plain(name: str) -> str:
        path = Path(name).expanduser()
        name = str(model_files.record(path).get("name", name)) if path.is_dir() else name
        return (
            (model_files.KNOWN[name].hub if name in model_files.KNOWN else name).rstrip("/").rsplit("/", 1)[-1].lower()
        )

    return plain(one) == plain(other)
