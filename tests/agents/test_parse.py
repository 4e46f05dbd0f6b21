"""Replies of every kind: what is understood, what is refused, and that nothing raises."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from selfsurf.agents.reply.compact import compact
from selfsurf.agents.reply.parse import ALIASES, MAX_CHARACTERS, parse
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
        ('{"finish":{"answer":"yes","reason":"seen"}}', "yes"),
        ('{"finish":{"finish":"yes"}}', "yes"),
        ('{"action":"finish","answer":{"price":4}}', '{"price":4}'),
        ('{"name":"finish","arguments":{"answer":{"click":4}}}', '{"click":4}'),
        ('{"name":"finish","arguments":{"name":"x","click":4}}', '{"name":"x","click":4}'),
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
    found = parse(text, IDS).action
    assert isinstance(found, Finish)
    assert found.answer == answer


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


@pytest.mark.parametrize(
    "answer",
    [
        {"price": 42}, {"result": "blue"}, {"name": "Ada", "price": 4}, {"answer": {"price": 4}}, {"name": "x", "click": 4},
        {"url": "http://x", "navigate": "http://y"}, {"back": "cover"}, {"press": "BBC", "date": "1"},
        {"message": "hi", "ok": True}, {"type": "mug", "price": 3}, {"action": "click", "id": 4}, {"reason": "x"},
        {"items": [{"click": 4}]}, {"actions": [{"click": 4}]}, {"scroll": "down"}, {"id": 4}, {"Name": "Ada"},
        ["a", "b"], ["a", 2], [{"click": 4}], [1], [],
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("most", [1, 4])
def test_an_object_or_list_is_the_answer_of_finish(answer: Any, most: int) -> None:
    written = json.dumps(answer, separators=(",", ":"))
    wanted = Finish(answer=written)
    for said in (f'{{"finish":{written}}}', f'{{"action":{{"finish":{written}}}}}', json.dumps({"finish": written})):
        parsed = parse(said, IDS, most=most)
        assert (parsed.action, parsed.more) == (wanted, ()), said


@pytest.mark.parametrize(
    "text",
    [
        '{"action":"fill","id":3,"value":{"click":4}}',
        '{"action":"message","text":{"click":4}}',
        '{"message":{"click":4}}',
        '{"infeasible":{"click":4}}',
        '{"upload":3,"files":[{"click":4}]}',
    ],
)
def test_no_action_is_looked_for_in_the_arguments_of_another(text: str) -> None:
    action = parse(text, IDS).action
    assert action is None or action.name != "click"


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("<seed:think>", "</seed:think>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<|channel>thought\n", "<channel|>"),
        ("<unused94>thought\n", "<unused95>"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
        ("<|think|>", "<|/think|>"),
        ("<scratch_pad>", "</scratch_pad>"),
    ],
)
def test_thoughts_in_the_marks_of_any_model_are_not_acted_upon(begin: str, end: str) -> None:
    for most in (1, 4):
        parsed = parse(f'{begin}{{"click":3}}{end}{{"click":4}}', IDS, most=most)
        assert (parsed.action, parsed.more) == (Click(id=4), ())
    assert parse(f'{{"click":3}}{end}{{"click":4}}', IDS).action == Click(id=4), "it began in the prompt"
    assert "inside its thinking" in parse(f'{begin}{{"click":3}}', IDS).error
    long = f'{begin}{"so " * MAX_CHARACTERS}{end}{{"click":4}}'
    assert parse(long, IDS).action == Click(id=4)
    text = f"{begin.strip()} x {end}"
    assert parse(json.dumps({"fill": 3, "text": text}), IDS).action == Fill(id=3, text=text)


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"fill":3,"text":"x"}\n```\n\n```json\n{"click":4}\n```',
        "fill(3, 'x')\nclick(4)",
        '[fill(id=3, text="x"), click(id=4)]',
        '[TOOL_CALLS]fill[ARGS]{"id":3,"text":"x"}[TOOL_CALLS]click[ARGS]{"id":4}',
        '[TOOL_CALLS]fill{"id":3,"text":"x"}[TOOL_CALLS]click{"id":4}',
        "<tool_call>\n<function=fill>\n<parameter=id>\n3\n</parameter>\n<parameter=text>\nx\n</parameter>\n</function>\n"
        "</tool_call>\n<tool_call>\n<function=click>\n<parameter=id>\n4\n</parameter>\n</function>\n</tool_call>",
        '<invoke name="fill"><parameter name="id">3</parameter><parameter name="text">x</parameter></invoke>'
        '<invoke name="click"><parameter name="id">4</parameter></invoke>',
    ],
)
def test_several_actions_in_the_forms_of_servers(text: str) -> None:
    parsed = parse(text, IDS, most=4)
    assert (parsed.action, parsed.more) == (Fill(id=3, text="x"), (Click(id=4),))
    assert parse(text, IDS).action == Fill(id=3, text="x")


@pytest.mark.parametrize(
    "text",
    [
        "I will click element 4.",
        "The form is complete. I'll now click on element [4].",
        "Let me click 4",
        "In summary, the next action I will perform is ```click [4]```",
        '<tool_call>\n{{"name": "click", "arguments": {{"id": 4}}}}\n</tool_call>',
        "<|python_tag|>click.call(id=4)<|eom_id|>",
        "<click>4</click>",
    ],
)
def test_plain_words_and_calls_of_templates(text: str) -> None:
    assert parse(text, IDS).action == Click(id=4)


@pytest.mark.parametrize(
    "text",
    [
        "I will not click element 4.",
        "I will click element 4 if the price is right.",
        "Should I click element 4?",
        'The page says "I will click element 4."',
        "Let me click 4 boxes.",
        "I will finish.",
    ],
)
def test_words_that_propose_no_action(text: str) -> None:
    assert parse(text, IDS).action is None
