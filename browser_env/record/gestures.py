"""Conversion of a person's input into actions: presses become clicks and drags, keystrokes become one `fill`.

This module is independent of pages and browsers. The last action stays open: typing may continue, and a click may
become a double click, or turn out to have only opened a field or a list.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field
from typing import Any

from selfsurf.browser_env.actions import Action, Click, Drag, Fill, Press, Scroll, Select, Type, Upload
from selfsurf.browser_env.observation import Observation

STILL = 6
"""Maximum movement of the mouse during a click, in CSS pixels."""

_BUTTONS = {0: "left", 1: "middle", 2: "right"}
_FIELDS = ("line", "long", "value")
_BREAKS = ("insertLineBreak", "insertParagraph")


@dataclass
class Draft:
    """An action that may still change."""

    action: Action
    before: Observation
    """Observation before the action."""
    since: int = -1
    """Clock of the tab before the action."""
    held: bool = False
    """Whether the action is incomplete because it may turn out to be the start of another action."""
    doubtful: bool = False
    """Whether the action has no target element, and so counts only if it has an effect."""
    secret: str = ""
    """Secret value that a placeholder in the action stands for."""
    learned: list[str] = field(default_factory=list)
    """Typed forms of the secret that are redacted because of this action."""
    events: list[str] = field(default_factory=list)
    result: Any = None
    """Result of the action in the environment, once the page has settled; None before."""
    begun: float = field(default_factory=time.time)
    """Time at which the action was noticed, in Unix seconds."""


@dataclass(frozen=True)
class _HeldButton:
    """A pressed mouse button."""

    fact: dict[str, Any]
    before: Observation
    since: int


class Gestures:
    """A converter of input facts into actions. `draft` is the action that is still open."""

    def __init__(self) -> None:
        self.draft: Draft | None = None
        self._press: _HeldButton | None = None
        self._ready: Observation | None = None
        self._break: tuple[dict[str, Any], Observation, int] | None = None
        self._clicked: int | None = None
        """ID of the element clicked last, if the click is complete and no fact has followed: a file chooser may be
        open."""

    def add(self, fact: dict[str, Any], before: Observation, since: int = -1) -> list[Draft]:
        """Process a fact about a person's input.

        Args:
            fact: as reported by `browser_env.session.input_listener`, or `{"kind": "tick"}` after a moment without
                input.
            before: observation at that moment.
            since: clock of the tab at that moment.

        Returns:
            The drafts that the fact completes, in order.
        """
        over: list[Draft] = []
        if self._break is not None:
            late, self._break = self._break, None
            if fact["kind"] != "input" or fact["inputType"] not in _BREAKS:  # the page handled Enter itself
                over += self._on_key(*late)
        handler = getattr(self, f"_on_{fact['kind']}", None)
        return over if handler is None else over + handler(fact, before, since)

    def begin(self, draft: Draft) -> list[Draft]:
        """Open an action, which completes the previous one, if any."""
        old, self.draft = self.draft, draft
        self._ready = self._clicked = None
        return [old] if old is not None else []

    def complete(self) -> None:
        """Complete the open action after a pause in the input."""
        last, self.draft = self.draft and self.draft.action, None
        self._clicked = last.id if isinstance(last, Click) else None

    def finish(self) -> list[Draft]:
        """Complete the open actions at the end of a recording."""
        late, self._break = self._break, None
        over = self._on_key(*late) if late is not None else []
        old, self.draft = self.draft, None
        return [*over, old] if old is not None else over

    def page_left(self) -> list[Draft]:
        """Treat an open press as a click, because the page has gone and its release is never reported."""
        held, self._press = self._press, None
        if held is None or held.fact["button"] != 0 or held.fact["control"] in ("select", *_FIELDS):
            return []
        return self.begin(self._click(held, 1))

    def _on_press(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        inside = isinstance(self.draft and self.draft.action, Fill) and self._same(fact["id"])
        self._press = None if inside and fact["control"] in ("line", "long") else _HeldButton(fact, before, since)
        return []

    def _on_release(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        held, control = self._press, self._press.fact["control"] if self._press else ""
        if held is None or fact["button"] == 2:
            return []
        self._press = None
        moved = math.dist(held.fact["at"], fact["at"]) > STILL
        if control == "select" or (moved and control in _FIELDS):
            self._ready = held.before
            return []
        if moved and fact["button"] == 0:
            return self.begin(self._drag(held, fact))
        count = min(int(fact["count"]) or 1, 3)
        click = self._click(held, count)
        last = self.draft.action if self.draft else None
        if self.draft and isinstance(last, Click) and count > last.count and (last.id, last.button) == _key_of(click):
            self.draft.action, self.draft.result = last.model_copy(update={"count": count}), None
            return []
        return self.begin(click)

    _on_drop = _on_release

    def _on_menu(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        held, self._press = self._press, None
        return self.begin(self._click(held, 1)) if held is not None else []

    def _click(self, held: _HeldButton, count: int) -> Draft:
        fact = held.fact
        more = {"button": _BUTTONS.get(fact["button"], "left"), "modifiers": tuple(fact["held"]), "count": count}
        drawn = fact["control"] == "canvas"  # on a canvas the position matters
        if fact["id"] is None or drawn:
            x, y = (round(value, 1) for value in fact["at"])
            return Draft(Click(x=x, y=y, **more), held.before, held.since, doubtful=not drawn)  # type: ignore[arg-type]
        held_open = fact["control"] in ("file", *_FIELDS)
        return Draft(Click(id=fact["id"], **more), held.before, held.since, held=held_open)  # type: ignore[arg-type]

    def _drag(self, held: _HeldButton, fact: dict[str, Any]) -> Draft:
        start, end = held.fact, fact
        whole = start["id"] is not None and not end["selected"] and start["control"] != "canvas"
        target = end["id"] if end["near"] and end["id"] != start["id"] and whole else None
        if target is not None:
            return Draft(Drag.model_validate({"from": start["id"], "to": target}), held.before, held.since)
        drag = Drag.model_validate({"from": _point(start["at"]), "to": _point(end["at"])})
        return Draft(drag, held.before, held.since, doubtful=start["id"] is None and not end["selected"])

    def _on_dragend(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        self._press = None  # the drag ended without a drop
        return []

    def _on_before(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        self._ready = before
        return []

    def _on_check(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        return self._begin_ready(Click(id=fact["id"]), before, since) if fact["id"] is not None else []

    def _on_key(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        return self.begin(Draft(Press(key=fact["key"], id=fact["id"]), before, since))

    def _on_break(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        self._break = (fact, before, since)
        return []

    def _on_input(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        if fact["id"] is None:  # an editor that reads its text from an invisible field
            if not fact["data"] or fact["secret"]:
                return []
            last = self.draft.action if self.draft else None
            if self.draft and isinstance(last, Type) and last.id is None:
                self.draft.action, self.draft.result = Type(text=last.text + fact["data"]), None
                return []
            return self._begin_ready(Type(text=fact["data"]), before, since, held=True)
        text = fact["value"]
        if fact["secret"] and text:
            text = f"<secret:{self._secret_name(fact['id'], before)}>"
        secret = fact["value"] if fact["secret"] else ""
        action = Fill(id=fact["id"], text=text)
        if self.draft and isinstance(self.draft.action, Fill | Click) and self._same(fact["id"]) and self.draft.held:
            self.draft.action, self.draft.secret, self.draft.result = action, secret, None
            return []
        over = self._begin_ready(action, before, since, held=True)
        assert self.draft is not None
        self.draft.secret = secret
        return over

    def _on_select(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        if fact["id"] is None:
            return []
        action = Select(id=fact["id"], options=tuple(fact["options"]))
        if self.draft and isinstance(self.draft.action, Select) and self._same(fact["id"]):
            self.draft.action, self.draft.result = action, None
            return []
        return self._begin_ready(action, before, since)

    def _on_files(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        last = self.draft.action if self.draft else None
        opener = last.id if isinstance(last, Click) else None
        id = fact["id"] if fact["id"] is not None else opener if self.draft else self._clicked
        if id is None:
            return []
        action = Upload(id=id, files=tuple(fact["names"]))
        if self.draft and opener is not None:  # the click only opened the file chooser
            self.draft.action, self.draft.result, self.draft.held = action, None, False
            return []
        return self._begin_ready(action, before, since)

    def _on_scroll(self, fact: dict[str, Any], before: Observation, since: int) -> list[Draft]:
        last = self.draft.action if self.draft else None
        if self.draft and isinstance(last, Scroll) and last.id == fact["id"]:
            far = {"dx": last.dx + fact["dx"], "dy": last.dy + fact["dy"]}
            self.draft.action, self.draft.result = last.model_copy(update=far), None
            return []
        return self._begin_ready(Scroll(id=fact["id"], dx=fact["dx"], dy=fact["dy"]), before, since)

    def _begin_ready(self, action: Action, before: Observation, since: int, *, held: bool = False) -> list[Draft]:
        """Open an action reported only by its result, with the observation of an earlier fact if there is one."""
        press, self._press = self._press, None
        if press is not None:
            before, since = press.before, press.since
        elif self._ready is not None:
            before = self._ready
        return self.begin(Draft(action, before, since, held=held))

    def _same(self, id: int | None) -> bool:
        return self.draft is not None and id is not None and getattr(self.draft.action, "id", None) == id

    def _secret_name(self, id: int, before: Observation) -> str:
        """Return a name for a secret typed into a field: the field's name in lowercase letters, digits and hyphens."""
        name = next((element["name"] for element in before["elements"] if element["id"] == id), "")
        return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "password"


def _key_of(draft: Draft) -> tuple[int | None, str]:
    assert isinstance(draft.action, Click)
    return draft.action.id, draft.action.button


def _point(at: list[float]) -> tuple[float, float]:
    return round(at[0], 1), round(at[1], 1)
