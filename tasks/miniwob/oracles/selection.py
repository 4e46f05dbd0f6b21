"""Texts to be marked, formatted or scrolled."""

from __future__ import annotations

import json
import re

from browser_env.actions import Action, Click, Press, Scroll, Select, Wait
from browser_env.observation import Observation
from tasks.miniwob.oracles.base import Notes, click, elements, last_done, noting_oracle, oracle
from tasks.miniwob.oracles.texts import ordinal

FAR = 10_000
"""Pixels that are more than any text of these tasks is high."""


KEYS = {"bold": "Control+b", "italics": "Control+i", "underlined": "Control+u"}
"""What an editor's styles are switched on with."""

SWATCHES = {
    "red": "#e60000",
    "orange": "#ff9900",
    "yellow": "yellow",
    "green": "#008a00",
    "blue": "#0066cc",
    "purple": "#9933ff",
}
"""The plain shades of colours in the editor's colour picker."""


def marked_text(obs: Observation) -> str:
    """Return the text that is marked in the page; empty where none is."""
    line = re.search(r'^marked text: (".*")$', obs["dom"], re.MULTILINE)
    return str(json.loads(line.group(1))) if line else ""


@oracle("highlight-text", "highlight-text-2")
def highlight_text(obs: Observation) -> Action | None:
    """Mark a whole paragraph by a triple click, then submit."""
    number = ordinal(obs["goal"])
    texts = [line for line in obs["page_text"].splitlines()[1:] if line != "Submit"]
    text = "".join(texts[number - 1 : number])
    if marked_text(obs) == text:
        return click(elements(obs, "button", "Submit"), f'The paragraph "{text}" is marked, so Submit comes next.')
    return Click(selector=f"text={text}", count=3, reason=f'A triple click marks the whole paragraph "{text}".')


@oracle("scroll-text-2")
def scroll_text_2(obs: Observation) -> Action | None:
    """Scroll the text area as far as it goes, then submit."""
    end = "top" if "to the top" in obs["goal"] else "bottom"
    area = elements(obs, "textbox")
    if not area:
        return None
    reason = f"The text area must be at its {end}, and so many pixels are more than it can scroll."
    far = Scroll(id=area[0]["id"], dy=-FAR if end == "top" else FAR, reason=reason)
    if last_done(obs) == far.to_dict():
        return click(elements(obs, "button", "Submit"), f"The text area is at its {end} now, so Submit comes next.")
    return far


@noting_oracle("text-editor")
def text_editor(obs: Observation, notes: Notes) -> Action | None:
    """Mark the word or the whole text, give it its style or colour, then submit. What style it has is not seen."""
    match = re.search(r"(?:the text (\S+)|everything) the (style|color) (\w+)", obs["goal"])
    editor = elements(obs, "textbox")
    if not match or not editor:
        return None
    word, kind, look = match.groups()
    text = word or editor[0]["value"]
    marked = marked_text(obs)
    if marked:
        notes["marked"] = marked
    swatches = [e for e in elements(obs, "generic") if SWATCHES.get(look) in e["states"]]
    if swatches:
        notes["swatch"] = swatches[0]["id"]
    done = last_done(obs)
    styled = done.get("key") == KEYS[look] if kind == "style" else done.get("id") == notes.get("swatch", -1)
    if styled and notes.get("marked") == text:
        return click(elements(obs, "button", "Submit"), f'"{text}" is {look} now, so Submit comes next.')
    if kind == "color" and swatches and notes.get("marked") == text:
        return click(swatches, f'"{text}" is marked, and {SWATCHES[look]} in the colour picker is {look}.')
    if marked != text:
        reason = f'"{text}" must be marked first, so that it alone becomes {look}.'
        return Select(id=editor[0]["id"], options=(text,), reason=reason)
    if kind == "color" and done.get("action") != "wait":
        return Wait(ms=200, reason="The editor looks at what is marked a tenth of a second later only.")
    if kind == "color":
        return click(elements(obs, "generic"), f'"{text}" is marked, and the colour picker has {look}.')
    return Press(id=editor[0]["id"], key=KEYS[look], reason=f'"{text}" is marked, and {KEYS[look]} makes it {look}.')
