"""JSON schemas of valid actions on existing elements, for servers that guide decoding by schema.

A schema allows the same kinds, ids and options as `agents.reply.constraint.grammar`. Three things differ, since JSON is
freer than the grammar: a server may put blanks between the parts, may begin a text with a blank, and may write any
character of a text as an escape, control characters included.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from selfsurf.agents.kinds import DEFAULT_KINDS, KINDS, MAX_TEXT, WITHOUT_ELEMENT, Labels, Text, Value, forms
from selfsurf.browser_env.observation import Element, Tab

Schema: TypeAlias = dict[str, Any]

STRICT_VALUES = 1000
"""Maximum number of enumerated values in a schema of OpenAI's strict mode."""

MOST_WORDS = 12
"""Maximum length of an enumeration in a prompt's schema. Longer ones are left out; a page's ids are in the page."""

_LONG_LIST, _LONG_LIST_CHARACTERS = 250, 15_000  # over 250 strings, an enumeration is limited to 15,000 characters


def action_schema(
    elements: Sequence[Element],
    kinds: Sequence[str] = DEFAULT_KINDS,
    *,
    max_text: int = MAX_TEXT,
    max_actions: int = 1,
    tabs: Sequence[Tab] = (),
    files: Sequence[str] = (),
    labels: Labels = False,
    said: Sequence[str] = (),
) -> Schema:
    """Build the JSON schema of one action in compact JSON, or of an object with a list of actions.

    Args:
        elements: the elements that the model can see. Other ids are excluded, and so are options of a `<select>` other
            than the element's own.
        kinds: the kinds of actions to offer, as far as the page allows them.
        max_text: character limit of a text.
        max_actions: with more than 1, the reply is `{"actions":[...]}` with at most that many actions.
        tabs: all open tabs; other tabs are excluded.
        files: names of the files that may be uploaded.
        labels: whether elements are also named (`agents.kinds.forms`).
        said: the only texts that can be filled in or typed; any text if empty.
    """
    text: Schema = {"type": "string", "maxLength": max_text}
    found = forms(kinds, elements, tabs=tabs, files=files, labels=labels, said=said)
    branches = ({key: _value(value, text) for key, value in form.items()} for form in found)
    one = {"anyOf": [_object(branch) for branch in branches]}
    if max_actions == 1:
        return one
    return _object({"actions": {"type": "array", "items": one, "minItems": 1, "maxItems": max_actions}})


def any_action() -> Schema:
    """Build the JSON schema of an action on any element, which describes the format to an unconstrained model."""
    number, text = {"type": "integer"}, {"type": "string"}
    second = {
        "fill": {"text": text}, "type": {"text": text}, "select": {"option": text}, "drag": {"to": number},
        "upload": {"file": text},
    }  # fmt: skip
    branches = [
        {kind: _value(WITHOUT_ELEMENT[kind], text) if kind in WITHOUT_ELEMENT else number, **second.get(kind, {})}
        for kind in KINDS
    ]
    return {"anyOf": [_object(branch) for branch in branches]}


def thoughtful(schema: Schema) -> Schema:
    """Return the schema of an object with a `thought` before the `action` or `actions` of `schema`."""
    return _object({"thought": {"type": "string"}, **schema.get("properties", {"action": schema})})


def wrapped(schema: Schema) -> Schema:
    """Return the schema of an object with the single key `action`; object schemas stay unchanged.

    Some servers require an object at the root: a tool's arguments, OpenAI's strict mode. The parser reads both forms.
    """
    return schema if "properties" in schema else _object({"action": schema})


def in_words(schema: Schema) -> str:
    """Return a schema for a prompt: compact JSON, without enumerations of more than `MOST_WORDS` values."""

    def shortened(part: Any) -> Any:
        if isinstance(part, list):
            return [shortened(each) for each in part]
        if not isinstance(part, dict):
            return part
        return {key: shortened(value) for key, value in part.items() if key != "enum" or len(value) <= MOST_WORDS}

    return json.dumps(shortened(schema), ensure_ascii=False, separators=(",", ":"))


def strict(schema: Schema) -> Schema:
    """Return an `action_schema`, `thoughtful` or not, for OpenAI's strict mode. The result allows a few more actions.

    Strict mode refuses `anyOf` at the root, length limits, alternatives with the same first key, more than 1000
    enumerated values in all, and long lists of strings. So texts are limited only by the reply's length, all lists of a
    page share their options, and if there are too many values, the longest enumerations become free values. The parser
    and the environment reject actions that the schema no longer rules out.
    """
    # Rules: https://platform.openai.com/docs/guides/structured-outputs (supported schemas).
    # The rule on first keys appears only in server errors: https://github.com/openai/openai-python/issues/2193.
    whole = wrapped(copy.deepcopy(schema))["properties"]
    if not {"action", "actions"} & whole.keys():
        return schema  # not a schema of actions but, for example, of a choice
    several = "actions" in whole
    merged: dict[str, Schema] = {}
    for branch in (whole["actions"]["items"] if several else whole["action"])["anyOf"]:
        properties = branch["properties"]
        for value in properties.values():
            for limit in ("minLength", "maxLength"):
                value.pop(limit, None)
        first = next(iter(properties))
        if first not in merged:
            merged[first] = branch
            continue
        known = merged[first]["properties"]
        for name, value in properties.items():
            if "enum" in known[name] and "enum" in value:
                known[name]["enum"] = list(dict.fromkeys([*known[name]["enum"], *value["enum"]]))
            else:
                known[name].pop("enum", None)
    values = [value for branch in merged.values() for value in _enumerations(branch)]
    for value in values:
        words = value["enum"]
        if len(words) > _LONG_LIST and sum(len(str(word)) for word in words) > _LONG_LIST_CHARACTERS:
            del value["enum"]
    values = sorted((value for value in values if "enum" in value), key=lambda value: len(value["enum"]))
    while sum(len(value["enum"]) for value in values) > STRICT_VALUES:
        del values.pop()["enum"]
    one = {"anyOf": list(merged.values())}
    return _object({**whole, **({"actions": {"type": "array", "items": one}} if several else {"action": one})})


def _value(value: Value, text: Schema) -> Schema:
    if isinstance(value, Text):
        return {**text, "minLength": 1} if value is Text.SOME else text
    if value is True:
        return {"type": "boolean", "enum": [True]}
    return {"type": "integer" if isinstance(value[0], int) else "string", "enum": list(value)}


def _object(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _enumerations(branch: Schema) -> Iterator[Schema]:
    return (value for value in branch["properties"].values() if "enum" in value)
