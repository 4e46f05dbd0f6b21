"""The OpenAI-compatible backend against a real server over the small model: same tokens, same text, exact records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from selfsurf import agents
from selfsurf.agents.policies.openai.endpoints import ENDPOINTS, Endpoint
from selfsurf.agents.policies.openai.policy import OpenAIPolicy
from selfsurf.agents.policy import Message, PolicyError
from selfsurf.agents.reply.constraint import grammar
from selfsurf.agents.reply.parse import parse
from selfsurf.agents.reply.schema import action_schema, any_action, strict, wrapped
from selfsurf.browser_env.actions import ACTION_TYPES
from selfsurf.browser_env.observation import Observation
from tests.agents.policy_server import KEY, policy_app, schema_grammar, serve
from tests.few import few

ASK = [Message("user", 'Reply with one action in JSON. Enter "Ada" into the field [3] Name. The button [7] is Submit.')]


@pytest.fixture(scope="module")
def received() -> list[dict[str, Any]]:
    """The bodies of all requests so far."""
    return []


@pytest.fixture(scope="module")
def address(policy: Any, received: list[dict[str, Any]]) -> Iterator[str]:
    """The server, over the package's policy."""
    with serve(policy_app(policy, received)) as url:
        yield url


@pytest.fixture
def remote(address: str) -> Iterator[Any]:
    """Makes a policy that asks the server; they are closed at the end."""
    made: list[OpenAIPolicy] = []

    def make(endpoint: str | Endpoint | None = "vllm", **options: Any) -> OpenAIPolicy:
        settings = {"base_url": f"{address}/v1", "api_key": KEY, **options}
        made.append(OpenAIPolicy("small", endpoint, **settings))
        return made[-1]

    yield make
    for policy in made:
        policy.close()


def test_guided_by_grammar_equals_the_local_policy(policy: Any, remote: Any, form: Observation) -> None:
    text = grammar(form["elements"], ("click", "fill", "select"), max_text=8)
    [local] = policy.complete([ASK], grammars=[text])
    asked = remote(processed_logprobs=True)
    assert asked.guidance == "grammar"
    [reply] = asked.complete([ASK], grammars=[text], prefill='{"')
    assert reply.text == local.text
    assert parse(reply.text, {3, 5, 7, 12, 71}).how == "json"
    assert reply.token_ids == local.token_ids
    assert reply.prompt_token_ids == local.prompt_token_ids
    assert reply.logprobs == pytest.approx(local.logprobs, abs=1e-5)
    assert reply.grammar == text
    assert (reply.prefill_token_ids, reply.finish_reason) == ([], "eos")
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == len(local.prompt_token_ids)
    assert reply.usage.completion_tokens == len(local.token_ids)
    assert (reply.usage.attempts, reply.usage.cost) == (1, None)


def test_sampled_rows_equal_the_local_policy(policy: Any, remote: Any, form: Observation) -> None:
    texts = [grammar(form["elements"], kinds) for kinds in (("click",), ("press",), ("select",))]
    local = policy.complete([ASK] * 3, grammars=texts, temperature=1.0, seed=5)
    replies = remote(processed_logprobs=True).complete([ASK] * 3, grammars=texts, temperature=1.0, seed=5)
    assert [reply.token_ids for reply in replies] == [row.token_ids for row in local]
    for reply, row in zip(replies, local, strict=True):
        assert reply.logprobs == pytest.approx(row.logprobs, abs=1e-4)
    assert len({reply.text for reply in replies}) == 3


def test_raw_logprobs_of_a_masked_reply_are_not_recorded(remote: Any, form: Observation) -> None:
    [reply] = remote().complete([ASK], grammars=[grammar(form["elements"], ("scroll",))])
    assert reply.token_ids
    assert reply.logprobs == []


@pytest.mark.slow
def test_a_free_reply_continues_the_prefill(policy: Any, remote: Any) -> None:
    [local] = policy.complete([ASK], prefill='{"', max_new_tokens=8)
    asked = remote()
    [reply] = asked.complete([ASK], prefill='{"', max_new_tokens=8)
    assert reply.text == local.text
    assert reply.text.startswith('{"')
    assert reply.prompt_token_ids == local.prompt_token_ids
    assert reply.prefill_token_ids == local.prefill_token_ids != []
    assert reply.logprobs == pytest.approx(local.logprobs, abs=1e-5)
    assert reply.finish_reason == "length"
    [reply] = asked.complete([ASK], prefill='{"', max_new_tokens=4, temperature=0.5)
    assert reply.logprobs == [], "before the temperature or after it: nobody says"


