"""The graph without a page: its pure functions, its wiring, its options, and that it stands in the docs as it is."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from selfsurf import agents
from selfsurf.agents.graph import counters, hashes
from selfsurf.agents.graph.agent import GraphAgent
from selfsurf.agents.graph.brief import brief
from selfsurf.agents.graph.budgets import Budgets, added, exhausted
from selfsurf.agents.graph.classifiers import candidates, covered, goal_kind, is_sparse, page_kind, says_success
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.nodes.execute import failure_kind
from selfsurf.agents.graph.nodes.observe import seen, tab_events
from selfsurf.agents.graph.reasons import TerminalReason, normalized, terminal_fields
from selfsurf.agents.graph.scoring import score, stage_of
from selfsurf.agents.graph.state import GraphState, first_state
from selfsurf.agents.graph.wiring import NODES, edges, node
from selfsurf.agents.kinds import KINDS
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policies.openai.kinds import kind_tools, reply_of
from selfsurf.agents.policies.openai.policy import OpenAIPolicy
from selfsurf.agents.policy import Completion, PolicyError
from selfsurf.agents.reply.parse import parse
from selfsurf.agents.reply.schema import any_action, thoughtful, wrapped
from selfsurf.browser_env import Click, Fill, Finish, Observation, Press
from selfsurf.scripts.cli import app
from tests.agents.graphs import call, graph, serving
from tests.agents.said import Saying


@pytest.mark.parametrize(
    ("outcome", "claim", "reason"),
    [
        ("solved", "", "goal_satisfied"), ("solved", "goal_failed", "goal_satisfied"), ("solved", "loop_stuck", "loop_stuck"),
        ("failed", "goal_satisfied", "goal_failed"), ("failed", "loop_stuck", "loop_stuck"),
        ("infeasible", "goal_failed", "goal_failed"), ("infeasible", "budget_exhausted", "budget_exhausted"),
        ("timeout", "", "budget_exhausted"), ("stopped", "goal_satisfied", "goal_satisfied"), ("stopped", "", None),
        ("env_error", "goal_satisfied", None), ("running", "", None),
    ],
)  # fmt: skip
def test_a_verdict_counts_more_than_a_claim_to_have_reached_the_goal(
    outcome: str, claim: str, reason: str | None
) -> None:
    assert normalized(outcome, claim) == reason


def test_every_terminal_reason_has_a_type() -> None:
    types = [terminal_fields(reason)["terminal_type"] for reason in TerminalReason]
    assert types == ["success", "failure", "limit", "limit"]
    assert terminal_fields("") == {"terminal_reason": "", "terminal_type": ""}


def test_loops_and_limits() -> None:
    assert not counters.loops(["a", "b", "a", "b", "a", "c"])
    assert counters.loops(["a", "b", "a", "b", "a"])
    assert not counters.loops(["a", "a", *"bcdefghijkl", "a"]), "long ago"
    tally: dict[str, int] = {}
    for _ in range(counters.LIMITS["planner"]):
        assert not counters.exceeded(tally, "planner")
        tally = counters.count(tally, "planner")
    assert counters.exceeded(tally, "planner")
    assert counters.without(tally, "planner") == {}


def test_budgets() -> None:
    budgets, spent = Budgets(steps=3, tokens=100, seconds=9, dollars=0.5), added({"tokens": 40}, tokens=50, seconds=9)
    assert spent == {"tokens": 90, "seconds": 9}
    assert exhausted(budgets, 2, spent) == "the budget of 9 seconds is used up"
    assert exhausted(Budgets(steps=1), 1, {}) == "the budget of 1 step is used up"
    assert exhausted(budgets, 3, {}) == "the budget of 3 steps is used up"
    assert exhausted(budgets, 2, {"dollars": 0.5}).startswith("the budget of 0.5 dollars")
    assert exhausted(Budgets(), 10**6, {"tokens": 1e9}) == ""


def at(*pages: Observation) -> Live:
    """A run that has seen these, the last one now."""
    live = Live(Budgets())
    for page in pages:
        live.see(page)
    return live


def test_hashes_know_a_page_opened_anew(form: Observation) -> None:
    other = cast(Observation, {**form, "elements": tuple({**one, "id": one["id"] + 50} for one in form["elements"])})
    assert at(form).page == at(other).page
    assert hashes.step_key(Click(id=7), form, "p") == hashes.step_key(Click(id=57), other, "p")
    assert hashes.step_key(Click(id=7), form, "p") != hashes.step_key(Click(id=7), form, "q")
    assert hashes.name_of(Click(id=7, reason="x"), form) == hashes.name_of(Click(id=57), other)
    assert hashes.name_of(Fill(id=3, text="a"), form) != hashes.name_of(Fill(id=3, text="b"), form)
    assert at(form).page != at(cast(Observation, {**form, "page_text": "other"})).page


@pytest.mark.parametrize(
    ("goal", "kind"),
    [
        ("What does the blue mug cost?", "answer"), ("Delete the message", "commit"), ("Order a lamp", "commit"),
        ("Register Ada Moreau", "form"), ("Find the red lamp", "find"), ("Dance", "act"),
    ],
)  # fmt: skip
def test_kinds_of_goals(goal: str, kind: str) -> None:
    assert goal_kind(goal) == kind


def test_kinds_of_pages(observation: Any, element: Any) -> None:
    links = [element(number, "link", f"Offer {number}") for number in range(6)]
    for elements, more, kind in (
        ([], {"url": "about:blank", "page_text": "", "title": ""}, "blank"),
        ([], {"page_text": "404 Page not found"}, "error"),
        ([element(1, "textbox", "Password")], {}, "login"),
        ([element(1, "button", "OK"), element(2, "button", "Below", states=("covered",))], {}, "dialog"),
        (links, {}, "listing"),
        ([element(1, "textbox", "Name")], {}, "form"),
        ([element(1, "link", "More")], {"page_text": "Once upon a time"}, "article"),
    ):
        assert page_kind(observation("x", elements, **more)) == kind
    page = observation("x", links, page_text="Offer 1 Offer 2")
    assert is_sparse("Find the Kettle there", page)
    assert not is_sparse("Find the Offer there", page)
    assert candidates("the offer 3", page)[0]["id"] == 3
    assert covered("offer kettle", page) == 0.5
    assert says_success({**page, "page_text": "Thank you! Your order was placed."})


def test_scores_and_stages(form: Observation) -> None:
    state = first_state("Fill in the form and press Submit", "s")
    page = seen(state["goal"], at(form))
    assert stage_of(state, page, candidates=True) == "orient"
    later = cast(GraphState, {**state, "page": page, "step": 1})
    assert stage_of(later, page, candidates=True) == "locate"
    assert stage_of(later, page, candidates=False) == "context"
    done = seen(state["goal"], at(form, cast(Observation, {**form, "page_text": "Thank you"})))
    assert stage_of(later, done, candidates=True) == "verify"
    assert stage_of(cast(GraphState, {**later, "terminal": "loop_stuck"}), page, candidates=True) == "done"
    assert score(page, seen(state["goal"], at(form, form))) < 0
    assert score(page, done, "It failed.") < 0
    assert score(page, done) > score(page, {**done, "success": False}) > 0


def test_tabs_and_failures(form: Observation) -> None:
    one, two = {"url": "a", "title": "", "active": True}, {"url": "b", "title": "", "active": True}
    both = cast(Observation, {**form, "tabs": ({**one, "active": False}, two)})
    assert tab_events([one], both) == ["opened: b", "active: b"]
    assert tab_events([dict(tab) for tab in both["tabs"]], cast(Observation, {**form, "tabs": (one,)})) == [
        "closed: b", "active: a",
    ]  # fmt: skip
    assert failure_kind("The user did not allow this action (delete).") == "disallowed"
    assert failure_kind("There is no tab 7.") == "execute"
    assert failure_kind("http://10.0.0.1/ was not opened: private network.") == "disallowed"
    assert failure_kind("The page did not load: Timeout: no answer within 30 s") == "timeout"
    assert failure_kind('There is no option "x". There are: Within 3 days, Pets not allowed.') == "execute"


def test_a_tool_for_each_kind_of_action_reads_back_as_that_action() -> None:
    tools = kind_tools(wrapped(thoughtful(any_action())))
    assert tools is not None
    assert [tool["function"]["name"] for tool in tools] == list(KINDS)
    for tool in tools:
        function, schema = tool["function"], tool["function"]["parameters"]
        assert schema["required"] == list(schema["properties"])
        assert next(iter(schema["properties"])) == "thought"
        assert function["description"]
    assert parse(reply_of("fill", '{"thought": "t", "id": 3, "text": "abc"}') or "", {3}, "").action == Fill(
        id=3, text="abc"
    )
    assert parse(reply_of("finish", '{"thought": "t", "answer": "so"}') or "", (), "").action == Finish(answer="so")
    assert reply_of("fill", '{"id": 3, "te') is None


def test_the_graph_is_sound() -> None:
    reached = {"observe"}
    for begin, end in edges() * len(NODES):
        reached |= {end} if begin in reached else set()
    assert reached == {*NODES, "END"}
    assert all((node(name).__doc__ or "").strip() for name in NODES)


@pytest.mark.slow
def test_without_a_player_the_agent_judges_itself_and_is_asked_as_any_other(form: Observation) -> None:
    bodies: list[dict[str, Any]] = []
    with serving(call("click", 7), call("finish", "ok"), bodies=bodies) as url:
        agent = graph(url)
        agent.reset("Press Submit")
        [decision] = agent.decide([form])
        assert decision.action == Click(id=7)
        assert decision.graph["nodes"] == ["observe", "goal_check", "planner", "safety", "confirm"]
        assert agent.act({**form, "page_text": "Thank you", "last_action": '{"action":"click","id":7}'}) == Finish(
            answer="ok"
        )
        state = agent.state()
        assert (state["stage"], state["step"], state["intent_history"]) == ("done", 1, ["I click.", "I finish."])
        assert state["spent"]["tokens"] == 2020
        assert agent._runs[0].checkpoints.count == 1, "older ones are pruned"
        agent.policy.close()
    assert [tool["function"]["name"] for tool in bodies[0]["tools"]][:2] == ["click", "fill"]
    assert bodies[0]["tool_choice"] == "required"
    told = bodies[1]["messages"][-1]["content"]
    assert "Stage: verify" in told
    assert "What you meant to do so far: I click." in told


def test_what_a_server_can_do_wrong(form: Observation) -> None:
    with serving(call("click", 99), call("click", 7)) as url:
        agent = graph(url)
        agent.reset("Press Submit")
        [decision] = agent.decide([form])
        assert decision.action == Click(id=7), "an element that is not there is asked again for, without a step"
        assert decision.completion.usage is not None
        assert decision.completion.usage.prompt_tokens == 2000
        agent.policy.close()
    with serving(*[call("click", 99)] * 3) as url:
        agent = graph(url)
        agent.reset("Press Submit")
        [decision] = agent.decide([form])
        assert decision.gives_up.startswith("3 times in a row: There is no element 99")
        assert decision.graph["claim"] == "goal_failed"
        agent.policy.close()
    bodies: list[dict[str, Any]] = []
    with serving(401, call("click", 7), bodies=bodies) as url:
        agent = graph(url)
        agent.reset("Press Submit")
        with pytest.raises(PolicyError):
            agent.act(form)
        assert len(bodies) == 1, "asked again by the policy alone"
        agent.policy.close()


def test_a_yes_is_for_one_action_also_after_the_process_was_killed(
    tmp_path: Path, observation: Any, element: Any
) -> None:
    (tmp_path / "running").mkdir()
    messages = [element(number, name="Delete") for number in (1, 2, 3)]
    inbox = observation("Delete the first message", messages, url="http://mail/inbox?box=1")
    with serving(*[call("click", number) for number in (1, 2, 2, 3)]) as url:
        agent = graph(url, confirm="user")
        agent.reset(folder=tmp_path)
        question = agent.act(inbox).question
        assert question.startswith("The button 'Delete' looks like one to delete")
        said = ({"role": "assistant", "text": question}, {"role": "user", "text": "yes"})
        allowed = {**inbox, "messages": said}
        assert agent.act(allowed) == Click(id=1)
        assert agent.act({**allowed, "elements": tuple(messages[1:])}).name == "ask_user"
        again = graph(url, confirm="user")
        again.reset(folder=tmp_path)
        for _ in range(3):
            again.follow(inbox, Click(id=1))
        assert again.act({**allowed, "messages": ()}).name == "ask_user"
        agent.policy.close(), again.policy.close()


def test_a_yes_is_for_one_page_and_one_field(observation: Any, element: Any) -> None:
    one, other = (
        observation("", [element(number, name="Delete")], url=f"http://mail/message?id={number}") for number in (1, 2)
    )
    assert hashes.name_of(Click(id=1), one) != hashes.name_of(Click(id=2), other)
    comment, card = (
        observation("", [element(1, "textbox", name, states=("focused",))]) for name in ("Comment", "Card number")
    )
    assert hashes.name_of(Press(key="Enter"), comment) != hashes.name_of(Press(key="Enter"), card)


def test_stop_ends_it_also_after_the_process_was_killed(tmp_path: Path, form: Observation) -> None:
    (tmp_path / "running").mkdir()
    with serving(*[call("press", key) for key in ("Escape", "Home", "End", "PageUp", "Tab")]) as url:
        agents_ = [graph(url, actions=["open", "ask_user"]) for _ in range(2)]
        for agent in agents_:
            agent.reset(folder=tmp_path, open_ended=True)
        done = [agents_[0].act(form) for _ in range(5)]
        assert [one.name for one in done] == ["press"] * 4 + ["ask_user"]
        for action in done:
            agents_[1].follow(form, action)
        said = ({"role": "assistant", "text": done[-1].question}, {"role": "user", "text": "Stop."})
        [decision] = agents_[1].decide([{**form, "messages": said}])
        assert decision.gives_up == 'the user said: "Stop."'
        assert decision.graph["claim"] == "goal_failed"
        for agent in agents_:
            agent.policy.close()


def test_what_is_refused_after_a_loop_is_not_being_stuck(form: Observation) -> None:
    addresses = [f"http://10.0.0.{number}/" for number in (1, 2, 3)]
    script = [call("press", "Home")] * 3 + [call("navigate", address) for address in addresses]
    with serving(*script) as url:
        agent = graph(url, actions=["all"])
        agent.reset("Do it.")
        error = ""
        for _ in range(7):
            [decision] = agent.decide([{**form, "last_error": error}])
            error = "" if decision.action.name == "press" else f"{addresses[0]} was not opened: private network."
        assert decision.graph["claim"] == "goal_failed"
        agent.policy.close()


def test_budgets_count_all_that_a_step_takes(form: Observation, observation: Any, element: Any) -> None:
    class Local(Saying):
        def complete(self, conversations: Any, **options: Any) -> list[Completion]:
            time.sleep(0.3)
            replies = super().complete(conversations, **options)
            return [replace(one, prompt_token_ids=[0] * 100, token_ids=[0] * 10) for one in replies]

    def local(*replies: str, **options: Any) -> GraphAgent:
        policy = Local(OpenAIPolicy(model="m", base_url="http://127.0.0.1:9/v1"), *replies)
        return GraphAgent(LLMAgent(policy, guards=False), **options)

    agent = local('A. {"click":7}', budget_seconds=0.25)
    agent.act(form)
    state = agent.state()
    assert state is not None
    assert state["spent"]["tokens"] == 110
    assert state["spent"]["seconds"] > 0.25
    [decision] = agent.decide([form])
    assert decision.gives_up == "the budget of 0.25 seconds is used up"

    page = observation("Delete it", [element(1, name="Delete")])
    agent = local('Go. {"click":1}', confirm="user", budget_steps=1)
    [decision] = agent.decide([page])
    assert decision.gives_up == "the budget of 1 step is used up", "a question would leave none for the action"
    assert decision.graph["claim"] == "budget_exhausted"


def test_after_the_end_the_state_can_be_read(form: Observation) -> None:
    with serving(call("click", 7), call("finish", "ok")) as url:
        agent = graph(url)
        agent.reset("Press Submit")
        agent.act(form), agent.act(form)
        assert agent.why_ended("stopped") == "goal_satisfied"
        assert agent.state()["stage"] == "done"
        agent.policy.close()


def test_several_episodes_plan_in_one_call(form: Observation) -> None:
    with serving(call("click", 7), call("click", 7)) as url:
        agent = graph(url)
        calls: list[int] = []
        ask = agent.agent.policy.complete
        agent.agent.policy.complete = lambda conversations, **more: (
            calls.append(len(conversations)),
            ask(conversations, **more),
        )[1]
        assert [one.action for one in agent.decide([form, dict(form)])] == [Click(id=7)] * 2
        assert calls == [2]
        agent.policy.close()


def test_the_brief_is_short_for_small_models(form: Observation) -> None:
    state = first_state(form["goal"], "s")
    assert brief(state, form, short=True) == ""
    assert "Stage: orient" in brief(state, form)


def test_a_policy_that_was_made_before_is_taken() -> None:
    bodies: list[dict[str, Any]] = []
    with serving({"content": '{"click": 3}'}, bodies=bodies) as url:
        policy = OpenAIPolicy("m", base_url=url, tools=True)
        for name in agents.COMPOSED:
            agent: Any = agents.make(name, policy=policy, prompt="compact")
            named: Any = agents.make(name, policy="openai", model="m", base_url=url, prompt="compact")
            own, usual = (one.agent if name == "graph" else one.proposer.agent for one in (agent, named))
            assert own.policy is agent.policy is policy
            assert (own.guards, own.actions) == (usual.guards, usual.actions)
        with pytest.raises(ValueError, match="base_url"):
            agents.make("graph", policy=policy, base_url=url)
        policy.close()
    for wrong in (object(), OpenAIPolicy, 3):
        with pytest.raises(ValueError, match=r"needs a policy, but .* is not a policy"):
            agents.make("graph", policy=wrong)


def test_wrong_options_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="max_actions at 1"):
        graph("http://127.0.0.1:9/v1", max_actions=2)
    with pytest.raises(ValueError, match="give prices="):
        graph("http://127.0.0.1:9/v1", budget_dollars=1.0)
    with pytest.raises(ValueError, match="budget_dollars"):
        graph("http://127.0.0.1:9/v1", budget_dollars=0, prices={"input": 1.0, "output": 1.0})
    with pytest.raises(ValueError, match="confirm"):
        graph("http://127.0.0.1:9/v1", confirm="never")
    monkeypatch.setitem(sys.modules, "langgraph", None)
    with pytest.raises(ImportError, match="needs langgraph and langgraph-checkpoint-sqlite: "):
        agents.make("graph", policy="openai", model="m", base_url="http://127.0.0.1:9/v1")
    words = [
        "--url",
        "data:,",
        "--goal",
        "x",
        "--set",
        "policy=openai",
        "--set",
        "model=m",
        "--set",
        "base_url=http://127.0.0.1:9/v1",
    ]
    refused = CliRunner().invoke(app, ["run", "--agent", "graph", *words])
    assert refused.exit_code == 2, refused.output
    assert "langgraph" in refused.output
