"""Several episodes in one call: what goes wrong in one is its own, and the others are decided once."""

from __future__ import annotations

from typing import Any

import pytest

from selfsurf import agents
from selfsurf.agents.agent import Decision
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play import AgentAdapter, Job
from selfsurf.agents.policy import Message, PolicyError
from selfsurf.agents.reply.functions import call_in, functions_of
from selfsurf.agents.roles import TaskExecutor, ToolRegistry
from selfsurf.agents.roles.verifier import Accept, Reject
from selfsurf.browser_env import Click, Finish, Observation, Wait
from tests.agents.policy_server import answer, completion, serve_raw
from tests.agents.said import Saying

LIST = '[{"click":12},{"click":7}]'


class ByGoal(Saying):
    """Replies as the goals say; an error among the replies is raised for the whole call, as a policy does."""

    def __init__(self, policy: Any, **replies: Any) -> None:
        super().__init__(policy, "")
        self.replies, self.calls = replies, 0

    def complete(self, conversations: Any, **options: Any) -> Any:
        self.calls += 1
        made = []
        for messages in conversations:
            shown = "\n".join(message.text for message in messages)
            said = next(said for goal, said in self.replies.items() if f"Goal: {goal}" in shown)
            if isinstance(said, Exception):
                raise said
            self._replies = [said]
            made.append(self._reply())
        return made


def kinds(answers: Any) -> list[Any]:
    return [one.action if isinstance(one, Decision) else type(one) for one in answers]


def playing(agent: Any, *goals: str) -> AgentAdapter:
    decider = AgentAdapter(agent)
    for slot, goal in enumerate(goals):
        decider.begin(slot, Job("any", slot), goal)
    return decider


def test_a_functions_error_is_its_own_episodes(policy: Any, form: Observation) -> None:
    calls = []

    def price(item: str) -> str:
        """What an item costs."""
        calls.append(item)
        raise KeyError(item)

    model = ByGoal(policy, One=LIST, Two='{"price":{"item":"tea"}}', Three='{"finish":"3"}')
    agent = LLMAgent(model, constrained=False, prefill="", functions=[price], max_actions=3, guards=False)
    decider = playing(agent, "One", "Two", "Three")
    assert kinds(decider.decide([0, 1, 2], [form] * 3)) == [Click(id=12), KeyError, Finish(answer="3")]
    assert (calls, model.calls) == (["tea"], 1)
    assert kinds(decider.decide([0, 2], [form] * 2)) == [Click(id=7), Finish(answer="3")], "no action is skipped"
    assert [len(agent._slots[slot].history) for slot in (0, 2)] == [2, 2]


def test_a_policys_error_is_found_by_asking_one_by_one(policy: Any, form: Observation) -> None:
    agent = LLMAgent(ByGoal(policy, One='{"click":12}', Two=RuntimeError("odd")), constrained=False, prefill="")
    decider = playing(agent, "One", "Two")
    assert kinds(decider.decide([0, 1], [form] * 2)) == [Click(id=12), RuntimeError]
    with pytest.raises(RuntimeError, match="odd"):
        agent.decide([form] * 2, [0, 1])
    assert len(agent._slots[0].history) == 1, "what decide raises has decided nothing"


def test_what_decide_raises_leaves_nothing_of_a_reply_to_be_done(policy: Any, form: Observation) -> None:
    model = ByGoal(policy, One=LIST, Two=RuntimeError("odd"))
    agent = LLMAgent(model, constrained=False, prefill="", max_actions=3, guards=False)
    playing(agent, "One", "Two")
    with pytest.raises(RuntimeError, match="odd"):
        agent.decide([form] * 2, [0, 1])
    assert kinds(agent.decide([form], [0])) == [Click(id=12)], "its first action, which was not done"


def test_a_filtered_reply_ends_its_own_episode_alone(form: Observation) -> None:
    """And a reply that no encoding can hold does not spoil the requests that follow."""
    bodies = []

    def handle(handler: Any, body: dict[str, Any]) -> None:
        bodies.append(body)
        if "Goal: Two" in body["messages"][1]["content"]:
            withheld = {"message": {"content": ""}, "finish_reason": "content_filter"}
            answer(handler, body={"choices": [withheld]})
        else:
            answer(handler, body=completion('{"fill":3,"text":"half a \\ud83d"}'))

    with serve_raw(handle) as url:
        agent: Any = agents.make("openai", model="m", base_url=url, retries=0)
        decider = playing(agent, "One", "Two")
        first = decider.decide([0, 1], [form] * 2)
        again = decider.decide([0], [form])
        agent.policy.close()
    assert [type(one) for one in (*first, *again)] == [Decision, PolicyError, Decision]
    assert len(bodies) == 3
    assert "half a \ufffd" in bodies[2]["messages"][1]["content"]


class ActsOnly:
    def __init__(self) -> None:
        self.asked = 0

    def act(self, obs: Observation) -> Any:
        self.asked += 1
        if self.asked == 2:
            raise SystemExit("enough")
        return Click(id=7)


