"""Serves pages on loopback: one static server for all folders, and whatever applications the pages need.

Everything binds 127.0.0.1 on a free port and is stopped when `Pages` is left. The static server answers as
`localhost`, too, which to a browser is another site: pages that need a frame of another origin ask for that.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import posixpath
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType

from selfsurf.scripts.environment.loopback import QuietHandler
from selfsurf.scripts.machine.install import Unavailable
from selfsurf.scripts.observation.pages.source import App, Source, Static

START_SECONDS = 120
"""How long an application may take until it answers."""


class StaticServer:
    """Serves folders under prefixes: `/uikit/tests/form.html` is `tests/form.html` of the folder mounted as `uikit`."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="pages", daemon=True).start()

    def _handler(self) -> type[QuietHandler]:
        folders = self.folders

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def translate_path(self, path: str) -> str:
                path = posixpath.normpath(urllib.parse.unquote(urllib.parse.urlsplit(path).path))
                mount, _, rest = path.lstrip("/").partition("/")
                folder = folders.get(mount)
                return "/nonexistent" if folder is None or ".." in rest.split("/") else str(folder / rest)

        return Handler

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class Pages:
    """Gives pages their addresses, starting what they need on first use.

    Example:
        with Pages() as pages:
            url = pages.url(PAGES[0])
    """

    def __init__(self) -> None:
        self._static: StaticServer | None = None
        self._running: dict[str, tuple[subprocess.Popen[bytes], str]] = {}
        self._unavailable: dict[str, str] = {}

    def __enter__(self) -> Pages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def base(self, source: Source) -> str:
        """The address of a source, without a final slash.

        Raises:
            Unavailable: it can't be installed or started here. The second time, without trying again.
        """
        if source.name in self._unavailable:
            raise Unavailable(self._unavailable[source.name])
        try:
            return self._mounted(source) if isinstance(source, Static) else self._started(source)
        except Unavailable as error:
            self._unavailable[source.name] = str(error)
            raise

    def _mounted(self, source: Static) -> str:
        if self._static is None:
            self._static = StaticServer()
        for other in source.uses:
            self._mounted(other)
        if source.name not in self._static.folders:
            self._static.folders[source.name] = source.install()
        return f"{self._static.url}/{source.name}"

    def _started(self, source: App) -> str:
        if source.name not in self._running:
            port = free_port()
            folder = source.install()
            log = folder.with_name(f"{source.name}.server.log")
            with open(log, "wb") as sink:
                process = subprocess.Popen(
                    source.command(folder, port),
                    cwd=folder,
                    env={**os.environ, **source.variables()},
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
            url = f"http://127.0.0.1:{port}"
            self._running[source.name] = (process, url)
            _wait(url + source.probe, process, log)
        return self._running[source.name][1]

    def close(self) -> None:
        """Stop every server."""
        for process, _ in self._running.values():
            process.terminate()
        for process, _ in self._running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()
        if self._static is not None:
            self._static.close()
            self._static = None


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise Unavailable(f"the server ended with {process.returncode}; see {log}")
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError as error:
            raise Unavailable(f"{url} answers {error.code}; see {log}") from None
        except OSError:
            time.sleep(0.1)
    raise Unavailable(f"no answer from {url} within {START_SECONDS} s; see {log}")
