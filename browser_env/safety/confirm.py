"""Asks for confirmation before risky actions: finds an action's target, has the risk assessed, and asks the user."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

from selfsurf.browser_env.act.targets import Targets
from selfsurf.browser_env.actions import Action, Click, Fill, Press, Select, Type
from selfsurf.browser_env.asking import HINT, WANTED, Asks, Program, Question, User, allows
from selfsurf.browser_env.errors import ActionError, ScriptError
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.safety.network import host_and_port
from selfsurf.browser_env.safety.policy import ASK, Risk, Safety, refuse
from selfsurf.browser_env.safety.risk import NO_SURROUNDINGS, Surroundings, assess, might_be_risky, of_dialog
from selfsurf.browser_env.session.page_script import PageScript, read_script, thrown, with_dom
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import ForeignFrame, Tab
from selfsurf.browser_env.text import one_line

AGAIN = " (allowed before, and interrupted while it was done: it may have happened already)"

_MAY_BE_RISKY = Click | Fill | Press | Select | Type


class Confirmer:
    """Assesses the actions of one environment, and asks for confirmation.

    Args:
        safety: what needs confirmation, and which function gives it.
        user: whom `Safety(confirm="ask")` asks.
    """

    def __init__(self, safety: Safety, user: User) -> None:
        self.risk: Risk | None = None
        """The risk of this step's action, if any."""
        self.confirmed = ""
        """Who let it pass: `automatically`, where nobody is to be asked, or `by the user`, also where the agent itself
        has just asked (`confirmation_of`); `refused` if not. Empty while the user is asked."""
        self._cut_off: tuple[str, ...] = ()
        self._agreed: set[Risk] | None = None
        """Risks of the last action that were agreed to; None before the first action."""
        self._held: Risk | None = None
        """The risk of a dialog that this action has opened and that nobody has agreed to."""
        self._safety = safety
        self._user = user

    def begin(self, cut_off: tuple[str, ...] = ()) -> None:
        """Begin an episode, or go on with one. `cut_off`: as in `SoFar`."""
        self.risk, self._cut_off = None, cut_off
        self._agreed, self._held = None, None

    def start_step(self, session: Session) -> None:
        """Start a step, whose dialogs are judged as well."""
        self.risk, session.holds_dialog = None, self.holds

    async def check(
        self, targets: Targets, action: Any, observation: Observation | None, allowed: Risk | None = None
    ) -> None:
        """Assess an action that is about to be carried out. `allowed` is the risk that was agreed to.

        Raises:
            Asks: it needs a confirmation; also again, where the page has made something else of it meanwhile.
            ActionError: nobody is there to confirm it, or nobody may.
        """
        self._held = None
        self._agreed = {*(self._agreed or ()), allowed} if allowed is not None else set()
        element, risk = await self.judge(targets, action, observation)
        self.risk, self.confirmed = risk or allowed, "automatically"
        if risk is not None and self._safety.confirm is None and allowed_before(action, observation):
            self._agreed.add(risk)
        if self.risk in self._agreed:
            self.confirmed = "by the user"
        elif risk is not None and self._safety.confirm is not None:
            self._ask(action, element, risk)

    def holds(self, message: str) -> bool:
        """Whether a dialog that a script of the page opens is to be dismissed, for nobody has agreed to its risk."""
        risk = of_dialog(message) if self._agreed is not None else None
        if risk is None or any(one.kind == risk.kind for one in self._agreed or ()):
            return False
        if self._safety.confirm is None:
            self.risk, self.confirmed = self.risk or risk, self.confirmed or "automatically"
            return False
        self._held = risk
        return True

    def check_dialog(self, action: Any, observation: Observation | None) -> None:
        """Ask about the dialog that an action has opened and that was dismissed, if there is one.

        Raises:
            Asks: it needs a confirmation, after which the action is carried out again.
            ActionError: nobody is there to confirm it, or nobody may.
        """
        risk, self._held = self._held, None
        if risk is not None:
            self.risk = risk
            self._ask(action, target_of(action, observation), risk)

    def _ask(self, action: Any, element: Element | None, risk: Risk) -> NoReturn:
        confirm, user = self._safety.confirm, self._user
        self.confirmed = ""
        why = one_line(risk.why)
        again = AGAIN if why in self._cut_off else ""
        question = Question("confirmation", f"{why}{WANTED}{action.to_json()}{again}", action, risk)
        if confirm is refuse:
            raise self.refusal(question, "", "Actions like this are refused here")
        if callable(confirm):
            question.program = Program(
                lambda: "yes" if confirm(action, element, risk) is True else "",
                name="confirm", timeout=self._safety.confirm_timeout, late="",
            )  # fmt: skip
        elif confirm == ASK and user is None:
            raise self.refusal(question, "", "Nobody is there to allow this action")
        elif confirm == ASK and callable(user):
            question.program = Program(lambda: user(question.text), name="user")
        raise Asks(question)

    async def judge(
        self, targets: Targets, action: Any, observation: Observation | None
    ) -> tuple[Element | None, Risk | None]:
        """Return an action's target and its risk on the page as it is, if any. Asks nobody."""
        element = target_of(action, observation)
        try:
            if self._safety.confirm is not None and isinstance(action, _MAY_BE_RISKY):
                element = _now(element, await _on_page(targets, action))  # the page may call it otherwise by now
            if not might_be_risky(action, element):
                return element, None
            element = element or await _on_page(targets, action)
        except ScriptError:  # the page may be made so
            return None, Risk("unknown", "What it acts on could not be read from the page.")
        if not might_be_risky(action, element):
            return element, None
        around = await _surroundings_of(targets.tab, element, targets.foreign)
        if around is None:
            return element, assess(action, element) or Risk(
                "unknown", "What is around it on the page could not be read."
            )
        around = replace(around, filled=(*around.filled, *_filled_in_frames(observation)))
        return element, assess(action, element, around)

    def answered(self, question: Question, said: str) -> None:
        """Take the user's answer to what `check` has asked.

        Raises:
            ActionError: the action is not allowed.
        """
        self.risk = question.risk
        if not allows(said):
            raise self.refusal(question, said)
        self.confirmed = "by the user"

    def refusal(self, question: Question, said: str, why: str = "The user did not allow this action") -> ActionError:
        """Refuse an action; the error tells the agent, in the user's words if there are any."""
        assert question.risk is not None
        self.confirmed = "refused"
        words = "" if said.strip().rstrip(".!").casefold() in ("", "no", "n") else f' The user said: "{said.strip()}"'
        return ActionError(f"{why} ({question.risk.kind}). {question.risk.why}{words}", "refused")


