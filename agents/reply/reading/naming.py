"""Normalization of action dicts as models write them to the environment's full form: names, argument names, types.

It covers the names that models use for actions and arguments, and does not check values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from selfsurf.agents.reply.reading.loose_json import REASONS, DecimalLiteral, load
from selfsurf.browser_env.actions import ACTION_TYPES
from selfsurf.browser_env.compact import BARE, MAIN, expand

ALIASES: dict[str, str] = {
    "tap": "click", "press_button": "click", "left_click": "click", "click_element": "click", "click_button": "click",
    "click_link": "click", "enter_text": "fill", "input": "fill", "input_text": "fill", "set_value": "fill",
    "fill_text": "fill", "write": "type", "type_text": "type", "select_option": "select", "choose": "select",
    "key": "press", "press_key": "press", "keypress": "press", "keyboard_press": "press", "goto": "navigate",
    "go_to": "navigate", "go_to_url": "navigate", "open": "navigate", "open_url": "navigate", "visit": "navigate",
    "go_back": "back", "navigate_back": "back", "go_forward": "forward", "tab_close": "close_tab",
    "tab_focus": "focus_tab", "switch_tab": "focus_tab", "open_tab": "new_tab", "done": "finish", "stop": "finish",
    "answer": "finish", "final_answer": "finish", "complete": "finish", "terminate": "finish", "ask": "ask_user",
    "say": "message", "send_msg_to_user": "message", "noop": "wait", "sleep": "wait", "fail": "infeasible",
    "report_infeasible": "infeasible", "impossible": "infeasible", "drag_and_drop": "drag", "upload_file": "upload",
    "scroll_page": "scroll", "mark_complete": "finish",
}  # fmt: skip
"""Alternative names of actions that models use."""

POSITIONS: dict[str, tuple[str, ...]] = {
    **{name: (main,) for name, main in MAIN.items()},
    "fill": ("id", "text"), "type": ("id", "text"), "select": ("id", "options"), "drag": ("from", "to"),
    "upload": ("id", "files"), "scroll": ("direction",),
}  # fmt: skip
"""Names of an action's positional arguments, in order."""

FIELD_ALIASES: dict[str, str] = {
    "element": "id", "element_id": "id", "target": "id", "bid": "id", "ref": "id", "index": "id", "value": "text",
    "content": "text", "input": "text", "option": "options", "keys": "key", "href": "url", "message": "text",
    "tab": "index", "tab_index": "index", "link": "url", "response": "answer", "result": "answer", "file": "files",
    "file_path": "files", "filename": "files", "path": "files", "key_comb": "key", "duration": "ms", "start": "from",
    "source": "from", "destination": "to", "end": "to",
    **dict.fromkeys(("thought", "explanation", "why", "reasoning"), "reason"),
}  # fmt: skip
_SECOND = {"select": {"value": "options", "text": "options", "values": "options"}, "press": {"text": "key"},
           "finish": {"text": "answer", "value": "answer", "message": "answer"}, "ask_user": {"text": "question"},
           "message": {"answer": "text", "response": "text"}}  # fmt: skip

_ANSWERS = {"answer", *_SECOND["finish"], "response", "result"}
"""Fields of a call that contain the answer of `finish`."""

_NAMED = ("action", "action_type", "action_name", "next_action", "command", "operation", "type")
"""Fields that contain an action's name, or a whole action."""

_TOOLS = ("name", "function", "tool", "tool_name", "function_name", "recipient_name")
"""Fields that contain the action's name in a tool call, beside its arguments."""

_ARGUMENTS = (
    "arguments", "args", "params", "parameters", "kwargs", "action_input", "tool_input", "action_args", "action_params",
    "input",
)  # fmt: skip
_LISTS = ("actions", "action")
"""Fields that may contain several actions."""

_HOLDERS = {*_NAMED, *_LISTS, "function", "function_call", "tool", "tool_call", "tool_calls"} - {"type"}
"""Fields that may contain actions as JSON in a string, or a list of phrases such as `click(4)`."""

