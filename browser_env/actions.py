"""The typed actions, and the parser for every form in which an action may be given.

Pages and browsers are out of scope: `browser_env.act.perform` carries actions out.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.functional_validators import AfterValidator, BeforeValidator, model_validator

from selfsurf.browser_env.callstring import CALLS, did_you_mean, parse_call
from selfsurf.browser_env.compact import expand
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.selector import parse_selector


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("an id is a number, not true or false")
    return value


ElementId: TypeAlias = Annotated[int, Field(ge=-(2**53), le=2**53), BeforeValidator(_no_truth_value)]


def _readable(value: str) -> str:
    try:
        parse_selector(value)
    except ActionError as error:
        raise ValueError(str(error).removesuffix(".")) from None
    return value


Selector: TypeAlias = Annotated[str, Field(max_length=2000), AfterValidator(_readable)]
"""A target given by a selector, e.g. `text=Go` or `get_by_label("Name")` (see `browser_env.selector`)."""

Point: TypeAlias = tuple[float, float]
"""A point: x and y in CSS pixels of the top frame's viewport."""

Modifier: TypeAlias = Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]
Button: TypeAlias = Literal["left", "middle", "right"]


class BaseAction(BaseModel):
    """Base class of all actions. Unknown fields are rejected, so that a misspelt one is reported."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)

    reason: str = ""
    """Reason for the action in one sentence, for people and teacher prompts. Only `infeasible` shows it to the user."""

    @property
    def name(self) -> str:
        """The action's name in JSON, e.g. `"click"`."""
        return cast(str, self.action)  # type: ignore[attr-defined]

    def to_dict(self, *, with_reason: bool = False) -> dict[str, Any]:
        """Return the action as a plain dict without default values, `action` first."""
        exclude = None if with_reason else {"reason"}
        fields = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=exclude)
        return {"action": self.name, **fields}

    def to_json(self) -> str:
        """Return the action as JSON text without `reason`, as in `obs["last_action"]`."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


class _Target(BaseAction):
    """An action at an element (`id` or `selector`) or at a point (`x`, `y`)."""

    id: ElementId | None = None
    selector: Selector | None = None
    x: float | None = None
    y: float | None = None

    @model_validator(mode="after")
    def _one_target(self) -> _Target:
        point = self.x is not None and self.y is not None
        half = (self.x is None) != (self.y is None)
        if half or [self.id is not None, self.selector is not None, point].count(True) != 1:
            raise ValueError("give either id, or selector, or both x and y")
        return self


class _MaybeAtElement(BaseAction):
    """An action at an element (`id` or `selector`) or, if neither is given, at the focused element."""

    id: ElementId | None = None
    selector: Selector | None = None
    _least: ClassVar = 0

    @model_validator(mode="after")
    def _one_element(self) -> _MaybeAtElement:
        if not self._least <= 2 - [self.id, self.selector].count(None) <= 1:
            raise ValueError("give either id or selector")
        return self


class _AtElement(_MaybeAtElement):
    """An action at an element (`id` or `selector`)."""

    _least: ClassVar = 1


class Click(_Target):
    """Click an element or a point."""

    action: Literal["click"] = "click"
    button: Button = "left"
    modifiers: tuple[Modifier, ...] = ()
    count: int = Field(default=1, ge=1, le=3)


class Fill(_AtElement):
    """Replace a field's value with `text`; an empty text clears it. A checkbox takes `true` or `false`."""

    action: Literal["fill"] = "fill"
    text: str


class Type(_MaybeAtElement):
    """Type `text` key by key into an element, by default the focused one."""

    action: Literal["type"] = "type"
    text: str


class Press(_MaybeAtElement):
    """Press a key or chord such as `Enter` or `Control+a` at an element, by default the focused one."""

    action: Literal["press"] = "press"
    key: str = Field(min_length=1)


class Select(_AtElement):
    """Choose options of a list by label or value; in a text field or editor, select that text."""

    action: Literal["select"] = "select"
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


class Scroll(_MaybeAtElement):
    """Scroll the page, an element, or the content under a point by CSS pixels; positive `dy` scrolls down."""

    action: Literal["scroll"] = "scroll"
    dx: float = 0
    dy: float = 0
    x: float | None = None
    y: float | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Scroll:
        named = self.id is not None or self.selector is not None
        if (self.x is None) != (self.y is None) or (named and self.x is not None):
            raise ValueError("give either id, or selector, or both x and y")
        return self


class Drag(BaseAction):
    """Drag from one element or point to another. `via`: points to pass on the way, in order."""

    action: Literal["drag"] = "drag"
    from_: ElementId | Point | Selector = Field(alias="from")
    to: ElementId | Point | Selector
    via: tuple[Point, ...] = Field(default=(), max_length=200)
    hold: float = Field(default=0, ge=0, le=10_000)
    """Milliseconds to hold still after the press, before the mouse moves."""


class Upload(_AtElement):
    """Choose files for a file input, or for the label or button that opens its file chooser."""

    action: Literal["upload"] = "upload"
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


