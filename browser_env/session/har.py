"""HAR files: an episode's network traffic recorded to one, and an episode answered from one."""

from __future__ import annotations

import base64
import json
import zipfile
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from selfsurf.browser_env.errors import EnvError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request, Route, WebSocketRoute

_REDIRECTS = (301, 302, 303, 307, 308)


def new_recording(path: Path) -> Path:
    """Create and return a new, empty file: `path` itself, or with `-2`, `-3`, ... in its name if it exists.

    Raises:
        EnvError: the file can't be created.
    """
    number, candidate = 1, path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                candidate.open("x").close()
                return candidate
            except FileExistsError:
                number += 1
                candidate = path.with_stem(f"{path.stem}-{number}")
    except OSError as error:
        raise EnvError(f"The recording {candidate} can't be written: {error.strerror}.") from None


async def replay(context: BrowserContext, path: Path, note: Callable[[str], None]) -> None:
    """Answer every request of a context from a recording.

    A repeated request gets its answers in the recorded order, and the last one from then on. Any request or web
    socket that is not in the recording fails and is reported to `note`.

    Raises:
        EnvError: the file is not a recording.
    """
    series = read_series(path)

    async def missing(route: Route) -> None:
        note(f"not in the recording, failed: {route.request.method} {route.request.url}")
        await route.abort("internetdisconnected")

    async def next_of_series(route: Route) -> None:
        answers = series.get(_key(route.request))
        if not answers:
            await route.fallback()
            return
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        await route.fulfill(status=answer.status, headers=answer.headers, body=answer.body)

    async def no_socket(socket: WebSocketRoute) -> None:
        note(f"not in the recording, failed: WebSocket {socket.url}")
        await socket.close(code=1011, reason="not in the recording")

    # Handlers are tried in reverse order of registration.
    await context.route("**/*", missing)
    await context.route_from_har(path, not_found="fallback")
    if series:
        await context.route("**/*", next_of_series)
    await context.route_web_socket("**/*", no_socket)


@dataclass(frozen=True)
class Answer:
    """A recorded response."""

    status: int
    headers: dict[str, str]
    body: bytes


Key = tuple[str, str, bytes]
"""Method, address, body of a request."""


def read_series(path: Path) -> dict[Key, deque[Answer]]:
    """Return the answers, in order, to requests that a HAR file (or a `.zip` of one) contains more than once.

    Playwright's own replay gives the same answer every time, which is wrong for a page that changed.

    Raises:
        EnvError: it is not a HAR file.
    """
    found: dict[Key, deque[Answer]] = defaultdict(deque)
    try:
        files = _Files(path)
        for entry in files.har["log"]["entries"]:
            request, response = entry["request"], entry["response"]
            if response["status"] <= 0 or response["status"] in _REDIRECTS:
                continue  # Playwright has to follow redirects itself
            key = (request["method"], urldefrag(request["url"]).url, files.content(request.get("postData") or {}))
            found[key].append(Answer(response["status"], _headers(response), files.content(response["content"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise EnvError(f"{path} is not a HAR recording ({type(error).__name__}: {error}).") from None
    return {key: answers for key, answers in found.items() if len(answers) > 1}


class _Files:
    """A recording and the files with its bodies: beside it in its folder, or in the same archive."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._archive: dict[str, bytes] | None = None
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                self._archive = {name: archive.read(name) for name in archive.namelist()}
            text = next((body for name, body in self._archive.items() if name.endswith(".har")), b"")
        else:
            text = path.read_bytes()
        self.har: dict[str, Any] = json.loads(text)

    def content(self, part: dict[str, Any]) -> bytes:
        """Return the body that a part of an entry (`content` or `postData`) contains or refers to."""
        name = part.get("_file")
        if name is None:
            text = part.get("text") or ""
            return base64.b64decode(text) if part.get("encoding") == "base64" else text.encode()
        if self._archive is not None:
            return self._archive[name]
        file = (self._folder / name).resolve()
        if not file.is_relative_to(self._folder.resolve()):
            raise ValueError(f"{name} is outside of the recording's folder")
        return file.read_bytes()


def _headers(response: dict[str, Any]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for header in response["headers"]:
        name, value = header["name"].lower(), header["value"]
        # `fulfill` takes several cookies as lines of one header.
        merged[name] = f"{merged[name]}\n{value}" if name == "set-cookie" and name in merged else value
    return merged


def _key(request: Request) -> Key:
    return request.method, urldefrag(request.url).url, request.post_data_buffer or b""
