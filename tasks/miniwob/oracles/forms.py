"""Oracles of forms with several kinds of fields, fields with suggestions, and a terminal."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Click, Fill, Observation, Press, Select, Type
from selfsurf.tasks.miniwob.oracles.base import (
    Notes,
    click,
    elements,
    fill_then_submit,
    oracle,
    quoted,
    said,
    same,
    submit,
)
from selfsurf.tasks.miniwob.oracles.sliders import set_slider


@oracle("form-sequence-2")
def form_sequence_2(obs: Observation) -> Action | None:
    """Choose the radio button, fill one text field and leave the others empty, then submit."""
    match = re.search(r"the (\d)\w\w radio button .* into the (\d)\w\w textbox", obs["goal"])
    radio, box = (int(number) for number in match.groups()) if match else (1, 1)
    text = quoted(obs["goal"])[0]
    wanted = elements(obs, "radio")[radio - 1 : radio]
    if wanted and "checked" not in wanted[0]["states"]:
        return click(wanted, f"Radio button number {radio} must be checked.")
    for number, field in enumerate(elements(obs, "textbox"), 1):
        value = text if number == box else ""
        if field["value"] != value:
            return Fill(id=field["id"], text=value, reason=f'Textbox number {number} must hold "{value}".')
    return submit(obs, "Radio button and textboxes are as they should be: now Submit.")


@oracle("form-sequence-3")
def form_sequence_3(obs: Observation) -> Action | None:
    """Choose the option of the dropdown, then press the button."""
    option, button = said(obs, r"^Choose (.*) from the dropdown"), quoted(obs["goal"])[0]
    for box in elements(obs, "combobox"):
        if not same(box["value"], option):
            return Select(id=box["id"], options=(option,), reason=f'"{option}" must be chosen from the dropdown first.')
    return click(elements(obs, "button", button), f'"{option}" is chosen, so the button "{button}" comes next.')


@oracle("form-sequence")
def form_sequence(obs: Observation, notes: Notes) -> Action | None:
    """Set the slider, tick the one box, then submit."""
    match = re.match(r"Select (-?\d+) with the slider, click the (\d)", obs["goal"])
    value, box = (int(number) for number in match.groups()) if match else (0, 1)
    if move := set_slider(obs, notes, [value]):
        return move
    for number, element in enumerate(elements(obs, "checkbox"), 1):
        if (number == box) != ("checked" in element["states"]):
            verb = "must" if number == box else "must not"
            return Click(id=element["id"], reason=f"Checkbox number {number} {verb} be ticked.")
    return submit(obs, f"The slider is at {value} and box {box} is ticked: now Submit.")


@oracle("use-autocomplete", "use-autocomplete-nodelay")
def use_autocomplete(obs: Observation, notes: Notes) -> Action | None:
    """Type the given beginning, choose a suggestion with the right ending, then submit."""
    beginning, end = (*quoted(obs["goal"]), "")[:2]
    suggested = {item["name"]: item for item in elements(obs, "listitem")}
    fitting = [name for name in suggested if name.startswith(beginning) and name.endswith(end)]
    known = notes.setdefault("items", set())
    known.update(fitting)
    field = elements(obs, "textbox")
    if field and field[0]["value"] in known:
        return fill_then_submit(obs, field, field[0]["value"], "")
    asked = f'starts with "{beginning}"' + (f' and ends with "{end}"' if end else "")
    if fitting:
        return click([suggested[fitting[0]]], f'"{fitting[0]}" {asked}, as the goal asks.')
    if not field:
        return None
    reason = f'Typing "{beginning}" brings up the items that start with it.'
    return Fill(id=field[0]["id"], text=beginning, reason=reason)


@oracle("terminal")
def terminal(obs: Observation) -> Action | None:
    """List the files, then remove one with the extension. Typed text appears after the last prompt."""
    extension = said(obs, r"with the extension \.(\S+)$")
    field = elements(obs, "textbox")
    if not field:
        return None
    commands = obs["page_text"].split("user$")
    typed = commands[-1].replace("█", "").strip()
    listed = [re.match(r" *ls *\n(.*)", command) for command in commands[1:-1]]
    command, reason = "ls", "The names of the files are not known yet, and ls lists them."
    if files := next((found.group(1).split() for found in reversed(listed) if found), []):
        name = to_delete(files, extension)
        kind = f"ends with .{extension}" if extension else "has no extension"
        command, reason = f"rm {name}", f'Of the listed files "{name}" {kind}, and rm removes it.'
    if not command.startswith(typed):
        return Press(id=field[0]["id"], key="Backspace", reason=f'"{typed}" is not the beginning of "{command}".')
    return Type(id=field[0]["id"], text=command[len(typed) :] + "\n", reason=reason)


def to_delete(files: list[str], extension: str) -> str:
    """Return a file with the extension. Names such as `py.py`, which the page mishandles, come last."""
    if not extension:
        return next((name for name in files if "." not in name), "")
    fitting = [name for name in files if name.endswith(f".{extension}")]
    return min(fitting, key=lambda name: name.count(extension), default="")