class Reload(BaseAction):
    """Load the active tab's page again."""

    action: Literal["reload"] = "reload"


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
    """Wait for `ms` milliseconds."""

    action: Literal["wait"] = "wait"
    ms: float = Field(default=1000, ge=0, le=60_000)


class Message(BaseAction):
    """Send a message to the user; the episode continues."""

    action: Literal["message"] = "message"
    text: str


class AskUser(BaseAction):
    """Ask the user a question; the answer arrives in `obs["messages"]`."""

    action: Literal["ask_user"] = "ask_user"
    question: str


class Finish(BaseAction):
    """End the episode; `answer` is the answer to the user's request."""

    action: Literal["finish"] = "finish"
    answer: str = ""


class Infeasible(BaseAction):
    """End the episode because the goal can't be reached; `reason` is shown to the user."""

    action: Literal["infeasible"] = "infeasible"

    def to_dict(self, *, with_reason: bool = True) -> dict[str, Any]:
        """Return the action as a plain dict with its reason."""
        return {"action": self.name, "reason": self.reason}


Action: TypeAlias = (
    Click | Fill | Type | Press | Select | Hover | Scroll | Drag | Upload | Navigate | Back | Forward | Reload
    | NewTab | CloseTab | FocusTab | Wait | Message | AskUser | Finish | Infeasible
)  # fmt: skip

ACTION_TYPES: dict[str, type[BaseAction]] = {
    cast(str, kind.model_fields["action"].default): kind for kind in get_args(Action)
}
"""Action classes by action name."""

ON_PAGE = tuple(name for name in ACTION_TYPES if name not in ("message", "ask_user", "finish", "infeasible"))
"""Names of the actions on a page: all except messages to the user and actions that end the episode."""

_FIELDS = {
    name: [known for key, field in kind.model_fields.items() for known in dict.fromkeys((field.alias or key, key))]
    for name, kind in ACTION_TYPES.items()
}

_UNION: TypeAdapter[Action] = TypeAdapter(Annotated[Action, Field(discriminator="action")])


def parse_action(raw: Action | dict[str, Any] | str, offered: Collection[str] = tuple(ACTION_TYPES)) -> Action:
    """Parse an action in any accepted form: typed, dict, JSON text, or a call.

    A dict may have the compact form that models write, `{"click": 4}` (`browser_env.compact`). Calls are
    BrowserGym's (`click("12")`) and Playwright's (`page.get_by_label("Name").fill("Ada")`). They are parsed as
    literals; nothing is ever executed.

    Args:
        raw: the action in any of these forms.
        offered: names that an error message lists and suggests; actions with other names are parsed, too.

    Raises:
        ActionError: the action is malformed; the message says in one sentence what is wrong.
    """
    if isinstance(raw, BaseAction):
        return raw
    if isinstance(raw, str):
        text = raw.strip()
        if text.startswith("{"):
            try:
                raw = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ActionError(f"The action is not valid JSON ({error}).") from None
        else:
            raw = parse_call(text)
    if not isinstance(raw, dict):
        raise ActionError(f'An action is a JSON object such as {{"action": "click", "id": 3}}, not {_short(raw)}.')
    if "action" not in raw:
        raw = expand(raw) or raw
    kind = raw.get("action")
    if kind is None:
        raise ActionError(f"The JSON names no action: {_short(raw)}; the actions are {', '.join(offered)}.")
    if not isinstance(kind, str) or kind not in ACTION_TYPES:
        raise ActionError(
            f"Unknown action {_short(kind)};{_meant(kind, offered)} the actions are {', '.join(offered)}."
        )
    if extra := [key for key in raw if key not in _FIELDS[kind]]:
        known = [name for name in _FIELDS[kind] if name not in ("action", "from_")]
        hint = did_you_mean(str(extra[0]), known)
        raise ActionError(
            f"The action {kind} has no field {_short(extra[0])}.{hint} Its fields are {', '.join(known)}."
        )
    try:
        return _UNION.validate_python(raw)
    except ValidationError as error:
        raise ActionError(f"The action {kind} is malformed: {_explain(error)}.") from None


def _meant(kind: object, offered: Collection[str]) -> str:
    if not isinstance(kind, str):
        return ""
    if kind in CALLS and CALLS[kind][0] in offered:
        return f" did you mean {CALLS[kind][0]}?"
    return did_you_mean(kind, offered).replace("Did", "did")


def _explain(error: ValidationError) -> str:
    parts: dict[str, str] = {}
    for item in error.errors():
        field, *inside = item["loc"][1:] or ("",)
        message = item["msg"].removeprefix("Value error, ").replace("Input should", "it should")
        message = message.replace("Field required", "it is missing")
        if field in ("from", "to"):  # a union of types, each with an error of its own
            if item["type"] == "value_error" and isinstance(item["input"], str):
                parts[str(field)] = message
            parts.setdefault(str(field), "give an id, a point such as [10, 20], or a selector")
            continue
        where = ".".join(str(step) for step in (field, *inside))
        parts[where] = message
    return "; ".join(f"{where}: {message}" if where else message for where, message in parts.items())


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
