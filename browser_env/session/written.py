"""Words for what the in-page script says of a text that was written into a field."""

from __future__ import annotations

from typing import Any

from selfsurf.browser_env.observe.outline import quote
from selfsurf.browser_env.text import clip

SHOWN = 300
"""Characters of a field's text in an error or an event."""


def objection_to(id: int, answer: dict[str, Any]) -> str:
    """Return what is wrong with a field that was filled; empty if nothing is."""
    if "shown" in answer:
        return f"Element {id} holds another text now: {quote(clip(answer['shown'], SHOWN))}."
    if "objection" in answer:
        return f"Element {id} was filled, but the browser objects: {answer['objection']}"
    return ""


def shortfall_of(id: int, answer: dict[str, Any]) -> str:
    """Return what a field holds that was typed into, if that is not all of it; else empty."""
    if "shown" not in answer:
        return ""
    shown = quote(clip(answer["shown"], SHOWN)) if answer["shown"] else "nothing"
    return f"[{id}] holds {shown} now, not all that was typed"
