"""A browser's DevTools pipe, shared by Playwright's driver and by sessions of our own, which bypass the driver.

Playwright starts the browser with the two ends of a pipe. The program that it really starts (`HandOver`) sends these
ends to this process, gets others in exchange, and becomes the browser. No port is open, so no one else can connect.
Each of our sessions has one owner; messages between the driver and the browser are passed on unchanged.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import socket
import sys
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from playwright.async_api import CDPSession, Error

from selfsurf.browser_env.browser.page_time import GONE, INPUT, PageTime
from selfsurf.browser_env.browser.page_times import PageTimes

T = TypeVar("T")

_FIRST_OWN_ID = 2**30
"""First number of our own calls; Playwright numbers its calls from 1."""

BEHIND = 5.0
"""Seconds that the driver may lag behind: usually a millisecond, more on a crowded machine."""

_TOLD = "Selfsurf.told"
"""Name of a method answered locally: once the driver returns the answer, it has reported all earlier messages."""

_TOLD_CALL = f'"method":"{_TOLD}"'.encode()

_FIRST_PICTURE = 5.0
"""Seconds that a browser may take for its first picture on demand."""

_SESSION = b'"sessionId":"'
_TAIL = len(_SESSION) + 32 + 2
"""Bytes at the end of a session's message that hold the session id and the closing `"}`."""

_HAND_OVER = """\
import os, socket, sys
with socket.socket(socket.AF_UNIX) as there:
    there.connect(sys.argv[1])
    socket.send_fds(there, [b"0"], [3, 4])
    _, ends, *_ = socket.recv_fds(there, 1, 2)
for number, end in zip((3, 4), ends):
    os.dup2(end, number)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Program that sends the browser's two pipe ends away, receives others, and becomes the browser."""


class HandOver:
    """Interception of the pipe between the driver and a browser to be started. Create it on the loop, and close it.

    Args:
        holds_time: whether the browser's pages run in virtual time (`page_time`).
    """

    def __init__(self, *, holds_time: bool = False) -> None:
        self.command: tuple[str, ...] = ()
        """Prefix for the browser's command line; empty if interception is impossible."""
        self._folder = Path(tempfile.mkdtemp(prefix="selfsurf-pipe-"))
        self._waiting: asyncio.Task[DevTools] | None = None
        path = str(self._folder / "ends")
        if not sys.executable or not hasattr(socket, "AF_UNIX"):
            return
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(path)
        except OSError:  # the path is too long
            listener.close()
            return
        listener.listen(1)
        listener.setblocking(False)
        self._waiting = asyncio.ensure_future(_taken(listener, holds_time))
        self.command = (sys.executable, "-IS", "-c", _HAND_OVER, path)

    def result(self) -> DevTools | None:
        """Return the browser's pipe once the browser runs; None if the pipe was not handed over."""
        return self._waiting.result() if self._waiting is not None and self._waiting.done() else None

    def close(self) -> None:
        """Stop waiting for the browser and remove the temporary folder."""
        if self._waiting is not None:
            self._waiting.cancel()
        shutil.rmtree(self._folder, ignore_errors=True)


async def _taken(listener: socket.socket, holds_time: bool) -> DevTools:
    loop = asyncio.get_running_loop()
    with listener:
        there, _ = await loop.sock_accept(listener)
    with there:
        readable = loop.create_future()
        loop.add_reader(there, readable.set_result, None)
        try:
            await readable
        finally:
            loop.remove_reader(there)
        _, driver, *_ = socket.recv_fds(there, 1, 2)
        told, write = os.pipe()
        read, says = os.pipe()
        socket.send_fds(there, [b"0"], [told, says])
        os.close(told)
        os.close(says)
    return await DevTools.between((driver[0], driver[1]), (read, write), holds_time=holds_time)