def confirmation_of(why: str, action: Action) -> str:
    """Return the question by which an agent asks the user itself whether it may do something."""
    return f"{why}{WANTED}{action.to_json()}{HINT}"


def allowed_before(action: Action, observation: Observation | None) -> bool:
    """Whether the agent has just asked the user for this action (`confirmation_of`), and may do it."""
    last = list(observation["messages"][-2:]) if observation is not None else []
    if [one["role"] for one in last] != ["assistant", "user"]:
        return False
    return last[0]["text"].endswith(confirmation_of("", action)) and allows(last[1]["text"])


def _filled_in_frames(observation: Observation | None) -> list[str]:
    """Return the names of the filled fields in frames, as the last observation shows them."""
    elements = observation["elements"] if observation is not None else ()
    return [element["name"] for element in elements if element["frame"] and element["value"]]


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


async def _on_page(targets: Targets, action: Any) -> Element | None:
    """Read an action's target from the page, where the last observation doesn't show it.

    Raises:
        ScriptError: the page is made so that it can't be read.
    """
    id = getattr(action, "id", None)
    x, y = (action.x, action.y) if isinstance(action, Click) else (None, None)
    world, frame = targets.tab.main, None
    try:
        if id is not None:
            world = targets.world(id)
        elif x is None and (place := await _world_of_focus(targets.tab)) is not None:
            world, frame, _ = place
        found = await targets.call(world, "described", id=id, x=x, y=y)
    except ScriptError:
        raise
    except Exception:
        return None  # the page hangs or is gone: the action itself will find out
    if not found:
        return None
    if frame is not None:
        targets.foreign[found["id"]] = frame
    elif id is not None:
        targets.in_frame_of(id, found["id"])
    return Element(
        id=found["id"], role=found["role"], name=found["name"], tag=found["tag"], bbox=tuple(found["bbox"]), value="",
        states=(), in_viewport=False, frame="", options=(),
    )  # fmt: skip


