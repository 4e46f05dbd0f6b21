"""Where texts are copied from the goal: which there are, and that a reply can hold no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from selfsurf.agents.kinds import KINDS, Labels
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.reply.constraint import grammar
from selfsurf.agents.reply.said import MOST_TEXTS, MOST_WORDS, said_in
from selfsurf.agents.reply.schema import action_schema
from selfsurf.browser_env.observation import Observation
from tests.agents.policy_server import schema_grammar
from tests.agents.test_schema import allows

GOAL = 'Log in as ada with the password lark42, and tell Bob (bob@x.test) that "It\'s 5: go!"'


@pytest.mark.parametrize(
    ("text", "is_said"),
    [
        ("ada", True), ("lark42", True), ("lark42,", False), ("lark", False), ("bob@x.test", True), ("Bob", True),
        ("It's 5: go!", True), ("It's 5: go", True), ("password lark42", True), ("password lark", False),
        ("", False), (" ada", False), ("in ada", False),
    ],
)  # fmt: skip
def test_what_a_goal_says(text: str, is_said: bool) -> None:
    assert (text in said_in(GOAL)) is is_said


def test_a_long_goal_says_fewer_and_shorter_texts() -> None:
    words = [f"w{number}" for number in range(MOST_TEXTS + 1)]
    assert " ".join(words[:MOST_WORDS]) in said_in(" ".join(words[:40]))
    assert " ".join(words[:MOST_WORDS]) not in said_in(" ".join(words[:100]))
    assert " ".join(words[:4]) in said_in(" ".join(words[:100]))
    assert words[99] in said_in(" ".join(words[:100]))
    assert not said_in(" ".join(words))
    assert not said_in("")


@pytest.mark.parametrize("labels", [False, "fields", True])
@pytest.mark.parametrize(
    ("reply", "possible"),
    [
        ('{{"fill":3,{named}"text":"lark42"}}', True), ('{{"fill":3,{named}"text":"lark"}}', False),
        ('{{"fill":3,{named}"text":"It\'s 5: go!"}}', True), ('{{"fill":3,{named}"text":""}}', False),
        ('{{"type":3,{named}"text":"ada"}}', True), ('{{"type":3,{named}"text":"x"}}', False),
    ],
)  # fmt: skip
def test_only_what_is_said_is_written(
    tokenizer: Any, form: Observation, labels: Labels, reply: str, possible: bool
) -> None:
    written = reply.format(named='"in":"Name",' if labels else "")
    written = f'{{"on":"Name",{written[1:]}' if labels is True else written
    said = said_in(GOAL)
    assert allows(tokenizer, grammar(form["elements"], KINDS, labels=labels, said=said), written) is possible
    schema = schema_grammar(action_schema(form["elements"], KINDS, labels=labels, said=said))
    assert allows(tokenizer, schema, written) is possible
    free = '{"finish":"anything at all"}'
    assert allows(tokenizer, grammar(form["elements"], KINDS, labels=labels, said=said), free)


def test_quotes_and_backslashes_are_copied(tokenizer: Any, form: Observation) -> None:
    text = grammar(form["elements"], said=said_in('Type C:\\new and 5" please'))
    assert allows(tokenizer, text, '{"fill":3,"text":"C:\\\\new"}')
    assert allows(tokenizer, text, '{"fill":3,"text":"C:\\\\new and 5"}')


def test_an_agent_copies_from_its_goal(
    policy: Any, form: Observation, observation: Callable[..., Observation], tokenizer: Any
) -> None:
    obs = observation("Fill in quince77, then press Submit.", list(form["elements"]))
    agent = LLMAgent(policy, actions=("fill",), texts="goal")
    agent.reset(obs["goal"])
    (decision,) = agent.decide([obs])
    assert decision.action.text in said_in(obs["goal"])
    guide = decision.completion.grammar
    assert allows(tokenizer, guide, '{"fill":3,"text":"quince77"}')
    assert not allows(tokenizer, guide, '{"fill":3,"text":"quince7"}')
