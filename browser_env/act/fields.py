"""Actions on form fields and editors: fill, select, upload."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from selfsurf.browser_env.act.keyboard import press_chord
from selfsurf.browser_env.act.mouse import click
from selfsurf.browser_env.act.refusals import refused
from selfsurf.browser_env.act.targets import Targets
from selfsurf.browser_env.actions import Click, Fill, Select, Upload
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.outline import quote
from selfsurf.browser_env.session.files import uploadable
from selfsurf.browser_env.session.written import SHOWN, event_of, objection_to
from selfsurf.browser_env.text import clip

CHOOSER_BOUND = 2.0
"""Seconds that a file chooser may take to open after the click."""

CHOOSER_STEP = 50.0
"""Milliseconds of page time between two checks for the file chooser."""

LIST_BOUND = 1.0
"""Seconds that a list may take to open, or to offer the typed text, before an option counts as missing."""

CHOICE_BOUND = 0.3
"""Seconds that a list may take to process a choice before the next one."""

TAKEN_IN = 150.0
"""Milliseconds that an editor may take to process a selection: Slate checks every 100."""

PRESSES = 5
"""Maximum number of presses on an option whose list moves."""

MOST_PAGES = 100
"""Maximum number of times that a list is scrolled by its height in search of an option."""

MOST_OPTIONS = 100
"""Maximum number of options to deselect in a multiple-choice list."""

MANY_LINES = 40
"""Number of lines above which a text is pasted as a whole into any editor."""

_TRUE = frozenset({"true", "on", "yes", "1", "checked", "check"})
_FALSE = frozenset({"false", "off", "no", "0", "unchecked", "uncheck", ""})


async def fill(targets: Targets, action: Fill) -> str:
    """Replace a field's value; return how: `keyboard`, `dom` or `mouse`.

    Raises:
        ActionError: the field can't be written to, holds another text afterwards, or the browser rejects the text.
            Plain text fields are checked at the end of the step (`Session.note_read_back`).
    """
    id = await _target(targets, action)
    return await _fill(targets, id, action.text, number=targets.session.aim())


async def _fill(targets: Targets, id: int, text: str, *, number: int = 0) -> str:
    """Like `fill`, for an element's id. Without a number, a plain text field is not read back."""
    ready = await targets.ask("prepareFill", id, text=text, number=number)
    match ready["how"]:
        case "done":
            _note_reverted(targets, id, ready)
            _accepted(id, ready)
            return "dom"
        case "option":
            return await select(targets, Select(id=id, options=(text,)))
        case "check":
            return await _check(targets, id, ready, text)
        case "editor":
            return await _fill_editor(targets, id, text, code=ready["code"])
        case "set":
            return "dom"
    keyboard = targets.tab.page.keyboard
    if text:
        await keyboard.insert_text(text)
    elif not ready["empty"]:
        await keyboard.press("Delete")
    return "keyboard"


async def _fill_editor(targets: Targets, id: int, text: str, *, code: bool) -> str:
    """Replace the text of an editor, whose own model may be only partly shown on the page.

    Code is pasted as a whole, because code editors indent every new line by themselves and take time for it. Elsewhere
    lines are written one by one, because the result of a paste depends on the editor.
    """
    keyboard, world = targets.tab.page.keyboard, targets.world(id)
    await press_chord(targets, "ControlOrMeta+a")
    lines = re.split(r"\r?\n", text)
    if len(lines) > 1 and (code or len(lines) > MANY_LINES):
        await world.call("settle", frames=1, bound=100)  # lets the editor notice the selection
        if (await world.call("paste", text=text))["taken"]:
            await world.call("settle", frames=2, bound=500)
            if not await _reads_otherwise(targets, id, text, code=code):
                return "keyboard"
            await press_chord(targets, "ControlOrMeta+a")
        elif not code:
            await world.call("insertLines", lines=lines)
            if not await _reads_otherwise(targets, id, text, code=code):
                return "keyboard"
            await press_chord(targets, "ControlOrMeta+a")
    if not text:
        await keyboard.press("Delete")
    for number, line in enumerate(lines if text else ()):
        if number:
            await keyboard.press("Shift+Enter")  # in a chat, Enter alone would send
        if line:
            await keyboard.insert_text(line)
    if shown := await _reads_otherwise(targets, id, text, code=code):
        _accepted(id, {"shown": shown})
    return "keyboard"


async def _reads_otherwise(targets: Targets, id: int, text: str, *, code: bool) -> str:
    """Return an editor's text if it differs from the written text; otherwise an empty text."""
    if code:  # the whole text is read by copying
        await press_chord(targets, "ControlOrMeta+a")
    answer = await targets.ask("written", id, text=text)
    if code:
        await targets.tab.page.keyboard.press("ArrowRight")
    return str(answer.get("shown", ""))


