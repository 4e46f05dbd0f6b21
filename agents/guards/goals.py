"""What guards read from a goal."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)")
_ASKED = re.compile(
    r"\?(?:\s|$)"
    r"|^\W*(?:what|which|who|whom|whose|when|where|why|how (?:many|much|long|old|far|often|big|tall|high))\b"
    r"|\b(?:tell me|let me know|report back|give me the (?:name|number|price|date|answer))\b",
    re.IGNORECASE,
)


def quoted(goal: str) -> list[str]:
    """The texts in quotation marks."""
    return [next(group for group in found if group) for found in _QUOTED.findall(goal)]


def asks(goal: str) -> bool:
    """Does the goal ask a question, to be answered with `finish`? What stands in quotation marks is no question."""
    return bool(_ASKED.search(_QUOTED.sub(" ", goal)))