def test_older_vllm_tells_the_sampled_ids_only(policy: Any, remote: Any, form: Observation) -> None:
    text = grammar(form["elements"], ("scroll",))
    [local] = policy.complete([ASK], grammars=[text])
    [reply] = remote("vllm-guided", processed_logprobs=True).complete([ASK], grammars=[text])
    assert (reply.token_ids, reply.prompt_token_ids) == (local.token_ids, [])
    assert reply.logprobs == pytest.approx(local.logprobs, abs=1e-5)


@pytest.mark.slow
def test_guided_by_schema_equals_the_local_policy(policy: Any, remote: Any, form: Observation) -> None:
    schema = action_schema(form["elements"], ("fill", "click"), max_text=8)
    [local] = policy.complete([ASK], grammars=[schema_grammar(schema)], max_new_tokens=24)
    [reply] = remote("nim").complete([ASK], schemas=[schema], prefill='{"', max_new_tokens=24)
    assert reply.text == local.text
    assert parse(reply.text, {3, 5, 7, 12, 71}).action is not None
    assert (reply.grammar, reply.token_ids, reply.prompt_token_ids, reply.logprobs) == (None, [], [], [])


@pytest.mark.parametrize("name", few(4, ["openai", "vllm", "trtllm", "plain", "nim", "vllm-guided", "ollama"]))
def test_a_schema_as_each_server_reads_it(
    remote: Any, form: Observation, received: list[dict[str, Any]], name: str
) -> None:
    schema = action_schema(form["elements"], ("scroll",))
    asked = remote(None if name == "plain" else name, guidance="schema")
    [reply] = asked.complete([ASK], schemas=[schema], prefill='{"', max_new_tokens=12)
    sent = received[-1]
    if name == "openai":
        described = {"name": "action", "schema": strict(schema), "strict": True}
        assert sent["response_format"] == {"type": "json_schema", "json_schema": described}
        assert "max_tokens" not in sent
    elif name in ("nim", "vllm", "vllm-guided"):
        fields = {
            "nim": {"nvext": {"guided_json": schema}},
            "vllm": {"structured_outputs": {"json": schema}},
            "vllm-guided": {"guided_json": schema},
        }[name]
        assert fields.items() <= sent.items()
    else:
        described = {"name": "action", "schema": schema}
        assert sent["response_format"] == {"type": "json_schema", "json_schema": described}
    assert [message["role"] for message in sent["messages"]] == ["user"], "a guided reply is not begun for the server"
    expected = ('{"scroll":"down"}', '{"scroll":"up"}')
    assert reply.text in ([f'{{"action":{text}}}' for text in expected] if name == "openai" else expected)


def test_trtllm_takes_a_grammar_in_its_form(remote: Any, form: Observation, received: list[dict[str, Any]]) -> None:
    text = grammar(form["elements"], ("scroll",))
    [reply] = remote("trtllm", guidance="grammar").complete([ASK], grammars=[text])
    assert received[-1]["response_format"] == {"type": "ebnf", "ebnf": text}
    assert reply.text in ('{"scroll":"down"}', '{"scroll":"up"}')


@pytest.mark.parametrize("name", ["openai", "vllm"])
def test_the_arguments_of_the_tool_call_are_the_reply(
    remote: Any, form: Observation, received: list[dict[str, Any]], name: str
) -> None:
    schema = action_schema(form["elements"], ("scroll",))
    asked = remote(name, tools=True)
    assert asked.guidance == "schema"
    [reply] = asked.complete([ASK], schemas=[schema])
    tool = received[-1]["tools"][0]["function"]
    assert tool["parameters"] == (strict(schema) if name == "openai" else wrapped(schema))
    assert received[-1]["tool_choice"] == {"type": "function", "function": {"name": tool["name"]}}
    assert reply.text in ('{"action":{"scroll":"down"}}', '{"action":{"scroll":"up"}}')
    action = parse(reply.text, ()).action
    assert action is not None
    assert action.name == "scroll"


