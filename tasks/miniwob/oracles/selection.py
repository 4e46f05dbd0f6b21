"""Oracles of tasks that select or scroll text."""

from __future__ import annotations

import json

from selfsurf.browser_env import Action, Click, Observation, Scroll
from selfsurf.tasks.miniwob.oracles.base import elements, last_done, oracle, submit, text_lines
from selfsurf.tasks.miniwob.oracles.texts import ordinal

FAR = 10_000
"""Scroll distance in pixels, larger than the height of any text in these tasks."""


def marked_text(obs: Observation) -> str:
    """Return the text selected in the page; empty if there is none."""
    lines = text_lines(obs, 'marked text: (".*")')
    return str(json.loads(lines[0][1])) if lines else ""


@oracle("highlight-text", "highlight-text-2")
def highlight_text(obs: Observation) -> Action | None:
    """Select a whole paragraph with a triple click, then submit."""
    number = ordinal(obs["goal"])
    texts = [line for line in obs["page_text"].splitlines()[1:] if line != "Submit"]
    text = "".join(texts[number - 1 : number])
    if marked_text(obs) == text:
        return submit(obs, f'The paragraph "{text}" is marked, so Submit comes next.')
    return Click(selector=f"text={text}", count=3, reason=f'A triple click marks the whole paragraph "{text}".')


@oracle("scroll-text-2")
def scroll_text_2(obs: Observation) -> Action | None:
    """Scroll the text area to its top or bottom, then submit."""
    end = "top" if "to the top" in obs["goal"] else "bottom"
    area = elements(obs, "textbox")
    if not area:
        return None
    reason = f"The text area must be at its {end}, and so many pixels are more than it can scroll."
    far = Scroll(id=area[0]["id"], dy=-FAR if end == "top" else FAR, reason=reason)
    if last_done(obs) == far.to_dict():
        return submit(obs, f"The text area is at its {end} now, so Submit comes next.")
    return far