class _Reader(asyncio.Protocol):
    """Splitter of a pipe's data into messages."""

    def __init__(self, take: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._take, self._ended = take, ended
        self._parts: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        *whole, rest = data.split(b"\0")
        for message in whole:
            self._take(b"".join((*self._parts, message)) if self._parts else message)
            self._parts.clear()
        if rest:
            self._parts.append(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()


class DevTools:
    """The pipe of one browser, shared by Playwright's driver and our own sessions."""

    def __init__(self) -> None:
        self._numbers = itertools.count(_FIRST_OWN_ID)
        self._root: asyncio.Future[str] | None = None
        self._sessions: dict[bytes, OwnSession] = {}
        self._browser: asyncio.WriteTransport
        self._driver: asyncio.WriteTransport
        self._telling: set[int] = set()
        self._held: dict[int, bytes] = {}
        self._events = self._known = 0
        """Numbers of events sent to the driver, and of events that it is known to have reported."""
        self._readings: list[asyncio.ReadTransport] = []
        self._times: PageTimes | None = None
        self.ended = False

    @classmethod
    async def between(cls, driver: tuple[int, int], browser: tuple[int, int], *, holds_time: bool = False) -> DevTools:
        """Connect the driver's pipe ends to the browser's; each pair is an end to read and an end to write.

        Args:
            driver: pipe ends of the driver.
            browser: pipe ends of the browser.
            holds_time: whether the browser's pages run in virtual time (`page_time`).
        """
        self = cls()
        if holds_time:
            self._times = PageTimes(self._attach, self._pass_on)
        loop = asyncio.get_running_loop()
        self._driver, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(driver[1], "wb", 0))
        self._browser, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(browser[1], "wb", 0))
        for end, take in ((browser[0], self._heard), (driver[0], self._said)):
            reader = partial(_Reader, take, self._end)
            self._readings.append((await loop.connect_read_pipe(reader, os.fdopen(end, "rb", 0)))[0])
        if self.ended:  # the browser ended before its last end was connected
            self._end()
        return self

    def _said(self, message: bytes) -> None:
        if _TOLD_CALL in message[:100]:
            asked = json.loads(message)
            answer = json.dumps({"id": asked["id"], "result": {}, "sessionId": asked["sessionId"]}).encode() + b"\0"
            number = asked["params"]["number"]
            if number in self._telling:
                self._held[number] = answer
            else:
                self._driver.write(answer)
            return
        if self._times is not None and self._times.said(message[-34:-2], message):
            return
        self._pass_on(message)

    def _pass_on(self, message: bytes) -> None:
        if not self.ended:
            self._browser.write(message + b"\0")

    async def told(self, driver: CDPSession, asking: Awaitable[T]) -> T:
        """Await a page's answer, then wait until the driver has reported all events that preceded the answer.

        Args:
            driver: Playwright's session with the page.
            asking: a call in a session of our own.
        """
        if self._events > self._known:
            return await self._telling_all(driver, asking)
        answer = await asking
        if self._events > self._known:
            await self._telling_all(driver, asyncio.sleep(0))
        return answer

    async def _telling_all(self, driver: CDPSession, asking: Awaitable[T]) -> T:
        number = next(self._numbers)
        self._telling.add(number)
        telling = asyncio.ensure_future(driver.send(_TOLD, {"number": number}))
        telling.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        try:
            answer = await asking
        finally:
            self._telling.discard(number)
            passed = self._events
            if (held := self._held.pop(number, None)) is not None and not self.ended:
                self._driver.write(held)
        await asyncio.wait({telling}, timeout=BEHIND)
        if telling.done() and not telling.cancelled() and telling.exception() is None:
            self._known = max(self._known, passed)
        return answer

    def _heard(self, message: bytes) -> None:
        if message[-_TAIL : -_TAIL + len(_SESSION)] == _SESSION:
            session = self._sessions.get(message[-34:-2])
            if session is not None:
                session._hear(json.loads(message))
                return
        elif self._root is not None and not self._root.done():
            said = json.loads(message)
            if said.get("id", 0) >= _FIRST_OWN_ID:
                if "error" in said:
                    self._root.set_exception(Error(said["error"]["message"]))
                    return
                id = said["result"]["sessionId"]
                self._sessions[id.encode()] = OwnSession(self, id)
                self._root.set_result(id)
                return
            if said.get("method") == "Target.attachedToTarget" and said["params"]["targetInfo"]["type"] == "browser":
                return
        self._events += message.startswith(b'{"method":')
        if self._times is not None:
            self._times.heard(message[-34:-2], message)
        self._driver.write(message + b"\0")

    def _end(self) -> None:
        self.ended = True
        for transport in (self._browser, self._driver, *self._readings):
            transport.close()
        if self._root is not None and not self._root.done():
            self._root.set_exception(Error(GONE))
        for session in list(self._sessions.values()):
            session._end()
        self._sessions.clear()
        if self._times is not None:
            self._times.close()

    def _tell(self, message: dict[str, Any]) -> None:
        if self.ended:
            raise Error(GONE)
        self._browser.write(json.dumps(message, separators=(",", ":")).encode() + b"\0")

    async def attach(self, target: str) -> OwnSession:
        """Return a session of our own with a target. A page in virtual time has only one such session.

        Raises:
            Error: there is no such target, or the browser has ended.
        """
        time = None if self._times is None else self._times.of(target)
        if time is None:
            return await self._attach(target)
        session = await time.begun_with()
        session.time = time
        return session

    async def _attach(self, target: str) -> OwnSession:
        browser = await self._browser_session()
        answer = await browser.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        return self._sessions[answer["sessionId"].encode()]

    async def holds_time(self) -> bool:
        """Whether the browser supports virtual time and frames on demand, tested with the first picture of a page."""
        if self._times is None:
            return False
        browser = await self._browser_session()
        target = (await browser.send("Target.createTarget", {"url": "about:blank"}))["targetId"]
        try:
            async with asyncio.timeout(_FIRST_PICTURE):
                await self._times.try_picture(target)
        except (Error, TimeoutError):
            return False
        finally:
            await browser.send("Target.closeTarget", {"targetId": target})
        return True

    async def detach(self, session: str) -> None:
        """End one of our own sessions."""
        await (await self._browser_session()).send("Target.detachFromTarget", {"sessionId": session})

    async def _browser_session(self) -> OwnSession:
        if self._root is None:
            self._root = asyncio.get_running_loop().create_future()
            self._tell({"id": next(self._numbers), "method": "Target.attachToBrowserTarget", "params": {}})
        return self._sessions[(await self._root).encode()]


