"""The five calls that every provider answers: `navigate`, `act`, `extract`, `observe`, `screenshot`, with their types.

Knows nothing of providers, and nothing of how a call is routed.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from selfsurf.browser_env.actions import ON_PAGE, BaseAction, parse_action
from selfsurf.browser_env.text import visible

Name: TypeAlias = Literal["navigate", "act", "extract", "observe", "screenshot"]


class Arguments(BaseModel):
    """What a call takes. Unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    call: ClassVar[Name]

    @property
    def portable(self) -> bool:
        """Do they mean the same to every provider? The number of an element is that of the provider which gave it."""
        return True


class NavigateArguments(Arguments):
    """Go to a URL in the current tab."""

    call = "navigate"
    url: str = Field(min_length=1, description="Where to go.")


class ActArguments(Arguments):
    """Do one thing on the page: in words, or as a typed action."""

    call = "act"
    instruction: str = Field(default="", description="What to do, in words, such as: press the button Send.")
    action: SerializeAsAny[BaseAction] | None = Field(
        default=None,
        description="Instead of words, an action on what browser.observe has shown, such as "
        '{"action": "click", "id": 3} or {"action": "fill", "id": 4, "text": "Ada"}.',
    )

    @model_validator(mode="before")
    @classmethod
    def _parsed(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("action") is not None:
            return {**data, "action": parse_action(data["action"], ON_PAGE)}
        return data

    @model_validator(mode="after")
    def _one(self) -> ActArguments:
        if bool(self.instruction.strip()) == (self.action is not None):
            raise ValueError("give either instruction or action")
        return self

    @property
    def portable(self) -> bool:
        """As `Arguments.portable`."""
        fields = {} if self.action is None else self.action.to_dict()
        return not any(isinstance(fields.get(name), int) for name in ("id", "from", "to", "index"))


class ExtractArguments(Arguments):
    """Read something from the page into a type."""

    call = "extract"
    instruction: str = Field(min_length=1, description="What to read from the page.")
    model: type[BaseModel]
    """What it is read into."""


class ObserveArguments(Arguments):
    """See the page: its outline and the elements that can be acted on."""

    call = "observe"
    instruction: str = Field(
        default="", description="What is looked for; the result then has the actions that come into question."
    )
    find: str = Field(
        default="",
        description="A text: only the first 20 lines of the whole page that have it, with those around them. Their "
        "ids can be acted on.",
    )


class ScreenshotArguments(Arguments):
    """Take a picture of what is in view."""

    call = "screenshot"


ARGUMENTS: dict[Name, type[Arguments]] = {
    kind.call: kind
    for kind in (NavigateArguments, ActArguments, ExtractArguments, ObserveArguments, ScreenshotArguments)
}
"""The calls, by name."""


class Result(BaseModel):
    """What every call returns: where the page is afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    url: str
    title: Annotated[str, AfterValidator(visible)] = ""
    """With hidden characters, as those that turn text around, as escapes."""
    status: int | None = None
    """HTTP status of the page that the call has led to, where it is an error such as 404 and the provider knows it."""


class NavigateResult(Result):
    """The page that was reached, after redirects."""


class ActResult(Result):
    """What was done."""

    done: str
    """In words or as JSON, as the provider tells it."""
    events: tuple[str, ...] = ()
    """What followed: dialogs, downloads, new tabs, navigations."""


class ExtractResult(Result):
    """What was read."""

    data: SerializeAsAny[BaseModel]
    """Of the model that was asked for."""


class ObserveResult(Result):
    """What there is to see."""

    outline: str
    """A line an element or text, `[id]` before what can be acted on."""
    elements: tuple[dict[str, Any], ...] = ()
    """Those of the outline, as `browser_env.observation.Element`; not every provider lists them."""
    actions: tuple[SerializeAsAny[BaseAction], ...] = ()
    """For an instruction: the actions that come into question."""


class ScreenshotResult(Result):
    """A picture of what is in view."""

    png: bytes = Field(repr=False)
