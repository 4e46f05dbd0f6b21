"""Safetensors files as bytes: headers, single tensors and whole files, in any dtype and without a tensor library.

Conversion must not change a bit and must run without torch, so values are never interpreted.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from selfsurf.agents.model_files import ModelError

WIDTHS = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1,
          "U8": 1, "BOOL": 1}  # fmt: skip
"""Bytes per value, by dtype name of the safetensors format."""


class DamagedFile(ModelError, ValueError):
    """A file is not in the safetensors format, or was cut off."""


@dataclass(frozen=True)
class Entry:
    """Position of a tensor in a file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    """Offset of the first byte in the file."""
    end: int


@dataclass(frozen=True)
class Tensor:
    """A tensor with its bytes as stored in a file."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def transposed(self) -> Tensor:
        """Return the transposed matrix, with every value unchanged bit for bit.

        Raises:
            ValueError: the tensor is not a matrix, or its dtype is unknown.
        """
        if len(self.shape) != 2 or self.dtype not in WIDTHS:
            raise ValueError(f"A {self.dtype} tensor of shape {self.shape} can't be transposed.")
        values = np.frombuffer(self.data, dtype=f"V{WIDTHS[self.dtype]}").reshape(self.shape)
        return Tensor(self.dtype, (self.shape[1], self.shape[0]), np.ascontiguousarray(values.T).tobytes())


def header(file: Path) -> dict[str, Entry]:
    """Return the tensors of a safetensors file, without their values.

    Raises:
        DamagedFile: the file is not a safetensors file, or is cut off.
    """
    size = file.stat().st_size
    with open(file, "rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > size - 8:
            raise DamagedFile(f"{file} is cut off or is not a safetensors file: download or copy it again.")
        try:
            facts = json.loads(stream.read(length))
            facts.pop("__metadata__", None)
            found = {
                name: Entry(str(fact["dtype"]), tuple(fact["shape"]), *(8 + length + at for at in fact["data_offsets"]))
                for name, fact in facts.items()
            }
        except (ValueError, AttributeError, KeyError, TypeError):
            raise DamagedFile(f"{file} is not a safetensors file: download or copy it again.") from None
    if any(entry.end > size for entry in found.values()):
        raise DamagedFile(f"{file} is cut off: download or copy it again.")
    return found


def read(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file.

    Raises:
        DamagedFile: the file is not a safetensors file, or is cut off.
    """
    entries = header(file)
    with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return {name: Tensor(e.dtype, e.shape, data[e.start : e.end]) for name, e in entries.items()}


def write(file: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file in the layout of the format's own library: by dtype, widest first, then by name."""
    names = sorted(tensors, key=lambda name: (-WIDTHS[tensors[name].dtype], tensors[name].dtype, name))
    facts: dict[str, object] = {"__metadata__": dict(metadata)}
    offset = 0
    for name in names:
        tensor = tensors[name]
        end = offset + len(tensor.data)
        facts[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            stream.write(tensors[name].data)
