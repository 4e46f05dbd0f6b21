"""Keeps pages from eating the machine's memory: a renderer above the limit is killed, which reads as a crash.

Chromium limits a page's JavaScript heap, but not its buffers and its DOM. Works where /proc is (Linux); elsewhere
the limit on the heap is all there is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Browser

LOOK_EVERY = 0.25
"""Seconds between two looks; a page that only allocates gets through some hundred MB in that time."""


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB, 0 when there is no such process."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def guard(browser: Browser, limit: float) -> None:
    """Kill every renderer of the browser that is above `limit` MB, until the browser is gone."""
    if not resident(os.getpid()):
        return
    with contextlib.suppress(Exception):  # the browser went away
        protocol = await browser.new_browser_cdp_session()
        while browser.is_connected():
            listed = await protocol.send("SystemInfo.getProcessInfo")
            for process in listed["processInfo"]:
                if process["type"] == "renderer" and resident(process["id"]) > limit:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process["id"], signal.SIGKILL)
            await asyncio.sleep(LOOK_EVERY)
