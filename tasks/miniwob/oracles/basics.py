"""Oracles of tasks with buttons, links, tabs, checkboxes, lists and simple forms."""

from __future__ import annotations

from selfsurf.browser_env import Action, Click, Observation, Select
from selfsurf.tasks.miniwob.oracles.base import click, elements, fill_then_press, oracle, quoted, said, same, submit


@oracle("click-button", "unicode-test")
def click_button(obs: Observation) -> Action | None:
    """Click the named button."""
    name = quoted(obs["goal"])[0]
    return click(elements(obs, "button", name), f'The goal names the button "{name}".')


@oracle("click-test", "click-test-2", "click-test-transfer")
def click_test(obs: Observation) -> Action | None:
    """Click the only button, or the one called ONE."""
    return click(elements(obs, "button", "ONE") or elements(obs, "button"), "This is the button that the goal means.")


@oracle("click-link")
def click_link(obs: Observation) -> Action | None:
    """Click the link with the quoted text."""
    name = quoted(obs["goal"])[0]
    return click(elements(obs, name=name), f'The goal names the link "{name}".')


@oracle("click-dialog")
def click_dialog(obs: Observation) -> Action | None:
    """Close the dialog with its x."""
    return click(elements(obs, "button", "Close"), "The x of a dialog is its Close button.")


@oracle("click-dialog-2")
def click_dialog_2(obs: Observation) -> Action | None:
    """Press the quoted button of the dialog, whose x is named Close."""
    name = quoted(obs["goal"])[0]
    name = "Close" if name == "x" else name
    return click(elements(obs, "button", name), f'The goal asks for "{name}" in the dialog.')


@oracle("click-tab")
def click_tab(obs: Observation) -> Action | None:
    """Click the numbered tab's link."""
    name = said(obs, r"(Tab #\d+)")
    return click(elements(obs, "link", name), f'The goal names "{name}".')


@oracle("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
def click_tab_2(obs: Observation) -> Action | None:
    """Click the link if it is on the open tab; otherwise open the next tab, in a cycle."""
    name = quoted(obs["goal"])[0]
    target = [e for e in elements(obs, "generic") if e["name"] == name and "covered" not in e["states"]]
    if target:
        return click(target, f'The link "{name}" is on this tab.')
    tabs = elements(obs, "tab")
    selected = next((i for i, tab in enumerate(tabs) if "selected" in tab["states"]), -1)
    following = tabs[(selected + 1) % len(tabs)] if tabs else None
    links = elements(obs, "link", following["name"]) if following else []
    return click(links, f'The link "{name}" is not on this tab, so the next tab is worth a look.')


@oracle("click-option")
def click_option(obs: Observation) -> Action | None:
    """Choose the radio button, then submit."""
    name = said(obs, r"^Select (.*) and click Submit")
    wanted = elements(obs, "radio", name)
    if wanted and "checked" not in wanted[0]["states"]:
        return click(wanted, f'"{name}" must be selected first.')
    return submit(obs, f'"{name}" is selected, so Submit comes next.')


@oracle("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer")
def click_checkboxes(obs: Observation) -> Action | None:
    """Tick the named boxes and no others, then submit."""
    listed = said(obs, r"^Select (.*) and click Submit")
    wanted = set() if listed == "nothing" else {name.strip() for name in listed.split(",")}
    for box in elements(obs, "checkbox"):
        should = box["name"] in wanted
        if should != ("checked" in box["states"]):
            verb = "must be ticked" if should else "must not be ticked"
            return Click(id=box["id"], reason=f'"{box["name"]}" {verb}.')
    return submit(obs, "All boxes are as the goal wants them, so Submit comes next.")


@oracle("enter-text", "enter-text-dynamic")
def enter_text(obs: Observation) -> Action | None:
    """Fill in the text, then submit."""
    return fill_then_press(obs, quoted(obs["goal"])[:1], "Submit")


@oracle("enter-password")
def enter_password(obs: Observation) -> Action | None:
    """Fill the password into both fields, then submit."""
    return fill_then_press(obs, quoted(obs["goal"])[:1] * 2, "Submit")


@oracle("login-user")
def login_user(obs: Observation) -> Action | None:
    """Fill in user name and password, then log in."""
    return fill_then_press(obs, quoted(obs["goal"])[:2], "Login")


@oracle("focus-text")
def focus_text(obs: Observation) -> Action | None:
    """Click into the only text field."""
    return click(elements(obs, "textbox"), "A click puts the focus into the text field.")


@oracle("focus-text-2")
def focus_text_2(obs: Observation) -> Action | None:
    """Click into the text field with the given number."""
    number = int(said(obs, r"(\d+)(?:st|nd|rd|th)", "1"))
    return click(elements(obs, "textbox")[number - 1 : number], f"This is text field number {number}.")


@oracle("choose-list")
def choose_list(obs: Observation) -> Action | None:
    """Choose the option, then submit."""
    name = said(obs, r"^Select (.*) from the list and click Submit")
    for box in elements(obs, "combobox"):
        if not same(box["value"], name):
            return Select(id=box["id"], options=(name,), reason=f'"{name}" must be chosen in the list first.')
    return submit(obs, f'"{name}" is chosen, so Submit comes next.')


@oracle("click-widget")
def click_widget(obs: Observation) -> Action | None:
    """Click any widget of the quoted kind."""
    kind = quoted(obs["goal"])[0]
    if kind in ("text", "textarea"):
        tag = "input" if kind == "text" else "textarea"
        found = [e for e in elements(obs, "textbox") if e["tag"] == tag]
    else:
        found = elements(obs, kind)
    return click(found, f'This is a "{kind}" widget.')


@oracle("click-button-sequence")
def click_button_sequence(obs: Observation) -> Action | None:
    """Click ONE, then TWO. The focus shows which button was clicked last."""
    one = elements(obs, "button", "ONE")
    if one and "focused" in one[0]["states"]:
        return click(elements(obs, "button", "TWO"), "ONE is clicked, so TWO comes next.")
    return click(one, "ONE comes first.")


@oracle("click-collapsible", "click-collapsible-nodelay")
def click_collapsible(obs: Observation) -> Action | None:
    """Expand the section, then submit."""
    section = elements(obs, "tab")
    if section and "expanded" not in section[0]["states"]:
        return click(section, "The section must be expanded first.")
    return submit(obs, "The section is expanded, so Submit comes next.")
