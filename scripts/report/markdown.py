"""Markdown with escaped texts, so that text from episodes can't break a table or become HTML or a link."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 240
"""Maximum number of characters shown of a text from an episode; report.json has the whole text."""

_SPECIAL = re.compile(r"([\\`*_\[\]|~<>&@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""Pattern of characters that start inline markup, including bare addresses, which GitHub links."""


def plain(value: object, most: int = LONGEST) -> str:
    """Return a text on one line with all Markdown escaped."""
    words = " ".join(str(value).split())
    return _SPECIAL.sub(r"\\\1", words if len(words) <= most else words[: most - 1] + "…")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table with the first column left-aligned and the others right-aligned."""
    rule = ["---", *("---:" for _ in heads[1:])]
    return ["", *(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)), ""]
