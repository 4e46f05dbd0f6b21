"""HTTP server for local folders on loopback, for browsers that can't load the pages otherwise."""

from __future__ import annotations

import contextlib
import posixpath
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


class QuietHandler(SimpleHTTPRequestHandler):
    """Request handler that serves files without logging."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file, ignoring connections that the browser has closed."""
        with contextlib.suppress(ConnectionError):
            super().copyfile(source, outputfile)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class _Mounts(QuietHandler):
    """Request handler that serves folders under prefixes: `/uikit/tests/form.html` is `tests/form.html` of `uikit`."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *args: Any, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        super().__init__(*args)

    def translate_path(self, path: str) -> str:
        mount, _, rest = posixpath.normpath(unquote(urlsplit(path).path)).lstrip("/").partition("/")
        folder = self._folders.get(mount)
        return "/nonexistent" if folder is None or ".." in rest.split("/") else str(folder / rest)


@contextmanager
def serving(folder: Path | Mapping[str, Path]) -> Iterator[str]:
    """Serve a folder, or several by name, within this context; yield the address without a trailing slash."""
    if isinstance(folder, Path):
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    else:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Mounts, folders=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
