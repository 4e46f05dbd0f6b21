"""Options of an agent as a command line or a file gives them, checked before anything is loaded.

What is allowed is written once: as types in the signatures of the policies and of `LLMAgent`. The types below are
ranges; `Annotated[..., AfterValidator(function)]` covers anything else.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import reduce
from inspect import Parameter, signature
from operator import or_
from typing import Annotated, Any, TypeAlias, get_args

from pydantic import Field, PydanticSchemaGenerationError, TypeAdapter, ValidationError

Count: TypeAlias = Annotated[int, Field(ge=1)]
"""A whole number above 0."""

Natural: TypeAlias = Annotated[int, Field(ge=0)]
"""A whole number, 0 included."""

Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A number that is not negative."""

Duration: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A number above 0."""


class OptionError(ValueError):
    """An unknown or missing option, or an invalid value. The message says what is allowed."""


def checked(agent: str, kinds: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in their right types: a price list as `Prices`, a path as it was given.

    Args:
        agent: its name in messages.
        kinds: the classes or functions that take the options; of a name in several, the first one counts. The first
            one's parameters without a default are required.
        options: their values, as JSON has them.

    Raises:
        OptionError: one is unknown, missing or wrong.
    """
    found: dict[str, tuple[Any, Parameter]] = {}
    for kind in kinds:
        for name, parameter in signature(kind).parameters.items():
            found.setdefault(name, (kind, parameter))
    found.pop("policy", None)
    unknown = [name for name in options if name not in found]
    if unknown:
        has = ", ".join(found) or "none"
        raise OptionError(f"The agent {agent} has no option {', '.join(unknown)}; it has {has}.")
    needed = {name: one for name, one in signature(kinds[0]).parameters.items() if one.default is one.empty}
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    missing = [name for name, parameter in needed.items() if parameter.kind in named and name not in options]
    if missing:
        raise OptionError(f"The agent {agent} needs the option {', '.join(missing)}.")
    return {name: _value(name, value, *found[name]) for name, value in options.items()}


def _value(name: str, value: Any, kind: Any, parameter: Parameter) -> Any:
    made: Any = kind
    function = made.__init__ if isinstance(kind, type) else made
    wanted = _type(parameter.annotation, getattr(function, "__globals__", {}))
    try:
        return TypeAdapter(wanted).validate_json(json.dumps(value), strict=True)
    except PydanticSchemaGenerationError:  # a user's own class
        return value
    except ValidationError as error:
        reasons = list(dict.fromkeys(_reason(one["loc"], one["msg"], one["type"]) for one in error.errors()))
        null = ", or null" if type(None) in get_args(wanted) and not reasons[0].endswith(".") else ""
        raise OptionError(f"{name}={json.dumps(value)}: {' or '.join(reasons)}{null}") from None


def _reason(where: tuple[int | str, ...], told: str, kind: str) -> str:
    if kind == "value_error":
        return told.removeprefix("Value error, ")
    inside = ".".join(str(step) for step in where if isinstance(step, int) or step.islower())
    told = told.replace("Input should", "should")
    return f"{inside} {told}" if kind in ("missing", "unexpected_keyword_argument") else told


def _type(annotation: Any, names: Mapping[str, Any]) -> Any:
    """The type that an annotation means, without members of a union that are imported for type checkers only.

    Those are objects in memory (a model, a torch dtype), which can't be written on a command line.
    """
    if annotation is Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    found = []
    for part in _parts(ast.parse(annotation, mode="eval").body):
        try:
            found.append(eval(compile(ast.Expression(part), "<annotation>", "eval"), dict(names)))
        except NameError:
            continue
    return reduce(or_, found) if found else Any


def _parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_parts(node.left), *_parts(node.right)]
    return [node]
