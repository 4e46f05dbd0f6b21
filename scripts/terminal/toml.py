"""Plain data as TOML."""

from __future__ import annotations

import json
from typing import Any

from selfsurf.browser_env.text import well_formed


def as_toml(data: dict[str, Any]) -> str:
    """Return a specification as TOML, with one line per criterion."""
    lines = [f"{key} = {toml_value(value)}" for key, value in data.items() if key != "criteria"]
    return "\n".join([*lines, "criteria = [", *(f"    {toml_value(one)}," for one in data["criteria"]), "]"])


def toml_value(value: Any) -> str:
    """Return plain data as a TOML value on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON scalars are valid TOML, except for escaped surrogate pairs and DEL
    text = well_formed(json.dumps(value, ensure_ascii=False))
    return text.replace("\x7f", "\\u007f")  # TOML requires DEL to be escaped
