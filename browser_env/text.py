"""Small helpers for text: what no encoding can hold is replaced, what is long is cut."""

from __future__ import annotations

import re

_LONE = re.compile(r"(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)


def well_formed(text: str) -> str:
    """Return a text with lone surrogates, which no encoding can hold, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def well_formed_json(text: str) -> str:
    """Return JSON text from JavaScript with lone surrogates, which it escapes, replaced by U+FFFD."""
    return _LONE.sub("\\1\ufffd", text) if "\\ud" in text else text


def first_line(error: object) -> str:
    """Return the first line of an error's message; its class where it has none."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def clip(text: str, limit: int) -> str:
    """Return a text cut to at most `limit` characters, with `…` at the cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int = 200) -> str:
    """Return a text on one line, with single blanks, cut to `limit` characters."""
    return clip(" ".join(text.split()), limit)
