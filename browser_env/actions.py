"""The typed actions: what an agent may ask of the environment, and the one parser that reads them.

Knows nothing about pages or browsers: carrying an action out is `browser_env.act`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from browser_env.errors import ActionError


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("an id is a number, not a truth value")
    return value


ElementId: TypeAlias = Annotated[int, BeforeValidator(_no_truth_value)]

Point: TypeAlias = tuple[float, float]
"""x and y in CSS pixels of the top frame's viewport."""

Modifier: TypeAlias = Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]
Button: TypeAlias = Literal["left", "middle", "right"]


class BaseAction(BaseModel):
    """What all actions share. Unknown fields are refused, so that a misspelt one is reported and not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)

    reason: str = ""
    """Why this action, in one sentence. For people and teachers; the environment ignores it."""

    @property
    def name(self) -> str:
        """The action's name as it stands in JSON, e.g. `"click"`."""
        return cast(str, self.action)  # type: ignore[attr-defined]

    def to_dict(self, *, with_reason: bool = False) -> dict[str, Any]:
        """Return the action as a plain dict with defaults left out, `action` first."""
        exclude = None if with_reason else {"reason"}
        fields = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=exclude)
        return {"action": self.name, **fields}

    def to_json(self) -> str:
        """Return the action as JSON text, `reason` left out: the form that `obs["last_action"]` has."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


class _Target(BaseAction):
    """An action at an element (`id`) or at a point (`x`, `y`)."""

    id: ElementId | None = None
    x: float | None = None
    y: float | None = None

    @model_validator(mode="after")
    def _one_target(self) -> _Target:
        if (self.id is None) == (self.x is None or self.y is None):
            raise ValueError("give either id, or both x and y")
        return self


class Click(_Target):
    """Click an element or a point."""

    action: Literal["click"] = "click"
    button: Button = "left"
    modifiers: tuple[Modifier, ...] = ()
    count: int = Field(default=1, ge=1, le=3)


class Fill(BaseAction):
    """Replace the whole value of a field by `text`; an empty text clears it."""

    action: Literal["fill"] = "fill"
    id: ElementId
    text: str


class Type(BaseAction):
    """Type `text` key by key, into element `id` or wherever the focus is."""

    action: Literal["type"] = "type"
    id: ElementId | None = None
    text: str


class Press(BaseAction):
    """Press a key or chord such as `Enter` or `Control+a`, at element `id` or wherever the focus is."""

    action: Literal["press"] = "press"
    key: str = Field(min_length=1)
    id: ElementId | None = None


class Select(BaseAction):
    """Choose options of a `<select>` by their label or value."""

    action: Literal["select"] = "select"
    id: ElementId
    options: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _single(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("options"), str):
            return {**data, "options": (data["options"],)}
        return data


class Hover(_Target):
    """Move the mouse over an element or a point."""

    action: Literal["hover"] = "hover"


class Scroll(BaseAction):
    """Scroll the page, or the scrollable element `id`, by CSS pixels; positive `dy` goes down."""

    action: Literal["scroll"] = "scroll"
    dx: float = 0
    dy: float = 0
    id: ElementId | None = None


class Drag(BaseAction):
    """Press the mouse on one element or point, move to another, release."""

    action: Literal["drag"] = "drag"
    from_: ElementId | Point = Field(alias="from")
    to: ElementId | Point


class Upload(BaseAction):
    """Choose files for a file input."""

    action: Literal["upload"] = "upload"
    id: ElementId
    files: tuple[str, ...]


class Navigate(BaseAction):
    """Go to a URL in the active tab."""

    action: Literal["navigate"] = "navigate"
    url: str = Field(min_length=1)


class Back(BaseAction):
    """Go back in the active tab's history."""

    action: Literal["back"] = "back"


class Forward(BaseAction):
    """Go forward in the active tab's history."""

    action: Literal["forward"] = "forward"


class NewTab(BaseAction):
    """Open a tab and make it active."""

    action: Literal["new_tab"] = "new_tab"
    url: str = ""


class CloseTab(BaseAction):
    """Close the active tab."""

    action: Literal["close_tab"] = "close_tab"


class FocusTab(BaseAction):
    """Make the tab with this index (from 0, as in `obs["tabs"]`) active."""

    action: Literal["focus_tab"] = "focus_tab"
    index: int = Field(ge=0)


class Wait(BaseAction):
    """Let `ms` milliseconds pass."""

    action: Literal["wait"] = "wait"
    ms: float = Field(default=1000, ge=0, le=60_000)


class Message(BaseAction):
    """Say something to the user; the episode goes on."""

    action: Literal["message"] = "message"
    text: str


class AskUser(BaseAction):
    """Ask the user a question; the answer arrives in `obs["messages"]`."""

    action: Literal["ask_user"] = "ask_user"
    question: str


class Finish(BaseAction):
    """End the episode; `answer` is what the user wanted to know."""

    action: Literal["finish"] = "finish"
    answer: str = ""


class Infeasible(BaseAction):
    """End the episode because the goal can't be reached; here `reason` is what the user is told."""

    action: Literal["infeasible"] = "infeasible"

    def to_dict(self, *, with_reason: bool = True) -> dict[str, Any]:
        """Return the action as a plain dict; its reason is part of it."""
        return {"action": self.name, "reason": self.reason}


Action: TypeAlias = (
    Click | Fill | Type | Press | Select | Hover | Scroll | Drag | Upload | Navigate | Back | Forward
    | NewTab | CloseTab | FocusTab | Wait | Message | AskUser | Finish | Infeasible
)  # fmt: skip

ACTION_TYPES: dict[str, type[BaseAction]] = {
    cast(str, kind.model_fields["action"].default): kind
    for kind in (
        Click, Fill, Type, Press, Select, Hover, Scroll, Drag, Upload, Navigate, Back, Forward,
        NewTab, CloseTab, FocusTab, Wait, Message, AskUser, Finish, Infeasible,
    )
}  # fmt: skip
"""Action classes by name."""

_UNION: TypeAdapter[Action] = TypeAdapter(Annotated[Action, Field(discriminator="action")])


def parse_action(raw: Action | dict[str, Any] | str) -> Action:
    """Read an action in any accepted form: typed, dict, JSON text, or a call string such as `click("12")`.

    Call strings are parsed as literals; nothing is ever executed.

    Raises:
        ActionError: the action is malformed; the message is one sentence that says what is wrong.
    """
    if isinstance(raw, BaseAction):
        return raw
    if isinstance(raw, str):
        text = raw.strip()
        if text.startswith("{"):
            try:
                raw = json.loads(text)
            except ValueError as error:
                raise ActionError(f"The action is not valid JSON ({error}).") from None
        else:
            from browser_env.callstring import parse_call

            raw = parse_call(text)
    if not isinstance(raw, dict):
        raise ActionError(f'An action is a JSON object such as {{"action": "click", "id": 3}}, not {_short(raw)}.')
    kind = raw.get("action")
    if not isinstance(kind, str) or kind not in ACTION_TYPES:
        raise ActionError(f"Unknown action {_short(kind)}; the actions are {', '.join(ACTION_TYPES)}.")
    try:
        return _UNION.validate_python(raw)
    except ValidationError as error:
        raise ActionError(f"The action {kind} is malformed: {_explain(error)}.") from None


def _explain(error: ValidationError) -> str:
    parts = []
    for item in error.errors():
        where = ".".join(str(step) for step in item["loc"][1:])
        message = item["msg"].removeprefix("Value error, ")
        parts.append(f"{where}: {message}" if where else message)
    return "; ".join(parts)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
