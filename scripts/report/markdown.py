"""Markdown that says what was meant: texts from episodes can neither break a table nor become HTML or links."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 240
"""Characters of a text from an episode; report.json has all of them."""

_SPECIAL = re.compile(r"([\\`*_\[\]|~<>&@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""What starts markup inside a line; GitHub makes links of bare addresses, too."""


def plain(value: object, most: int = LONGEST) -> str:
    """A text on one line with everything escaped that Markdown would read otherwise."""
    words = " ".join(str(value).split())
    return _SPECIAL.sub(r"\\\1", words if len(words) <= most else words[: most - 1] + "…")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    rule = ["---", *("---:" for _ in heads[1:])]
    return ["", *(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)), ""]
