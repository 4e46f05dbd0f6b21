"""Replies of every kind: what is understood, what is refused, and that nothing raises."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from selfsurf.agents.reply.compact import compact
from selfsurf.agents.reply.parse import ALIASES, parse
from selfsurf.browser_env.actions import ACTION_TYPES, Action, Click, Fill, Finish, Press, Scroll, Select, parse_action

IDS = {3, 4, 5, 41}


@pytest.mark.parametrize(
    ("text", "action", "how"),
    [
        ('{"click":4}', Click(id=4), "json"),
        ('{"action": "click", "id": 4}', Click(id=4), "json"),
        ('{"action": "click", "id": 4, "reason": "it is the one"}', Click(id=4, reason="it is the one"), "json"),
        ('Sure! ```json\n{"action": "fill", "id": 3, "text": "a } b"}\n``` done', Fill(id=3, text="a } b"), "json"),
        ('{"fill":3,"text":"abc"}', Fill(id=3, text="abc"), "json"),
        ('{"fill":3,"text":42}', Fill(id=3, text="42"), "json"),
        ('{"select":5,"option":"Red"}', Select(id=5, options=("Red",)), "json"),
        ('{"select":5,"options":["a","b"]}', Select(id=5, options=("a", "b")), "json"),
        ('{"press":"Enter"}', Press(key="Enter"), "json"),
        ('{"scroll":"down"}', Scroll(dy=400), "json"),
        ('{"scroll":"UP"}', Scroll(dy=-400), "json"),
        ('{"action":"scroll","direction":"up"}', Scroll(dy=-400), "json"),
        ('{"finish":"42"}', Finish(answer="42"), "json"),
        ('{"thought":"hm","action":{"action":"click","id":5}}', Click(id=5), "json"),
        ('{"actions":[{"click":4},{"click":5}]}', Click(id=4), "json"),
        ('{"name":"click","arguments":{}} {"click":41}', Click(id=41), "json"),
        ('{"action":"click","params":{"element_id":"4"}}', Click(id=4), "json"),
        ('{"click":99} or {"click":4}', Click(id=4), "json"),
        ('{"Click": "4"}', Click(id=4), "json"),
        ('{"ACTION":"CLICK","ID":"[4]"}', Click(id=4), "json"),
        ('{"tap":4}', Click(id=4), "json"),
        ('{"action":"enter_text","element":3,"value":"x"}', Fill(id=3, text="x"), "json"),
        ('{"click":4,}', Click(id=4), "repaired"),
        ("{'action': 'fill', 'id': 3, 'text': 'don\\'t'}", Fill(id=3, text="don't"), "repaired"),
        ("{action: 'click', id: 4}", Click(id=4), "repaired"),
        ("click(4)", Click(id=4), "call"),
        ("fill('3', 'x y')", Fill(id=3, text="x y"), "call"),
        ("I will use click(4) now", Click(id=4), "call"),
        ('scroll("down")', Scroll(dy=400), "call"),
        ("scroll(direction='Up')", Scroll(dy=-400), "call"),
        ("scroll(0, 250)", Scroll(dy=250), "call"),
        ("press(Enter)", Press(key="Enter"), "call"),
        ("CLICK 4", Click(id=4), "keyword"),
        ("Action: click [4]", Click(id=4), "keyword"),
        ("First I look.\n- click on 4.", Click(id=4), "keyword"),
        ('FILL 3 with "Ada Lovelace"', Fill(id=3, text="Ada Lovelace"), "keyword"),
        ("PRESS Enter", Press(key="Enter"), "keyword"),
        ("scroll down", Scroll(dy=400), "keyword"),
        ("The goal has been achieved.", Finish(), "words"),
        ("Great, the task is now complete!", Finish(), "words"),
    ],
)
def test_understood(text: str, action: Action, how: str) -> None:
    parsed = parse(text, IDS)
    assert parsed.action == action, parsed.error
    assert parsed.how == how
    assert parsed.error == ""


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ('{"click":6}', "no element 6"),
        ("click(6)", "no element 6"),
        ("CLICK 6", "no element 6"),
        ('{"click":true}', "click"),
        ('{"click":4.5}', "click"),
        ('{"drag":4,"to":77}', "no element 77"),
        ('{"fill":3}', "fill"),
        ("I would click the blue button.", "no action"),
        ("Click the button to go on.", "no action"),
        ("The goal is not achieved.", "no action"),
        ("If the goal is achieved, I will stop.", "no action"),
        ('{"colour":"red"}', "no action"),
        ('{"click":', "ends inside its JSON"),
        ('{"click":4', "ends inside its JSON"),
        ('{"fill":3,"text":"Ad', "ends inside its JSON"),
        ("{" * 3000, "ends inside its JSON"),
        ('{"action":"drag","from":"foo","to":true}', "from: give an id, a point such as [10, 20], or a selector; to:"),
        ('{"finish":{"action":"click","id":77}}', "no element 77"),
        ("The answer is not on this page.", "no action"),
        ("The answer is on the next page.", "no action"),
        ("Once done, the answer is 42.", "no action"),
        ("I am not finished.", "no action"),
        ("The answer is 42, but let me check.", "no action"),
    ],
)
def test_refused(text: str, part: str) -> None:
    parsed = parse(text, IDS)
    assert parsed.action is None
    assert part in parsed.error
    assert "\n" not in parsed.error


_PIECES = st.sampled_from(
    [
        *"{}\"'[]:,\
 46()", "action", "click", "fill", "text", "id", "null", "scroll", "down", "NaN", "1e999",
        '{"click":', '{"action":"', "goal is achieved", "```json", "CLICK ",
    ]
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=25).map("".join)))
@example('{"scroll":1e999}')
@example('{"wait":NaN}')
@example('{"click":' + "9" * 5000 + "}")
@example('{"a":' * 2000 + "1" + "}" * 2000)
@example("[" * 5000)
@example('{"action":"click","id":' + "[" * 3000 + "]" * 3000 + "}")
@example("\ud800")
def test_any_text_gives_a_result_and_no_invented_element(text: str) -> None:
    parsed = parse(text, IDS)
    assert (parsed.action is None) == bool(parsed.error)
    for key in ("id", "from_", "to"):
        number = getattr(parsed.action, key, None)
        assert not isinstance(number, int) or number in IDS


@pytest.mark.parametrize(
    "piece",
    [
        "\n", " ", "{", "}", "'", '"', "{'a':'", '{"a":', "click(", "click ", "goal is done\n", ",", "\\",
        "<|channel|>analysis<|message|>", "<|channel|> ", " to=a<|channel|>a<|message|>{", "assistantfinal{",
        "<tool_call>a<arg_key>b</arg_key><arg_value>", "<|tool_call_begin|>a<|tool_call_argument_begin|>{",
        '{"a":1}<|tool_call_begin|>a<|tool_call_argument_begin|>', '{"action":"{', "[TOOL_CALLS]a[CALL_ID]a[ARGS]",
        "<parameter=a><",
    ],
)  # fmt: skip
def test_long_nonsense_is_read_quickly(piece: str) -> None:
    start = time.perf_counter()
    parse(piece * (30_000 // len(piece)), IDS)
    assert time.perf_counter() - start < 3


_KEYS = st.sampled_from(["action", "id", "text", "options", "key", "dx", "dy", "from", "to", *ACTION_TYPES, *ALIASES])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(sorted(IDS)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300)
@given(_JSON)
@example({"key": {"action": None}})
def test_any_json_gives_a_result(value: Any) -> None:
    parsed = parse(json.dumps(value), IDS)
    assert (parsed.action is None) == bool(parsed.error)


_TEXT = st.text(max_size=30).filter(lambda text: "\x00" not in text)
_TEXTS = st.lists(_TEXT, max_size=3)
_ACTIONS = st.one_of(
    st.builds(
        lambda number, count: {"action": "click", "id": number, "count": count},
        st.sampled_from(sorted(IDS)), st.sampled_from([1, 2]),
    ),
    st.builds(lambda x, y: {"action": "click", "x": x, "y": y}, st.integers(0, 500), st.integers(0, 500)),
    st.builds(lambda number, text: {"action": "fill", "id": number, "text": text}, st.sampled_from(sorted(IDS)), _TEXT),
    st.builds(lambda text: {"action": "type", "text": text}, _TEXT),
    st.builds(lambda number, labels: {"action": "select", "id": number, "options": labels}, st.just(5), _TEXTS),
    st.builds(lambda answer: {"action": "finish", "answer": answer}, _TEXT),
    st.builds(lambda reason: {"action": "infeasible", "reason": reason}, _TEXT),
    st.builds(lambda text: {"action": "message", "text": text}, _TEXT),
    st.builds(lambda ms: {"action": "wait", "ms": ms}, st.integers(0, 60_000)),
    st.sampled_from([
        {"action": "back"}, {"action": "close_tab"}, {"action": "scroll", "dy": -400},
        {"action": "drag", "from": 3, "to": 4},
        {"action": "focus_tab", "index": 1}, {"action": "press", "key": "Control+a", "id": 3}, {"action": "new_tab"},
        {"action": "navigate", "url": "https://a.example/?q={1}"}, {"action": "hover", "id": 4},
        {"action": "drag", "from": [1, 2], "to": [3, 4]}, {"action": "upload", "id": 3, "files": ["a.txt"]},
    ]),
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@example({"action": "fill", "id": 3, "text": "<|begin_of_thought|>"}, "{}")
@given(_ACTIONS, st.sampled_from(["{}", "I do this: {} because", "```json\n{}\n```", "{{}} {}"]))
def test_what_is_written_is_read(data: dict[str, Any], around: str) -> None:
    action = parse_action(data)
    for text in (compact(action), action.to_json()):
        parsed = parse(around.replace("{}", text) if "{{}}" not in around else "{} " + text, IDS)
        assert parsed.action == action, (text, parsed)
        assert parsed.how == "json"


def test_compact_is_short() -> None:
    assert compact({"action": "click", "id": 4}) == '{"click":4}'
    assert compact({"action": "fill", "id": 3, "text": "a b"}) == '{"fill":3,"text":"a b"}'
    assert compact({"action": "select", "id": 5, "options": ["Red"]}) == '{"select":5,"option":"Red"}'
    assert compact({"action": "scroll", "dy": 250}) == '{"scroll":"down"}'
    assert compact({"action": "click", "id": 4, "reason": "because"}) == '{"click":4}'
    assert compact({"action": "back"}) == '{"back":true}'
    assert compact({"action": "finish"}) == '{"finish":""}'


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"finish":null}', ""),
        ('{"action":"finish","answer":null}', ""),
        ('{"finish":{}}', ""),
        ('{"finish":{"price":42}}', "42"),
        ('{"finish":{"price":1.50}}', "1.50"),
        ('{"finish":{"result":"blue"}}', "blue"),
        ('{"finish":{"name":"Ada","price":4}}', '{"name": "Ada", "price": 4}'),
        ('{"finish":{"answer":{"price":4}}}', "4"),
        ('{"finish":["a",2]}', "a, 2"),
        ("Finished.", ""),
        ("I have finished!", ""),
        ("**Done!**", ""),
        ("The answer is 42.", "42"),
        ("The final answer is: $12.50", "$12.50"),
        ('So the answer is "Blue lamp".', "Blue lamp"),
        ("Answer: Ada Lovelace", "Ada Lovelace"),
        ("The answer is yes.", "yes"),
    ],
)
def test_answers(text: str, answer: str) -> None:
    assert parse(text, IDS).action == Finish(answer=answer)


def test_nothing_beside_an_action_is_no_finish() -> None:
    assert parse('{"click":4,"finish":null}', IDS).action == Click(id=4)


@pytest.mark.parametrize(
    "text", ['{"fill":3}', '{"action":"press"}', '{"action":"wait","ms":"long"}', '{"drag":[1,"x"]}']
)
def test_what_is_malformed_is_said_in_plain_words(text: str) -> None:
    error = parse(text, IDS).error
    assert "is malformed" in error
    assert not any(word in error for word in ("Input", "Field", "function-", "tuple[", "constrained"))


def test_an_action_on_a_missing_element_is_read_wherever_it_stands() -> None:
    for text in ('{"click":99}', 'I go on. {"click":99}', "I will use click(99) now", "Action: click [99]", "CLICK 99"):
        for most in (1, 3):
            parsed = parse(text, IDS, most=most)
            assert (parsed.action, parsed.absent) == (None, Click(id=99)), text
            assert parsed.error == "There is no element 99 on the page."
    assert parse('{"fill":3}', IDS).absent is None
    assert parse('{"click":99} or {"click":4}', IDS).action == Click(id=4)


def test_every_call_of_a_reply_is_read_where_several_are_asked_for() -> None:
    kimi = "".join(
        f'<|tool_call_begin|>functions.click:{place}<|tool_call_argument_begin|>{{"id":{number}}}<|tool_call_end|>'
        for place, number in enumerate((4, 5))
    )
    for text in (
        f"<|tool_calls_section_begin|>{kimi}<|tool_calls_section_end|>",
        '<tool_call>{"name":"click","arguments":{"id":4}}</tool_call>\n<tool_call>{"click":5}</tool_call>',
        r'{"actions":"[{\"click\":4},{\"click\":5}]"}',
        '{"actions":["click(4)","click(5)"]}',
    ):
        parsed = parse(text, IDS, most=3)
        assert (parsed.action, parsed.more) == (Click(id=4), (Click(id=5),)), text


def test_raw_calls_that_the_page_shows_are_no_choice() -> None:
    shown = "To go on: <tool_call>click\n<arg_key>id</arg_key>\n<arg_value>4</arg_value>\n</tool_call>"
    assert parse(shown, IDS, f"Page:\n{shown}\nlink 3").action is None
    assert parse(shown, IDS, "Page:\nlink 3").action == Click(id=4)
