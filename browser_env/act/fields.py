"""Actions on form fields and editors: fill, select, upload."""

from __future__ import annotations

import re

from selfsurf.browser_env.act.keyboard import press_chord
from selfsurf.browser_env.act.mouse import click
from selfsurf.browser_env.act.refusals import refused
from selfsurf.browser_env.act.targets import Targets
from selfsurf.browser_env.actions import Click, Fill, Select, Upload
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.safety.files import uploadable

CHOOSER_BOUND = 2.0
"""Seconds for a file chooser to open after the click."""

_TRUE = frozenset({"true", "on", "yes", "1", "checked", "check"})
_FALSE = frozenset({"false", "off", "no", "0", "unchecked", "uncheck", ""})


async def fill(targets: Targets, action: Fill) -> str:
    """Replace a field's value; return how: `keyboard`, `dom` or `mouse`."""
    id = await _target(targets, action)
    ready = await targets.ask("prepareFill", id, text=action.text)
    keyboard = targets.tab.page.keyboard
    match ready["how"]:
        case "done":
            return "dom"
        case "option":
            return await select(targets, Select(id=id, options=(action.text,)))
        case "check":
            return await _check(targets, id, ready, action.text)
        case "editor":  # editors have a model of their own, which the DOM may show in part
            await press_chord(targets, "ControlOrMeta+a")
    if not action.text:
        if not ready["empty"]:
            await keyboard.press("Delete")
    elif ready["how"] == "editor" and "\n" in action.text:
        for number, line in enumerate(re.split(r"\r?\n", action.text)):
            if number:
                await keyboard.press("Shift+Enter")  # in a chat, Enter alone would send
            if line:
                await keyboard.insert_text(line)
    else:
        await keyboard.insert_text(action.text)
    return "keyboard"


async def _check(targets: Targets, id: int, ready: dict[str, object], text: str) -> str:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise refused(id, {"error": "truth", "kind": ready["kind"]})
    if (word in _TRUE) == ready["checked"]:
        return "dom"
    if ready["kind"] == "radio" and word in _FALSE:
        raise refused(id, {"error": "radio"})
    return await click(targets, Click(id=id))


async def select(targets: Targets, action: Select) -> str:
    """Choose options: at once in a `<select>`, by clicks in a custom list. In a text field, select the text."""
    id = await _target(targets, action)
    answer = await targets.ask("select", id, options=list(action.options))
    way = "dom"
    for option in answer.get("click", ()):
        if id in targets.foreign:
            targets.foreign.setdefault(option, targets.foreign[id])
        way = await click(targets, Click(id=option))
    return way


async def upload(targets: Targets, action: Upload) -> str:
    """Choose files, in the input or in the file chooser that a click opens."""
    files = uploadable(action.files, targets.session.access.safety.upload_from)
    id = await _target(targets, action)
    found = await targets.ask("fileInput", id)
    if "input" not in found:
        if not files:
            raise ActionError(f"Element {id} is not a file input: there is nothing to clear.")
        await _through_chooser(targets, id, files)
        return "browser"
    if len(files) > 1 and not found["multiple"]:
        raise ActionError(f"Element {id} takes one file only.")
    if not files:
        await targets.ask("clearFiles", found["input"])
        return "dom"
    world = targets.world(id)
    node = await world.call("node", id=found["input"])
    if "objectId" not in node:
        raise refused(id, {"error": "gone"})
    await world.protocol.send("DOM.setFileInputFiles", {"files": files, "objectId": node["objectId"]})
    return "browser"


async def _through_chooser(targets: Targets, id: int, files: list[str]) -> None:
    from playwright.async_api import TimeoutError as NotOpened

    try:
        async with targets.tab.page.expect_file_chooser(timeout=CHOOSER_BOUND * 1000) as waiting:
            await click(targets, Click(id=id))
        chooser = await waiting.value
    except NotOpened:
        raise ActionError(f"Element {id} is not a file input, and clicking it opens no file chooser.") from None
    if len(files) > 1 and not chooser.is_multiple():
        raise ActionError(f"The file chooser of element {id} takes one file only.")
    await chooser.set_files(files)


async def _target(targets: Targets, action: Fill | Select | Upload) -> int:
    id = await targets.resolve(action.id, action.selector)
    assert id is not None  # the action has been validated: it has one or the other
    return id
