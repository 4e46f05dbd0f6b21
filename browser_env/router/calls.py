"""The five calls that every provider supports, with their types: `navigate`, `act`, `extract`, `observe`, `screenshot`.

Independent of providers and of the routing of calls.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from selfsurf.browser_env.actions import ON_PAGE, BaseAction, parse_action
from selfsurf.browser_env.text import visible

Name: TypeAlias = Literal["navigate", "act", "extract", "observe", "screenshot"]


class Arguments(BaseModel):
    """Arguments of a call. Unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    call: ClassVar[Name]

    @property
    def portable(self) -> bool:
        """Whether any provider can take the arguments. Element numbers belong to the provider that assigned them."""
        return True


class NavigateArguments(Arguments):
    """Arguments of `navigate`: go to a URL in the current tab."""

    call = "navigate"
    url: str = Field(min_length=1, description="Where to go.")


class ActArguments(Arguments):
    """Arguments of `act`: perform one action on the page, given in words or as a typed action."""

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
        """Whether any provider can take the arguments: the action contains no number of an element or a tab."""
        fields = {} if self.action is None else self.action.to_dict()
        return not any(isinstance(fields.get(name), int) for name in ("id", "from", "to", "index"))


class ExtractArguments(Arguments):
    """Arguments of `extract`: read data from the page into a typed model."""

    call = "extract"
    instruction: str = Field(min_length=1, description="What to read from the page.")
    model: type[BaseModel]
    """Type of the extracted data."""


class ObserveArguments(Arguments):
    """Arguments of `observe`: get the page's outline and the elements that can be acted on."""

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
    """Arguments of `screenshot`: take a screenshot of the viewport."""

    call = "screenshot"


ARGUMENTS: dict[Name, type[Arguments]] = {
    kind.call: kind
    for kind in (NavigateArguments, ActArguments, ExtractArguments, ObserveArguments, ScreenshotArguments)
}
"""Argument types of the calls, by name."""


class Result(BaseModel):
    """Base of all results, with the address of the page after the call."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    url: str
    title: Annotated[str, AfterValidator(visible)] = ""
    """Title of the page, with hidden characters, such as those that reverse text, shown as escapes."""
    status: int | None = None
    """HTTP status of the resulting page if it is an error, such as 404, that the provider can detect; otherwise None.
    """


class NavigateResult(Result):
    """The page reached by a navigation, after redirects."""

    change: str = ""
    """The page's outline, if the provider is to tell it (`change_limit`)."""


class ActResult(Result):
    """The action performed by `act`, with its consequences."""

    done: str
    """Action performed, in words or as JSON, depending on the provider."""
    events: tuple[str, ...] = ()
    """Consequences of the action: dialogs, downloads, new tabs, navigations."""
    change: str = ""
    """Change of the page's outline since the last observation or action, if the provider is to tell it
    (`change_limit`)."""


class ExtractResult(Result):
    """The data read by `extract`."""

    data: SerializeAsAny[BaseModel]
    """Instance of the requested model."""


class ObserveResult(Result):
    """The page as returned by `observe`."""

    outline: str
    """Outline of the page: one line per element or text, with `[id]` before elements that can be acted on."""
    elements: tuple[dict[str, Any], ...] = ()
    """Elements of the outline, as `browser_env.observation.Element`; empty if the provider doesn't list them."""
    actions: tuple[SerializeAsAny[BaseAction], ...] = ()
    """Candidate actions for an instruction."""


class ScreenshotResult(Result):
    """A screenshot of the viewport."""

    png: bytes = Field(repr=False)
