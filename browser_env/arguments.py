"""Validation of constructor arguments from a command line, a file or Python, before anything is created.

The rules are written once, as types in the signatures. `Annotated[..., AfterValidator(function)]` covers rules that no
type expresses. A type with a member that is imported for type checkers only accepts in-memory objects (a model, a
tokenizer), which no command line can give.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import reduce, wraps
from inspect import Parameter, signature
from operator import or_
from typing import Any, ParamSpec, TypeVar, get_args

import numpy as np
from pydantic import PydanticUserError, TypeAdapter, ValidationError

P = ParamSpec("P")
T = TypeVar("T")


class OptionError(ValueError):
    """An unknown or missing option, or an invalid value. The message says what is allowed."""


class WrongName(OptionError, TypeError):
    """An option is unknown, or a required option is missing."""


def checked(
    whose: str, kinds: tuple[Any, ...], given: Mapping[str, Any], written: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the options converted to their declared types: a price list to `Prices`, a path unchanged.

    Args:
        whose: the beginning of messages, such as `The agent openai`.
        kinds: the classes or functions that take the options. If several take the same name, the first one's type
            counts. Parameters of the first that have no default are required.
        given: option values, as JSON has them or in memory.
        written: source text of the options that were read from a text. If a value fails but its text fits, the text is
            used, so that `name=5` is "5" for a text option.

    Raises:
        WrongName: an option is unknown or missing.
        OptionError: an option has a wrong value.
    """
    found: dict[str, tuple[Any, Parameter]] = {}
    takes_any = False
    for kind in kinds:
        for name, parameter in signature(kind).parameters.items():
            takes_any = takes_any or parameter.kind is parameter.VAR_KEYWORD
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                found.setdefault(name, (kind, parameter))
    found.pop("policy", None)
    if not takes_any:
        check_names(whose, given, found)
    needed = {name: one for name, one in signature(kinds[0]).parameters.items() if one.default is one.empty}
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    missing = [name for name, parameter in needed.items() if parameter.kind in named and name not in given]
    if missing:
        raise WrongName(f"{whose} needs the option {', '.join(missing)}.")
    texts = written or {}
    return {
        name: _value(name, value, *found[name], texts.get(name)) if name in found else value
        for name, value in given.items()
    }


def check_names(whose: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Reject unknown options.

    Args:
        whose: the beginning of the message, such as `The agent openai`.
        given: names of the given options.
        known: names of the known options.

    Raises:
        WrongName: an option is unknown.
    """
    known = list(known)
    unknown = [name for name in given if name not in known]
    if unknown:
        near = get_close_matches(unknown[0], known, 1, 0.7) if len(unknown) == 1 else []
        has = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}."
        raise WrongName(f"{whose} has no option {', '.join(unknown)}; {has}")


def names_checked(whose: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that checks a function's keyword arguments by `check_names`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        known = signature(function).parameters

        @wraps(function)
        def named(*args: P.args, **options: P.kwargs) -> T:
            check_names(whose, options, known)
            return function(*args, **options)

        return named

    return decorate


def _value(name: str, value: Any, kind: Any, parameter: Parameter, text: str | None) -> Any:
    made: Any = kind
    function = made.__init__ if isinstance(kind, type) else made
    wanted, whole = _type(parameter.annotation, getattr(function, "__globals__", {}))
    try:
        written = json.dumps(value, default=_plain)
    except (TypeError, ValueError):  # an in-memory object
        if not whole:
            return value
        written = None
    try:
        checking: TypeAdapter[Any] = TypeAdapter(wanted)
        if written is None:
            return checking.validate_python(value, strict=True)
        checked = checking.validate_json(written, strict=True)
    except (PydanticUserError, NameError):  # not a checkable type: a user's own class or a text
        return value
    except ValidationError as error:
        if text is not None and text != value:
            with contextlib.suppress(ValidationError):
                return checking.validate_json(json.dumps(text), strict=True)
        reasons = list(dict.fromkeys(_reason(one["loc"], one["msg"], one["type"]) for one in error.errors()))
        null = ", or null" if type(None) in get_args(wanted) and not reasons[0].endswith(".") else ""
        raise OptionError(f"{name}={written or repr(value)}: {' or '.join(reasons)}{null}") from None
    return value if isinstance(value, os.PathLike) else checked


def _plain(value: Any) -> Any:
    """Return the JSON form of a path or a NumPy number."""
    return value.item() if isinstance(value, np.generic) else os.fspath(value)


def _reason(where: tuple[int | str, ...], told: str, kind: str) -> str:
    if kind == "value_error":
        return told.removeprefix("Value error, ")
    inside = ".".join(str(step) for step in where if isinstance(step, int) or step.islower())
    told = told.replace("Input should", "should")
    return f"{inside} {told}" if kind in ("missing", "unexpected_keyword_argument") else told


def _type(annotation: Any, names: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return the type that an annotation denotes, and whether every member of it could be resolved.

    Union members that are imported for type checkers only are left out. They are in-memory objects (a model, a torch
    dtype), which can't be written on a command line.
    """
    if annotation is Parameter.empty:
        return Any, True
    if not isinstance(annotation, str):
        return annotation, True
    found = []
    try:
        parts = _parts(ast.parse(annotation, mode="eval").body)
    except SyntaxError:  # an annotation in plain words
        return Any, True
    for part in parts:
        try:
            found.append(eval(compile(ast.Expression(part), "<annotation>", "eval"), dict(names)))
        except NameError:
            continue
    return reduce(or_, found) if found else Any, len(found) == len(parts)


def _parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_parts(node.left), *_parts(node.right)]
    return [node]
