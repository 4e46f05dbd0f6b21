"""User-defined functions that a model may call while it decides: a price list, a calculator, a look-up.

A call costs no step: its result is added to the same turn, and the model continues. Independent of pages and servers.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError, validate_call

from selfsurf.agents.reply.reading.echo import Echo
from selfsurf.agents.reply.reading.loose_json import load, objects
from selfsurf.agents.reply.reading.naming import action_name, full_forms
from selfsurf.agents.reply.reading.prose import PositionClassifier, without_thinking
from selfsurf.browser_env.classes import load_class

MAX_CALLS = 8
"""Maximum number of rounds of function calls in one turn."""

MAX_CHARACTERS, MAX_OBJECTS = 20_000, 150
"""Maximum number of characters, and of JSON objects, of a reply that are searched for calls."""

MAX_RESULT = 10_000
"""Maximum length, in characters, of a function's result as shown to the model."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NAMES = ("name", "function", "tool", "call", "action")
_ARGUMENTS = ("arguments", "args", "parameters", "input")


class FunctionError(ValueError):
    """A function can't be offered to the model. The message gives the reason."""


@dataclass(frozen=True)
class Function:
    """A function that a model may call.

    Raises:
        FunctionError: the name is not an identifier, or is reserved for an action or a call's key.
    """

    name: str
    description: str
    """The function's description, as shown to the model."""
    parameters: type[BaseModel] | dict[str, Any]
    """The function's parameters: a pydantic model, which validates the arguments, or a JSON schema, which doesn't."""
    call: Callable[..., Any]
    """The Python callable, called with keyword arguments. The model is shown the result as text; exceptions propagate
    as
    errors of the agent.
    """

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or action_name(self.name) or self.name in ("act", *_NAMES):
            raise FunctionError(
                f"A function can't be named {self.name!r}: use an identifier that is not the name of an action."
            )

    @classmethod
    def of(cls, function: Any) -> Function:
        """Return a `Function` unchanged, or make one of a Python function, `module:function` or `file.py:function`.

        A Python function's name, docstring and annotations become the name, the description and the parameters.

        Raises:
            FunctionError: arguments can't be passed by name, or the annotations have no JSON schema.
        """
        if isinstance(function, Function):
            return function
        if isinstance(function, str):
            return cls.of(load_class(function))
        name = getattr(function, "__name__", "")
        try:
            schema = TypeAdapter(function).json_schema()
            checking = validate_call(function)
        except Exception as error:
            raise FunctionError(f"{name or function!r} can't be offered as a function: {error}") from error
        if schema.get("type") != "object":
            raise FunctionError(f"{name} has parameters that a model can't fill, because they can't be passed by name.")
        return cls(name, inspect.getdoc(function) or "", schema, checking)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the function's arguments."""
        return self.parameters if isinstance(self.parameters, dict) else self.parameters.model_json_schema()

    def __call__(self, arguments: Mapping[str, Any]) -> str:
        """Call the function and return the text for the model: the result, or the errors in the arguments."""
        try:
            if not isinstance(self.parameters, dict):
                checked = self.parameters.model_validate(dict(arguments))
                arguments = {name: getattr(checked, name) for name in type(checked).model_fields}
            else:
                inspect.signature(self.call).bind(**arguments)
        except (ValidationError, TypeError) as error:
            return _wrong(error)
        try:
            told = self.call(**arguments)
        except ValidationError as error:
            return _wrong(error)
        text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False, default=str)
        return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]}… ({len(text)} characters, cut)"


@dataclass(frozen=True)
class FunctionCall:
    """A function call in a model's reply."""

    function: Function
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return json.dumps({self.function.name: self.arguments}, ensure_ascii=False, separators=(",", ":"))


def functions_of(given: Sequence[Any]) -> tuple[Function, ...]:
    """Return functions given in any form that `Function.of` takes.

    Raises:
        FunctionError: a function can't be offered, or two functions have the same name.
    """
    found = tuple(map(Function.of, given))
    names = [function.name for function in found]
    if len(set(names)) < len(names):
        raise FunctionError(f"Two functions have the same name: {', '.join(names)}.")
    return found


