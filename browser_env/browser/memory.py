"""Memory limit of pages: a renderer above the limit is killed, which counts as a crash.

Chromium limits a page's JavaScript heap, but not its buffers and its DOM. Needs /proc (Linux); elsewhere only the heap
is limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Browser

LOOK_EVERY = 0.25
"""Seconds between two checks; a page can allocate a few hundred MB in that time."""


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB; 0 if there is no such process."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def renderers(pid: int) -> list[int]:
    """Return the ids of a browser's renderer processes."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        with contextlib.suppress(OSError, ValueError):  # the process has ended
            for children in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
                for child in map(int, children.read_text().split()):
                    (found if _is_renderer(child) else waiting).append(child)
    return found


def _is_renderer(pid: int) -> bool:
    return b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()


async def kill_large_renderers(browser: Browser, limit: float, killed: Callable[[], None]) -> None:
    """Kill every renderer that uses more than `limit` MB while the browser runs, and call `killed` for each."""
    if not resident(os.getpid()):
        return
    with contextlib.suppress(Exception):  # the browser is gone
        protocol = await browser.new_browser_cdp_session()
        listed = await protocol.send("SystemInfo.getProcessInfo")
        (pid,) = [process["id"] for process in listed["processInfo"] if process["type"] == "browser"]
        while browser.is_connected():
            for renderer in renderers(pid):
                if resident(renderer) > limit:
                    killed()
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(renderer, signal.SIGKILL)
            await asyncio.sleep(LOOK_EVERY)
