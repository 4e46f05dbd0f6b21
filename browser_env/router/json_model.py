"""Conversion of a JSON schema, written by a language model, into a pydantic model for extracted data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

_PLAIN = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
_DEEPEST = 8


def model_of(schema: Any, name: str = "Extracted") -> type[BaseModel]:
    """Return a pydantic model for a JSON schema with properties, nested objects, lists and enumerations.

    Raises:
        ValueError: the schema does not describe an object, or uses other features.
    """
    return _model(schema, name, 0)


def _model(schema: Any, name: str, depth: int) -> type[BaseModel]:
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise ValueError('a schema must describe an object, such as {"type": "object", "properties": {...}}.')
    properties = schema.get("properties") or {}
    if not properties or not isinstance(properties, Mapping):
        raise ValueError("a schema must name the properties to read.")
    required = schema.get("required", list(properties))
    fields: dict[str, Any] = {}
    for key, each in properties.items():
        kind = _type(each, key, depth + 1)
        told = {"description": each.get("description"), "alias": key}
        fields[f"field_{len(fields)}"] = (
            (kind, Field(**told)) if key in required else (kind | None, Field(default=None, **told))
        )
    config = ConfigDict(populate_by_name=False, serialize_by_alias=True)
    return create_model(name, __config__=config, **fields)


def _type(schema: Any, name: str, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        raise ValueError(f"{name}: this is not a schema, or is nested too deeply.")
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        union = None
        for each in kind:
            part = _type({**schema, "type": each}, name, depth)
            union = part if union is None else union | part
        return union
    if kind == "object":
        return _model(schema, name.title() or "Part", depth)
    if kind == "array":
        return list[_type(schema.get("items", {}), name, depth + 1)]  # type: ignore[misc]
    if kind not in _PLAIN:
        raise ValueError(f"{name}: there is no type {kind!r}; the types are {', '.join(_PLAIN)}, object and array.")
    return _PLAIN[kind]
