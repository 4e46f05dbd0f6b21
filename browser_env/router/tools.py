"""The calls as tools for models: Python functions, and OpenAI tools with JSON schemas.

The agents of this project use the same tools as any other client. `browser_env.router.mcp_server` offers them by MCP.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from selfsurf.browser_env.actions import ACTION_TYPES, ON_PAGE
from selfsurf.browser_env.attempts.attempt import Failure
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.router.calls import ARGUMENTS, ActArguments, ExtractArguments, Name, Result, ScreenshotResult
from selfsurf.browser_env.router.json_model import model_of
from selfsurf.browser_env.router.router import CallFailed, Router

DESCRIPTIONS: Mapping[Name, str] = {
    "navigate": "Go to a URL in the browser's current tab.",
    "act": "Do one thing on the current page: in words, or as an action on an element that browser.observe has shown.",
    "extract": "Read data from the current page into a JSON object of a given schema.",
    "observe": "See the current page as an outline, a line an element; [number] is the id of one to act on. With an "
    "instruction, the actions that come into question are added; with find, it is the first 20 lines of the whole "
    "page that have a text.",
    "screenshot": "Take a picture of what is in view of the current page.",
}

_OTHER_NAME = {"schema": "model", "model": "schema"}
"""Mapping between the tool's argument `schema` and Python's `model`, in both directions, so that errors name the
argument that the caller wrote."""


def tool_name(call: str, *, dot: bool = True) -> str:
    """Return a tool's name: `browser.act`, or `browser_act` for APIs such as OpenAI's that don't allow dots."""
    return f"browser{'.' if dot else '_'}{call}"


def schemas() -> dict[Name, dict[str, Any]]:
    """Return the JSON schema of each tool's arguments."""
    found = {}
    for name, kind in ARGUMENTS.items():
        schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
        for field, info in kind.model_fields.items():
            schema["properties"][field] = {"type": "string", "description": info.description}
        if needed := [field for field, info in kind.model_fields.items() if info.is_required()]:
            schema["required"] = needed
        found[name] = schema
    found["act"]["properties"]["action"] |= _action_schema()
    extract = found["extract"]
    del extract["properties"]["model"]
    extract["properties"]["schema"] = {
        "type": "object",
        "description": "JSON schema of an object: what is to be read, with a description of each property.",
    }
    extract["required"] = ["instruction", "schema"]
    return found


def action_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each action on a page as a tool of its own, for models that prefer small tools."""
    found = {}
    for name in ON_PAGE:
        given = ACTION_TYPES[name].model_json_schema()
        fields = {key: field for key, field in given["properties"].items() if key not in ("action", "reason")}
        plain = {key: {k: v for k, v in field.items() if k != "title"} for key, field in fields.items()}
        schema = {"type": "object", "properties": plain, "additionalProperties": False}
        found[name] = {**schema, "required": given["required"]} if "required" in given else schema
    return found


def _action_schema() -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in ON_PAGE:
        fields |= ACTION_TYPES[name].model_json_schema().get("properties", {})
    fields["action"] = {"type": "string", "enum": list(ON_PAGE)}
    plain = {name: {key: value for key, value in field.items() if key != "title"} for name, field in fields.items()}
    return {"type": "object", "properties": plain, "required": ["action"]}


def openai_tools() -> list[dict[str, Any]]:
    """Return the tools for OpenAI's chat completions; their names have `_` instead of `.`."""
    return [
        {
            "type": "function",
            "function": {"name": tool_name(name, dot=False), "description": DESCRIPTIONS[name], "parameters": schema},
        }
        for name, schema in schemas().items()
    ]


