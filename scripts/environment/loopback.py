"""Serves a folder over HTTP on this machine alone, for browsers that can't be given pages otherwise."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file; the browser may have gone on to another page meanwhile."""
        with contextlib.suppress(ConnectionError):
            super().copyfile(source, outputfile)

    def log_message(self, format: str, *args: object) -> None:
        """Keep requests off the screen."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder for as long as the context lasts; gives its address, without a slash at the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
