"""Observation of a person's input in a tab: trusted events of all frames, reported by a script that pages can't reach.

The script runs in the isolated world of the in-page script, so a page can neither call nor remove it. It starts before
the page's first script, so no handler of the page can hide an event from it. Only events from the browser itself
(`isTrusted`) count.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.browser.page_script import WORLD, read_script

if TYPE_CHECKING:
    from selfsurf.browser_env.browser.devtools import ProtocolSession
    from selfsurf.browser_env.limits import Limits
    from selfsurf.browser_env.session.tab import Tab


class InputListener:
    """A listener that calls `report(tab, fact)` for each fact about a person's input, in order.

    Args:
        report: called on the runtime's event loop. A fact has a `kind` and, for most kinds, the `id` of the target
            element and `raw`, the raw observation of the page at that moment.
        reach: viewport heights observed above and below the viewport; None for the whole page.
        limits: maximum lengths of observed texts.
    """

    def __init__(self, report: Callable[[Tab, dict[str, Any]], None], reach: float | None, limits: Limits) -> None:
        self._report = report
        self._event, self._binding = (f"{kind}{secrets.token_hex(8)}" for kind in ("e", "r"))
        seen = {"reach": reach, "limits": asdict(limits)}
        told = json.dumps({"event": self._event, "report": self._binding, **seen})
        self.script = f"{read_script('input_recorder')}\nrecord({told});"
        """JavaScript to add to the in-page script."""

    async def listen(self, tab: Tab, protocol: ProtocolSession) -> None:
        """Start listening in a target of a tab, in its present and future frames."""

        def called(event: dict[str, Any]) -> None:
            if event["name"] == self._binding:
                self._report(tab, json.loads(event["payload"]))

        protocol.on("Runtime.bindingCalled", called)
        await protocol.send("Runtime.enable")  # without this, worlds created later have no binding
        await protocol.send("Runtime.addBinding", {"name": self._binding, "executionContextName": WORLD})
        names = f"const EVENT = {json.dumps(self._event)}, REPORT = {json.dumps(self._binding)};"
        await protocol.send(
            "Page.addScriptToEvaluateOnNewDocument",
            {
                "source": f"(() => {{\n{names}\n{read_script('dom')}\n{read_script('input_listener')}\n}})()",
                "worldName": WORLD,
                "runImmediately": True,
            },
        )
