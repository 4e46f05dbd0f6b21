"""Oracles of forms behind an obstacle: a popup, or an agreement that has to be scrolled."""

from __future__ import annotations

from selfsurf.browser_env import Action, Fill, Observation, Scroll
from selfsurf.tasks.miniwob.oracles.base import click, elements, fill_then_press, oracle, quoted


@oracle("login-user-popup")
def login_user_popup(obs: Observation) -> Action | None:
    """Dismiss a popup that would leave the page, then fill in user name and password and log in."""
    if cancel := elements(obs, "button", "Cancel"):
        return click(cancel, "A popup asks whether to leave the page, which is not wanted, so it is cancelled.")
    return fill_then_press(obs, quoted(obs["goal"])[:2], "OK")


@oracle("sign-agreement")
def sign_agreement(obs: Observation) -> Action | None:
    """Scroll the agreement to its end, which enables the form, sign it and press the button; or just cancel."""
    if obs["goal"].startswith("Click the cancel button"):
        return click(elements(obs, "button", "Cancel"), "The goal only asks to cancel.")
    name, button = quoted(obs["goal"])
    agreement = [e for e in elements(obs, "textbox") if e["tag"] == "textarea"]
    field = elements(obs, "textbox", "Name")
    if agreement and field and "disabled" in field[0]["states"]:
        why = "The name can be entered once the agreement has been scrolled to its end."
        return Scroll(id=agreement[0]["id"], dy=10_000, reason=why)
    if field and field[0]["value"] != name:
        return Fill(id=field[0]["id"], text=name, reason=f'The agreement is to be signed with "{name}".')
    return click(elements(obs, "button", button), f'It is signed with "{name}", so "{button}" comes next.')
