"""Tools: pydantic models whose fields a model fills in, and the registry from which each role takes its own.

The environment's actions are such tools; `Tool` is one that does something to the task instead. Knows no model.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from selfsurf.agents.functions import Function, FunctionError, calls_in, described
from selfsurf.agents.roles.task import RoleTask


class Tool(BaseModel):
    """A tool of a role. The class's name in snake case, its docstring and its fields are what the model is told."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if inspect.iscoroutinefunction(cls.run):
            raise TypeError(f"{cls.__name__}.run is awaited by nobody: make it a plain function.")

    def run(self, task: RoleTask) -> str:
        """Do what the tool does to the task, and return what came of it."""
        raise NotImplementedError


class MarkComplete(Tool):
    """Say that the task is complete. The verifier is asked before it counts."""

    answer: str = Field(default="", description="the whole answer to the user")
    reason: str = ""

    def run(self, task: RoleTask) -> str:
        """The executor asks the verifier."""
        return self.reason


class ToolRegistry:
    """The tools of a role, by name.

    Args:
        tools: classes of `Tool`, or of the environment's actions.

    Raises:
        ValueError: two have the same name.
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
        """The names of all, in their order."""
        return tuple(self._tools)

    def functions(self) -> list[Function]:
        """Return them as functions that a model may call.

        Raises:
            ValueError: one has the name of an action, or fields that are not plain values.
        """
        made = []
        for name, tool in self._tools.items():
            if "$defs" in tool.model_json_schema():
                raise FunctionError(f"The fields of {tool.__name__} are texts, numbers, booleans or lists of them.")
            made.append(Function(name, inspect.getdoc(tool) or "", tool, tool))
            if issubclass(tool, Tool) and tool.run is Tool.run:
                raise FunctionError(f"{tool.__name__} does nothing: give it run(self, task).")
        return made

    def schema(self, max_text: int) -> dict[str, Any]:
        """Build the JSON schema of one call: `{"name": {arguments}}`.

        Args:
            max_text: most characters of a text.
        """
        return {"anyOf": [_object({one.name: _arguments(one, max_text)}) for one in self.functions()]}

    def described(self) -> str:
        """Return what a prompt says of them, a line each."""
        return "\n".join(described(self.functions())[1:])

    def read(self, text: str, prompt: str = "", *, decisive: str = "") -> tuple[BaseModel | None, str]:
        """Return the call in a reply to a prompt, of several the last, or None and why there is none.

        Args:
            text: the reply.
            prompt: what was asked.
            decisive: the tool whose call counts wherever in the reply it is.
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
    """Return a tool's name: an action's own, else its class's in snake case."""
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