class ProtocolSession(Protocol):
    """A session with one target, our own or Playwright's."""

    async def send(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call a method and return its result."""

    def on(self, event: Any, f: Callable[[Any], Any]) -> None:
        """Call `f` with the parameters of each event of this name."""

    async def detach(self) -> None:
        """End the session."""


class OwnSession:
    """A session of our own with one target. Answers and events arrive in order."""

    def __init__(self, devtools: DevTools, id: str) -> None:
        self._devtools, self._id = devtools, id
        self._asked: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._numbers = itertools.count(1)
        self._handlers: defaultdict[str, list[Callable[[Any], Any]]] = defaultdict(list)
        self.over = False
        self.time: PageTime | None = None
        """Virtual time of the page; None if the page runs in real time."""

    def on(self, event: str, f: Callable[[Any], Any]) -> None:
        """Call `f` with the parameters of each event of this name."""
        self._handlers[event].append(f)

    async def send(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call a method and return its result.

        Raises:
            Error: the browser rejects the call, or the session is over.
        """
        if self.over:
            raise Error(f"{method}: {GONE}")
        number, params = next(self._numbers), params or {}
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = method, future
        self._devtools._tell({"id": number, "method": method, "params": params, "sessionId": self._id})
        awaits, wheel = bool(params.get("awaitPromise")), params.get("type") == "mouseWheel"
        time = self.time if awaits or method.startswith("Input.") else None
        if time is not None:  # the in-page script's calls certainly wait for time, and so does a wheel
            time.asked(number, grace=0 if awaits or wheel else INPUT, begun=wheel or method == "Runtime.callFunctionOn")
        try:
            return await future
        finally:
            self._asked.pop(number, None)
            if time is not None:
                time.answered(number)

    async def detach(self) -> None:
        """End the session."""
        await self._devtools.detach(self._id)

    def _hear(self, message: dict[str, Any]) -> None:
        if "id" in message:
            method, future = self._asked.get(message["id"], ("", None))
            if future is None or future.done():
                return
            if "error" in message:
                future.set_exception(Error(f"Protocol error ({method}): {message['error']['message']}"))
            else:
                future.set_result(message["result"])
            return
        event, params = message["method"], message.get("params", {})
        if event == "Target.attachedToTarget":
            self._devtools._sessions[params["sessionId"].encode()] = OwnSession(self._devtools, params["sessionId"])
        elif event == "Target.detachedFromTarget":
            gone = self._devtools._sessions.pop(params["sessionId"].encode(), None)
            if gone is not None:
                gone._end()
        elif event == "Inspector.targetCrashed":
            self._refuse("Target crashed")  # earlier calls to the page are never answered
        for handler in self._handlers[event]:
            try:
                handler(params)
            except Exception as error:  # a failing handler must not break the pipe
                asyncio.get_running_loop().call_exception_handler({"message": f"at {event}", "exception": error})

    def _end(self) -> None:
        self.over = True
        self._refuse(GONE)

    def _refuse(self, why: str) -> None:
        for method, future in self._asked.values():
            if not future.done():
                future.set_exception(Error(f"{method}: {why}"))