def _accepted(id: int, answer: dict[str, Any]) -> None:
    """Check the page's report on a value that was set, or on an editor's text.

    Raises:
        ActionError: the field holds another text now, or the browser doesn't accept it.
    """
    if objection := objection_to(id, answer):
        raise ActionError(objection, "blocked")


def _note_reverted(targets: Targets, id: int, answer: dict[str, Any]) -> None:
    """Record an event if the page has replaced the value that was set, as a menu or a rejecting page does."""
    if event := event_of(id, answer):
        targets.session.note(event)


async def _check(targets: Targets, id: int, ready: dict[str, object], text: str) -> str:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise refused(id, {"error": "truth", "kind": ready["kind"]})
    if (word in _TRUE) == ready["checked"]:
        return "dom"
    if ready["kind"] == "radio" and word in _FALSE:
        raise refused(id, {"error": "radio"})
    way = await click(targets, Click(id=id))
    await targets.ask("checkLater", id, checked=word in _TRUE, number=targets.session.aimed)
    return way


async def select(targets: Targets, action: Select) -> str:
    """Choose options: at once in a `<select>`, by clicks in a custom list. In a text field, select the text."""
    id = await _target(targets, action)
    answer = await targets.ask("select", id, options=list(action.options), number=targets.session.aim())
    _note_reverted(targets, id, answer)
    if "fill" in answer:
        return await _fill(targets, targets.in_frame_of(id, answer["at"]), answer["fill"])
    if "focused" in answer:
        await targets.world(id).call("settle", frames=2, bound=CHOICE_BOUND * 1000)
        answer = await targets.ask("select", id, options=list(action.options))
        if "focused" in answer:
            raise ActionError(f"The page took the focus from element {id}; nothing was selected.", "blocked")
    if "marked" in answer:
        await press_chord(targets, "Shift")  # toolbars for marked text appear after a key or mouse event
        if "editor" in answer:
            await targets.tab.pass_by(TAKEN_IN)
        return "keyboard"
    way = "dom"
    for _ in range(MOST_OPTIONS):
        if "unselect" not in answer:
            break
        way = await _press_option(targets, id, answer["unselect"])
        answer = await targets.ask("select", id, options=list(action.options))
    if "custom" in answer:
        way = await _choose_all(targets, id, action.options)
        await _check_chosen(targets, id, action.options)
    return way


async def _choose_all(targets: Targets, id: int, options: Sequence[str]) -> str:
    """Choose options of a custom list one after the other.

    Raises:
        ActionError: an option can't be chosen, or replaces another; the message lists the chosen options.
    """
    way, said = "dom", list[str]()
    for number, option in enumerate(options):
        try:
            way = await _choose(targets, id, option)
        except ActionError as error:
            if not number:
                raise
            so_far = f"Chosen: {_names(options[:number])}; not chosen: {_names(options[number:])}."
            raise ActionError(f"{error} {so_far}", error.kind) from None
        if len(options) > 1:
            answer = await targets.world(id).call("replaced", id=id, option=option, said=said)
            said = answer["said"]
            if answer["lost"]:
                lost, last = _names(answer["lost"]), _names([option])
                raise ActionError(f"Element {id} takes one option only: {last} is chosen instead of {lost}.")
    return way


def _names(options: Sequence[str]) -> str:
    return ", ".join(quote(clip(one, SHOWN)) for one in options)


async def _check_chosen(targets: Targets, id: int, options: Sequence[str]) -> None:
    """Select again the options that a list dropped at a later click, and record an event if any remain missing."""
    try:
        missing = (await targets.ask("notChosen", id, options=list(options)))["missing"]
        for one in missing if len(options) > 1 else ():
            await click(targets, Click(id=targets.in_frame_of(id, one["id"]), modifiers=("ControlOrMeta",)))
        if missing and len(options) > 1:
            await targets.world(id).call("settle", frames=2, bound=CHOICE_BOUND * 1000)
            missing = (await targets.ask("notChosen", id, options=list(options)))["missing"]
    except ActionError:  # the list has closed, or is closing
        return
    if missing:
        names = _names([one["option"] for one in missing])
        targets.session.note(f"[{id}] does not show {names} as chosen")


async def _choose(targets: Targets, id: int, option: str) -> str:
    """Choose one option of a custom list, with a retry if the list was closing after the previous choice."""
    try:
        return await _choose_once(targets, id, option)
    except ActionError as error:
        if error.kind not in ("not_found", "blocked"):
            raise
    await targets.world(id).call("settle", frames=5, bound=CHOICE_BOUND * 1000)
    return await _choose_once(targets, id, option)


