"""Confirmation of risky actions: finds an action's target, has the risk assessed, and asks the user."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

from selfsurf.browser_env.act.targets import Targets
from selfsurf.browser_env.actions import Action, Click, Fill, Press, Select, Type
from selfsurf.browser_env.browser.page_script import PageScript, read_script, thrown, with_dom
from selfsurf.browser_env.errors import ActionError, ScriptError
from selfsurf.browser_env.human_input import HINT, WANTED, AnswerNeeded, Program, Question, Risk, User, allows
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.safety.network import host_and_port
from selfsurf.browser_env.safety.policy import ASK, Safety, refuse
from selfsurf.browser_env.safety.risk import NO_SURROUNDINGS, Surroundings, assess, might_be_risky, of_dialog
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import ForeignFrame, Tab
from selfsurf.browser_env.text import one_line

AGAIN = " (allowed before, but interrupted: the action may already have happened)"

_MAY_BE_RISKY = Click | Fill | Press | Select | Type


class Confirmer:
    """The risk assessment and confirmation of one environment's actions.

    Args:
        safety: defines which actions need confirmation, and which function gives it.
        user: receiver of the questions with `Safety(confirm="ask")`.
    """

    def __init__(self, safety: Safety, user: User) -> None:
        self.risk: Risk | None = None
        """Risk of the current step's action; None if there is none."""
        self.confirmed = ""
        """Confirmation of the action: `automatically` if nobody has to be asked, `by the user` (also if the agent has
        just asked itself, see `confirmation_of`), or `refused`. Empty while the user is asked."""
        self._cut_off: tuple[str, ...] = ()
        self._agreed: set[Risk] | None = None
        """Risks of the last action that were confirmed; None before the first action."""
        self._held: Risk | None = None
        """Risk of a dialog that the action opened and that nobody has confirmed."""
        self._safety = safety
        self._user = user

    def begin(self, cut_off: tuple[str, ...] = ()) -> None:
        """Begin or continue an episode. `cut_off` lists the risks of actions that were confirmed and interrupted."""
        self.risk, self._cut_off = None, cut_off
        self._agreed, self._held = None, None

    def start_step(self, session: Session) -> None:
        """Start a step, whose dialogs are assessed, too."""
        self.risk, session.holds_dialog = None, self.holds

    async def check(
        self, targets: Targets, action: Any, observation: Observation | None, allowed: Risk | None = None
    ) -> None:
        """Assess an action before it is performed. `allowed` is the risk that was confirmed.

        Raises:
            Asks: the action needs a confirmation, possibly another one because the page has changed.
            ActionError: the action can't be confirmed, because nobody is available or all risks are refused.
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
        """Whether to dismiss a dialog opened by the page's script, because nobody has confirmed its risk."""
        risk = of_dialog(message) if self._agreed is not None else None
        if risk is None or any(one.kind == risk.kind for one in self._agreed or ()):
            return False
        if self._safety.confirm is None:
            self.risk, self.confirmed = self.risk or risk, self.confirmed or "automatically"
            return False
        self._held = risk
        return True

    def check_dialog(self, action: Any, observation: Observation | None) -> None:
        """Ask about a dialog that the action opened and that was dismissed, if there is one.

        Raises:
            Asks: the dialog needs a confirmation, after which the action is performed again.
            ActionError: the dialog can't be confirmed, because nobody is available or all risks are refused.
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
        raise AnswerNeeded(question)

    async def judge(
        self, targets: Targets, action: Any, observation: Observation | None
    ) -> tuple[Element | None, Risk | None]:
        """Return an action's target and its risk on the current page, or None for either. Asks nobody."""
        element = target_of(action, observation)
        try:
            if self._safety.confirm is not None and isinstance(action, _MAY_BE_RISKY):
                element = _now(element, await _on_page(targets, action))  # the page may have renamed the element since
            if not might_be_risky(action, element):
                return element, None
            element = element or await _on_page(targets, action)
        except ScriptError:  # the page may cause this error deliberately
            return None, Risk("unknown", "The action's target could not be read from the page.")
        if not might_be_risky(action, element):
            return element, None
        around = await _surroundings_of(targets.tab, element, targets.foreign)
        if around is None:
            return element, assess(action, element) or Risk(
                "unknown", "The surroundings of the action's target could not be read."
            )
        around = replace(around, filled=(*around.filled, *_filled_in_frames(observation)))
        return element, assess(action, element, around)

    def answered(self, question: Question, said: str) -> None:
        """Process the user's answer to a question of `check`.

        Raises:
            ActionError: the user doesn't allow the action.
        """
        self.risk = question.risk
        if not allows(said):
            raise self.refusal(question, said)
        self.confirmed = "by the user"

    def refusal(self, question: Question, said: str, why: str = "The user did not allow this action") -> ActionError:
        """Record a refusal, and return the error for the agent, with the user's words if there are any."""
        assert question.risk is not None
        self.confirmed = "refused"
        words = "" if said.strip().rstrip(".!").casefold() in ("", "no", "n") else f' The user said: "{said.strip()}"'
        return ActionError(f"{why} ({question.risk.kind}). {question.risk.why}{words}", "refused")