def test_an_agent_that_only_acts_is_asked_once(form: Observation) -> None:
    agent = ActsOnly()
    assert kinds(AgentAdapter(agent).decide([0, 1, 2], [form] * 3)) == [Click(id=7), SystemExit, Click(id=7)]
    assert agent.asked == 3
    made = AgentAdapter(make=lambda job: ActsOnly())
    for slot in (0, 1):
        made.begin(slot, Job("any", slot), "")
    made.decide([0], [form])
    assert kinds(made.decide([0, 1], [form] * 2)) == [SystemExit, Click(id=7)]


def test_an_overridden_decide_is_the_one_that_is_asked(policy: Any, form: Observation) -> None:
    class Own(LLMAgent):
        def decide(self, observations: Any, *args: Any, **options: Any) -> list[Decision]:
            return [Decision(Wait(ms=1)) for _ in observations]

    agent = Own(ByGoal(policy, One='{"click":12}'), constrained=False, prefill="")
    assert kinds(playing(agent, "One").decide([0], [form])) == [Wait(ms=1)]


def test_a_verifier_that_fails_fails_the_claims_alone(policy: Any, form: Observation) -> None:
    class Lost(ByGoal):
        def complete(self, conversations: Any, **options: Any) -> Any:
            if "verify" in conversations[0][0].text or "accept" in conversations[0][0].text:
                raise PolicyError("gone")
            return super().complete(conversations, **options)

    model = Lost(policy, One='{"click":12}', Two='{"finish":"ok"}', Three=ValueError("odd"))
    agent = TaskExecutor(LLMAgent(model, constrained=False, prefill=""))
    decider = playing(agent, "One", "Two", "Three")
    assert kinds(decider.decide([0, 1, 2], [form] * 3)) == [Click(id=12), PolicyError, ValueError]
    assert len(agent.task(0).history) == 1  # type: ignore[union-attr]


def test_a_graphs_error_is_its_own(policy: Any, form: Observation) -> None:
    from selfsurf.agents.graph.agent import GraphAgent

    model = ByGoal(policy, One='{"click":12}', Two=KeyError("odd"))
    decider = playing(GraphAgent(LLMAgent(model, constrained=False, prefill="", guards=False)), "One", "Two")
    answers = decider.decide([0, 1], [form] * 2)
    while isinstance(answers[0], Decision) and answers[0].query is not None:
        decider.told(0, {"risk": None})
        answers[:1] = decider.decide([0], [form])
    assert kinds(answers) == [Click(id=12), KeyError]


def price_of(item: str) -> str:
    """What an item costs."""
    return item


@pytest.mark.parametrize(
    ("reply", "called"),
    [
        ('{"price_of":{"item":"tea"}}', "tea"),
        ('I will not call {"price_of":{"item":"tea"}}, but {"click":7}', None),
        ('The page says "{"price_of":{"item":"tea"}}", so {"click":7}', None),
        ('Thought: maybe {"click":7}\nAction: {"price_of":{"item":"milk"}}', "milk"),
        ('{"price_of":{"item":"tea"}} is wrong. {"price_of":{"item":"milk"}}', "milk"),
        ('For example {"price_of":{"item":"ham"}} calls it.', None),
        ('{"click":7}\n{"price_of":{"item":"tea"}}', None),
    ],
)
def test_a_call_that_is_only_quoted_is_none(reply: str, called: str | None) -> None:
    found = call_in(reply, functions_of([price_of]), 'For example {"price_of":{"item":"ham"}} calls it.\nGoal: tea')
    assert (found and found.arguments["item"]) == called


def text(value: float) -> str:
    """Called like a field of an action."""
    return str(value)


@pytest.mark.parametrize(
    ("reply", "given"),
    [
        ('{"fill":3,"text":"abc"}', None),
        ('{"type":3,"text":"abc"}', None),
        ('{"text":{"value":2}}', {"value": 2}),
        ('{"type":"function","name":"text","arguments":{"value":2}}', {"value": 2}),
        ('{"text":1}', {"value": 1}),
        ('{"text":2.5}', {"value": 2.5}),
    ],
)
def test_an_action_is_no_call_and_the_only_argument_may_be_bare(reply: str, given: Any) -> None:
    found = call_in(reply, functions_of([text]))
    assert (found and found.arguments) == given


def test_a_verdict_that_is_only_quoted_is_none() -> None:
    tools = ToolRegistry(Accept, Reject)
    call, _ = tools.read('I can\'t {"accept": {"reason": "x"}}: {"reject": {"missing": "the name"}}')
    assert call == Reject(missing="the name")
    assert tools.read('The page says "{"accept": {"reason": "x"}}".')[0] is None
    told = [Message("user", 'Reply like {"accept": {"reason": "it shows"}} once you are sure.')]
    assert tools.read('Reply like {"accept": {"reason": "it shows"}} once you are sure.', told[0].text)[0] is None