async def _choose_once(targets: Targets, id: int, option: str) -> str:
    """Choose one option: open the list if it is closed, and type the option's text if the option is still missing."""
    await targets.world(id).call("stilled", bound=CHOICE_BOUND * 1000)  # the list may be closing
    found = await targets.ask("optionIn", id, option=option)
    if not found.keys() & {"click", "done"}:
        if not found["options"] or found["opener"]:
            await click(targets, Click(id=targets.in_frame_of(id, found["opener"] or id)))
            found = await _once_there(targets, id, option)
        if found.get("shut") and not found["text"]:  # the click may have come while the list was closing
            await click(targets, Click(id=id))
            found = await _once_there(targets, id, option, CHOICE_BOUND)
        if found.get("shut") and not found["text"] and (await targets.ask("focus", id))["focused"]:  # may open by keys
            await press_chord(targets, "ArrowDown")
            found = await _once_there(targets, id, option)
        if not found.keys() & {"click", "done"} and found["text"]:
            await _fill(targets, targets.in_frame_of(id, found["at"]), option)
            found = await _once_there(targets, id, option)
    for begins in (False, True):  # an exact option first, then one that begins with the text
        if not found.keys() & {"click", "done"} and found["options"]:
            found = await _scrolled_to(targets, id, option, found, begins=begins)
    if "done" in found:
        return "dom"
    if "click" not in found:
        error = {"error": "option", "option": option} if found["options"] else {"error": "closed"}
        raise refused(id, {**found, **error})
    return await _press_option(targets, id, found["click"])


async def _scrolled_to(
    targets: Targets, id: int, option: str, found: dict[str, Any], *, begins: bool
) -> dict[str, Any]:
    """Scroll a list that is filled during scrolling until the option appears; return how to choose the option.

    If a page of the list shows no new options, all have been shown, or more are loaded at the list's end.
    """
    shown, to, world = found["options"], "start", targets.world(id)
    if begins and (found := await targets.ask("optionIn", id, option=option, begins=True)).keys() & {"click", "done"}:
        return found
    for _ in range(MOST_PAGES):
        if not (await targets.ask("turnList", id, to=to))["moved"]:
            break
        await world.call("settle", frames=2, bound=CHOICE_BOUND * 1000)
        if to == "end":
            await world.call("firstSign", bound=CHOICE_BOUND * 1000)
        before, found = found, await targets.ask("optionIn", id, option=option, begins=begins)
        if found.keys() & {"click", "done"}:
            return found
        others = any(found[part] != before[part] for part in ("options", "count"))
        if to == "end" and not others:
            break
        to = "page" if others or to == "start" else "end"
    return {**found, "options": shown}


async def _press_option(targets: Targets, id: int, option: int) -> str:
    session, world = targets.session, targets.world(id)
    for _ in range(PRESSES):  # a list that is unfolding moves under the mouse
        session.missed, session.stopped = "", False
        way = await click(targets, Click(id=targets.in_frame_of(id, option)))
        session.note_missed(await world.call("missed"))
        if not session.stopped:
            break
        await world.call("settle", frames=5, bound=CHOICE_BOUND * 1000)
    await world.call("settle", frames=2, bound=CHOICE_BOUND * 1000)
    return way


async def _once_there(targets: Targets, id: int, option: str, bound: float = LIST_BOUND) -> dict[str, Any]:
    """Wait for an option to be shown, since lists open late, and return how to choose it."""
    end = targets.tab.seconds + bound
    while True:
        found = await targets.ask("optionIn", id, option=option)
        if found.keys() & {"click", "done"} or targets.tab.seconds > end:
            return found
        await targets.world(id).call("firstSign", bound=max(end - targets.tab.seconds, 0.05) * 1000)


async def upload(targets: Targets, action: Upload) -> str:
    """Choose files in a file input, or in the file chooser that a click opens."""
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
        await targets.ask("clearFiles", targets.in_frame_of(id, found["input"]))
        return "dom"
    world = targets.world(id)
    node = await world.call("node", id=found["input"])
    if "objectId" not in node:
        raise refused(id, {"error": "gone"})
    await world.protocol.send("DOM.setFileInputFiles", {"files": files, "objectId": node["objectId"]})
    return "browser"


async def _through_chooser(targets: Targets, id: int, files: list[str]) -> None:
    from playwright.async_api import TimeoutError as NotOpened

    targets.session.choosing = True
    try:
        async with targets.tab.page.expect_file_chooser(timeout=CHOOSER_BOUND * 1000) as waiting:
            await click(targets, Click(id=id))
            end = targets.tab.seconds + CHOOSER_BOUND
            while targets.tab.time is not None and not waiting.is_done() and targets.tab.seconds < end:
                await targets.tab.pass_by(CHOOSER_STEP)  # a script may open the chooser later
        chooser = await waiting.value
    except NotOpened:
        raise ActionError(
            f"Element {id} is not a file input, and clicking it opens no file chooser that can be answered. "
            "A file chooser opened with showOpenFilePicker can't be answered."
        ) from None
    finally:
        targets.session.choosing = False
    if len(files) > 1 and not chooser.is_multiple():
        raise ActionError(f"The file chooser of element {id} takes one file only.")
    await chooser.set_files(files)


async def _target(targets: Targets, action: Fill | Select | Upload) -> int:
    id = await targets.resolve(action.id, action.selector)
    assert id is not None  # a validated action has an id or a selector
    return id
