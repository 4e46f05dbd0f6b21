"""Text that can be written down: halves of characters, which pages and agents can make, are replaced."""

from __future__ import annotations

import re

_LONE = re.compile(r"(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)


def well_formed(text: str) -> str:
    """Return a text with lone surrogates, which no encoding can hold, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def well_formed_json(text: str) -> str:
    """Return JSON text of JavaScript's with lone surrogates replaced: it escapes exactly these."""
    return _LONE.sub("\\1\ufffd", text) if "\\ud" in text else text
