"""Text helpers: lone surrogates are replaced, hidden characters are escaped, long texts are cut."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

_LONE = re.compile(r"(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)

_BEFORE = "\u00a1-\u00ac\u00ae-\u034e\u0350-\u1fff\u2030-\u205e\u2070-\ufdff"
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f\x85\x9b\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    f"|(?<![{_BEFORE}\ufe0e-\U000dffff])[\u034f\u200c\u200d]"
    f"|(?<![#*0-9{_BEFORE}\ufe10-\U000dffff])[\ufe00-\ufe0f]"
    "|(?<![A-Za-z\u00c0-\u024f])\u00ad|\u00ad(?![A-Za-z\u00c0-\u024f])"
)
"""Pattern of characters that reverse text, draw nothing, or are controls, as in `page/written.js`. Joiners and
selectors behind a letter or an emoji, soft hyphens between letters, and most C1 controls (from a wrong encoding) don't
match."""


def visible(text: str) -> str:
    r"""Return a text with its invisible and direction-changing characters as escapes such as `\u202e`."""
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Return a text with `visible` applied to each line."""
    return "\n".join(map(visible, text.splitlines()))


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def well_formed(text: str) -> str:
    """Return a text with lone surrogates, which no encoding can hold, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def well_formed_json(text: str) -> str:
    """Return JSON text from JavaScript with its escaped lone surrogates replaced by U+FFFD."""
    return _LONE.sub("\\1\ufffd", text) if "\\ud" in text else text


def first_line(error: object) -> str:
    """Return the first line of an error's message, or the error's class name if the message is empty."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def clip(text: str, limit: int) -> str:
    """Return a text cut to at most `limit` characters, with `…` at the cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int = 200) -> str:
    """Return a text on one line, with single spaces, cut to `limit` characters."""
    return clip(" ".join(text.split()), limit)


def action_text(raw: Any) -> str:
    """Return an action in any form as text, cut after 1,000 characters."""
    if isinstance(raw, str):
        return well_formed(raw[:1000])
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        return well_formed(str(raw.to_json() if hasattr(raw, "to_json") else json.dumps(raw))[:1000])
    with contextlib.suppress(ValueError, RecursionError):
        return well_formed(repr(raw)[:1000])
    return f"an action of type {type(raw).__name__} that can't be shown"
