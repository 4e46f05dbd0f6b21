"""Messages about a text written into a field, from the in-page script's report."""

from __future__ import annotations

from typing import Any

from selfsurf.browser_env.outline import quote
from selfsurf.browser_env.text import clip

SHOWN = 300
"""Maximum characters of a field's text in an error or an event."""


def objection_to(id: int, answer: dict[str, Any]) -> str:
    """Return the error about a field that was written to; empty for no error, or if `event_of` reports it."""
    if "strayed" in answer:
        rest = "the rest of the text was not typed" if answer.get("way") == "type" else "nothing was typed"
        return f"The page moved the focus from element {id} to {answer['strayed']}; {rest}."
    if "shown" in answer and answer.get("way") != "type":
        hint = " If it takes keys only, use type." if answer.get("ignored") else ""
        return f"Element {id} holds another text now: {quote(clip(answer['shown'], SHOWN))}.{hint}"
    if "objection" in answer:
        return f"Element {id} was filled, but the browser objects: {answer['objection']}"
    return ""


def event_of(id: int, answer: dict[str, Any]) -> str:
    """Return the event about a field that was written to or set; empty if there is nothing to report."""
    if "gone" in answer:
        return f"[{id}] is gone since it was written to"
    if "cleared" in answer:
        return f"[{id}] was filled and is empty now"
    if "reverted" in answer:
        return f"[{id}] was set, and the page made it {_shown(answer['reverted'])}"
    if "changed" in answer:
        return f"[{id}] holds {_shown(answer['changed'])} now"
    if answer.get("way") == "type" and "shown" in answer:
        moved = f"; the focus is on {answer['focus']}" if "focus" in answer else ""
        return f"[{id}] holds {_shown(answer['shown'])} now, not all that was typed{moved}"
    return ""


def _shown(text: str) -> str:
    return quote(clip(text, SHOWN)) if text else "nothing"
