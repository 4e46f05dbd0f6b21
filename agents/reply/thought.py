"""The thought that a model writes around the action in its reply."""

from __future__ import annotations

import re

from selfsurf.agents.reply.reading.loose_json import objects
from selfsurf.agents.reply.reading.prose import without_thinking

_LABEL = re.compile(r"(?i)(?:```(?:json)?|<\w+>|[*_#\s]*(?:next |my )?action[*_\s]*:?[*_]*)\s*$")
_KEYS = ("thought", "thoughts", "reasoning", "reason")


def thought_in(text: str) -> str:
    """Return the `thought` of a JSON reply, or the words before the JSON; empty if there are none.

    Thinking in tags (`<think>`) is not part of the thought.
    """
    text, _ = without_thinking(text)
    found = objects(text)
    if not found:
        return ""
    for one in found:
        for key in _KEYS:
            if isinstance(one.data.get(key), str):
                return str(one.data[key]).strip()
    return _LABEL.sub("", text[: found[0].start].rstrip()).strip()
