"""Grammars: whatever is sampled under one is a valid action on an element that exists; masks can be recomputed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from selfsurf.agents.kinds import KINDS, Labels, offered
from selfsurf.agents.reply.compact import as_written, compact
from selfsurf.agents.reply.constraint import Matcher, grammar, ll_tokenizer, token_masks
from selfsurf.agents.reply.parse import parse
from selfsurf.browser_env.actions import Action, Click, Fill, Select, Type, parse_action
from selfsurf.browser_env.observation import Element, Observation


def walk(
    tokenizer: Any, text: str, random: np.random.Generator, prefill: str = '{"'
) -> tuple[str, list[int], list[int]]:
    """Choose tokens at random under the grammar until it is complete."""
    prefill_ids = tokenizer.encode(prefill, add_special_tokens=False) if prefill else []
    matcher = Matcher(ll_tokenizer(tokenizer), text, prefill_ids)
    ids: list[int] = []
    while not matcher.done:
        ids.append(int(random.choice(np.flatnonzero(matcher.allowed()))))
        matcher.step(ids[-1])
    return prefill + tokenizer.decode(ids), ids, prefill_ids


def test_every_sample_is_an_action_on_a_visible_element(tokenizer: Any, form: Observation) -> None:
    random = np.random.default_rng(0)
    shown = form["elements"][:3]
    text = grammar(shown, KINDS, max_text=20)
    seen = set()
    for _ in range(150):
        reply, ids, prefill_ids = walk(tokenizer, text, random)
        parsed = parse(reply, {element["id"] for element in shown})
        assert parsed.action is not None, (reply, parsed.error)
        assert parsed.how == "json"
        seen.add(parsed.action.name)
        if isinstance(parsed.action, (Fill, Type)):
            assert parsed.action.id == 3
            assert len(parsed.action.text) <= 20
        if isinstance(parsed.action, Select):
            assert parsed.action.id == 5
            assert parsed.action.options[0] in shown[1]["options"]
        masks = token_masks(tokenizer, text, ids, prefill_ids)
        assert masks.shape == (len(ids), len(tokenizer))
        assert masks[np.arange(len(ids)), ids].all()
    assert len(seen) > 8


@pytest.mark.parametrize(
    ("reply", "possible"),
    [
        ('{"fill":3,"text":"Ada L"}', True), ('{"fill":3,"text":""}', True), ('{"fill":3,"text":"\\"A"}', True),
        ('{"fill":3,"text":"x"}', True), ('{"fill":3,"text":" Ada"}', False), ('{"fill":3,"text":" "}', False),
        ('{"fill":3,"text":"Ada Lo"}', False), ('{"type":3,"text":" Ada"}', True), ('{"finish":" Ada"}', True),
    ],
)  # fmt: skip
def test_what_is_filled_in_begins_with_no_blank(tokenizer: Any, form: Observation, reply: str, possible: bool) -> None:
    matcher = Matcher(ll_tokenizer(tokenizer), grammar(form["elements"][:3], KINDS, max_text=5), [])
    ids = tokenizer.encode(reply, add_special_tokens=False)
    for token in ids:
        if not matcher.allowed()[token]:
            break
        matcher.step(token)
    else:
        assert possible
        assert matcher.allowed()[tokenizer.eos_token_id] or matcher.done
        return
    assert not possible


@pytest.mark.parametrize("labels", [True, "fields"])
def test_a_reply_can_name_what_it_acts_on(tokenizer: Any, element: Callable[..., Element], labels: Labels) -> None:
    elements = [
        element(3, "textbox", 'Full "name"', tag="input"), {**element(4, "textbox", tag="textarea"), "name": ""},
        element(5, "combobox", "Plan", tag="select", options=("A", "B")), element(6, "button", "Send"),
        element(7, "button", "Send"),
    ]  # fmt: skip
    text = grammar(elements, ("click", "fill", "select"), max_text=5, labels=labels)
    clicked, filled = set(), set()
    for seed in range(60):
        reply, _, _ = walk(tokenizer, text, np.random.default_rng(seed))
        action = parse(reply, {3, 4, 5, 6, 7}).action
        assert action is not None
        assert reply == compact(action, labels=labels, elements=elements)
        assert reply.startswith('{"on":"') is (labels is True)
        assert ('"in":' in reply) is not isinstance(action, Click)
        clicked |= {action.id} if isinstance(action, Click) else set()
        filled |= {action.id} if isinstance(action, Fill) else set()
    assert {6, 7} <= clicked, "both of the same name"
    assert filled == {3, 4}


@pytest.mark.parametrize(
    ("action", "fields", "all_of_it"),
    [
        (
            Fill(id=3, text="Ada"), '{"fill":3,"in":"Full \\"name\\"","text":"Ada"}',
            '{"on":"Full \\"name\\"","fill":3,"in":"Full \\"name\\"","text":"Ada"}',
        ),
        (
            Fill(id=4, text="Ada"), '{"fill":4,"in":"textbox","text":"Ada"}',
            '{"on":"textbox","fill":4,"in":"textbox","text":"Ada"}',
        ),
        (Click(id=7), '{"click":7}', '{"on":"Send","click":7}'), (Click(id=9), '{"click":9}', '{"click":9}'),
    ],
)  # fmt: skip
def test_actions_are_written_with_names(
    element: Callable[..., Element], action: Action, fields: str, all_of_it: str
) -> None:
    elements = [
        element(3, "textbox", 'Full "name"', tag="input"), {**element(4, "textbox", tag="textarea"), "name": ""},
        element(7, "button", "Send"),
    ]  # fmt: skip
    assert compact(action, labels="fields", elements=elements) == fields
    assert compact(action, labels=True, elements=elements) == all_of_it
    assert compact(action, elements=elements) == compact(action)


@pytest.mark.parametrize(
    ("done", "written"),
    [
        ({"action": "press", "key": "Enter", "id": 3}, {"action": "press", "key": "Enter"}),
        ({"action": "press", "key": "Enter", "id": 6}, None),  # the focus is elsewhere
        ({"action": "press", "key": "F2"}, None),
        ({"action": "scroll", "dy": 437}, {"action": "scroll", "dy": 400}),
        ({"action": "scroll", "dx": 90}, None),
        ({"action": "scroll", "dy": 90, "id": 6}, None),
        ({"action": "wait", "ms": 900}, {"action": "wait"}),
        ({"action": "click", "id": 6, "reason": "so"}, {"action": "click", "id": 6}),
        ({"action": "click", "id": 6, "count": 2}, None),
        ({"action": "click", "x": 1, "y": 2}, None),
        ({"action": "drag", "from": 3, "to": 6}, {"action": "drag", "from": 3, "to": 6}),
        ({"action": "drag", "from": [1, 2], "to": 6}, None),
        ({"action": "fill", "id": 3, "text": ""}, {"action": "fill", "id": 3, "text": ""}),
        ({"action": "fill", "id": 3, "text": " a b "}, {"action": "fill", "id": 3, "text": "a b "}),
        ({"action": "fill", "id": 3, "text": "x" * 201}, None),
        ({"action": "select", "id": 5, "options": ["A"]}, {"action": "select", "id": 5, "options": ["A"]}),
        ({"action": "select", "id": 5, "options": ["A", "B"]}, None),
        ({"action": "upload", "id": 6, "files": ["a.txt"]}, None),
        ({"action": "focus_tab", "index": 0}, {"action": "focus_tab", "index": 0}),
        ({"action": "focus_tab", "index": 1}, None),
        ({"action": "finish", "answer": "417"}, {"action": "finish", "answer": "417"}),
        ({"action": "back"}, {"action": "back"}),
    ],
)
def test_what_was_done_is_written_as_a_guided_reply_can(
    tokenizer: Any, element: Callable[..., Element], done: dict[str, Any], written: dict[str, Any] | None
) -> None:
    elements = [
        {**element(3, "textbox", "Name", tag="input"), "states": ("focused",)},
        element(5, "combobox", "Plan", tag="select", options=("A", "B")), element(6, "button", "Send"),
    ]  # fmt: skip
    tabs: Any = [{"url": "", "title": "", "active": active} for active in (False, True)]
    found = as_written(parse_action(done), {"elements": elements, "tabs": tabs})
    assert (None if found is None else found.to_dict()) == written
    if found is not None:
        ids = tokenizer.encode(compact(found), add_special_tokens=False)
        masks = token_masks(tokenizer, grammar(elements, KINDS, tabs=tabs), ids)  # type: ignore[arg-type]
        assert masks[np.arange(len(ids)), ids].all()


@pytest.mark.parametrize("label", ['a"b', "back\\slash", "né ✓ 漢字", "it's", "a/b#c", " x ", "}{", "%s {0}"])
def test_option_labels_survive(tokenizer: Any, element: Callable[..., Element], label: str) -> None:
    text = grammar([element(5, "combobox", "List", options=(label,))], ("select",))
    reply, _, _ = walk(tokenizer, text, np.random.default_rng(1))
    assert parse(reply, {5}).action == Select(id=5, options=(label,))


def test_fill_only_where_text_goes(element: Callable[..., Element]) -> None:
    button, box = element(1), element(2, "checkbox", tag="input")
    assert offered(("click", "fill", "select"), [button, box]) == ("click",)
    assert offered(("fill",), [element(3, "textbox", states=("disabled",))]) == ("wait",)
    assert offered(("fill",), [element(3, "searchbox")]) == ("fill",)
    assert offered(("click",), []) == ("wait",)


def test_a_page_without_elements_has_an_action(tokenizer: Any) -> None:
    reply, _, _ = walk(tokenizer, grammar([], ("click",)), np.random.default_rng(0))
    assert parse(reply, ()).action is not None


def test_without_prefill(tokenizer: Any, form: Observation) -> None:
    reply, _ids, prefill_ids = walk(tokenizer, grammar(form["elements"], ("click",)), np.random.default_rng(0), "")
    assert prefill_ids == []
    assert parse(reply, {3, 5, 7, 12, 71}).action is not None


def test_a_token_outside_is_refused(tokenizer: Any, form: Observation) -> None:
    text = grammar(form["elements"], ("click",))
    prefill_ids = tokenizer.encode('{"', add_special_tokens=False)
    good = tokenizer.encode('click":7}', add_special_tokens=False)
    assert token_masks(tokenizer, text, good, prefill_ids).any(axis=1).all()
    bad = tokenizer.encode('click":8}', add_special_tokens=False)
    with pytest.raises(ValueError, match="position 2 was not allowed"):
        token_masks(tokenizer, text, bad, prefill_ids)
    with pytest.raises(ValueError, match="does not begin with the prefill"):
        token_masks(tokenizer, text, good, tokenizer.encode("Hello"))
    with pytest.raises(ValueError, match="malformed"):
        token_masks(tokenizer, "start: nothing", good)


def test_masks_can_be_wider_than_the_tokenizer(tokenizer: Any, form: Observation) -> None:
    _, ids, prefill_ids = walk(tokenizer, grammar(form["elements"]), np.random.default_rng(3))
    masks = token_masks(tokenizer, grammar(form["elements"]), ids, prefill_ids, vocabulary=len(tokenizer) + 64)
    assert masks.shape[1] == len(tokenizer) + 64
    assert not masks[:, -64:].any()


def test_forced_ending(tokenizer: Any, form: Observation) -> None:
    prefill_ids = tokenizer.encode('{"', add_special_tokens=False)
    matcher = Matcher(ll_tokenizer(tokenizer), grammar(form["elements"], ("click",)), prefill_ids)
    assert matcher.forced_ending(10) is None  # the id is still open
    for token in tokenizer.encode('click":1', add_special_tokens=False):
        matcher.step(token)
    assert matcher.forced_ending(0) is None  # no room, and no step made
    assert tokenizer.decode(matcher.forced_ending(10)) == "2}"
    assert matcher.done
    assert matcher.forced_ending(10) == []


def test_unknown_kind() -> None:
    with pytest.raises(ValueError, match="fly"):
        grammar([], ("fly",))


def test_compiling_takes_milliseconds(tokenizer: Any, element: Callable[..., Element]) -> None:
    elements = [element(number, "textbox" if number % 9 == 0 else "link") for number in range(1, 101)]
    wrapped = ll_tokenizer(tokenizer)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        Matcher(wrapped, grammar(elements), tokenizer.encode('{"', add_special_tokens=False))
        times.append(time.perf_counter() - start)
    assert min(times) < 0.05
