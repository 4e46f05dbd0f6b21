"""Rules on which files may be uploaded or shown, and the storage of downloads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.safety.policy import Safety

if TYPE_CHECKING:
    from playwright.async_api import Download

    from selfsurf.browser_env.session.tab import Tab

DOWNLOAD_BOUND = 2.0
"""Maximum seconds that a step waits for a download; a longer one is reported by a later step."""

MOST_NAMES = 30
"""Maximum number of file names listed for an agent."""

_NAME_LIMIT = 120
"""Maximum length of a file name in bytes; file systems allow 255."""

_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def uploadable(files: Iterable[str], folders: Iterable[str | Path]) -> list[str]:
    """Return the real paths of files to upload. Relative paths are looked up in the folders.

    Raises:
        ActionError: a file is outside all folders after resolving links and `..`, or does not exist.
    """
    roots = [Path(folder).expanduser().resolve() for folder in folders]
    if not roots:
        raise ActionError(
            "No file may be uploaded here; the user has to allow a folder with Safety(upload_from=...).", "refused"
        )
    return [str(_inside(file, roots)) for file in files]


def _inside(file: str, roots: list[Path]) -> Path:
    try:
        candidates = [(root / file).resolve() for root in roots]  # an absolute path is left unchanged
        inside = [path for path in candidates if any(path.is_relative_to(root) for root in roots)]
        there = [path for path in inside if path.is_file()]
    except (OSError, ValueError, RuntimeError):
        raise ActionError(f"{file!r} is not the path of a file.") from None
    if not inside:
        raise ActionError(f"{file!r} may not be uploaded; only files in {' or '.join(map(str, roots))} may.", "refused")
    if not there:
        raise ActionError(f"There is no file {file!r} to upload.")
    return there[0]


def file_names(folders: Iterable[str | Path]) -> tuple[str, ...]:
    """Return the names of the visible files directly in the folders, by which they can be uploaded.

    At most `MOST_NAMES`, the first by name. Files in subfolders can be uploaded too, but are not listed.
    """
    found: set[str] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            found.update(one.name for one in Path(folder).expanduser().iterdir() if one.is_file())
    return tuple(sorted(name for name in found if not name.startswith(".") and name.isprintable()))[:MOST_NAMES]


def shows_file(url: str, folders: Iterable[str | Path]) -> bool:
    """Whether a `file:` URL may be shown, after resolving links and `..`."""
    try:
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            return False
        path = Path(unquote(parts.path)).resolve()
    except (OSError, ValueError, RuntimeError):
        return False
    return any(path.is_relative_to(Path(folder).expanduser().resolve()) for folder in folders)


def file_name(suggested: str) -> str:
    """Turn a suggested file name into a safe one: no folders or control characters, not hidden, not too long."""
    name = suggested.replace("\\", "/").rsplit("/", 1)[-1]
    name = re.sub(r'[\x00-\x1f\x7f<>:"|?*\u202a-\u202e\u2066-\u2069]', "_", name).strip().strip(".")
    if not name or _RESERVED.fullmatch(name):
        name = f"download_{name}" if name else "download"
    stem, dot, ending = name.rpartition(".")
    if len(os.fsencode(name)) > _NAME_LIMIT:
        ending = f".{_cut(ending, 20)}" if dot and ending else ""
        name = _cut(stem or name, _NAME_LIMIT - len(os.fsencode(ending))) + ending
    return name


def _cut(text: str, length: int) -> str:
    """Return the beginning of a text that fits into the given number of bytes."""
    return text.encode(errors="replace")[:length].decode(errors="ignore")


class Downloads:
    """The downloads of one episode, which are saved in the episode's folder.

    Args:
        safety: the folder and the size limit.
        note: called with an event for `obs["events"]` when a download ends.
    """

    def __init__(self, safety: Safety, note: Callable[[str], None]) -> None:
        self.files: list[Path] = []
        """Completed downloads, in order."""
        self._names: set[str] = set()
        """Names of completed downloads and of downloads being written."""
        self._safety = safety
        self._note = note
        self._folder: Path | None = None
        self._pending: dict[asyncio.Task[None], Download] = {}
        self._waited_for: set[asyncio.Task[None]] = set()
        self._too_large: set[Download] = set()
        self._cancelling: set[asyncio.Future[None]] = set()

    def watch(self, tab: Tab) -> None:
        """Start enforcing the size limit on a tab's downloads."""
        urls: dict[str, str] = {}
        tab.protocol.on("Page.downloadWillBegin", lambda event: urls.__setitem__(event["guid"], event["url"]))
        tab.protocol.on("Page.downloadProgress", lambda event: self._progress(event, urls))

    def _progress(self, event: dict[str, Any], urls: dict[str, str]) -> None:
        if max(event["receivedBytes"], event["totalBytes"]) <= self._safety.max_download:
            return
        for download in list(self._pending.values()):
            if download.url == urls.get(event["guid"]) and download not in self._too_large:
                self._too_large.add(download)
                cancelling = asyncio.ensure_future(download.cancel())
                self._cancelling.add(cancelling)
                cancelling.add_done_callback(self._cancelling.discard)

    def start(self, download: Download) -> None:
        """Accept a download that a page has started."""
        task = asyncio.ensure_future(self._take(download))
        self._pending[task] = download
        task.add_done_callback(lambda done: self._pending.pop(done, None))

    async def _take(self, download: Download) -> None:
        name = file_name(download.suggested_filename)
        limit = self._safety.max_download
        try:
            temporary = await download.path()
            size = temporary.stat().st_size
            if size > limit:
                self._too_large.add(download)
            if download not in self._too_large:
                target = self._free(name)
                await download.save_as(target)
                self.files.append(target)
                self._note(f"downloaded: {target.name} ({size} byte{'' if size == 1 else 's'})")
        except Exception as error:
            if download not in self._too_large:
                self._note(f"download failed: {name} ({str(error).splitlines()[0]})")
        if download in self._too_large:
            self._note(f"download refused: {name} (more than {limit} bytes)")
        with contextlib.suppress(Exception):
            await download.delete()

    def _free(self, name: str) -> Path:
        """Return an unused path in the episode's folder."""
        if self._folder is None:
            parent = self._safety.download_to
            if parent is not None:
                Path(parent).expanduser().mkdir(parents=True, exist_ok=True)
                parent = Path(parent).expanduser().resolve()
            self._folder = Path(tempfile.mkdtemp(prefix="downloads-", dir=parent))
        path = Path(name)
        number, free = 1, name
        while free in self._names or (self._folder / free).exists():
            number += 1
            free = f"{path.stem} ({number}){path.suffix}"
        self._names.add(free)
        return self._folder / free

    async def ended(self) -> None:
        """Wait for downloads that have begun since the last call, within a time limit."""
        if new := self._pending.keys() - self._waited_for:
            await asyncio.wait(new, timeout=DOWNLOAD_BOUND)
        self._waited_for = set(self._pending)

    def forget(self) -> None:
        """Reset for another episode: cancel downloads, and delete a temporary folder but not the user's own."""
        for task in list(self._pending):
            task.cancel()
        self._pending.clear()
        if self._folder is not None and self._safety.download_to is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None
        self.files = []
        self._names.clear()
