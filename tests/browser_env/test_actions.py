import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfsurf.browser_env.actions import ACTION_TYPES, Click, Finish, parse_action
from selfsurf.browser_env.errors import ActionError


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"action": "click", "id": 3}, {"action": "click", "id": 3}),
        ('{"action": "click", "x": 1, "y": 2, "count": 2}', {"action": "click", "x": 1.0, "y": 2.0, "count": 2}),
        (Click(id=3, reason="because"), {"action": "click", "id": 3}),
        ('click("12")', {"action": "click", "id": 12}),
        ("click('12', button=\"right\")", {"action": "click", "id": 12, "button": "right"}),
        ("dblclick('12')", {"action": "click", "id": 12, "count": 2}),
        ("fill('7', 'a \"quoted\" text')", {"action": "fill", "id": 7, "text": 'a "quoted" text'}),
        ("clear('7')", {"action": "fill", "id": 7, "text": ""}),
        ("press('7', 'Enter')", {"action": "press", "key": "Enter", "id": 7}),
        ("press('Enter')", {"action": "press", "key": "Enter"}),
        ("select_option('4', 'red')", {"action": "select", "id": 4, "options": ["red"]}),
        ("scroll(0, -200)", {"action": "scroll", "dy": -200.0}),
        ("drag_and_drop('1', '2')", {"action": "drag", "from": 1, "to": 2}),
        ("mouse_drag_and_drop(1, 2, 3, 4)", {"action": "drag", "from": [1.0, 2.0], "to": [3.0, 4.0]}),
        ("upload_file('3', '/tmp/a')", {"action": "upload", "id": 3, "files": ["/tmp/a"]}),
        ("goto('https://example.org')", {"action": "navigate", "url": "https://example.org"}),
        ("noop()", {"action": "wait"}),
        ("tab_focus(1)", {"action": "focus_tab", "index": 1}),
        ("report_infeasible('no such page')", {"action": "infeasible", "reason": "no such page"}),
        ("send_msg_to_user('hello')", {"action": "message", "text": "hello"}),
        ({"click": 3}, {"action": "click", "id": 3}),
        ('{"fill": 7, "text": "x"}', {"action": "fill", "id": 7, "text": "x"}),
        ('{"select":4,"option":"red"}', {"action": "select", "id": 4, "options": ["red"]}),
        ({"scroll": "down"}, {"action": "scroll", "dy": 400.0}),
        ({"back": True}, {"action": "back"}),
    ],
)  # fmt: skip
def test_every_form_is_understood(raw, expected):
    assert parse_action(raw).to_dict() == expected


@pytest.mark.parametrize("name", ACTION_TYPES)
def test_an_action_survives_json(name):
    fields = {
        "id": 1, "text": "x", "key": "Enter", "options": ["a"], "from": 1, "to": [2, 3], "files": ["f"],
        "url": "https://example.org", "index": 0, "question": "why?", "reason": "so",
    }  # fmt: skip
    kind = ACTION_TYPES[name]
    known = {field.alias or key for key, field in kind.model_fields.items()}
    action = parse_action({"action": name, **{key: value for key, value in fields.items() if key in known}})
    assert parse_action(action.to_json()).to_dict() == action.to_dict()


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"action": "click"}, "give either id, or selector, or both x and y"),
        ({"action": "click", "id": 1, "x": 2, "y": 3}, "give either id, or selector, or both x and y"),
        ({"action": "clik", "id": 1}, "Unknown action 'clik'"),
        ({"action": "click", "id": 1, "colour": "red"}, "colour"),
        ({"action": "fill", "id": 1}, "text"),
        ("{not json", "not valid JSON"),
        ("__import__('os').system('true')", "one call"),
        ("click(__import__('os'))", "literals"),
        ("open('/etc/passwd')", "Unknown action 'open'"),
        ("click(1, 2, 3, 4, 5)", "at most"),
        ("click('a12')", "not an element id"),
        (None, "JSON object"),
        (["click", 3], "JSON object"),
        ("", "JSON such as"),
    ],
)
def test_what_is_wrong_is_said(raw, says):
    with pytest.raises(ActionError, match=says):
        parse_action(raw)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_nothing_but_an_action_error_comes_out(raw):
    with contextlib.suppress(ActionError):
        parse_action(raw)


@given(st.text())
def test_any_text_can_be_an_answer(text):
    assert parse_action(Finish(answer=text).to_json()).answer == text
