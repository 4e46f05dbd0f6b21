"""HAR files: recording of an episode's network traffic, and replay of an episode from a recording."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import zipfile
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin

from selfsurf.browser_env.disk import write_atomically
from selfsurf.browser_env.errors import EnvError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request, Route, WebSocketRoute

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 20
_BODILESS = ("GET", "HEAD")

_BINARY = "application/octet-stream"


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


class BinaryBodies:
    """Binary request bodies, which Playwright omits from a `.har` recording or corrupts.

    Args:
        context: the recorded context.
    """

    def __init__(self, context: BrowserContext) -> None:
        self._sent: dict[tuple[str, str], deque[bytes]] = defaultdict(deque)
        context.on("request", self._note)

    def _note(self, request: Request) -> None:
        body = request.post_data_buffer
        if body and _is_binary(request.headers.get("content-type"), body.decode("utf8", "replace")):
            self._sent[request.method, request.url].append(body)

    def complete(self, path: Path) -> None:
        """Write the bodies into the finished recording. A `.zip` recording has them already."""
        if not self._sent or path.suffix.lower() == ".zip" or not path.exists():
            return
        har = json.loads(path.read_bytes())
        for entry in har["log"]["entries"]:
            request = entry["request"]
            sent, body = self._sent.get((request["method"], request["url"])), request.get("postData")
            if sent and body and _is_binary(body["mimeType"], body["text"]) and request["bodySize"] == len(sent[0]):
                body.update(text=base64.b64encode(sent.popleft()).decode(), encoding="base64")
        write_atomically(path, json.dumps(har))


def _is_binary(kind: str | None, text: str) -> bool:
    return (kind or _BINARY) == _BINARY or "\N{REPLACEMENT CHARACTER}" in text


async def replay(context: BrowserContext, path: Path, note: Callable[[str], None]) -> None:
    """Answer every request of a context from a recording.

    A request is identified by method, address and body, or by its content type if the recording has no body. A repeated
    request gets its answers in the recorded order, and the last one from then on. Any request or web socket that is not
    in the recording fails and is reported to `note`.

    Raises:
        EnvError: the file is not a recording.
    """
    answers = read_answers(path)
    repeated = {key for key, recorded in answers.items() if len(recorded) > 1}

    async def missing(route: Route) -> None:
        note(f"not in the recording, failed: {route.request.method} {route.request.url}")
        await route.abort("internetdisconnected")

    async def recorded(route: Route) -> None:
        request = route.request
        url = urldefrag(request.url).url
        if request.method in _BODILESS and (request.method, url, "") not in repeated:
            await route.fallback()
            return
        answer = _next(answers, request, url)
        if answer is None:
            await missing(route)
        elif answer.redirects:  # left to Playwright: a navigation, or a redirect of GET
            await route.fallback()
        else:
            await route.fulfill(status=answer.status, headers=answer.headers, body=answer.body)

    async def no_socket(socket: WebSocketRoute) -> None:
        note(f"not in the recording, failed: WebSocket {socket.url}")
        await socket.close(code=1011, reason="not in the recording")

    # Handlers are tried in reverse order of registration.
    await context.route("**/*", missing)
    await context.route_from_har(path, not_found="fallback")
    await context.route("**/*", recorded)
    await context.route_web_socket("**/*", no_socket)


@dataclass(frozen=True)
class RecordedResponse:
    """A recorded response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def redirects(self) -> bool:
        """Whether the response redirects the request."""
        return self.status in _REDIRECTS and "location" in self.headers


Key = tuple[str, str, str]
"""Key of a request: method, address and comparable body."""


def read_answers(path: Path) -> dict[Key, deque[RecordedResponse]]:
    """Return the answers in a HAR file (or a `.zip` of one), in order, by request.

    Playwright's own replay gives the same answer every time, which is wrong for a page that changed, and compares only
    the bodies of POST requests.

    Raises:
        EnvError: the file is not a HAR file.
    """
    found: dict[Key, deque[RecordedResponse]] = defaultdict(deque)
    try:
        files = _Files(path)
        for entry in files.har["log"]["entries"]:
            request, response = entry["request"], entry["response"]
            if response["status"] <= 0 or (response["status"] in _REDIRECTS and request["method"] in _BODILESS):
                continue  # Playwright has to follow these redirects itself
            sent, headers = request.get("postData") or {}, _headers(request)
            kind = sent.get("mimeType") or headers.get("content-type", "")
            if sent.get("text") or sent.get("_file"):
                body = _comparable(files.content(sent), kind)
            else:
                there = headers.get("content-length", kind) not in ("", "0") and request["method"] not in _BODILESS
                body = _unread(kind) if sent or there else ""
            key = (request["method"], urldefrag(request["url"]).url, body)
            found[key].append(
                RecordedResponse(response["status"], _headers(response), files.content(response["content"]))
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise EnvError(f"{path} is not a HAR recording ({type(error).__name__}: {error}).") from None
    return found


def _next(answers: Mapping[Key, deque[RecordedResponse]], request: Request, url: str) -> RecordedResponse | None:
    """Return the next recorded answer to a request, following redirects; None if there is none.

    The redirect of a form is itself returned, and so is a redirect to an address without an answer.
    """
    method, bodies = request.method, _bodies(request)
    answer: RecordedResponse | None = None
    for _ in range(_MOST_REDIRECTS):
        recorded = next((found for body in bodies if (found := answers.get((method, url, body)))), None)
        if not recorded:
            break
        answer = recorded.popleft() if len(recorded) > 1 else recorded[0]
        if not answer.redirects or request.is_navigation_request():
            break
        url = urldefrag(urljoin(url, answer.headers["location"])).url
        if answer.status == 303 or (method == "POST" and answer.status in (301, 302)):
            method, bodies = "GET", [""]
    return answer


class _Files:
    """A recording and the files with its bodies, in its folder or in the same archive."""

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


def _headers(message: dict[str, Any]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for header in message["headers"]:
        name, value = header["name"].lower(), header["value"]
        # `fulfill` takes several cookies as lines of one header.
        merged[name] = f"{merged[name]}\n{value}" if name == "set-cookie" and name in merged else value
    return merged


def _bodies(request: Request) -> list[str]:
    """Return the forms that a request's body may have in a recording: complete, valid text only, or content type."""
    body, kind = request.post_data_buffer or b"", request.headers.get("content-type", "")
    return [_comparable(body, kind), _comparable(body.decode("utf8", "replace").encode(), kind), _unread(kind)]


def _unread(kind: str) -> str:
    """Return a placeholder for the body of a request that Playwright wasn't given, such as one with files."""
    return "\0" + (kind.partition(";")[0].strip().lower() or _BINARY)


def _comparable(body: bytes, kind: str) -> str:
    """Return a body without the parts that differ each time: a multipart boundary, the order of JSON keys.

    Args:
        body: the body as sent or as recorded.
        kind: content type of the body.
    """
    text = body.decode("utf8", "surrogateescape")
    boundary = re.search(r"^multipart/.*?boundary=(?:\"([^\"]+)\"|([^\s;]+))", kind, re.IGNORECASE)
    if boundary:
        return text.replace(boundary[1] or boundary[2], "boundary")
    if "json" in kind:
        with contextlib.suppress(ValueError):
            return json.dumps(json.loads(text), sort_keys=True)
    return text
