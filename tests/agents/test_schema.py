"""Schemas: whatever one allows is a valid action on an element that exists; they agree with the grammar."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from selfsurf.agents.kinds import KINDS, Labels, label
from selfsurf.agents.reply.constraint import Matcher, grammar, ll_tokenizer
from selfsurf.agents.reply.parse import parse
from selfsurf.agents.reply.schema import STRICT_VALUES, action_schema, any_action, strict, wrapped
from selfsurf.browser_env.actions import Fill, Select
from selfsurf.browser_env.observation import Element, Observation
from tests.agents.policy_server import schema_grammar


def allows(tokenizer: Any, text: str, reply: str) -> bool:
    """Whether the reply, to its end, is in the language."""
    matcher = Matcher(ll_tokenizer(tokenizer), text)
    for token in tokenizer.encode(reply, add_special_tokens=False):
        if not matcher.allowed()[token]:
            return False
        matcher.step(token)
    return matcher.done or bool(matcher.allowed()[tokenizer.eos_token_id])


def walk(tokenizer: Any, text: str, random: np.random.Generator) -> str:
    """Choose tokens at random under the grammar until it is complete."""
    matcher = Matcher(ll_tokenizer(tokenizer), text)
    ids: list[int] = []
    while not matcher.done:
        ids.append(int(random.choice(np.flatnonzero(matcher.allowed()))))
        if ids[-1] == tokenizer.eos_token_id:
            break
        matcher.step(ids[-1])
    return str(tokenizer.decode(ids, skip_special_tokens=True))


FORMS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"plain": dict, "wrapped": wrapped}


@pytest.mark.parametrize("form_name", FORMS)
def test_every_sample_is_an_action_on_a_visible_element(tokenizer: Any, form: Observation, form_name: str) -> None:
    random = np.random.default_rng(0)
    shown = form["elements"][:3]
    text = schema_grammar(FORMS[form_name](action_schema(shown, KINDS, max_text=12)))
    seen = set()
    for _ in range(60):
        reply = walk(tokenizer, text, random)
        parsed = parse(reply, {element["id"] for element in shown})
        assert parsed.action is not None, (reply, parsed.error)
        assert parsed.how == "json"
        seen.add(parsed.action.name)
        if isinstance(parsed.action, Fill):
            assert parsed.action.id == 3
            assert len(parsed.action.text) <= 12
        if isinstance(parsed.action, Select):
            assert parsed.action.id == 5
            assert parsed.action.options[0] in shown[1]["options"]
    assert len(seen) > 8


VALID = (
    '{"click":7}', '{"click":71}', '{"fill":3,"text":"Ada"}', '{"fill":3,"text":""}', '{"type":3,"text":"a\\"b"}',
    '{"select":5,"option":"Grün"}', '{"select":5,"option":"Blue \\"dark\\""}', '{"hover":12}', '{"press":"Control+a"}',
    '{"scroll":"down"}', '{"wait":200}', '{"back":true}', '{"close_tab":true}', '{"navigate":"https://a.b/c"}',
    '{"finish":"7 €"}', '{"infeasible":"no"}', '{"message":"hi"}', '{"ask_user":"which?"}', '{"new_tab":"http://a"}',
)  # fmt: skip
INVALID = (
    '{"click":8}', '{"click":717}', '{"click":"7"}', '{"fill":7,"text":"a"}', '{"fill":5,"text":"a"}', '{"fill":3}',
    '{"type":12,"text":"a"}', '{"select":5,"option":"Green"}', '{"select":3,"option":"Red"}', '{"press":"F13"}',
    '{"scroll":"left"}', '{"wait":9999}', '{"back":false}', '{"click":7,"x":1}', '{"drag":3,"to":8}', '{}', "[]",
    '{"fill":3,"text":"' + "a" * 41 + '"}', '{"action":{"click":7}}',
)  # fmt: skip


@pytest.mark.parametrize("reply", VALID)
def test_schema_and_grammar_allow_the_same(tokenizer: Any, form: Observation, reply: str) -> None:
    assert allows(tokenizer, grammar(form["elements"], KINDS, max_text=40), reply)
    assert allows(tokenizer, schema_grammar(action_schema(form["elements"], KINDS, max_text=40)), reply)


@pytest.mark.parametrize("reply", INVALID)
def test_schema_and_grammar_refuse_the_same(tokenizer: Any, form: Observation, reply: str) -> None:
    assert not allows(tokenizer, grammar(form["elements"], KINDS, max_text=40), reply)
    assert not allows(tokenizer, schema_grammar(action_schema(form["elements"], KINDS, max_text=40)), reply)


@pytest.mark.parametrize(
    ("reply", "allowed"),
    [
        ('{{"on":"{name}","fill":3,"in":"{name}","text":"Ada"}}', {True}),
        ('{{"on":"{name}","fill":3,"in":"Other","text":"Ada"}}', set()),
        ('{{"fill":3,"in":"{name}","text":"Ada"}}', {"fields"}), ('{{"fill":3,"in":"Other","text":"Ada"}}', set()),
        ('{{"click":3}}', {False, "fields"}), ('{{"fill":3,"text":"Ada"}}', {False}),
        ('{{"on":"{name}","click":3}}', {True}), ('{{"on":"{name}","click":7}}', set()),
    ],
)  # fmt: skip
def test_schema_and_grammar_name_the_same_elements(
    tokenizer: Any, form: Observation, reply: str, allowed: set[Labels]
) -> None:
    field = next(one for one in form["elements"] if one["id"] == 3)
    written = reply.format(name=label(field))
    for labels in (False, "fields", True):
        expected, schema = labels in allowed, action_schema(form["elements"], labels=labels)
        assert allows(tokenizer, grammar(form["elements"], labels=labels), written) is expected
        assert allows(tokenizer, schema_grammar(schema), written) is expected


def test_only_the_kinds_that_are_offered(tokenizer: Any, form: Observation) -> None:
    text = schema_grammar(action_schema(form["elements"], ("click", "finish")))
    assert allows(tokenizer, text, '{"click":3}')
    assert not allows(tokenizer, text, '{"fill":3,"text":"a"}')
    assert not allows(tokenizer, text, '{"scroll":"down"}')
    with pytest.raises(ValueError, match="Unknown actions"):
        action_schema(form["elements"], ("jump",))


def test_a_page_without_elements_has_an_action(tokenizer: Any) -> None:
    assert allows(tokenizer, schema_grammar(action_schema([], ("click",))), '{"wait":200}')


def test_strict_allows_what_is_valid_and_refuses_ids_that_do_not_exist(tokenizer: Any, form: Observation) -> None:
    text = schema_grammar(strict(action_schema(form["elements"], KINDS)))
    for reply in VALID:
        assert allows(tokenizer, text, f'{{"action":{reply}}}'), reply
        parsed = parse(f'{{"action":{reply}}}', {element["id"] for element in form["elements"]})
        assert parsed.action == parse(reply, {element["id"] for element in form["elements"]}).action
    for reply in ('{"click":8}', '{"fill":7,"text":"a"}', '{"select":5,"option":"Green"}', '{"fill":3}'):
        assert not allows(tokenizer, text, f'{{"action":{reply}}}'), reply


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from nodes(value)


def test_strict_keeps_openai_rules(tokenizer: Any, element: Callable[..., Element], form: Observation) -> None:
    many = [element(number, "combobox", options=("a", f"b{number}")) for number in range(100, 400)]
    free = element(99, "combobox", options=())
    for elements in (
        form["elements"],
        [*form["elements"], many[0], many[1]],
        [*form["elements"], *many],
        [free, *many],
    ):
        plain = action_schema(elements, KINDS)
        before = json.dumps(plain)
        schema = strict(plain)
        assert json.dumps(plain) == before, "the original is left as it was"
        assert schema["type"] == "object"
        assert "anyOf" not in schema
        for node in nodes(schema):
            assert not {"maxLength", "minLength", "pattern", "oneOf", "allOf"} & set(node)
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert node["required"] == list(node["properties"])
            if isinstance(node.get("anyOf"), list):
                firsts = [next(iter(branch["properties"])) for branch in node["anyOf"]]
                assert len(set(firsts)) == len(firsts)
        assert sum(len(node["enum"]) for node in nodes(schema) if isinstance(node.get("enum"), list)) <= STRICT_VALUES
    two = schema_grammar(strict(action_schema([many[0], many[1]], ("select",))))
    for reply in ('{"select":101,"option":"b101"}', '{"select":100,"option":"b100"}', '{"select":100,"option":"a"}'):
        assert allows(tokenizer, two, f'{{"action":{reply}}}'), reply
    assert not allows(tokenizer, two, '{"action":{"select":101,"option":"c"}}')
    assert not allows(tokenizer, two, '{"action":{"select":102,"option":"a"}}')


def test_strict_frees_long_lists_of_strings(element: Callable[..., Element]) -> None:
    options = tuple(f"{number:03d} " + "long label " * 8 for number in range(300))
    schema = strict(action_schema([element(1, "combobox", options=options)], ("select",)))
    [branch] = schema["properties"]["action"]["anyOf"]
    assert branch["properties"] == {"select": {"type": "integer", "enum": [1]}, "option": {"type": "string"}}


@pytest.mark.parametrize(
    ("reply", "allowed"),
    [
        ('{"click":3}', True), ('{"fill":3,"text":"a"}', True), ('{"select":3,"option":"Red"}', True),
        ('{"press":"Enter"}', True), ('{"back":true}', True), ('{"finish":"9"}', True), ('{"wait":200}', True),
        ('{"clik":3}', False), ('{"click":"3"}', False), ('{"fill":3}', False), ('{"scroll":"aside"}', False),
    ],
)  # fmt: skip
def test_any_action_is_the_language_without_a_page(tokenizer: Any, reply: str, allowed: bool) -> None:
    assert allows(tokenizer, schema_grammar(any_action()), reply) is allowed
    assert not allowed or parse(reply, {3}).action is not None
