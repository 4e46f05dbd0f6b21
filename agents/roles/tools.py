"""Tools of roles: pydantic models whose fields the model fills in, and the registry of a role's tools.

The environment's actions are also tools. A `Tool` acts on the task instead of the page. The module is independent of
models.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from selfsurf.agents.reply.functions import Function, FunctionError, calls_in, described
from selfsurf.agents.roles.task import RoleTask


class Tool(BaseModel):
    """A tool of a role. The model is given the class's name in snake case, its docstring and its fields."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if inspect.iscoroutinefunction(cls.run):
            raise TypeError(f"{cls.__name__}.run must be a plain function, because it is never awaited.")

    def run(self, task: RoleTask) -> str:
        """Apply the tool to the task, and return a message about the result."""
        raise NotImplementedError


class MarkComplete(Tool):
    """Say that the task is complete. The verifier is asked before it counts."""

    answer: str = Field(default="", description="the whole answer to the user")
    reason: str = ""

    def run(self, task: RoleTask) -> str:
        """Return the reason. The executor requests the verification."""
        return self.reason


class ToolRegistry:
    """The tools of a role, by name.

    Args:
        tools: classes of `Tool`, or of the environment's actions.

    Raises:
        ValueError: two tools have the same name.
    """

    def __init__(self, *tools: type[BaseModel]) -> None:
        self._tools = {name_of(tool): tool for tool in tools}
        if len(self._tools) < len(tools):
            raise ValueError(f"Two tools have the same name: {', '.join(map(name_of, tools))}.")

    def __iter__(self) -> Iterator[type[BaseModel]]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __add__(self, other: ToolRegistry) -> ToolRegistry:
        return ToolRegistry(*self, *other)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tools, in their order."""
        return tuple(self._tools)

    def functions(self) -> list[Function]:
        """Return the tools as functions that a model may call.

        Raises:
            ValueError: a tool has the name of an action, fields other than plain values, or no `run` of its own.
        """
        made = []
        for name, tool in self._tools.items():
            if "$defs" in tool.model_json_schema():
                raise FunctionError(
                    f"The fields of {tool.__name__} must be texts, numbers, booleans or lists of these."
                )
            made.append(Function(name, inspect.getdoc(tool) or "", tool, tool))
            if issubclass(tool, Tool) and tool.run is Tool.run:
                raise FunctionError(f"{tool.__name__} does nothing: define run(self, task).")
        return made

    def schema(self, max_text: int) -> dict[str, Any]:
        """Build the JSON schema of one call: `{"name": {arguments}}`.

        Args:
            max_text: character limit of a text.
        """
        return {"anyOf": [_object({one.name: _arguments(one, max_text)}) for one in self.functions()]}

    def described(self) -> str:
        """Return the description of the tools for a prompt, one line each."""
        return "\n".join(described(self.functions())[1:])

    def read(self, text: str, prompt: str = "", *, decisive: str = "") -> tuple[BaseModel | None, str]:
        """Return the last call in a reply, or None and the error.

        Args:
            text: the reply.
            prompt: the prompt, whose copied parts are not read as calls.
            decisive: a tool whose call takes precedence at any position in the reply.
        """
        calls = calls_in(text, self.functions(), prompt)
        if not calls:
            return None, f"the reply calls none of {', '.join(self.names)}"
        found = next((one for one in reversed(calls) if one.function.name == decisive), calls[-1])
        try:
            return self._tools[found.function.name].model_validate(found.arguments), ""
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            return None, f"{found.function.name} was called with wrong arguments ({wrong})"


def name_of(tool: type[BaseModel] | BaseModel) -> str:
    """Return a tool's name: the action's name, or the class's name in snake case."""
    action = (tool if isinstance(tool, type) else type(tool)).model_fields.get("action")
    kind = tool if isinstance(tool, type) else type(tool)
    return str(action.default) if action else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def _arguments(function: Function, max_text: int) -> dict[str, Any]:
    fields = {}
    for name, schema in function.schema.get("properties", {}).items():
        kept = {key: value for key, value in schema.items() if key not in ("title", "default")}
        if kept.get("type") == "string" and "enum" not in kept:
            kept.setdefault("maxLength", max_text)
        fields[name] = kept
    return _object(fields)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
