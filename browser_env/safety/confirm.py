"""Asks for confirmation before risky actions: finds an action's target, has the risk assessed, and asks the user."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

from selfsurf.browser_env.actions import Click, Press, Type
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.safety.network import host_and_port
from selfsurf.browser_env.safety.policy import Confirm, Risk, Safety
from selfsurf.browser_env.safety.risk import NO_SURROUNDINGS, Surroundings, assess, might_be_risky
from selfsurf.browser_env.session.page_script import read_script
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import ForeignFrame


class Confirmer:
    """Assesses the actions of one environment, and asks for confirmation.

    Args:
        safety: whom to ask, and for how long.
    """

    def __init__(self, safety: Safety) -> None:
        self.risk: Risk | None = None
        """The risk of this step's action, if any."""
        self.deadline: asyncio.Timeout | None = None
        """The step's own, which is suspended while the user decides."""
        self._safety = safety

    async def check(
        self, session: Session, action: Any, observation: Observation | None, foreign: dict[int, ForeignFrame]
    ) -> None:
        """Assess an action that is about to be carried out.

        Raises:
            ActionError: the user did not allow it.
        """
        element = target_of(action, observation)
        if not might_be_risky(action, element):
            return
        around = await _surroundings_of(session, element, foreign)
        self.risk = assess(action, element, around)
        if self.risk is None or self._safety.confirm is None:
            return
        if not await self._asked(self._safety.confirm, action, element, self.risk):
            raise ActionError(f"The user did not allow this action ({self.risk.kind}). {self.risk.why}")

    async def _asked(self, confirm: Confirm, action: Any, element: Element | None, risk: Risk) -> bool:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()

        def settle(allowed: bool) -> None:
            if not answer.done():
                answer.set_result(allowed)

        def ask() -> None:
            try:
                allowed = confirm(action, element, risk) is True
            except Exception:
                allowed = False
            with contextlib.suppress(RuntimeError):  # the loop has stopped: nobody waits for the answer
                loop.call_soon_threadsafe(settle, allowed)

        began = loop.time()
        until = self.deadline.when() if self.deadline is not None else None
        if self.deadline is not None:
            self.deadline.reschedule(None)
        threading.Thread(target=ask, name="confirm", daemon=True).start()
        try:
            return await asyncio.wait_for(answer, self._safety.confirm_timeout)
        except TimeoutError:
            return False
        finally:
            if self.deadline is not None and until is not None:
                self.deadline.reschedule(until + loop.time() - began)


def focused(observation: Observation | None) -> int | None:
    """Return the id of the element that had the focus in the last observation."""
    elements = observation["elements"] if observation is not None else ()
    return next((element["id"] for element in elements if "focused" in element["states"]), None)


def target_of(action: Any, observation: Observation | None) -> Element | None:
    """Return an action's target element, as far as the last observation shows it."""
    elements = observation["elements"] if observation is not None else ()
    if isinstance(action, Click) and action.id is None:
        return _at(elements, float(action.x or 0), float(action.y or 0))
    id = getattr(action, "id", None)
    if id is None and isinstance(action, (Press, Type)):
        id = focused(observation)
    return next((element for element in elements if element["id"] == id), None)


def _at(elements: tuple[Element, ...], x: float, y: float) -> Element | None:
    """Return the smallest element whose box contains a point, preferring those that aren't covered."""

    def order(element: Element) -> tuple[bool, float]:
        return "covered" in element["states"], element["bbox"][2] * element["bbox"][3]

    hit = [e for e in elements if e["bbox"][0] <= x <= e["bbox"][0] + e["bbox"][2]]
    hit = [e for e in hit if e["bbox"][1] <= y <= e["bbox"][1] + e["bbox"][3]]
    return min(hit, key=order, default=None)


async def _surroundings_of(session: Session, element: Element | None, foreign: dict[int, ForeignFrame]) -> Surroundings:
    """Ask the page for the surroundings of an element, or of the focused one."""
    try:
        id = element["id"] if element is not None else None
        found = await _ask(session, id, foreign, read_script("surroundings")) or {}
        return Surroundings(**{**found, "fields": tuple(found.get("fields", ()))})
    except Exception:
        return NO_SURROUNDINGS  # it was removed, or the page hangs: the action itself will find out


_ORIGIN = "function () { return (this.ownerDocument || this).defaultView.origin }"


async def host_of(session: Session, id: int | None, foreign: dict[int, ForeignFrame]) -> str:
    """Return the host of an element's document (None: the tab's own); empty if it has none."""
    try:
        origin = await _ask(session, id, foreign, _ORIGIN)
    except Exception:
        return ""  # it was removed: there is nothing to type into
    return host_and_port(str(origin))[0]


async def _ask(session: Session, id: int | None, foreign: dict[int, ForeignFrame], function: str) -> Any:
    """Call a function on an element, or on the tab's document, and return its result."""
    world = foreign[id].world if id in foreign else session.active.main
    if id is None:
        node = (await world.protocol.send("Runtime.evaluate", {"expression": "document"}))["result"]
    else:
        node = await world.call("node", id=id)
    answer = await world.protocol.send(
        "Runtime.callFunctionOn",
        {"objectId": node["objectId"], "functionDeclaration": function, "returnByValue": True},
    )
    return answer["result"].get("value")