def call_in(text: str, functions: Sequence[Function], prompt: str = "") -> FunctionCall | None:
    """Return the function call of a reply; None if the reply contains no call or names an action first.

    Calls that the reply rejects, quotes or copies from the prompt are ignored, as in `agents.reply.parse`.
    """
    named = list(_named(text, functions, prompt))
    called = min(named, key=lambda one: one[0])[1] if named else []
    return called[0] if called else None


def calls_in(text: str, functions: Sequence[Function], prompt: str = "") -> list[FunctionCall]:
    """Return all function calls of a reply, the decisive call last, ignoring the same calls as `call_in`."""
    ranked = sorted(_named(text, functions, prompt), key=lambda one: -one[0])
    return [called for _, calls in ranked for called in calls]


def _named(text: str, functions: Sequence[Function], prompt: str) -> Iterator[tuple[int, list[FunctionCall]]]:
    """Yield the rank (`PositionClassifier.rank`) and the function calls of each JSON object of a reply."""
    if not functions:
        return
    by_name = {function.name: function for function in functions}
    text = without_thinking(text[:MAX_CHARACTERS])[0]
    found = objects(text)
    echo, standing = Echo(text, prompt), PositionClassifier(text, found)
    for one in found[:MAX_OBJECTS]:
        calls = [] if one.cut else list(_called(one.data, by_name))
        if not calls and next(full_forms(one.data, cut=one.cut), None) is None:
            continue
        if not echo.holds(one.start, one.end) and not standing.rejected(one.start, one.end):
            yield standing.rank(one.start), calls


def described(functions: Sequence[Function]) -> list[str]:
    """Return the prompt's list of functions, with the JSON form of each call."""
    if not functions:
        return []
    lines = [f"{_form(one)}  {' '.join(one.description.split())}" for one in functions]
    return ["Instead of an action you can call a function as JSON, and are told its result at once:", *lines]


def _form(function: Function) -> str:
    """Return the JSON form of a call, with the type of each argument in place of its value."""
    properties = function.schema.get("properties", {})
    kinds = {name: _kind(value) for name, value in properties.items()}
    return json.dumps({function.name: kinds}, ensure_ascii=False)


def _kind(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = str(schema.get("type") or " or ".join(_kind(one) for one in schema.get("anyOf", ())) or "any")
    told = schema.get("description")
    return f"{kind}: {told}" if told else kind


def _called(data: Mapping[str, Any], functions: Mapping[str, Function]) -> Iterator[FunctionCall]:
    """Yield the function calls in a JSON object, in order."""
    for key, value in data.items():
        if action_name(key) and value != "function":
            return  # action fields may share a function's name
        if key in functions:
            given = {} if value is True or value is None or value == "" else value
            only = [*functions[key].schema.get("properties", {})]
            if not isinstance(given, dict) and len(only) == 1:
                given = {only[0]: given}
            if isinstance(given, dict):
                yield FunctionCall(functions[key], given)
        elif key in _NAMES and isinstance(value, str) and value in functions:
            rest = {name: item for name, item in data.items() if name != key}
            yield FunctionCall(functions[value], _arguments(rest))
        elif key in _NAMES and isinstance(value, dict):
            yield from _called(value, functions)


def _arguments(rest: dict[str, Any]) -> dict[str, Any]:
    for wrapper in _ARGUMENTS:
        if wrapper in rest:
            given = rest[wrapper]
            given = load(given) if isinstance(given, str) else given
            return given if isinstance(given, dict) else {}
    return {name: value for name, value in rest.items() if name not in ("thought", "reason")}


def _wrong(error: Exception) -> str:
    if isinstance(error, ValidationError):
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    else:
        told = str(error)
    return f"Wrong arguments: {told}."
