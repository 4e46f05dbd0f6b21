"""Archives of episodes and adapters, packed reproducibly and unpacked as untrusted input.

Only regular files with expected names are read from an archive. The format is plain POSIX (ustar): an entry of any
other type (links, devices, long names, extended headers) is refused, so no library acts on an entry's contents.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from selfsurf.browser_env.record.untrusted import LARGEST, LARGEST_FILE, MOST_FILES

_BLOCK = 512
_PIECE = 2**20
EPISODE_NAME = re.compile(
    r"(?:episode\.json|steps\.jsonl|manifest\.json|artifacts/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,80}\.png)"
)
ADAPTER_NAME = re.compile(
    r"(?:adapter_config\.json|adapter_model\.safetensors|adapters\.safetensors|selfsurf\.json|probe\.json|README\.md)"
)
BROUGHT_NAME = re.compile(rf"(?:{ADAPTER_NAME.pattern}|origin\.json)")
"""File names of an adapter that `deploy` fetched, including the file that records its origin."""
LARGEST_ADAPTER = 8 * 2**30
"""Maximum size of an adapter in bytes. In float32, an adapter of rank 64 for a model of 70 billion weights has 3.3 GB.
"""
_FOLDER = re.compile(r"(?:\./?|(?:\./)?artifacts/?)")


class ArchiveError(ValueError):
    """An archive is damaged, or has a forbidden entry."""


class TooLarge(ArchiveError):
    """The contents of an archive exceed the size limit."""


def pack(folder: Path, names: re.Pattern[str], out: Path) -> Path:
    """Write the files of a folder as a tar.gz, with equal bytes for equal contents on the same machine.

    Args:
        folder: folder with the files.
        names: pattern of the files to pack (`EPISODE_NAME`, `ADAPTER_NAME`, `BROUGHT_NAME`).
        out: path of the archive.

    Raises:
        ArchiveError: the folder contains links or other irregular files.
    """
    files = sorted(path for path in folder.rglob("*") if names.fullmatch(path.relative_to(folder).as_posix()))
    with (
        out.open("wb") as raw,
        gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in files:
            if path.is_symlink() or not path.is_file():
                raise ArchiveError(f"{path} is not a regular file.")
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            with path.open("rb") as file:
                entry.size = os.fstat(file.fileno()).st_size
                tar.addfile(entry, file)
    return out


def unpack(
    archive: BinaryIO, folder: Path, names: re.Pattern[str], *, most: int = LARGEST, largest: int = LARGEST_FILE
) -> int:
    """Write an archive's files into a new folder; return their total size in bytes.

    Args:
        archive: a tar.gz.
        folder: folder to create.
        names: pattern of allowed file names.
        most: maximum total size in bytes.
        largest: maximum size of one file in bytes.

    Raises:
        ArchiveError: the archive has a forbidden or repeated entry, is too large, or is damaged. The caller has to
            remove the folder.
    """
    folder.mkdir(parents=True)
    total = 0
    try:
        with gzip.GzipFile(fileobj=archive) as packed:
            for name, size, content in _files(packed.read, names):
                total += size
                if size > largest:
                    raise ArchiveError(f"The archive contains a file of more than {largest:,} bytes.")
                if total > most:
                    raise TooLarge(f"The archive contains more than {most:,} bytes.")
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                with path.open("xb") as file:
                    for piece in content:
                        file.write(piece)
    except (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError, UnicodeError):
        raise ArchiveError("The archive is not a complete tar.gz file.") from None
    return total


def _files(read: Callable[[int], bytes], names: re.Pattern[str]) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    seen: set[str] = set()
    for _ in range(MOST_FILES + 2):
        header = _exactly(read, _BLOCK)
        if not header.strip(b"\0"):
            padding = 0
            while rest := read(_PIECE):
                padding += len(rest)
                if rest.strip(b"\0") or padding > _PIECE:
                    raise ArchiveError("The archive contains data after its end.")
            return
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        if entry.type == tarfile.DIRTYPE and _FOLDER.fullmatch(entry.name) and not entry.size:
            continue
        if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise ArchiveError(
                "The archive contains an entry that is not a regular file: pack with tar --format ustar."
            )
        name = entry.name.removeprefix("./")
        if not names.fullmatch(name):
            raise ArchiveError("The archive contains a file that is not part of the format.")
        if name in seen or entry.size < 0:
            raise ArchiveError("The archive lists a file twice, or a file of negative size.")
        seen.add(name)
        yield name, entry.size, _content(read, entry.size)
        _exactly(read, -entry.size % _BLOCK)
    raise ArchiveError(f"The archive contains more than {MOST_FILES:,} files.")


def _content(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    while size:
        piece = _exactly(read, min(size, _PIECE))
        size -= len(piece)
        yield piece


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    made = io.BytesIO()
    while made.tell() < size:
        piece = read(size - made.tell())
        if not piece:
            raise ArchiveError("The archive is cut off.")
        made.write(piece)
    return made.getvalue()