def confirmation_of(why: str, action: Action) -> str:
    """Return the question with which an agent itself asks the user for permission to act."""
    return f"{why}{WANTED}{action.to_json()}{HINT}"


def allowed_before(action: Action, observation: Observation | None) -> bool:
    """Whether the agent has just asked the user for this action (`confirmation_of`) and got permission."""
    last = list(observation["messages"][-2:]) if observation is not None else []
    if [one["role"] for one in last] != ["assistant", "user"]:
        return False
    return last[0]["text"].endswith(confirmation_of("", action)) and allows(last[1]["text"])


def _filled_in_frames(observation: Observation | None) -> list[str]:
    """Return the names of the filled fields in frames, according to the last observation."""
    elements = observation["elements"] if observation is not None else ()
    return [element["name"] for element in elements if element["frame"] and element["value"]]


def focused(observation: Observation | None) -> int | None:
    """Return the ID of the focused element in the last observation; None if there is none."""
    elements = observation["elements"] if observation is not None else ()
    return next((element["id"] for element in elements if "focused" in element["states"]), None)


def target_of(action: Any, observation: Observation | None) -> Element | None:
    """Return an action's target element in the last observation; None if it isn't there."""
    elements = observation["elements"] if observation is not None else ()
    if isinstance(action, Click) and action.id is None:
        return _at(elements, float(action.x or 0), float(action.y or 0))
    id = getattr(action, "id", None)
    if id is None and isinstance(action, (Press, Type)):
        id = focused(observation)
    return next((element for element in elements if element["id"] == id), None)


async def _on_page(targets: Targets, action: Any) -> Element | None:
    """Read an action's target element from the page, because the last observation may lack it.

    Raises:
        ScriptError: the page prevents the reading.
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
        return None  # the page hangs or is gone, which the action itself will report
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
    """Return the observed target with its current role, name and tag, or the current target if it differs."""
    if seen is None or found is None or seen["id"] != found["id"]:
        return found or seen
    return {**seen, "role": found["role"], "name": found["name"], "tag": found["tag"]}


def _at(elements: tuple[Element, ...], x: float, y: float) -> Element | None:
    """Return the smallest element whose box contains a point, preferably one that isn't covered."""

    def order(element: Element) -> tuple[bool, float]:
        return "covered" in element["states"], element["bbox"][2] * element["bbox"][3]

    hit = [e for e in elements if e["bbox"][0] <= x <= e["bbox"][0] + e["bbox"][2]]
    hit = [e for e in hit if e["bbox"][1] <= y <= e["bbox"][1] + e["bbox"][3]]
    return min(hit, key=order, default=None)


async def _surroundings_of(tab: Tab, element: Element | None, foreign: dict[int, ForeignFrame]) -> Surroundings | None:
    """Return the surroundings of an element, or of the focused one; None if the page prevents the reading."""
    try:
        id = element["id"] if element is not None else None
        found = await _ask(tab, id, foreign, read_script("surroundings")) or {}
        return Surroundings(**{**found, **{name: tuple(found.get(name, ())) for name in ("fields", "filled")}})
    except ScriptError:
        return None  # the page may cause this error deliberately
    except Exception:
        return NO_SURROUNDINGS  # the element was removed or the page hangs, which the action itself will report


_ORIGIN = "function () { return DOC.defaultView(documentOf(this)).origin }"


Place = tuple[str, int | None]
"""Host and port of a document; an empty string and None if there are none or they are unknown."""


async def place_of(tab: Tab, id: int, foreign: dict[int, ForeignFrame]) -> Place:
    """Return host and port of an element's document."""
    try:
        origin = await _ask(tab, id, foreign, _ORIGIN)
    except Exception:
        return "", None  # the element was removed: there is nothing to type into
    return host_and_port(str(origin))


async def place_of_focus(tab: Tab) -> Place:
    """Return host and port of the document with the keyboard focus."""
    try:
        found = await _world_of_focus(tab)
    except Exception:
        return "", None  # the frame was removed
    return host_and_port(found[2]) if found is not None else ("", None)


async def _world_of_focus(tab: Tab) -> tuple[PageScript, ForeignFrame | None, str] | None:
    """Return the script, the frame if cross-origin, and the origin of the document with the keyboard focus.

    None if the document can't be reached.
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
        ScriptError: the function threw.
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
