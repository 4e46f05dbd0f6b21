"""Keyboard actions: type text, press keys and chords."""

from __future__ import annotations

import contextlib

from selfsurf.browser_env.act.browse import NAVIGATION_TIMEOUT, browse
from selfsurf.browser_env.act.mouse import press_at
from selfsurf.browser_env.act.targets import Targets
from selfsurf.browser_env.actions import Action, Back, Click, CloseTab, Forward, NewTab, Press, Reload, Type
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.keys import held_keys, is_modifier, key_chord
from selfsurf.browser_env.session.written import event_of

TYPE_LIMIT = 5000
"""Maximum number of characters of a `type` action; `fill` takes any number."""

MASK_BOUND = 0.1
"""Seconds that an input mask may take to place the caret."""

PAUSE = 60.0
"""Milliseconds between keys in fields of one character each, many of which move the focus on by a timer."""

_OF_THE_BROWSER: dict[str, Action] = {
    **dict.fromkeys(("F5", "Control+F5", "Shift+F5", "Control+r", "Meta+r", "Control+Shift+R"), Reload()),
    **dict.fromkeys(("Alt+ArrowLeft", "Meta+["), Back()),
    **dict.fromkeys(("Alt+ArrowRight", "Meta+]"), Forward()),
    "Control+t": NewTab(), "Meta+t": NewTab(), "Control+w": CloseTab(), "Meta+w": CloseTab(),
}  # fmt: skip
"""Keys that a browser with a window handles unless the page does, with the equivalent actions."""


async def type_text(targets: Targets, action: Type, at_once: bool = False) -> str:
    """Type at the end of an element's text, by default the focused one: key by key, or by lines with `at_once`."""
    if not action.text:
        raise ActionError("There is no text to type; fill with an empty text clears a field.")
    if len(action.text) > TYPE_LIMIT:
        raise ActionError(f"At most {TYPE_LIMIT} characters can be typed key by key; use fill for more.")
    id = await targets.resolve(action.id, action.selector)
    parts = False
    if id is None:
        targets.note_focused()
        asked = {"text": action.text, "number": targets.session.aim()}
        if "nothing" in await targets.call(targets.tab.main, "prepareFocused", **asked):
            targets.session.note("nothing has the focus: the keys went to the page")
    else:
        ready = await targets.ask("prepareType", id, text=action.text, number=targets.session.aim())
        if ready.get("how") == "done":
            if event := event_of(id, ready):
                targets.session.note(event)
            return "dom"
        parts = ready["parts"]
        if not ready["focused"]:
            where = await targets.clear_way(id)
            if "covered" not in where:
                await press_at(targets, (where["x"], where["y"]), Click(id=id))
            number = targets.session.aim()  # a missed click doesn't matter: the element takes the focus
            taking = {"take": True, "text": action.text, "number": number, "was": "" if ready["blank"] else None}
            if (await targets.ask("prepareType", id, **taking)).get("masked"):
                await targets.world(id).call("settle", frames=2, bound=MASK_BOUND * 1000)
                await targets.ask("prepareType", id, **taking, again=True)
    await _write(targets, action.text, at_once, PAUSE if parts else 0)
    return "keyboard"


async def _write(targets: Targets, text: str, at_once: bool, pause: float) -> None:
    keyboard = targets.tab.page.keyboard
    if not at_once and not (pause and targets.tab.time):
        await keyboard.type(text, delay=pause)
        return
    if not at_once:
        for character in text:
            await keyboard.type(character)
            await targets.tab.pass_by(pause)
        return
    for number, line in enumerate(text.split("\n")):
        if number:
            await keyboard.press("Enter")
        if line:
            await keyboard.insert_text(line)


async def press(targets: Targets, action: Press) -> str:
    """Press a key or chord at an element, by default the focused one. No key stays pressed, even after an error."""
    id = await targets.resolve(action.id, action.selector)
    if id is None:
        targets.note_focused()
    elif not (await targets.ask("focus", id))["focused"]:
        where = await targets.clear_way(id)
        if "covered" in where:
            raise ActionError(f"Element {id} is covered by {where['covered']}, so it can't take keys.", "blocked")
        await press_at(targets, (where["x"], where["y"]), Click(id=id))
        await targets.check_press(id)
        answer = await targets.ask("focus", id, clicked=True)
        if not answer["focused"] and "elsewhere" in answer:
            raise ActionError(f"The page moved the focus to {answer['elsewhere']}: the key was not pressed.", "blocked")
    browsers = _OF_THE_BROWSER.get(key_chord(action.key))
    if browsers is not None:
        await targets.tab.call("hearKey")
    await press_chord(targets, action.key)
    if browsers is not None and not await targets.tab.call("keptKey"):
        await browse(targets.session, browsers, NAVIGATION_TIMEOUT)
    return "keyboard"


async def press_chord(targets: Targets, key: str) -> None:
    """Press a key or chord.

    Raises:
        ActionError: there is no such key or chord.
    """
    from playwright.async_api import Error

    chord = key_chord(key)
    held = held_keys(chord)
    keyboard = targets.tab.page.keyboard
    if not all(map(is_modifier, held)):
        raise ActionError(
            f"{key!r} is not a chord: only Control, Alt, Shift and Meta can be held; press other keys one by one."
        )
    try:
        await keyboard.press(chord)
    except Error as error:
        for one in held:
            with contextlib.suppress(Error):  # the page may be gone, and with it the pressed keys
                await keyboard.up(one)
        if "Unknown key" not in str(error):
            raise
        if len(key) > 1:
            raise ActionError(f"There is no key {key!r}; keys are Enter, Tab, a, Control+a, ...") from None
        await keyboard.insert_text(key)