_PASSED_OVER = REASONS | {
    "observation", "history", "previous", "previous_action", "previous_actions", "last_action", "past_actions",
    "done_so_far", "rejected", "alternative", "alternatives", "considered", "not", "avoid", "example", "examples",
    "page", "elements", "dom", "schema", "properties", "text", "content", "message", "answer", "question", "options",
}  # fmt: skip
"""Fields that mention actions without choosing them, or that contain text."""

_LONGEST_PHRASE = 2000
"""Length limit of a phrase that names an action, in characters."""

_PREFIX = re.compile(r"(?i)^(?:await |self\.)?(?:browser|page|computer|web|functions?|tools?|actions?)[._:]+")
_NAME = re.compile(r"[A-Za-z_ .:\n-]{2,60}")
_LETTERS = re.compile(r"[^a-z]")
_SAID = {**ALIASES, **{name: name for name in ACTION_TYPES}}
_BY_LETTERS = {_LETTERS.sub("", said): name for said, name in _SAID.items()}
_ID = re.compile(r"\s*(?:b?id|element|node|ref)?\s*[=:#\[(]*\s*(\d{1,9})\s*[\])]?\s*", re.IGNORECASE)
_DIRECTIONS = ("up", "down", "left", "right")


def action_name(text: str) -> str | None:
    """Return the action for a name such as `CLICK`, `goBack`, `browser_click` or `Press key`; None if it is unknown."""
    if not _NAME.fullmatch(text):
        return None
    return _BY_LETTERS.get(_LETTERS.sub("", _PREFIX.sub("", text.strip()).lower()))


def full_forms(data: dict[str, Any], *, cut: bool = False, depth: int = 0) -> Iterator[dict[str, Any] | str]:
    """Yield the possible meanings of a dict: the normalized dict, then nested actions, the chosen action first.

    Args:
        data: a JSON object.
        cut: whether the object's end is missing, so that the action's main argument is required.
        depth: nesting depth of the object.

    Yields:
        Full dicts, or a str for an action in a phrase such as `click [4]`, which is yet to be parsed.
    """
    lowered, normal = _read(data)
    if isinstance(normal, str) or (normal is not None and not (cut and _lacks_main(normal))):
        yield normal
    if depth < 5:
        nested = sorted(lowered.items(), key=lambda item: item[0] not in (*_NAMED, *_TOOLS))
        for key, value in nested:
            if key in _PASSED_OVER or (isinstance(normal, dict) and key not in _HOLDERS):
                continue
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, dict) or (isinstance(value, list) and key in _HOLDERS):
                    yield from item_forms(inner, cut=cut, depth=depth + 1)


def item_forms(item: Any, *, cut: bool = False, depth: int = 0) -> Iterator[dict[str, Any] | str]:
    """Yield the possible meanings of an item in a list of actions, like `full_forms`; bare names have none."""
    data = load(item) if isinstance(item, str) else item
    if isinstance(data, dict):
        yield from full_forms(data, cut=cut, depth=depth)
    elif isinstance(item, str) and len(item) <= _LONGEST_PHRASE and action_name(item) is None:
        yield item


def action_list(data: dict[str, Any], *, depth: int = 0) -> list[Any] | None:
    """Return the actions listed in an object (`{"actions":[...]}`) or in a call in it; None if it has no list."""
    lowered, normal = _read(data)
    for name, value in lowered.items():
        if isinstance(value, list) and name in _LISTS:
            return value
        if (
            isinstance(value, dict)
            and not isinstance(normal, dict)
            and depth < 5
            and name in (*_LISTS, *_NAMED, *_TOOLS, *_ARGUMENTS)
        ):
            found = action_list(value, depth=depth + 1)
            if found is not None:
                return found
    return None


def _read(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | str | None]:
    """Return the fields with names in lower case and JSON in strings parsed, and their form from `normalize`."""
    lowered = _opened({str(key).strip().lower(): value for key, value in data.items()}, _HOLDERS)
    normal = normalize(lowered)
    return (_opened(lowered, _ARGUMENTS) if normal is None else lowered), normal


