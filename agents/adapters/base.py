"""Base models of adapters: the tensors of a model folder, and a SHA-256 hash that identifies the weights.

The hash is over names, shapes, dtypes and values. It does not depend on the folder's location, on how the weights are
split into files, or on adapters. A folder and the same model in memory have equal hashes if transformers keeps the
files' names and dtype.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from selfsurf.agents import model_files
from selfsurf.agents.adapters import tensors
from selfsurf.browser_env.record.episode import write_atomically

_TORCH = {"F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16", "F8_E4M3": "float8_e4m3fn",
          "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
          "BOOL": "bool"}  # fmt: skip
_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": ""}
_HEAD = "lm_head.weight"
_EMBEDDING = "embed_tokens.weight"


def local_folder(source: str | Path) -> Path | None:
    """Return the local folder of a model given by short name, folder or hub id; None for an id that is not cached.

    Raises:
        agents.model_files.ModelError: the folder doesn't exist, or the short name could not be pulled.
    """
    found = model_files.resolve(source)
    if isinstance(found, Path):
        return found
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(found, local_files_only=True, allow_patterns=["config.json"]))
    except LocalEntryNotFoundError:
        return None


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a model folder; empty if the weights are in another format."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return [folder / name for name in sorted(set(json.loads(index.read_text("utf8"))["weight_map"].values()))]
    return sorted(folder.glob("model*.safetensors"))


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model folder's tensors by name; empty without safetensors files.

    Matrices quantised by MLX are listed with their original shape.
    """
    found = {name: entry.shape for file in weight_files(folder) for name, entry in tensors.header(file).items()}
    return {**found, **_unquantised(folder, found)}


def quantisation(folder: Path) -> dict[str, Any]:
    """Return MLX's quantisation settings of a model folder (`bits`, `group_size`); empty if it is not quantised."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((folder / "config.json").read_text("utf8")).get("quantization")
        return found if isinstance(found, dict) and "group_size" in found else {}
    return {}


def _unquantised(folder: Path, found: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    told = quantisation(folder)
    shapes = {}
    for name in found if told else ():
        module = name.removesuffix(".scales")
        if name != module and f"{module}.weight" in found:
            own = told.get(module)
            size = (own if isinstance(own, dict) else told).get("group_size", told["group_size"])
            shapes[f"{module}.weight"] = (*found[name][:-1], found[name][-1] * size)
    return shapes


def vectors_hash(folder: Path) -> str | None:
    """Return the SHA-256 of a model folder's vectors (norms, biases), which quantisation leaves unchanged.

    The hash ignores names and precision: values are rounded to bfloat16. None without vectors in safetensors files.
    """
    found = []
    for file in weight_files(folder):
        with open(file, "rb") as stream:
            for name, entry in tensors.header(file).items():
                if len(entry.shape) == 1 and entry.dtype in _FLOATS and not name.endswith("inv_freq"):
                    stream.seek(entry.start)
                    found.append(hashlib.sha256(_bfloat16(entry.dtype, stream.read(entry.end - entry.start))).digest())
    return hashlib.sha256(b"".join(sorted(found))).hexdigest() if found else None


def _bfloat16(dtype: str, data: bytes) -> bytes:
    """Return values as bfloat16, rounded to nearest, ties to even."""
    if dtype == "BF16":
        return data
    bits = np.frombuffer(data, dtype=_FLOATS[dtype]).astype("<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def folder_dtype(folder: Path) -> str:
    """Return torch's name of the most frequent dtype in a model folder; empty without safetensors files."""
    counts = Counter(entry.dtype for file in weight_files(folder) for entry in tensors.header(file).values())
    return _TORCH.get(counts.most_common(1)[0][0], "") if counts else ""


def folder_hash(folder: Path) -> str | None:
    """Return the SHA-256 of a model folder's weights; None without safetensors files.

    The hash is computed once (about 0.5 GB/s) and cached for as long as the files are unchanged.
    """
    files = weight_files(folder)
    if not files:
        return None
    key = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:32]
    memo = model_files.home() / "hashes" / f"{key}.json"
    # The change time (ctime) also reveals other weights of the same size that were copied with their modification time.
    facts = {file.name: [s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino] for file in files for s in [file.stat()]}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(memo.read_text("utf8"))
        if kept["files"] == facts:
            return str(kept["sha256"])
    found = _hash(files)
    with contextlib.suppress(OSError):
        memo.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(memo, json.dumps({"folder": str(folder), "files": facts, "sha256": found}, indent=1))
    return found


def _hash(files: list[Path]) -> str:
    digest = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        where = {}
        for file in files:
            entries = tensors.header(file)  # before mapping the file, since an empty file can't be mapped
            stream = stack.enter_context(open(file, "rb"))
            data = stack.enter_context(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
            for name, entry in entries.items():
                where[name] = (data, entry)
        embedding = next((name for name in sorted(where) if name.endswith(_EMBEDDING)), None)
        if embedding and not any(name.endswith(_HEAD) for name in where):
            where[_HEAD] = where[embedding]  # tied weights: once in the file, twice in memory
        for name, (data, entry) in sorted(where.items()):
            digest.update(f"{name} {entry.shape} torch.{_TORCH.get(entry.dtype, entry.dtype)}\n".encode())
            with memoryview(data) as view, view[entry.start : entry.end] as part:
                digest.update(part)
    return digest.hexdigest()


def memory_hash(model: Any, dtype: str = "") -> str:
    """Return the SHA-256 of a torch model's base weights, without adapters.

    Args:
        model: the model, wrapped by PEFT or not.
        dtype: torch's name of a dtype to which floating-point weights are cast first, so that a float32 copy of a
            bfloat16 base is recognised; empty for no cast.
    """
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(_base_tensors(model)):
        if dtype and tensor.is_floating_point():
            tensor = tensor.to(getattr(torch, dtype))
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def memory_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a torch model's base weights by name, without adapters."""
    return {name: tuple(tensor.shape) for name, tensor in _base_tensors(model)}


def _base_tensors(model: Any) -> Iterator[tuple[str, Any]]:
    for name, tensor in model.state_dict().items():
        if "lora_" not in name:
            yield name.removeprefix("base_model.model.").replace(".base_layer.", "."), tensor
