"""From a model's text to an action on an element that exists. Never raises, never invents an element.

Read in this order: a JSON object (compact or with an `action` key, fenced, nested, sloppy), a call such as
`click(4)`, a line that begins with an action's name (`CLICK 4`), and words that say the goal is reached.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from agents.compact import BARE, MAIN, expand
from browser_env.actions import ACTION_TYPES, Action, Finish, parse_action
from browser_env.errors import ActionError

How: TypeAlias = Literal["json", "repaired", "call", "keyword", "words", "none"]
"""Where the action was found: JSON as it stood, JSON after repair, a call, a keyword line, plain words, nowhere."""

MAX_CHARACTERS = 20_000
"""A reply is read up to here; the rest is ignored."""

MAX_OBJECTS = 50
"""Most JSON objects of a reply that are tried."""

ALIASES: dict[str, str] = {
    "tap": "click", "press_button": "click", "left_click": "click", "click_element": "click",
    "enter_text": "fill", "input": "fill", "input_text": "fill", "set_value": "fill", "write": "type",
    "select_option": "select", "choose": "select", "key": "press", "press_key": "press", "keypress": "press",
    "goto": "navigate", "go_to": "navigate", "open": "navigate", "go_back": "back", "go_forward": "forward",
    "done": "finish", "stop": "finish", "answer": "finish", "complete": "finish", "terminate": "finish",
    "ask": "ask_user", "say": "message", "send_msg_to_user": "message", "noop": "wait", "sleep": "wait",
    "fail": "infeasible", "report_infeasible": "infeasible", "impossible": "infeasible",
}  # fmt: skip
"""Other names for actions that models use."""

_FIELD_ALIASES: dict[str, str] = {
    "element": "id", "element_id": "id", "target": "id", "bid": "id", "ref": "id", "index": "id", "value": "text",
    "content": "text", "input": "text", "option": "options", "keys": "key", "href": "url", "message": "text",
    "thought": "reason", "explanation": "reason", "why": "reason",
}  # fmt: skip

_NAMES = frozenset(ACTION_TYPES)
_DONE = re.compile(
    r"\b(?:the )?(?:goal|task) (?:is|has been|was) (?:now |already |successfully )?"
    r"(?:achieved|reached|complete|completed|done|finished|accomplished)\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(?:not|n't|never|until|unless|if|when|once|whether)\b", re.IGNORECASE)
_WORD = "|".join(sorted({*_NAMES, *ALIASES}, key=len, reverse=True))
_KEYWORD = re.compile(rf"^[ \t*>\-#]*(?:action\s*:\s*)?({_WORD})\b[:\s]*(.*)$", re.IGNORECASE | re.MULTILINE)
_CALL = re.compile(r"\b([a-z_]+)\(([^()\n]{0,500})\)")
_TARGET = re.compile(r"^(?:on |the |element |id |#|\[|=|:|\s)*(\d{1,9})\b\]?[\s,:]*(.*)$", re.IGNORECASE)


@dataclass(frozen=True)
class Parsed:
    """What was read from a reply."""

    action: Action | None
    error: str = ""
    """One sentence that says why there is no action; empty when there is one."""
    how: How = "none"


def parse(text: str, ids: Collection[int]) -> Parsed:
    """Read the action in a model's reply.

    Args:
        text: the whole reply.
        ids: the elements of the observation; an action on any other is an error.
    """
    text = text[:MAX_CHARACTERS]
    first_error = ""
    for candidate, how in _candidates(text):
        try:
            action = parse_action(candidate)
        except (ActionError, RecursionError, OverflowError) as error:
            first_error = first_error or str(error)
            continue
        missing = _missing(action, ids)
        if not missing:
            return Parsed(action, how=how)
        first_error = first_error or f"There is no element {missing[0]} on the page."
    if first_error:
        return Parsed(None, first_error)
    if not text.strip():
        return Parsed(None, "The reply is empty.")
    return Parsed(
        None, 'The reply holds no action; reply with JSON such as {"click":' + f"{min(ids, default=1)}" + "}."
    )


def _candidates(text: str) -> Iterator[tuple[dict[str, Any] | str, How]]:
    """Everything in the text that may be an action, the most explicit first."""
    for data, how in _objects(text):
        yield from ((candidate, how) for candidate in _normal(data, depth=0))
    for found in _CALL.finditer(text):
        if found[1].lower() in _NAMES or found[1].lower() in ALIASES:
            yield _call(found[1].lower(), found[2]), "call"
    for found in _KEYWORD.finditer(text):
        words = _keyword(found[1].lower(), found[2].strip())
        if words is not None:
            yield words, "keyword"
    if says_done(text):
        yield Finish().to_dict(), "words"


def says_done(text: str) -> bool:
    """Whether the text says in words that the goal is reached (and not that it isn't, or when it would be)."""
    for found in _DONE.finditer(text):
        sentence = re.split(r"[.!?\n]", text[: found.end()])[-1]
        if not _NEGATED.search(sentence):
            return True
    return False


def _objects(text: str) -> Iterator[tuple[dict[str, Any], How]]:
    """The JSON objects in the text, outermost first, in their order."""
    tried = 0
    position = text.find("{")
    while position >= 0 and tried < MAX_OBJECTS:
        tried += 1
        end = _closing(text, position)
        data, how = _load(text[position:end]) if end else (None, "none")
        if data is not None:
            yield data, how
            position = text.find("{", end or position + 1)
        else:
            position = text.find("{", position + 1)


def _closing(text: str, start: int) -> int | None:
    """Index behind the brace that closes the one at `start`, strings skipped; None if it is never closed."""
    depth, quote, index = 0, "", start
    while index < len(text):
        character = text[index]
        if quote:
            if character == "\\":
                index += 1
            elif character == quote:
                quote = ""
        elif character == '"' or (character == "'" and text[index - 1] in "{[:, "):
            quote = character
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return index + 1
        index += 1
    return None


def _load(text: str) -> tuple[dict[str, Any] | None, How]:
    for attempt, how in ((text, "json"), (_repair(text), "repaired")):
        try:
            data = json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            return data, how  # type: ignore[return-value]
    return None, "none"


def _repair(text: str) -> str:
    """Make sloppy JSON strict: single quotes, unquoted keys, trailing commas, Python's constants."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    for index in range(0, len(parts), 2):  # outside of double-quoted strings
        part = re.sub(r"(?<=[{\[:,\s])'((?:[^'\\\n]|\\.)*)'(?=\s*[}\],:])", _requote, parts[index])
        part = re.sub(r"([{,]\s*)([A-Za-z_]\w*)(\s*:)", r'\1"\2"\3', part)
        part = re.sub(r",(\s*[}\]])", r"\1", part)
        for wrong, right in (("True", "true"), ("False", "false"), ("None", "null")):
            part = re.sub(rf"\b{wrong}\b(?![\"'])", right, part)
        parts[index] = part
    return re.sub(r",(\s*[}\]])", r"\1", "".join(parts))


def _requote(found: re.Match[str]) -> str:
    return json.dumps(found[1].replace("\\'", "'"), ensure_ascii=False)


def _normal(data: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    """The full forms that a dict may stand for: itself with its names mended, or an object nested in it."""
    mended = _mend(data)
    if mended is not None:
        yield mended
    if depth < 4:
        for value in data.values():
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, dict):
                    yield from _normal(inner, depth + 1)


def _mend(data: dict[str, Any]) -> dict[str, Any] | None:
    """Give an action dict its right names and types, or return None if it names no action."""
    lowered = {str(key).strip().lower(): value for key, value in data.items()}
    name = lowered.get("action", lowered.get("action_type", lowered.get("type") if "id" in lowered else None))
    if isinstance(name, dict):
        return None
    if isinstance(name, str) and _name(name) is not None:
        full = {
            key: value
            for key, value in lowered.items()
            if value is not name or key not in ("action", "action_type", "type")
        }
        for wrapped in ("arguments", "args", "params", "parameters"):
            if isinstance(full.get(wrapped), dict):
                full = {**full.pop(wrapped), **full}
        full = {"action": _name(name), **full}
    else:
        renamed = {_name(key) or key: value for key, value in lowered.items()}
        expanded = expand(renamed) if any(key in MAIN or key in BARE or key == "scroll" for key in renamed) else None
        if expanded is None:
            return None
        full = expanded
    return _arguments(full)


def _name(text: str) -> str | None:
    name = text.strip().lower().replace(" ", "_").replace("-", "_")
    name = ALIASES.get(name, name)
    return name if name in _NAMES else None


def _arguments(full: dict[str, Any]) -> dict[str, Any]:
    """Rename and convert the arguments of an action dict, dropping those that the action doesn't have."""
    kind = ACTION_TYPES[full["action"]]
    fields = {info.alias or key for key, info in kind.model_fields.items()}
    result: dict[str, Any] = {}
    for key, value in full.items():
        if key not in fields:
            other = _FIELD_ALIASES.get(key)
            if other not in fields or other in full:
                continue
            key = other
        result[key] = value
    for key in ("id", "from", "to", "index"):
        if key in result and isinstance(result[key], str):
            digits = re.fullmatch(r"\s*(?:id)?\s*[#\[]?(\d{1,9})\]?\s*", result[key], re.IGNORECASE)
            if digits:
                result[key] = int(digits[1])
    for key in ("id", "from", "to"):
        if isinstance(result.get(key), bool):
            result[key] = None
    if full["action"] == "scroll" and isinstance(full.get("direction"), str) and not {"dx", "dy"} & set(result):
        expanded = expand({"scroll": full["direction"]})
        result = {**result, **(expanded or {})}
    for key in ("text", "answer", "key"):
        if isinstance(result.get(key), (int, float)) and not isinstance(result[key], bool):
            result[key] = str(result[key])
    return result


def _call(name: str, arguments: str) -> dict[str, Any] | str:
    """A call as the environment's own call strings, or as a keyword where the arguments are not literals."""
    target = _TARGET.match(arguments)
    plain = ALIASES.get(name, name)
    if target and not target[2] and MAIN.get(plain) == "id":
        return {"action": plain, "id": int(target[1])}
    return f"{name}({arguments})"


def _keyword(name: str, rest: str) -> dict[str, Any] | None:
    """`CLICK 4`, `FILL 3 some text`, `PRESS Enter`, `SCROLL down`, `FINISH: the answer`; None if it is just prose."""
    name = ALIASES.get(name, name)
    rest = rest.strip().rstrip(".").strip()
    if name in BARE:
        return {"action": name} if not rest else None
    if name == "scroll":
        return expand({"scroll": rest.lower()}) if rest.lower() in ("up", "down", "left", "right") else None
    if name == "press":
        return {"action": name, "key": rest} if re.fullmatch(r"[A-Za-z0-9+]{1,30}", rest) else None
    target = _TARGET.match(rest)
    if name in ("click", "hover"):
        return {"action": name, "id": int(target[1])} if target and not target[2] else None
    if name in ("fill", "type", "select") and target:
        words = re.sub(r"^(?:with|text|option|value)\b[\s:=]*", "", target[2], flags=re.IGNORECASE).strip().strip("\"'")
        key = "options" if name == "select" else "text"
        return {"action": name, "id": int(target[1]), key: words} if words else None
    if name in ("finish", "infeasible") and (not rest or rest.startswith(('"', "'", ":"))):
        return {"action": name, MAIN[name]: rest.strip(":\"' ")}
    if name == "finish":
        return {"action": name, "answer": rest} if len(rest) <= 200 else None
    return {"action": name, "url": rest} if name == "navigate" and re.match(r"https?://\S+$", rest) else None


def _missing(action: Action, ids: Collection[int]) -> list[int]:
    """The elements that the action names and the observation has not."""
    named = [getattr(action, key, None) for key in ("id", "from_", "to")]
    return [number for number in named if isinstance(number, int) and number not in ids]
