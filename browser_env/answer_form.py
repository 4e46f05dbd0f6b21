"""The required format of an answer: a JSON schema, a pydantic model, or any other type that pydantic supports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from selfsurf.browser_env.classes import load_class
from selfsurf.browser_env.text import first_line

MOST_REASONS = 3
"""Maximum number of reasons reported for an answer that doesn't fit."""


class AnswerForm:
    """The required format of an answer, which is given as JSON.

    Args:
        schema: a pydantic model or another type that pydantic supports, or a JSON schema as a dictionary.

    Raises:
        ValueError: the schema is malformed, or the type has no JSON schema.
    """

    def __init__(self, schema: Any) -> None:
        self._type: TypeAdapter[Any] | None = None
        self._checker: Any = None
        """Validator for the JSON schema; None if the format is a type."""
        self.schema: dict[str, Any] = {}
        if isinstance(schema, Mapping):
            self.schema = dict(schema)
            self._checker = _checker(self.schema)
            return
        try:
            self._type = TypeAdapter(schema)
            self.schema = self._type.json_schema()
        except PydanticUserError as error:
            raise ValueError(f"{schema!r} can't describe an answer: {first_line(error)}") from None

    @classmethod
    def named(cls, name: str) -> AnswerForm:
        """Return the format defined by a JSON schema file, or by a type `file.py:Model` or `module:Model`.

        Raises:
            ValueError: the file or type can't be loaded.
        """
        if not name.endswith(".json"):
            return cls(load_class(name))
        try:
            schema = json.loads(Path(name).read_text(encoding="utf8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{name} can't be read: {error}") from None
        if not isinstance(schema, dict):
            raise ValueError(f"{name} must contain a JSON schema, which is an object.")
        return cls(schema)

    @property
    def told(self) -> str:
        """Instruction for the agent that describes the format."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"The answer of finish has to be JSON, as a text, that fits this JSON schema: {schema}"

    def read(self, answer: str) -> Any:
        """Return the value of an answer: an instance of the type, or plain data that fits the JSON schema.

        Raises:
            ValueError: the answer doesn't fit; the message gives the reasons.
        """
        first = None
        for value in self._values(answer):
            try:
                return self._checked(value)
            except ValueError as error:
                first = first or error
        assert first is not None
        raise first

    def plain(self, answer: str) -> Any:
        """Return the value of an answer as plain data."""
        value = self.read(answer)
        return value if self._type is None else self._type.dump_python(value, mode="json")

    def _values(self, answer: str) -> Iterator[Any]:
        """Yield possible values of an answer: its JSON or text, then that value as the field of a one-field object."""
        text = answer.strip().removeprefix("```json").strip("`").strip()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = answer
        yield value
        if self.schema.get("type") == "object" and len(fields := self.schema.get("properties", {})) == 1:
            yield {next(iter(fields)): value}

    def _checked(self, value: Any) -> Any:
        wrong: list[tuple[Any, str]]
        if self._type is None:
            wrong = [(error.absolute_path, error.message) for error in self._checker.iter_errors(value)]
        else:
            try:
                return self._type.validate_json(json.dumps(value))
            except ValidationError as error:
                wrong = [(item["loc"], item["msg"]) for item in error.errors()]
        if wrong:
            reasons = [f"{'.'.join(map(str, at)) or 'all'}: {why}" for at, why in wrong[:MOST_REASONS]]
            raise ValueError("; ".join(reasons))
        return value


def _checker(schema: dict[str, Any]) -> Any:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"The JSON schema is malformed: {error.message}") from None
    return kind(schema, registry=Registry())  # the empty registry prevents fetching of references