def test_a_free_tool_call_is_told_the_language(remote: Any, received: list[dict[str, Any]]) -> None:
    remote("openai", tools=True).complete([ASK], max_new_tokens=4)
    tool = received[-1]["tools"][0]["function"]
    assert tool["parameters"] == wrapped(any_action())
    assert "strict" not in tool


def test_tokens_are_counted_by_the_server_or_the_tokenizer(policy: Any, remote: Any, tokenizer: Any) -> None:
    exact = len(policy.encode(ASK))
    for asked in (remote(), remote("openai", tokenizer=tokenizer), remote(tokenizer=tokenizer)):
        assert asked.count_prompt_tokens(ASK) == exact
        assert asked.count_tokens("Enter Ada") == policy.count_tokens("Enter Ada")
        assert asked.count_tokens("") == 0
    assert remote().count_prompt_tokens(ASK, '{"') == len(policy.encode(ASK, '{"'))
    assert remote("openai", tokenizer=tokenizer).count_prompt_tokens(ASK, '{"') == exact, "it is given no prefill"


def test_an_estimate_lies_above_the_count(policy: Any, remote: Any, form: Observation) -> None:
    page = f"{ASK[0].text}\n{form['dom']}\nThe quick brown fox (12.50 €, né à Liège) https://a.example/x?y=1&z=2\n" * 9
    asked = remote("ollama")
    assert policy.count_tokens(page) < asked.count_tokens(page) < 2.5 * policy.count_tokens(page)
    messages = [Message("system", "You act on pages."), Message("user", page)]
    assert policy.count_prompt_tokens(messages) < asked.count_prompt_tokens(messages)


def test_an_unknown_model_and_a_wrong_key_are_final(remote: Any) -> None:
    for asked, what in ((remote(adapter="other"), "model='other'"), (remote(api_key=f"{KEY}-no"), "api_key=")):
        with pytest.raises(PolicyError, match=what) as error:
            asked.complete([ASK], max_new_tokens=1)
        assert asked.totals.requests == 1, "not tried again"
        assert KEY not in str(error.value)


def test_a_prompt_that_the_server_refuses_is_no_failure_of_the_agent(remote: Any) -> None:
    with pytest.raises(PolicyError, match=r"exceed the context.*max_prompt_tokens=") as error:
        remote().complete([[Message("user", "a b " * 5000)]], max_new_tokens=1)
    assert "2 replies" not in str(error.value)


def test_the_adapter_is_asked_by_its_name(remote: Any, received: list[dict[str, Any]]) -> None:
    asked = OpenAIPolicy("base", "vllm", base_url=remote().base_url, api_key=KEY, adapter="small")
    asked.complete([ASK], max_new_tokens=1)
    asked.close()
    assert (asked.name, received[-1]["model"]) == ("base", "small")


@pytest.mark.parametrize(("endpoint", "guidance"), [("vllm", "grammar"), ("nim", "schema")])
def test_an_agent_takes_a_step(address: str, form: Observation, endpoint: str, guidance: str) -> None:
    agent = agents.make(
        "openai", model="small", endpoint=endpoint, base_url=f"{address}/v1", api_key=KEY, constrained=True,
        max_prompt_tokens=400, max_new_tokens=24, actions=("click", "fill"), seed=1, prompt="compact",
    )  # fmt: skip
    agent.reset(form["goal"])
    [decision] = agent.decide([form])  # type: ignore[attr-defined]
    action = decision.action
    assert agent.policy.guidance == guidance  # type: ignore[attr-defined]
    assert not isinstance(action, str), decision.error
    assert isinstance(action, tuple(ACTION_TYPES.values()))
    assert decision.how == "json"
    assert (decision.completion.grammar is not None) == (guidance == "grammar")
    agent.policy.close()  # type: ignore[attr-defined]


def test_every_known_endpoint_is_complete() -> None:
    for name, endpoint in ENDPOINTS.items():
        assert endpoint.base_url.endswith("/v1"), name
        assert endpoint.guidance != "grammar" or endpoint.grammar_form, name
        assert endpoint.guidance != "schema" or endpoint.schema_form, name