def _now(seen: Element | None, found: Element | None) -> Element | None:
    """Return a target as the page calls it now, with the rest as it was seen if it is the same."""
    if seen is None or found is None or seen["id"] != found["id"]:
        return found or seen
    return {**seen, "role": found["role"], "name": found["name"], "tag": found["tag"]}


def _at(elements: tuple[Element, ...], x: float, y: float) -> Element | None:
    """Return the smallest element whose box contains a point, preferring those that aren't covered."""

    def order(element: Element) -> tuple[bool, float]:
        return "covered" in element["states"], element["bbox"][2] * element["bbox"][3]

    hit = [e for e in elements if e["bbox"][0] <= x <= e["bbox"][0] + e["bbox"][2]]
    hit = [e for e in hit if e["bbox"][1] <= y <= e["bbox"][1] + e["bbox"][3]]
    return min(hit, key=order, default=None)


async def _surroundings_of(tab: Tab, element: Element | None, foreign: dict[int, ForeignFrame]) -> Surroundings | None:
    """Ask the page for the surroundings of an element, or of the focused one; None if that fails on this page."""
    try:
        id = element["id"] if element is not None else None
        found = await _ask(tab, id, foreign, read_script("surroundings")) or {}
        return Surroundings(**{**found, **{name: tuple(found.get(name, ())) for name in ("fields", "filled")}})
    except ScriptError:
        return None  # the page may be made so
    except Exception:
        return NO_SURROUNDINGS  # it was removed, or the page hangs: the action itself will find out


_ORIGIN = "function () { return DOC.defaultView(documentOf(this)).origin }"


Place = tuple[str, int | None]
"""A document's host and port; empty and None if it has none, or if that is not known."""


async def place_of(tab: Tab, id: int, foreign: dict[int, ForeignFrame]) -> Place:
    """Return the place of an element's document."""
    try:
        origin = await _ask(tab, id, foreign, _ORIGIN)
    except Exception:
        return "", None  # it was removed: there is nothing to type into
    return host_and_port(str(origin))


async def place_of_focus(tab: Tab) -> Place:
    """Return the place of the document that keys go to now."""
    try:
        found = await _world_of_focus(tab)
    except Exception:
        return "", None  # the frame was removed
    return host_and_port(found[2]) if found is not None else ("", None)


async def _world_of_focus(tab: Tab) -> tuple[PageScript, ForeignFrame | None, str] | None:
    """Return the script of the document that keys go to, its frame if that is foreign, and its origin.

    None: it can't be reached.
    """
    world, frame = tab.main, None
    while "frame" in (found := await world.focus()):
        frame = await tab.enter(world, found["frame"], frame)
        if frame is None:
            return None
        world = frame.world
    return world, frame, str(found["origin"])


async def _ask(tab: Tab, id: int | None, foreign: dict[int, ForeignFrame], function: str) -> Any:
    """Call a function on an element, or on the tab's document, and return its result.

    Raises:
        ScriptError: it threw.
    """
    world = foreign[id].world if id in foreign else tab.main
    node = await world.call("node", id=id)
    answer = await world.protocol.send(
        "Runtime.callFunctionOn",
        {"objectId": node["objectId"], "functionDeclaration": with_dom(function), "returnByValue": True},
    )
    if "exceptionDetails" in answer:
        raise ScriptError(thrown(answer))
    return answer["result"].get("value")
