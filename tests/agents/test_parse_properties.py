"""What holds for the parser on any text: it never raises, never invents an element, and takes time linear in the text."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from selfsurf.agents.reply.compact import compact
from selfsurf.agents.reply.parse import ALIASES, MAX_CHARACTERS, parse
from selfsurf.agents.reply.reading.loose_json import objects
from selfsurf.browser_env.actions import ACTION_TYPES, Click, parse_action

IDS = {3, 4, 5, 41}
KEPT = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])

_PIECES = st.sampled_from(
    [
        *"{}[]()<>\"'`“”‘’｛｝：，\\,:;=#/*\n 4",
        "click", "fill", "select", "drag", "from", "to", "id", "text", "options", "action", "type", "name", "arguments",
        "99", "6", "null", "true", "1e999", '{"click":', '{"action":"', '"id":', '"drag":', "<think>", "</think>",
        "<tool_call>", "Action: ", "Thought: ", "```json\n", "click(", "drag(", "CLICK ", "type [3] [", "```", "//",
        "not ", "The goal is achieved", '\\"', "\x00", "\ud800", "selector", "#99", "text=99", "finish",
    ]
)  # fmt: skip
_MESS = st.one_of(st.text(max_size=200), st.lists(_PIECES, max_size=30).map("".join))


def _elements(action: Any) -> list[Any]:
    named = [getattr(action, key, None) for key in ("id", "from_", "to")]
    assert getattr(action, "selector", None) is None
    return [target for target in named if target is not None and not isinstance(target, tuple)]


@KEPT
@given(_MESS, _MESS)
@example('{"drag":4,"to":"text=99"}', "")
@example("drag_and_drop('4', '#99')", "")
@example('{"action":"click","selector":"[id=99]"}', "")
@example('{"action":"press","key":"a","id":99}', "")
@example('{"action":"scroll","dy":1,"id":"99"}', "")
@example('{"type":"x","id":99}', "")
def test_any_text_gives_a_result_and_only_elements_that_exist(text: str, prompt: str) -> None:
    parsed = parse(text, IDS, prompt)
    assert (parsed.action is None) == bool(parsed.error)
    assert (parsed.action is None) == (parsed.how == "none")
    assert "\n" not in parsed.error
    assert all(element in IDS for element in _elements(parsed.action))


_NUMBERS = st.integers(-2, 100) | st.sampled_from(["4", "[99]", "#6", "text=Go", "99.0", "element 6", " 99 ", "９９"])
_TARGETS = _NUMBERS | st.lists(_NUMBERS, max_size=3) | st.fixed_dictionaries({"id": _NUMBERS}) | st.booleans()
_FIELDS = ["id", "from", "to", "element", "ref", "target", "bid", "selector", "start", "destination", "index"]
_OTHERS = {
    "text": "x", "options": ["a"], "key": "Enter", "files": ["a"], "dy": 5, "url": "https://a.example", "question": "q",
}  # fmt: skip


@KEPT
@given(
    st.sampled_from([*ACTION_TYPES, *ALIASES]),
    st.dictionaries(st.sampled_from(_FIELDS), _TARGETS, max_size=3),
    st.sampled_from(sorted(_OTHERS)),
    st.sampled_from(["action", "name", "compact", "call", "words"]),
)
def test_no_action_names_an_element_that_is_not_there(
    name: str, targets: dict[str, Any], other: str, form: str
) -> None:
    given_fields = {**targets, other: _OTHERS[other]}
    named = ", ".join(f"{key}={value!r}" for key, value in given_fields.items() if key != "from")
    first = next(iter(targets.values()), 4)
    text = {
        "action": json.dumps({"action": name, **given_fields}),
        "name": json.dumps({"name": name, "arguments": given_fields}),
        "compact": json.dumps({name: first, **given_fields}),
        "call": f"{name}({first!r}, {named})",
        "words": f"{name} [{first}] [x]",
    }[form]
    assert all(element in IDS for element in _elements(parse(text, IDS).action)), text


_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
_ID = st.sampled_from(sorted(IDS))
_ACTIONS = st.one_of(
    st.builds(lambda number: {"action": "click", "id": number}, _ID),
    st.builds(lambda number, text: {"action": "fill", "id": number, "text": text}, _ID, _TEXT),
    st.builds(lambda number, text: {"action": "type", "id": number, "text": text}, _ID, _TEXT),
    st.builds(lambda number, text: {"action": "select", "id": number, "options": [text]}, _ID, _TEXT),
    st.builds(lambda first, second: {"action": "drag", "from": first, "to": second}, _ID, _ID),
    st.builds(lambda answer: {"action": "finish", "answer": answer}, _TEXT),
    st.builds(lambda text: {"action": "message", "text": text}, _TEXT),
    st.sampled_from(
        [
            {"action": "back"}, {"action": "scroll", "dy": -400}, {"action": "press", "key": "Enter"},
            {"action": "hover", "id": 4}, {"action": "wait", "ms": 500}, {"action": "focus_tab", "index": 1},
            {"action": "navigate", "url": "https://a.example/?q={1}"}, {"action": "upload", "id": 3, "files": ["a"]},
        ]
    ),
)  # fmt: skip
_WRAPPINGS = {
    "bare": "{}",
    "fence": "```json\n{}\n```",
    "prose": "I go on with this step.\n\n{}\n\nIt is the right one, for the goal is not yet reached.",
    "thinking": '<think>\nClick 41? {"click":41}, click(41)!\n</think>\n\n{}',
    "thinking opened before": 'Or {"click":41}?\n</think>{}',
    "array": "[{}]",
    "answer tag": "<answer>{}</answer>",
    "label": "Thought: I could do click(41).\nAction: {}",
    "nested": '{"thought": "Rather not {\\"click\\":41}.", "next": {"action": {}}}',
    "prefill": '{"{}',
    "marks": "\ufeff**{}**\x00",
    "bullet": "- {}\n- ...",
}


@KEPT
@given(_ACTIONS, st.sampled_from(sorted(_WRAPPINGS)), st.booleans(), st.booleans())
def test_a_valid_action_survives_every_wrapping(data: dict[str, Any], wrapping: str, short: bool, ascii_: bool) -> None:
    text = compact(data) if short else json.dumps(data, ensure_ascii=ascii_)
    parsed = parse(_WRAPPINGS[wrapping].replace("{}", text), IDS, "Page:\nbutton 4 {x}")
    assert parsed.action == parse_action(data), (text, parsed.error)


@KEPT
@given(_ACTIONS, st.sampled_from(["name", "function", "openai", "upper", "single", "tags", "escaped"]))
def test_a_valid_action_survives_every_spelling(data: dict[str, Any], spelling: str) -> None:
    name, rest = data["action"], {key: value for key, value in data.items() if key != "action"}
    inner = {"name": name, "arguments": json.dumps(rest)}
    text = {
        "name": f"<tool_call>{json.dumps({'name': name, 'arguments': rest})}</tool_call>",
        "function": json.dumps({"function": name, "parameters": rest}),
        "openai": json.dumps({"tool_calls": [{"id": "call_1", "type": "function", "function": inner}]}),
        "upper": json.dumps({"ACTION": name.upper(), **{key.upper(): value for key, value in rest.items()}}),
        "single": _single_quoted(data),
        "tags": f"[TOOL_CALLS]{name}{json.dumps(rest)}",
        "escaped": json.dumps(json.dumps(data)),
    }[spelling]
    parsed = parse(text, IDS)
    assert parsed.action == parse_action(data), (text, parsed.error)


def _single_quoted(data: dict[str, Any]) -> str:
    """The dict with every string in single quotes."""

    def quoted(value: Any) -> str:
        if isinstance(value, list):
            return "[" + ", ".join(quoted(item) for item in value) + "]"
        if not isinstance(value, str):
            return json.dumps(value)
        return "'" + json.dumps(value)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"

    return "{" + ", ".join(f"'{key}': {quoted(value)}" for key, value in data.items()) + "}"


@KEPT
@given(st.builds(lambda number, text: {"fill": number, "text": text}, _ID, _TEXT), st.data())
def test_a_cut_text_is_never_acted_upon(data: dict[str, Any], draw: st.DataObject) -> None:
    whole = json.dumps(data, ensure_ascii=False)
    cut = draw.draw(st.integers(0, len(whole) - 3))
    parsed = parse(whole[:cut], IDS)
    assert parsed.action is None or parsed.action == parse_action({"action": "fill", "id": data["fill"], **data}), cut


@KEPT
@given(_ACTIONS, st.lists(_TEXT, min_size=1, max_size=6))
def test_an_echoed_prompt_holds_no_action_and_what_follows_it_does(data: dict[str, Any], labels: list[str]) -> None:
    lines = [f'button "label {name}" {{"click":4}}' for name in labels]
    prompt = "Goal: see\nReply with one action as JSON: " + '{"click":3} to click.\nPage:\n' + "\n".join(lines)
    assert parse(prompt, IDS, prompt).action is None
    assert parse("\n".join(lines), IDS, prompt).action is None
    parsed = parse(f"{prompt}\n\n{compact(data)}", IDS, prompt)
    assert parsed.action == parse_action(data), parsed.error


def test_echoed_lines_hold_no_action_in_any_order() -> None:
    lines = [f'link "Item number {index}" {{"click":{index}}}' for index in range(200)]
    prompt = "Goal: see\nPage:\n" + "\n".join(lines)
    for seed in range(5):
        random.Random(seed).shuffle(lines)
        assert parse("\n".join(lines), range(200), prompt).action is None
        assert parse("\n".join(["Page:", *lines, '{"click":7}']), range(200), prompt).action == Click(id=7)


_PATHOLOGICAL = [
    "{", "}", "{}", "[", "[{", '"', "'", '{"', "{'", '{"a":', "{'a':'", '{"a":"', '{\\"', '{"\\" ', "{/*", "{//", "{# ",
    "{ ", "{\n", "{a", "{a:", "“", "{“", "｛", "\\", ",", "{,", "\n", " ", "(", "click(", 'click("', "click(4", "click ",
    "click [", "[4] ", "goal is done\n", "goal of ", "if goal is done", "<think>", "</think>", "<think></think>",
    "<function=click>", "<parameter=id>", "Action: ", "Action:\n", "Thought: \n\n", "- ", "```", "not ", "not to do ",
    "action input:", "the ", "User:\n", '"click":4 ', '{"click":9}', '{"click":9', "{'click':9}", "analysis", "\x00",
    "click(9) ", "click 9\n", '{"a":1}', '{"a":{"a":', "says ", 'says "', "could ", "e.g. ", "a\n\n", "\\\"{", "4", "#",
]  # fmt: skip


SLACK = 5
"""Idle, the worst takes under 50 ms; where other work shares the cores it may take longer."""


@pytest.mark.parametrize(
    "piece",
    [pytest.param(piece, marks=pytest.mark.slow) if at % 4 else piece for at, piece in enumerate(_PATHOLOGICAL)],
)
def test_pathological_text_is_read_quickly(piece: str) -> None:
    text = (piece * MAX_CHARACTERS)[: MAX_CHARACTERS - 30]
    seconds = []
    for reply, prompt in [(text, ""), (f'{text}\n{{"click":4}}', text[:8000])] * 2:
        start = time.process_time()
        parse(reply, IDS, prompt)
        seconds.append(time.process_time() - start)
    assert min(seconds[0], seconds[2]) < 0.05 * SLACK
    assert min(seconds[1], seconds[3]) < 0.05 * SLACK


def test_a_huge_reply_is_read_quickly() -> None:
    start = time.process_time()
    assert parse("<think>" + "hm {\n" * 1_000_000 + '</think>{"click":4}', IDS).action is not None
    assert time.process_time() - start < 1


def test_objects_are_found_behind_what_can_not_be_read() -> None:
    assert [found.data for found in objects('{oh { "a": {"b": 1} } {"c": [1, {"d": 2}]}')] == [
        {"a": {"b": 1}},
        {"c": [1, {"d": 2}]},
    ]
