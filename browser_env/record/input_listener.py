"""Hears what a person does in a tab: trusted input events of every frame, told by a script that no page can reach.

The script lives in the world of the in-page script, so a page can neither call what reports nor take it away, and it
listens from before the page's first script, so no handler of the page can keep an event from it. Only events that the
browser itself made (`isTrusted`) count.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.session.page_script import read_script

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

    from selfsurf.browser_env.session.tab import Tab

WORLD = "selfsurf"
"""Name of the world of the in-page script."""


class InputListener:
    """Reports facts about input: `heard(tab, fact)`, in the order in which they happened.

    Args:
        heard: called on the runtime's loop. A fact has a `kind` and, for most kinds, the `id` of the element that was
            meant, and `raw`, a pass over the page at that moment.
        reach: as `ViewOptions.reach`.
    """

    def __init__(self, heard: Callable[[Tab, dict[str, Any]], None], reach: float | None) -> None:
        self._heard = heard
        self._event, self._report = (f"{kind}{secrets.token_hex(8)}" for kind in ("e", "r"))
        told = json.dumps({"event": self._event, "report": self._report, "reach": reach})
        self.script = f"{read_script('input_recorder')}\nrecord({told});"
        """What the in-page script needs in addition."""

    async def listen(self, tab: Tab, protocol: CDPSession) -> None:
        """Begin to listen in a target of a tab, in its frames that are and those that come."""

        def called(event: dict[str, Any]) -> None:
            if event["name"] == self._report:
                self._heard(tab, json.loads(event["payload"]))

        protocol.on("Runtime.bindingCalled", called)
        await protocol.send("Runtime.enable")  # without it, worlds that come later have no binding
        await protocol.send("Runtime.addBinding", {"name": self._report, "executionContextName": WORLD})
        names = f"const EVENT = {json.dumps(self._event)}, REPORT = {json.dumps(self._report)};"
        await protocol.send(
            "Page.addScriptToEvaluateOnNewDocument",
            {
                "source": f"(() => {{\n{names}\n{read_script('dom')}\n{read_script('input_listener')}\n}})()",
                "worldName": WORLD,
                "runImmediately": True,
            },
        )
