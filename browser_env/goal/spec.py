"""A goal with the criteria by which an episode has reached it, as data: in a TOML file, or made in code.

    goal = "Order the blue mug."
    start = "https://shop.example/"

    [[criteria]]
    text = "Thank you for your order"

    [[criteria]]
    request = { method = "POST", url = "/orders", status = 201 }

A text is found if it is contained; one that begins with `re:` is a regular expression. Names and values of elements,
and texts of actions, must be equal, or match as a whole. Knows nothing of how criteria are checked.
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
    """A goal's specification is not there, or can't be."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class WhichElement(_Data):
    """An element of an observation. What is left out may be anything."""

    role: str = ""
    name: str | None = None
    tag: str = ""
    nth: int | None = Field(default=None, ge=1)
    """Its place among those with this role and tag, from 1."""


class ElementState(WhichElement):
    """What an element must be like."""

    value: str | None = None
    states: tuple[str, ...] = ()
    """States that it has; `not checked` is one that it hasn't."""
    names: str = ""
    """A parameter that is a list: elements like this have these names, and no others have them."""
    absent: bool = False
    """There must be no such element."""


class ActionDone(_Data):
    """An action of the agent that worked."""

    kind: str = ""
    """Such as `click`; empty for any."""
    element: WhichElement = WhichElement()
    """What it was done to."""
    text: str | None = None
    """What was typed or chosen."""


class RequestMade(_Data):
    """A request that a page sent in a step."""

    method: str = ""
    url: str = ""
    status: int | None = None
    """HTTP status of the answer; any below 400 if not given."""


KINDS = ("url", "text", "element", "answer", "request", "action", "question")


class Criterion(_Data):
    """One thing that must be so. Exactly one of the kinds is given."""

    url: str | None = None
    """The page's address contains it."""
    text: str | None = None
    """The page's text contains it."""
    element: ElementState | None = None
    answer: str | None = None
    """The agent's final answer contains it."""
    request: RequestMade | None = None
    action: ActionDone | None = None
    """Where the page doesn't show what came of it."""
    question: str | None = None
    """For a model that judges; yes means that it is so."""
    at: Literal["end", "before", "ever"] = "end"
    """When: on the last page, on the page before the last action, or on any. An action at the end is the last one; a
    request may have been made at any time."""
    each: str = ""
    """A parameter that is a list: the criterion holds for each of its texts, which is `{item}`."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"a criterion has exactly one of {', '.join(KINDS)}, not {' and '.join(given) or 'none'}")
        return self

    @property
    def kind(self) -> str:
        """Which of `KINDS` it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)


class GoalSpec(_Data):
    """A goal, where it starts, and its criteria, all of which must hold."""

    name: str = ""
    goal: str = ""
    """In words. With `pattern`, the goal is the episode's."""
    start: str = ""
    """Address of the first page."""
    pattern: str = ""
    """Regular expression that a goal matches as a whole; its named groups are parameters, `{name}` in the criteria
    (`{name:upper}` and `{name:lower}` in these letters). One specification so serves all goals of a kind."""
    lists: dict[str, str] = {}
    """Parameters that are lists, each with the regular expression that separates their texts."""
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
                raise ValueError(f"there is no parameter {wrong[0]!r} in the pattern, or it is no list")
        if wrong := sorted(set(self.lists) - known):
            raise ValueError(f"lists: the pattern has no group {wrong[0]!r}")
        for text in (*self.lists.values(), *(text[3:] for text in _texts(self.model_dump()) if text.startswith("re:"))):
            re.compile(text)
        return self

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.DOTALL)

    def parameters(self, goal: str) -> Parameters | None:
        """Return the parameters of a goal, or None: the specification is of other goals."""
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
        SpecError: there is none, or it can't be.
    """
    return spec_of(_load(Path(path)), str(path), Path(path).stem)


def read_specs(path: str | Path) -> dict[str, GoalSpec]:
    """Read several from one TOML file, each a table of its own, by their names.

    Raises:
        SpecError: there are none, or one can't be.
    """
    return {name: spec_of(data, f"{path}, {name}", name) for name, data in _load(Path(path)).items()}


def spec_of(data: Any, where: str, name: str = "") -> GoalSpec:
    """Return a specification from plain data.

    Raises:
        SpecError: it can't be one.
    """
    try:
        return GoalSpec.model_validate({"name": name, **data} if isinstance(data, dict) else data)
    except ValidationError as error:
        found = error.errors()
        if len(found) > 1:  # those of a list that are wrong are not counted among its own
            found = [one for one in found if one["type"] != "too_short"]
        wrong = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: ".removeprefix(": ")
            + _TOLD.get(one["type"], one["msg"].removeprefix("Value error, ").replace("Input should", "it should"))
            for one in found
        )
        raise SpecError(f"{where}: {wrong}.") from None
    except re.error as error:
        raise SpecError(f"{where}: {error.pattern!r} is no regular expression: {error}.") from None


def fill_in(text: str, parameters: Parameters, *, item: str = "") -> str:
    """Put parameters into a text; into a regular expression, as the texts that they are."""
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
