"""The oracle of the text editor task: styles and colors for a word or for the whole text."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Fill, Observation, Press, Select, Wait
from selfsurf.tasks.miniwob.oracles.base import Notes, click, elements, last_done, oracle, submit
from selfsurf.tasks.miniwob.oracles.selection import marked_text

KEYS = {"bold": "Control+b", "italics": "Control+i", "underlined": "Control+u"}
"""Keyboard shortcuts of the editor's styles."""

SWATCHES = {
    "red": "#e60000", "orange": "#ff9900", "yellow": "yellow", "green": "#008a00", "blue": "#0066cc",
    "purple": "#9933ff",
}  # fmt: skip
"""Swatches of the plain shades in the editor's color picker, by color name."""


@oracle("text-editor")
def text_editor(obs: Observation, notes: Notes) -> Action | None:
    """Select the word or the whole text, apply the style or color, then submit.

    The elements don't show the style of a text. After any other action the text is therefore entered anew.
    """
    match = re.search(r"(?:the text (\S+)|everything) the (style|color) (\w+)", obs["goal"])
    editor = elements(obs, "textbox")
    if not match or not editor:
        return None
    word, kind, look = match.groups()
    field, value = editor[0]["id"], editor[0]["value"]
    whole = notes.setdefault("text", value)
    text = word or whole
    marked, done = marked_text(obs), last_done(obs)
    notes["marked"] = marked or notes.get("marked")
    swatches = [e for e in elements(obs, "generic") if SWATCHES.get(look) in e["states"]]
    if swatches:
        notes["swatch"] = swatches[0]["id"]
    styled = done.get("key") == KEYS[look] if kind == "style" else done.get("id") == notes.get("swatch", -1)
    if styled and notes["marked"] == text:
        return submit(obs, f'"{text}" is {look} now, so Submit comes next.')
    before = done.get("action")
    if swatches and notes["marked"] == text and before in ("click", "wait"):
        return click(swatches, f'"{text}" is marked, and {SWATCHES[look]} in the colour picker is {look}.')
    if marked == text and kind == "style" and before == "select":
        return Press(id=field, key=KEYS[look], reason=f'"{text}" is marked, and {KEYS[look]} makes it {look}.')
    if marked == text and before == "select":
        return Wait(ms=200, reason="The editor looks at what is marked a tenth of a second later only.")
    if marked == text and before == "wait":
        return click(elements(obs, "generic"), f'"{text}" is marked, and the colour picker has {look}.')
    if not obs["last_action"] or done.get("text") == whole:
        reason = f'"{text}" must be marked first, so that it alone becomes {look}.'
        return Select(id=field, options=(text,), reason=reason)
    if value:
        return Fill(id=field, text="", reason="What style the text has now is unknown, and an empty editor has none.")
    return Fill(id=field, text=whole, reason=f'The editor is empty, and must hold "{whole}" again.')
