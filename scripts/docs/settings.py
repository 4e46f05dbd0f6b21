"""Reference page of the training settings, generated from the docstrings of their fields."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from selfsurf.sdft.settings import TrainSettings

OPENING = """# Training settings

Generated from `sdft.settings.TrainSettings` by `python -m selfsurf.scripts.docs`. Change a setting with
`selfsurf train --set name=value`, or with `TrainSettings(name=value)` in Python. [learning.md](../learning.md) explains
the defaults.

| setting | default | what |
| --- | --- | --- |
"""


def reference() -> str:
    """Return the reference page as Markdown."""
    rows = (f"| `{name}` | `{default}` | {what} |\n" for name, default, what in _rows(TrainSettings, ""))
    return OPENING + "".join(rows)


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and description of each setting; nested settings have full names such as `group.name`."""
    for name, field in model.model_fields.items():
        if prefix == "" and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _rows(field.annotation, f"{name}.")
        else:
            yield f"{prefix}{name}", _default(field), " ".join((field.description or "").split()).replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    return json.dumps(value, default=lambda one: one.model_dump(exclude_defaults=True) or one.model_dump())
