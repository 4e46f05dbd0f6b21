"""Worker code for measuring browser-use. Runs in browser-use's own Python, under `worker.py`."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from typing import Any

from browser_use.browser import BrowserProfile, BrowserSession

MOST_CHARACTERS = 40_000
"""Maximum length of the text for the model, as in browser-use's agent (`max_clickable_elements_length`)."""

VIEWPORT = {"width": 1280, "height": 720}


class Side:
    """Requests that the worker answers. Times are in seconds."""

    def __init__(self) -> None:
        # The loop must keep running between requests, for the session's connection to its browser.
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        profile = BrowserProfile(
            headless=True, executable_path=os.environ["SELFSURF_PEER_BROWSER"], viewport=VIEWPORT,
            chromium_sandbox=False, enable_default_extensions=False,
        )  # fmt: skip
        self._session = BrowserSession(browser_profile=profile)
        self._run(self._session.start())
        self._url = ""

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def observe(self, url: str, repeat: int) -> dict[str, Any]:
        """Time the browser state that each agent step uses, including the screenshot, after an untimed first one.

        On a slow page, browser-use gives up on parts after its own timeouts: `missing` names them, and the times
        include only the wait for them.
        """
        if url != self._url:
            self._run(self._session.navigate_to(url))
            self._url = url
            self._run(self._state())
        seconds, characters, missing = [], 0, set()
        for _ in range(repeat):
            start = time.perf_counter()
            state = self._run(self._state())
            seconds.append(time.perf_counter() - start)
            if state.dom_state._root is None:
                missing.add("DOM")
            else:
                characters = min(len(state.dom_state.llm_representation()), MOST_CHARACTERS)
            if not state.screenshot:
                missing.add("screenshot")
        return {"seconds": seconds, "characters": characters, "missing": sorted(missing)}

    async def _state(self) -> Any:
        return await self._session.get_browser_state_summary(include_screenshot=True)

    def close(self) -> None:
        """Close the browser."""
        self._run(self._session.kill())
