"""Oracles of tasks with texts: reading, copying, transforming, and finding a word."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Fill, Observation
from selfsurf.tasks.miniwob.oracles.base import (
    Notes,
    elements,
    fill_then_submit,
    line_near,
    oracle,
    quoted,
    said,
    submit,
    text_lines,
)


def ordinal(goal: str) -> int:
    """Return the first ordinal number in a goal, such as 1 for 1st or 12 for 12th; 1 if there is none."""
    match = re.search(r"\b(\d+)(st|nd|rd|th)\b", goal)
    return int(match.group(1)) if match else 1


@oracle("enter-text-2")
def enter_text_2(obs: Observation) -> Action | None:
    """Fill in the text, in upper or lower case as requested, then submit."""
    given, upper = quoted(obs["goal"])[0], "upper case" in obs["goal"]
    text = given.upper() if upper else given.lower()
    why = f'The goal wants "{given}" in all {"upper" if upper else "lower"} case letters, that is "{text}".'
    return fill_then_submit(obs, elements(obs, "textbox"), text, why)


@oracle("text-transform")
def text_transform(obs: Observation) -> Action | None:
    """Copy the text above the field into the field, then submit."""
    field = elements(obs, "textbox")
    text = line_near(obs, field[0], -1) if field else ""
    return fill_then_submit(obs, field, text, f'The text above the field is "{text}".')


@oracle("copy-paste", "copy-paste-2")
def copy_paste(obs: Observation, notes: Notes) -> Action | None:
    """Copy the text area's initial text into the text field, then submit."""
    fields = elements(obs, "textbox")
    number = ordinal(obs["goal"])
    text = notes.setdefault("texts", [e["value"] for e in fields if e["tag"] == "textarea"])[number - 1]
    target = [e for e in fields if e["tag"] == "input"]
    return fill_then_submit(obs, target, text, f'Text area number {number}, which is to be copied, holds "{text}".')


@oracle("find-word")
def find_word(obs: Observation) -> Action | None:
    """Fill in the word with the given number, without punctuation, then submit."""
    field = elements(obs, "textbox")
    number = ordinal(obs["goal"])
    words = line_near(obs, field[0], -1).split() if field else []
    word = "".join(words[number - 1 : number]).strip(".,")
    return fill_then_submit(obs, field, word, f'Word number {number} of the paragraph is "{word}".')


@oracle("scroll-text")
def scroll_text(obs: Observation, notes: Notes) -> Action | None:
    """Fill in the last word of the text area's initial text, without punctuation, then submit."""
    fields = elements(obs, "textbox")
    words = notes.setdefault("text", next(e["value"] for e in fields if e["tag"] == "textarea")).split()
    word = words[-1].strip(".,") if words else ""
    target = [e for e in fields if e["tag"] == "input"]
    return fill_then_submit(obs, target, word, f'The last word in the text area is "{word}".')


def _table(obs: Observation) -> dict[str, str]:
    """Return a two-column table as a mapping from the first column to the second."""
    cells = [match[1] for match in text_lines(obs, "cell: (.*)")]
    return dict(zip(cells[::2], cells[1::2], strict=False))


@oracle("read-table")
def read_table(obs: Observation) -> Action | None:
    """Fill in the value from the table, then submit."""
    key = said(obs, r"^Enter the value of (.*) into the text field")
    value = _table(obs).get(key, "")
    return fill_then_submit(obs, elements(obs, "textbox"), value, f'In the table, the value of {key} is "{value}".')


@oracle("read-table-2")
def read_table_2(obs: Observation) -> Action | None:
    """Fill in the table's value for the label of each field, then submit."""
    table = _table(obs)
    for field in elements(obs, "textbox"):
        label = line_near(obs, field, -1).rstrip(":")
        value = table.get(label, "")
        if field["value"] != value:
            reason = f'The field is labelled "{label}", for which the table has "{value}".'
            return Fill(id=field["id"], text=value, reason=reason)
    return submit(obs, "Each field holds its value from the table, so Submit comes next.")
