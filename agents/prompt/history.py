"""A short history of an episode: the last actions in full, earlier actions by kind and target."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from selfsurf.agents.prompt.tokens import cut

MAX_HISTORY = 5
"""Maximum number of past actions that are listed one by one."""

_MAX_TARGETS = 3
"""Maximum number of targets named for each kind of action."""


def compacted(history: Sequence[str], limit: int | None = None, count: Callable[[str], int] | None = None) -> str:
    """Return the history as one line.

    Up to `MAX_HISTORY` actions are listed as they are. In longer histories, consecutive repetitions are folded
    (`{"scroll":"down"} x3`), and actions before the last `MAX_HISTORY` are only counted:
    `earlier: 7 steps (click x5, fill x2)`.

    Args:
        history: the actions so far as short texts, oldest first, as `agents.llm.memory.describe` writes them.
        limit: maximum number of tokens; None for no limit. To stay below it, long actions are cut, then fewer are
            listed, then none.
        count: number of tokens of a text; required with `limit`.
    """
    if limit is None:
        return next(_versions(history, None))
    if count is None:
        raise ValueError("limit needs count, a function that counts tokens.")
    counter = count
    version = ""
    for version in _versions(history, lambda text: cut(text, limit // 3, counter)):
        if count(version) <= limit:
            return version
    return cut(version, limit, count)


def _versions(history: Sequence[str], shorten: Callable[[str], str] | None) -> Iterator[str]:
    """Yield versions of the history, the longest first."""
    if len(history) <= MAX_HISTORY:
        yield "; ".join(history)
    folded = [(text, len(list(run))) for text, run in groupby(history)]
    for recent in range(MAX_HISTORY, -1, -1):
        start = max(0, len(folded) - recent)
        for targets in (True, False):
            parts = [_earlier(folded[:start], targets=targets)] if start else []
            for text, times in folded[start:]:
                short = (shorten(text) or _kind_and_target(text)[0]) if shorten else text
                parts.append(f"{short} x{times}" if times > 1 else short)
            yield "; ".join(parts)


def _earlier(folded: Sequence[tuple[str, int]], *, targets: bool) -> str:
    kinds: Counter[str] = Counter()
    named: dict[str, Counter[str]] = {}
    for text, times in folded:
        kind, target = _kind_and_target(text)
        kinds[kind] += times
        if target:
            named.setdefault(kind, Counter())[target] += times
    parts = []
    for kind, times in kinds.most_common():
        often = [item for item in named.get(kind, Counter()).most_common(_MAX_TARGETS) if item[1] > 1]
        where = ": " + ", ".join(f"{target} x{number}" for target, number in often) if targets and often else ""
        parts.append(f"{kind} x{times}{where}")
    steps = sum(kinds.values())
    return f"earlier: {steps} step{'s' * (steps != 1)} ({'; '.join(parts) if targets else ', '.join(parts)})"


def _kind_and_target(text: str) -> tuple[str, str]:
    """Split `{"click":4} link "Eget"` into click and `link "Eget"`; other texts are returned as the kind."""
    try:
        data, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return text, ""
    if not isinstance(data, dict) or not data:
        return text, ""
    kind = data.get("action", next(iter(data)))
    return str(kind), text[end:].strip()