def _opened(lowered: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return the fields, with JSON parsed where one of `keys` contains it as a string."""
    texts = {key: load(lowered[key]) for key in keys if isinstance(lowered.get(key), str)}
    return {**lowered, **{key: value for key, value in texts.items() if value is not None}}


def normalize(lowered: dict[str, Any]) -> dict[str, Any] | str | None:
    """Normalize the names and types of an action dict with lower-case keys.

    Returns:
        The full dict, a phrase that is yet to be parsed, or None if the dict names no action.
    """
    for key in _NAMED:
        value = lowered.get(key)
        if not isinstance(value, str) or (key == "type" and len(lowered.keys() - REASONS) < 2):
            continue
        name = action_name(value)
        rest = {other: item for other, item in lowered.items() if other != key}
        if name is not None:
            return arguments(name, rest)
        if key != "type" and len(value) <= _LONGEST_PHRASE and not set(rest) & {"id", *_ARGUMENTS}:
            return value
    for key in _TOOLS:
        value = lowered.get(key)
        name = action_name(value) if isinstance(value, str) else None
        rest = {other: item for other, item in lowered.items() if other not in (key, "type")}
        if name is not None and (any(wrapper in rest for wrapper in _ARGUMENTS) or _fits(name, rest)):
            return arguments(name, rest)
    return _from_compact(lowered)


def arguments(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the full dict of the action `name`: arguments renamed and converted, unknown arguments dropped."""
    kind = ACTION_TYPES[name]
    fields = {info.alias or key for key, info in kind.model_fields.items()} | {"direction"}
    given = _unwrapped(name, given)
    result: dict[str, Any] = {"action": name}
    for key, value in given.items():
        if key in fields:
            result[key] = value
        else:
            other = _SECOND.get(name, {}).get(key) or FIELD_ALIASES.get(key)
            if other in fields and other not in given:
                result.setdefault(other, value)
    result["action"] = name
    _convert(result)
    return result


def positional(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the full dict of an action with positional arguments: `type [3] [Ada]`."""
    places = POSITIONS.get(name, ())
    if name == "type" and len(values) == 1:
        places = ("text",)
    if name == "press" and len(values) == 2:
        places = ("id", "key")
    if name == "scroll":
        values = [value for value in values if str(value).lower() in _DIRECTIONS][-1:]
    return arguments(name, dict(zip(places, values, strict=False)))


def _unwrapped(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool call without their wrapper, whatever its form."""
    for wrapper in _ARGUMENTS:
        if wrapper not in given or (
            wrapper == "input" and name in ("fill", "type") and not isinstance(given[wrapper], dict)
        ):
            continue
        value = given[wrapper]
        rest = {key: item for key, item in given.items() if key != wrapper}
        if isinstance(value, str):
            opened = load(value)
            value = value if opened is None else opened
        if isinstance(value, dict):
            inner = {str(key).strip().lower(): item for key, item in value.items()}
            if name == "finish" and inner.keys() - REASONS and not _ANSWERS & inner.keys():
                return {**rest, "answer": value}
            return {**rest, **inner}
        if isinstance(value, list):
            return {**positional(name, value), **rest}
        if isinstance(value, (str, int)):
            return {**positional(name, [value]), **rest}
    return given


def _convert(result: dict[str, Any]) -> None:
    """Convert arguments to their types, in place."""
    name = result["action"]
    for key in ("id", "from", "to", "index"):
        value = result.get(key)
        if isinstance(value, dict):
            value = value.get("id")
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        digits = _ID.fullmatch(value) if isinstance(value, str) else None
        if digits:
            value = int(digits[1])
        if key in result:
            result[key] = None if isinstance(value, (bool, str)) else value
    if result.get("id") is not None:
        for key in ("x", "y", "selector"):
            result.pop(key, None)
    direction = result.pop("direction", None)
    if name == "scroll" and isinstance(direction, str) and not {"dx", "dy"} & set(result):
        result.update(expand({"scroll": direction.strip().lower()}) or {})
    for key in ("text", "answer", "key", "question"):
        value = result.get(key)
        if isinstance(value, bool):
            result[key] = "" if key == "answer" and value else str(value).lower()
        elif isinstance(value, (int, float)):
            result[key] = value.written if isinstance(value, DecimalLiteral) else str(value)
    if name == "finish" and "answer" in result:
        result["answer"] = _answer_text(result["answer"])
    for key in ("options", "files"):
        value = result.get(key)
        if isinstance(value, str) and value.lstrip().startswith('["'):  # `[Red]` may be a label
            result[key] = load(value) or value
    options = result.get("options")
    if isinstance(options, (int, float)) and not isinstance(options, bool):
        options = [options]
    if isinstance(options, list):
        result["options"] = [_as_text(item) for item in options]
    if isinstance(result.get("files"), str):
        result["files"] = [result["files"]]
    if not isinstance(result.get("reason", ""), str):
        del result["reason"]


def _answer_text(answer: Any) -> str:
    """Return an answer as text, with objects and lists as compact JSON."""
    if answer is None or isinstance(answer, str):
        return answer or ""
    plain = _as_text(answer)
    return plain if isinstance(plain, str) else json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def _as_text(value: Any) -> Any:
    if isinstance(value, DecimalLiteral):
        return value.written
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _from_compact(lowered: dict[str, Any]) -> dict[str, Any] | None:
    """Read compact forms such as `{"click":4}`; proper names come before aliases, and messages to the user last."""
    best: tuple[int, str, str] | None = None
    for key, value in lowered.items():
        name = action_name(key)
        alone = lowered.keys() - REASONS == {key}
        nothing = value is None and not (alone and name in ("finish", *BARE))
        if name is None or nothing or value is False or (name not in MAIN and name not in (*BARE, "scroll")):
            continue
        if key == "type" and isinstance(value, str) and len(lowered.keys() - REASONS) > 1:
            continue  # here `type` is a field, not the action
        if name == "finish" != key and not alone:
            continue  # a field of another action, such as `"done": true`
        if isinstance(value, dict) and (key == "type" or key != name) and _is_action(value):
            continue  # the action is in a nested object
        order = 2 if name == "message" else int(key != name)
        if best is None or order < best[0]:
            best = order, key, name
    if best is None:
        return None
    _, key, name = best
    value = lowered[key]
    if isinstance(value, dict):
        value = {str(inner).strip().lower(): item for inner, item in value.items()}
    if isinstance(value, list) and len(value) > 1 and name in ("fill", "type", "select"):
        return positional(name, value)
    if name == "finish" and isinstance(lowered[key], dict):
        value = _finish(lowered[key])
    full = expand({name: value, **{other: item for other, item in lowered.items() if other != key}})
    if full is None:
        return None
    full.pop("action")
    if name in ("new_tab", "wait", "infeasible") and full.get(MAIN[name]) is True:
        del full[MAIN[name]]
    return arguments(name, full)


def _is_action(data: dict[str, Any]) -> bool:
    """Whether an object is an action and has no fields other than the action's."""
    try:
        lowered, normal = _read(data)
    except RecursionError:  # an object with hundreds of nesting levels
        return False
    if not isinstance(normal, dict):
        return isinstance(normal, str) or any(isinstance(lowered.get(key), dict) for key in _HOLDERS)
    fields = {info.alias or key for key, info in ACTION_TYPES[normal["action"]].model_fields.items()}
    return all(
        key in fields or key in REASONS or FIELD_ALIASES.get(key) in fields or key in (*_TOOLS, *_ARGUMENTS)
        or action_name(key) == normal["action"]
        for key in lowered
    )  # fmt: skip


def _finish(data: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `finish` from an object that may also be the answer itself."""
    lowered = {str(key).strip().lower(): value for key, value in data.items()}
    facts = lowered.keys() - REASONS
    if facts == {"finish"}:
        return {"answer": lowered["finish"]}
    if not lowered or (facts == {"answer"} and not isinstance(lowered["answer"], (dict, list))):
        return lowered
    return {"answer": data}


def _fits(name: str, rest: dict[str, Any]) -> bool:
    """Whether the fields belong to the action and include its main argument; otherwise they may describe an element."""
    fields = {info.alias or key for key, info in ACTION_TYPES[name].model_fields.items()}
    return name in POSITIONS and POSITIONS[name][0] in rest and set(rest) <= fields


def _lacks_main(full: dict[str, Any]) -> bool:
    """Whether the main argument of a cut-off action is missing."""
    name = full["action"]
    if name == "scroll":
        return not {"dx", "dy"} & set(full)
    if name == "type":
        return "text" not in full
    return name in MAIN and MAIN[name] not in full
