"""A goal and its success criteria as data, from a TOML file or created in code.

    goal = "Order the blue mug."
    start = "https://shop.example/"

    [[criteria]]
    text = "Thank you for your order"

    [[criteria]]
    request = { method = "POST", url = "/orders", status = 201 }

Texts match as substrings, or as regular expressions if they start with `re:`. Names and values of elements, and texts
of actions, must match as a whole. The module doesn't depend on how criteria are checked.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Parameters: TypeAlias = Mapping[str, str | tuple[str, ...]]

_TOLD = {"extra_forbidden": "there is no such key", "missing": "it is missing", "too_short": "give at least one"}
_PLACE = re.compile(r"\{([a-z_]\w*)(?::(upper|lower))?\}")


class SpecError(ValueError):
    """A goal's specification is missing or invalid."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class WhichElement(_Data):
    """Selector of an element in an observation. Fields that are not set match anything."""

    role: str = ""
    name: str | None = None
    tag: str = ""
    nth: int | None = Field(default=None, ge=1)
    """Position among the elements with this role and tag, from 1."""


class ElementState(WhichElement):
    """Required state of an element."""

    value: str | None = None
    states: tuple[str, ...] = ()
    """Required states of the element; `not checked` excludes the state `checked`."""
    names: str = ""
    """List parameter with the names of all matching elements: each must occur, and no others."""
    absent: bool = False
    """Whether the page must have no such element."""


class ActionDone(_Data):
    """A successful action of the agent."""

    kind: str = ""
    """Kind of action, such as `click`; empty for any."""
    element: WhichElement = WhichElement()
    """Target element of the action."""
    text: str | None = None
    """Text that was typed or chosen; None for any."""


class RequestMade(_Data):
    """A request that a page sent during a step."""

    method: str = ""
    url: str = ""
    status: int | None = None
    """HTTP status of the response; None for any below 400."""


KINDS = ("url", "text", "element", "answer", "request", "action", "question")


class Criterion(_Data):
    """One condition of success. Exactly one of the kinds is set."""

    url: str | None = None
    """Text that the page's address contains."""
    text: str | None = None
    """Text that the page contains."""
    element: ElementState | None = None
    answer: str | None = None
    """Text that the agent's final answer contains."""
    request: RequestMade | None = None
    action: ActionDone | None = None
    """Action of the agent, for results that the page doesn't show."""
    question: str | None = None
    """Question for a judge model; the answer yes meets the criterion."""
    at: Literal["end", "before", "ever"] = "end"
    """Where the criterion must hold: on the last page, on the page before the last action, or on any page. For an
    action, `end` means the last one; a request counts at any time."""
    each: str = ""
    """List parameter; the criterion must hold for each of its texts, written `{item}`."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(
                f"a criterion must have exactly one of {', '.join(KINDS)}, not {' and '.join(given) or 'none'}"
            )
        return self

    @property
    def kind(self) -> str:
        """Kind of the criterion, one of `KINDS`."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)


class GoalSpec(_Data):
    """A goal with its start page and criteria, all of which must hold."""

    name: str = ""
    goal: str = ""
    """Goal in words; with `pattern`, the episode's own goal is used."""
    start: str = ""
    """Address of the first page."""
    pattern: str = ""
    """Regular expression that matches a whole goal, so that one specification covers all goals of a kind. Its named
    groups are parameters of the criteria, written `{name}` (`{name:upper}` and `{name:lower}` change the case)."""
    lists: dict[str, str] = {}
    """Regular expressions that split list parameters into texts, by parameter name."""
    criteria: tuple[Criterion, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not self.goal and not self.pattern:
            raise ValueError("give a goal, or a pattern of goals")
        known = set(self._pattern.groupindex)
        for criterion in self.criteria:
            used = (
                {name for name, _ in _PLACE.findall(" ".join(_texts(criterion.model_dump())))}
                if self.pattern
                else set()
            )
            listed = {name for name in (criterion.each, criterion.element and criterion.element.names) if name}
            if wrong := sorted(used - known - ({"item"} if criterion.each else set()) | listed - set(self.lists)):
                raise ValueError(f"the pattern has no parameter {wrong[0]!r}, or the parameter is not a list")
        if wrong := sorted(set(self.lists) - known):
            raise ValueError(f"lists: the pattern has no group {wrong[0]!r}")
        for text in (*self.lists.values(), *(text[3:] for text in _texts(self.model_dump()) if text.startswith("re:"))):
            re.compile(text)
        return self

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.DOTALL)

    def parameters(self, goal: str) -> Parameters | None:
        """Return the parameters of a goal; None if the specification is for other goals."""
        if not self.pattern:
            return {}
        match = self._pattern.fullmatch(goal.strip())
        if match is None:
            return None
        found = {name: text or "" for name, text in match.groupdict().items()}
        return {
            name: tuple(filter(None, re.split(self.lists[name], text))) if name in self.lists else text
            for name, text in found.items()
        }


def read_spec(path: str | Path) -> GoalSpec:
    """Read a specification from a TOML file.

    Raises:
        SpecError: the file is missing or invalid.
    """
    return spec_of(_load(Path(path)), str(path), Path(path).stem)


def read_specs(path: str | Path) -> dict[str, GoalSpec]:
    """Read a TOML file with one specification per table, and return the specifications by name.

    Raises:
        SpecError: the file is missing, or a specification is invalid.
    """
    return {name: spec_of(data, f"{path}, {name}", name) for name, data in _load(Path(path)).items()}


def spec_of(data: Any, where: str, name: str = "") -> GoalSpec:
    """Create a specification from plain data.

    Raises:
        SpecError: the data is invalid.
    """
    try:
        return GoalSpec.model_validate({"name": name, **data} if isinstance(data, dict) else data)
    except ValidationError as error:
        found = error.errors()
        if len(found) > 1:  # a list with invalid items is also reported as too short
            found = [one for one in found if one["type"] != "too_short"]
        wrong = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: ".removeprefix(": ")
            + _TOLD.get(one["type"], one["msg"].removeprefix("Value error, ").replace("Input should", "it should"))
            for one in found
        )
        raise SpecError(f"{where}: {wrong}.") from None
    except re.error as error:
        raise SpecError(f"{where}: {error.pattern!r} is not a regular expression: {error}.") from None


def fill_in(text: str, parameters: Parameters, *, item: str = "") -> str:
    """Fill parameters into a text; in a regular expression they are escaped."""
    escaped = text.startswith("re:")

    def put(match: re.Match[str]) -> str:
        value = item if match[1] == "item" else parameters.get(match[1], match[0])
        value = value if isinstance(value, str) else ", ".join(value)
        value = getattr(value, match[2])() if match[2] else value
        return re.escape(value) if escaped else value

    return _PLACE.sub(put, text) if parameters else text


def _texts(data: Any) -> list[str]:
    if isinstance(data, Mapping):
        data = [value for key, value in data.items() if key not in ("lists", "pattern")]
    if isinstance(data, str):
        return [data]
    return [text for one in data for text in _texts(one)] if isinstance(data, (list, tuple)) else []


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf8"))
    except OSError as error:
        raise SpecError(f"{path} can't be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not valid TOML: {error}.") from None
