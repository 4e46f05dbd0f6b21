"""Loopback servers for the measured pages: one for all folders, and one for each application.

All servers bind a free port of 127.0.0.1 and are stopped when `Pages` is exited. The static server also answers as
`localhost`, which browsers treat as another site, for pages that need a frame of another origin.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from selfsurf.scripts.machine.install import Unavailable
from selfsurf.scripts.machine.loopback import serving
from selfsurf.scripts.observation.pages.source import App, Source, Static

START_SECONDS = 120
"""Seconds until an application that doesn't respond is given up."""


class Pages(ExitStack):
    """Context that serves pages, starting their servers on first use.

    Example:
        with Pages() as pages:
            url = pages.base(PAGES[0].source) + PAGES[0].path
    """

    def __init__(self) -> None:
        super().__init__()
        self._folders: dict[str, Path] = {}
        self._bases: dict[str, str] = {}
        self._unavailable: dict[str, str] = {}

    def base(self, source: Source) -> str:
        """Return the address of a source, without a trailing slash.

        Raises:
            Unavailable: The source can't be installed or started; another call doesn't try again.
        """
        if source.name in self._unavailable:
            raise Unavailable(self._unavailable[source.name])
        try:
            return self._mounted(source) if isinstance(source, Static) else self._started(source)
        except Unavailable as error:
            self._unavailable[source.name] = str(error)
            raise

    def _mounted(self, source: Static) -> str:
        if "" not in self._bases:
            self._bases[""] = self.enter_context(serving(self._folders))
        for each in (*source.uses, source):
            if each.name not in self._folders:
                self._folders[each.name] = each.install()
        return f"{self._bases['']}/{source.name}"

    def _started(self, source: App) -> str:
        if source.name not in self._bases:
            port = free_port()
            folder = source.install()
            log = folder.with_name(f"{source.name}.server.log")
            with open(log, "wb") as sink:
                process = subprocess.Popen(
                    source.command(folder, port), cwd=folder, env={**os.environ, **source.variables()},
                    stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True,
                )  # fmt: skip
            self.callback(_stop, process)
            _wait(f"http://127.0.0.1:{port}{source.probe}", process, log)
            self._bases[source.name] = f"http://127.0.0.1:{port}"
        return self._bases[source.name]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise Unavailable(f"the server ended with exit code {process.returncode}; see {log}")
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError as error:
            raise Unavailable(f"{url} answers {error.code}; see {log}") from None
        except OSError:
            time.sleep(0.1)
    raise Unavailable(f"no answer from {url} within {START_SECONDS} s; see {log}")