async def call_tool(router: Router, name: str, arguments: Mapping[str, Any] | str, **ids: Any) -> dict[str, Any]:
    """Call a tool by its name, as a model does.

    Args:
        router: router that performs the call.
        name: `browser.act`, `browser_act` or `act`; or the name of an action, such as `browser_click`.
        arguments: a mapping, or JSON text.
        ids: `step_id`, as for `Router.call`.

    Returns:
        The result as plain data, with a screenshot as base64 in `png`, or `{"error": {type, message, retryable}}`.
        Doesn't raise.
    """
    try:
        result = await router.call(parsed(name, arguments), **ids)
    except CallFailed as error:
        return failed(error.failure)
    except ToolError as error:
        return failed(Failure("invalid_arguments", str(error), retryable=False))
    return as_data(result)


class ToolError(ValueError):
    """A tool doesn't exist, or its arguments are wrong. The message is written for the model."""


def parsed(name: str, arguments: Mapping[str, Any] | str) -> Any:
    """Return the typed arguments of a tool call.

    Raises:
        ToolError: the tool doesn't exist, or the arguments are wrong.
    """
    call = name.removeprefix("browser").lstrip("._")
    if call not in ARGUMENTS and call not in ON_PAGE:
        raise ToolError(f"There is no tool {name!r}; there are {', '.join(map(tool_name, ARGUMENTS))}.")
    names = _OTHER_NAME if call == "extract" else {}
    try:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else dict(arguments)
        if not isinstance(given, dict):
            raise ToolError("A tool's arguments are a JSON object.")
        if call not in ARGUMENTS:
            return ActArguments.model_validate({"action": {**given, "action": call}})
        given = {names.get(name, name): value for name, value in given.items()}
        if call == "extract" and "model" in given:
            given["model"] = model_of(given["model"])
        return ARGUMENTS[call].model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(names.get(name, name) for name in map(str, first["loc"]))
        text = first["msg"].removeprefix("Value error, ").removesuffix(".")
        raise ToolError(f"{tool_name(call)}: {where + ': ' if where else ''}{text}.") from error
    except ActionError as error:
        raise ToolError(str(error)) from error
    except ToolError:
        raise
    except ValueError as error:
        raise ToolError(f"{tool_name(call)}: {error}") from error


def failed(failure: Failure) -> dict[str, Any]:
    """Return a failure in the form of a tool's result."""
    return {"error": {"type": failure.type, "message": failure.message, "retryable": failure.retryable}}


def as_data(result: Result) -> dict[str, Any]:
    """Return a result as plain data for a model, without the element list, which the outline contains."""
    data = result.model_dump(mode="json", exclude={"png", "elements"}, exclude_none=True)
    if "actions" in data:
        data["actions"] = [action.to_dict(with_reason=True) for action in result.actions]  # type: ignore[attr-defined]
    if isinstance(result, ScreenshotResult):
        data["png"] = base64.b64encode(result.png).decode()
    return data


def functions(router: Router) -> list[Callable[..., Awaitable[Any]]]:
    """Return the calls as typed coroutine functions with docstrings, for frameworks that inspect functions.

    Each returns the result of `call_tool`.
    """

    async def browser_navigate(url: str) -> dict[str, Any]:
        return await call_tool(router, "navigate", {"url": url})

    async def browser_act(instruction: str = "", action: dict[str, Any] | None = None) -> dict[str, Any]:
        return await call_tool(router, "act", {"instruction": instruction, "action": action})

    async def browser_extract(instruction: str, schema: dict[str, Any] | type[BaseModel]) -> dict[str, Any]:
        if isinstance(schema, type):
            try:
                return as_data(await router.call(ExtractArguments(instruction=instruction, model=schema)))
            except CallFailed as error:
                return failed(error.failure)
        return await call_tool(router, "extract", {"instruction": instruction, "schema": schema})

    async def browser_observe(instruction: str = "", find: str = "") -> dict[str, Any]:
        return await call_tool(router, "observe", {"instruction": instruction, "find": find})

    async def browser_screenshot() -> dict[str, Any]:
        return await call_tool(router, "screenshot", {})

    made = [browser_navigate, browser_act, browser_extract, browser_observe, browser_screenshot]
    for function, name in zip(made, ARGUMENTS, strict=True):
        function.__doc__ = DESCRIPTIONS[name]
    return cast(list[Callable[..., Awaitable[Any]]], made)
