"""The strong model's prompt and a user's own, over real HTTP: what is asked, and what becomes of the replies."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from selfsurf import agents
from selfsurf.agents.kinds import KINDS
from selfsurf.agents.prompt.chat import ACTIONS, STEPS, Chat
from selfsurf.agents.prompt.compact import INSTRUCTIONS
from selfsurf.agents.prompt.prompt import Budget, Turn
from selfsurf.agents.reply.functions import Function, FunctionError, call_in
from selfsurf.agents.reply.schema import action_schema, strict, thoughtful
from selfsurf.browser_env import Click, Finish, Observation
from selfsurf.browser_env.arguments import OptionError
from selfsurf.scripts.cli import app
from tests.agents.policy_server import replying, serve_raw, tool_call

DOCS = Path(__file__).parents[2] / "docs" / "agents.md"


@pytest.fixture
def asking() -> Iterator[Callable[..., tuple[Any, list[dict[str, Any]]]]]:
    """Makes an agent whose model's server gives these replies, and the list of the requests' bodies."""
    with contextlib.ExitStack() as stack:

        def make(*replies: Any, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
            bodies: list[dict[str, Any]] = []
            url = stack.enter_context(serve_raw(replying(bodies, *replies)))
            agent: Any = agents.make("openai", **{"model": "m", "base_url": url, "retries": 0, **options})
            stack.callback(agent.policy.close)
            agent.reset("")
            return agent, bodies

        yield make


def price_of(item: str, pieces: int = 1) -> str:
    """What pieces of an item cost."""
    return f"{item}: {3 * pieces} euros"


def test_a_model_behind_a_server_is_told_the_rules_and_has_room_to_think(asking: Any, form: Observation) -> None:
    agent, bodies = asking(
        'The field is empty, and {"fill":3,"text":"Ada"} is needed first.\nAction: {"click":7}',
        '<think>Was that {"click":12}?</think>Action: {"click":7}',
        instructions="Answer in German.",
    )
    assert agent.act(form) == Click(id=7)
    (body,) = bodies
    system, user = body["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert body["max_tokens"] == 4096
    assert not {"response_format", "tools"} & body.keys()
    for form_of in ('{"navigate":', '{"wait":', '{"scroll":', '{"back":', '{"new_tab":', '{"focus_tab":', '{"finish":'):
        assert form_of in system["content"]
    assert "Answer in German." in system["content"]
    assert "ask_user" not in system["content"], "nobody may be there to answer"
    assert user["content"].startswith(f"Goal: {form['goal']}\n")
    assert "Address: http://page/" in user["content"]
    assert 'button "Submit" {"click":7}' in user["content"]
    [decision] = agent.decide([form])
    assert decision.action == Click(id=7)
    assert decision.completion.thinking == 'Was that {"click":12}?'
    assert bodies[1]["messages"][0] == system, "servers keep what they computed of it"
    assert '1. {"click":7} button "Submit"  (The field is empty, and' in bodies[1]["messages"][1]["content"]


def test_reasoning_that_a_server_reports_is_kept(asking: Any, form: Observation) -> None:
    agent, _ = asking(
        {"text": '{"click":7}', "reasoning_content": "Submit is 7."},
        {"content": None, "reasoning": "So much to think"},
    )
    [decision] = agent.decide([form])
    assert (decision.action, decision.completion.thinking) == (Click(id=7), "Submit is 7.")
    [decision] = agent.decide([form])
    assert (decision.action, decision.completion.thinking) == ("", "So much to think")
    assert decision.error == "The reply ends inside its thinking; think less and reply with an action."


def test_structured_output_has_a_thought_before_the_action(asking: Any, form: Observation) -> None:
    agent, bodies = asking('{"thought":"7 is it.","action":{"click":7}}', constrained=True)
    [decision] = agent.decide([form])
    assert (decision.action, decision.how) == (Click(id=7), "json")
    described = bodies[0]["response_format"]["json_schema"]["schema"]
    assert list(described["properties"]) == ["thought", "action"]
    assert {"navigate", "close_tab"} <= {
        next(iter(one["properties"])) for one in described["properties"]["action"]["anyOf"]
    }
    agent.act(form)
    assert "(7 is it.)" in bodies[1]["messages"][1]["content"]
    wanted = strict(thoughtful(action_schema(form["elements"], ("click",))))
    assert list(wanted["properties"]) == wanted["required"] == ["thought", "action"]


@pytest.mark.slow
def test_a_grammar_has_a_thought_before_the_action(policy: Any, form: Observation) -> None:
    from selfsurf.agents.llm.llm_agent import LLMAgent

    agent = LLMAgent(policy, prompt="chat", constrained=True, actions=("click",), max_new_tokens=48)
    [decision] = agent.decide([form])
    assert re.match(r'{"thought":"[^"]*(","action":{"click":\d+}})?', decision.completion.text)
    assert "THOUGHT" in str(decision.completion.grammar)


def test_a_function_is_called_as_a_tool_within_the_turn(asking: Any, form: Observation) -> None:
    agent, bodies = asking(
        tool_call("price_of", {"item": "tea", "pieces": 2}),
        tool_call("act", {"thought": "6 euros.", "action": {"finish": "6 euros"}}),
        endpoint="openai", tools=True, functions=[price_of],
    )  # fmt: skip
    [decision] = agent.decide([form])
    assert decision.action == Finish(answer="6 euros")
    act, own = bodies[0]["tools"]
    assert act["function"]["name"] == "act"
    assert (act["function"]["strict"], list(act["function"]["parameters"]["properties"])) == (
        True,
        ["thought", "action"],
    )
    assert (own["function"]["name"], own["function"]["description"]) == ("price_of", "What pieces of an item cost.")
    assert own["function"]["parameters"]["required"] == ["item"]
    assert bodies[0]["tool_choice"] == "required"
    assert "price_of" not in str(bodies[0]["messages"])
    *before, call, result = bodies[1]["messages"]
    assert before == bodies[0]["messages"]
    assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == {"item": "tea", "pieces": 2}
    assert result == {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "tea: 6 euros"}
    assert decision.completion.usage.prompt_tokens == 2000, "of both requests"
    assert [message.role for message in decision.messages] == ["system", "user", "assistant", "tool"]
    agent.act(form)
    assert '1. {"price_of":{"item":"tea","pieces":2}} said: tea: 6 euros' in bodies[2]["messages"][1]["content"]


def test_a_function_is_called_by_json_where_there_are_no_tools(asking: Any, form: Observation) -> None:
    """Beside an episode that calls none, which is not asked again."""
    replies = {"One": '{"click":12}', "Two": 'Let me see.\n{"price_of":{"item":"tea"}}', "Two says": '{"finish":"3"}'}
    bodies: list[dict[str, Any]] = []

    def handle(handler: Any, body: dict[str, Any]) -> None:
        name = re.match(r"Goal: (\w+)", body["messages"][1]["content"])[1]  # type: ignore[index]
        replying(bodies, replies[f"{name} says" if len(body["messages"]) > 2 else name])(handler, body)

    with serve_raw(handle) as url:
        agent: Any = agents.make("openai", model="m", base_url=url, functions=[price_of])
        agent.reset("One", slot=0)
        agent.reset("Two", slot=1)
        decisions = agent.decide([form, form])
        agent.policy.close()
    assert [decision.action for decision in decisions] == [Click(id=12), Finish(answer="3")]
    assert len(bodies) == 3
    assert '{"price_of": {"item": "string", "pieces": "integer"}}' in bodies[0]["messages"][0]["content"]
    assert [message["role"] for message in bodies[2]["messages"]] == ["system", "user", "assistant", "user"]
    assert bodies[2]["messages"][3]["content"] == "price_of says:\ntea: 3 euros\n\nGo on."


@pytest.mark.parametrize("arguments", ['{"pieces": "many", "colour": 1}', "{}", "not JSON at all"])
def test_wrong_arguments_are_told_to_the_model(asking: Any, form: Observation, arguments: str) -> None:
    agent, bodies = asking(tool_call("price_of", arguments), tool_call("act", {"action": {"click": 7}}), tools=True,
                           functions=[price_of])  # fmt: skip
    [decision] = agent.decide([form])
    if arguments.startswith("{"):
        assert decision.action == Click(id=7)
        assert bodies[1]["messages"][-1]["content"].startswith("Wrong arguments: ")
    else:
        assert isinstance(decision.action, str)
        assert decision.error


def test_a_model_that_only_calls_functions_is_stopped(asking: Any, form: Observation) -> None:
    agent, bodies = asking('{"price_of":{"item":"tea"}}', functions=[price_of])
    [decision] = agent.decide([form])
    assert len(bodies) == 9
    assert decision.error == "8 functions were called without an action; reply with an action now."


def test_what_a_function_raises_is_the_agents_error(asking: Any, form: Observation) -> None:
    def broken(item: str) -> str:
        raise KeyError(item)

    agent, _ = asking('{"broken":{"item":"tea"}}', functions=[broken])
    with pytest.raises(KeyError, match="tea"):
        agent.act(form)


class Order(BaseModel):
    item: str
    pieces: int = 1


def test_a_function_may_have_a_model_or_a_schema() -> None:
    checked = Function("order", "Order it.", Order, lambda item, pieces: {"ordered": item * pieces})
    assert checked({"item": "a", "pieces": 2}) == '{"ordered": "aa"}'
    assert checked({"pieces": 2}) == "Wrong arguments: item: Field required."
    loose = Function("order", "Order it.", {"type": "object", "properties": {"item": {}}}, lambda item: item)
    assert loose({"item": "x" * 20_000}).endswith("… (20000 characters, cut)")
    assert loose({"thing": "x"}).startswith("Wrong arguments: ")
    for name in ("click", "act", "tap", "two words"):
        with pytest.raises(FunctionError, match="can't be named"):
            Function(name, "", Order, print)
    with pytest.raises(OptionError, match="same name"):
        agents.make("openai", model="m", base_url="http://127.0.0.1:9/v1", functions=[price_of, price_of])


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ('{"price_of":{"item":"tea"}}', {"item": "tea"}),
        ('I look it up. ```json\n{"name": "price_of", "arguments": "{\\"item\\": \\"tea\\"}"}\n```', {"item": "tea"}),
        ('{"thought":"?","action":{"price_of":{"item":"tea"}}}', {"item": "tea"}),
        ('{"action":"price_of","item":"tea","reason":"to know"}', {"item": "tea"}),
        ('{"click":4} or {"price_of":{"item":"tea"}}', None),
        ('<think>{"price_of":{"item":"tea"}}</think>{"click":4}', None),
        ('{"price_of":{"item":"te', None),
        ("price_of", None),
    ],
)
def test_where_a_call_stands(text: str, called: dict[str, Any] | None) -> None:
    found = call_in(text, [Function.of(price_of)])
    assert (None if found is None else found.arguments) == called


def test_the_prompts_know_all_kinds_of_actions() -> None:
    assert set(ACTIONS) == set(INSTRUCTIONS) == set(KINDS)


def test_a_long_episode_keeps_to_the_budget(observation: Any, element: Any) -> None:
    page = observation("Find it.", [element(number, "link", f"word {number}") for number in range(1, 400)])
    history = [f'{{"click":{number}}} link "word {number}"' for number in range(60)]

    def words(messages: Any) -> int:
        return sum(len(message.text.split()) for message in messages)

    turn = Turn("Find it.", history, ["Because of this and that. " * 40] * 60, actions=Chat.actions)
    roomy, tight = (Chat().build(page, turn, Budget(limit, words)) for limit in (4000, 900))
    assert words(tight.messages) <= 900 < words(roomy.messages) <= 4000
    assert roomy.messages[1].text.count("(Because of this") == STEPS
    assert "1 to 40: earlier: 35 steps (click x35); {" in roomy.messages[1].text
    assert tight.lines_left_out > roomy.lines_left_out
    assert tight.messages[0] == roomy.messages[0]
    assert roomy.messages[-1].goal_only == "Goal: Find it."
    assert "Your steps" not in str(roomy.messages[-1].plain)


def documented(name: str, folder: Path) -> str:
    """Write the file of this name, as it stands in the documentation."""
    found = re.search(rf"```python\n# {name}\n(.*?)```", DOCS.read_text(encoding="utf8"), re.DOTALL)
    assert found is not None
    (folder / name).write_text(found[1])
    return str(folder / name)


def test_the_prompt_and_the_function_in_the_documentation_work(asking: Any, form: Observation, tmp_path: Path) -> None:
    brief, price = documented("my_prompt.py", tmp_path), documented("my_functions.py", tmp_path)
    agent, bodies = asking(
        '{"price_of": {"item": "tea", "pieces": 2}}', 'So: {"finish": "6 euros"}', '{"click": 7}',
        prompt=f"{brief}:Brief", functions=[f"{price}:price_of"], instructions="Be quick.", max_prompt_tokens=300,
    )  # fmt: skip
    assert agent.act(form) == Finish(answer="6 euros")
    assert agent.act(form) == Click(id=7)
    system, user = bodies[2]["messages"]
    assert system["content"].startswith("Think, then reply")
    assert system["content"].endswith("Be quick.")
    assert f"Goal: {form['goal']}\nDone: " in user["content"]
    assert "said: 6 euros; " in user["content"]
    assert bodies[0]["max_tokens"] == 500


def test_a_prompt_that_is_none_is_refused(asking: Any, form: Observation, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unknown prompt 'chatty': choose from auto, compact, chat, or give file"):
        asking(prompt="chatty")
    (tmp_path / "bare.py").write_text("class Bare:\n    def build(self, obs, turn, budget): ...\nclass Not: ...\n")
    with pytest.raises(ValueError, match="no build"):
        asking(prompt=f"{tmp_path / 'bare.py'}:Not")
    with pytest.raises(TypeError, match="Bare is not a prompt writer: it lacks max_new_tokens"):
        asking(prompt=f"{tmp_path / 'bare.py'}:Bare")

    class Silent(Chat):
        def build(self, *_: Any) -> Any:
            return None

    agent, _ = asking("", prompt=Silent())
    with pytest.raises(TypeError, match=r"Silent\.build must return a Prompt"):
        agent.act(form)


def test_an_open_goal_is_done_from_the_command_line(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = []
    shop = tmp_path / "shop.html"
    shop.write_text("<title>Shop</title><h1>Tea</h1><p>3 euros</p>")
    start = tmp_path / "start.html"
    start.write_text("<title>Start</title><p>Nothing here.</p>")
    replies = (
        f'There is no price here, but a shop.\nAction: {{"navigate":"{shop.as_uri()}"}}',
        {"text": 'Action: {"finish":"3 euros"}', "reasoning_content": "It says 3 euros."},
    )
    with serve_raw(replying(bodies, *replies)) as url:
        result = CliRunner().invoke(
            app,
            ["run", "--url", start.as_uri(), "--goal", "What does tea cost?", "--agent", "openai", "--model", "m",
             "--set", f"base_url={url}", "--out", str(tmp_path / "episode"), "--json"],
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["answer"] == "3 euros"
    first, second = (json.loads(line) for line in (tmp_path / "episode" / "steps.jsonl").read_text().splitlines())
    assert [turn["role"] for turn in first["completions"][0]["prompt"]] == ["system", "user"]
    assert second["completions"][0]["thinking"] == "It says 3 euros."
    assert "(There is no price here, but a shop.)" in bodies[1]["messages"][1]["content"]
