"""The agent of roles: the verifier can only take success away, tools are pydantic models, all is recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

import selfsurf
from selfsurf import agents
from selfsurf.agents.agent import Decision
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policies.openai.policy import OpenAIPolicy
from selfsurf.agents.policy import Completion, PolicyError
from selfsurf.agents.roles import (
    Accept,
    MarkComplete,
    Mode,
    Proposer,
    Reject,
    RoleTask,
    TaskExecutor,
    Tool,
    ToolRegistry,
    Verifier,
)
from selfsurf.agents.roles.verifier import MAX_REJECTIONS
from selfsurf.browser_env import Click, Fill, Finish, Infeasible, Observation, Wait
from selfsurf.browser_env.arguments import OptionError
from selfsurf.browser_env.record.episode import Episode
from selfsurf.scripts.agents.doubting import Doubting
from selfsurf.scripts.cli import app
from selfsurf.tasks.miniwob.task import MiniWobTask
from tests.agents.policy_server import replying, serve_raw, tool_call
from tests.agents.said import Saying

DOCS = Path(__file__).parents[2] / "docs" / "agents.md"
DONE = 'Done.\nAction: {"finish":"ok"}'
CLICK = 'Next.\nAction: {"click":7}'
ACCEPTED = 'I agree. {"accept": {"reason": "it shows"}}'
REJECTED = 'Not yet. {"reject": {"missing": "Submit was not pressed"}}'


@pytest.fixture
def served() -> Iterator[Callable[..., tuple[TaskExecutor, list[dict[str, Any]]]]]:
    """Makes an agent of roles, both of which a server answers with these replies, and the list of requests."""
    with ExitStack() as stack:

        def make(*replies: Any, **options: Any) -> tuple[TaskExecutor, list[dict[str, Any]]]:
            bodies: list[dict[str, Any]] = []
            url = stack.enter_context(serve_raw(replying(bodies, *replies), ["m"]))
            agent: Any = agents.make("roles", policy="openai", model="m", base_url=url, retries=0, **options)
            stack.callback(agent.policy.close)
            agent.reset("")
            return agent, bodies

        yield make


def test_a_claim_that_is_rejected_costs_a_step_and_the_proposer_goes_on(served: Any, form: Observation) -> None:
    agent, bodies = served(DONE, REJECTED, CLICK, DONE, ACCEPTED)
    [false] = agent.decide([form])
    assert isinstance(false.action, Wait)
    assert "Submit was not pressed" in false.action.reason
    assert false.guard_note == "The claim was rejected: Submit was not pressed"
    assert agent.task().mode is Mode.PROPOSE
    assert agent.act(form) == Click(id=7)
    told = bodies[2]["messages"][-1]["content"]
    assert "it was checked, and this is missing: Submit was not pressed" in told
    [true] = agent.decide([form])
    assert true.action == Finish(answer="ok")
    assert agent.task().mode is Mode.DONE
    shown = bodies[4]["messages"][-1]["content"]
    assert f"Goal: {form['goal']}" in shown
    assert "Its answer: ok" in shown
    assert 'proposer: {"mark_complete": {"answer": "ok"}} (failed: Submit was not pressed)' in shown
    assert 'proposer: {"click": {"id": 7}} button "Submit"\n' in shown
    assert 'button "Submit"' in shown
    steps = agent.task().history
    assert [[one.role for one in step.proposals] for step in steps] == [
        ["proposer", "verifier"], ["proposer"], ["proposer", "verifier"],
    ]  # fmt: skip
    assert steps[0].proposals[1].calls == (Reject(missing="Submit was not pressed"),)
    assert steps[1].proposals[0].results[0].ok
    assert steps[2].proposals[0].calls == (MarkComplete(answer="ok"),)
    assert true.completion.usage is not None
    assert true.completion.usage.prompt_tokens == 2000, "both roles' tokens count"
    verdict = true.roles[1]
    assert (verdict["role"], verdict["calls"]) == ("verifier", [{"accept": {"reason": "it shows"}}])
    assert verdict["prompt"][1]["text"] == shown


def test_who_is_rejected_again_and_again_gives_up(served: Any, form: Observation) -> None:
    agent, _ = served(*[DONE, REJECTED] * MAX_REJECTIONS)
    actions = [agent.act(form) for _ in range(MAX_REJECTIONS)]
    assert [type(one) for one in actions] == [Wait] * (MAX_REJECTIONS - 1) + [Infeasible]


def test_a_verdict_that_can_not_be_read_is_asked_for_once_more(served: Any, form: Observation) -> None:
    agent, bodies = served(DONE, "It looks fine to me.", ACCEPTED)
    [decision] = agent.decide([form])
    assert decision.action == Finish(answer="ok")
    assert "Your last reply could not be read" in bodies[2]["messages"][-1]["content"]
    assert "could not be read" not in bodies[1]["messages"][-1]["content"]
    assert [role["role"] for role in decision.roles] == ["proposer", "verifier", "verifier"]
    assert decision.completion.usage.prompt_tokens == 3000, "the unread reply counts, too"


def test_without_a_verdict_nothing_is_done(served: Any, form: Observation) -> None:
    agent, _ = served(DONE, "It looks fine to me.")
    assert isinstance(agent.act(form), Wait)
    assert "could not be read" in agent.task().missing
    agent, _ = served(DONE, '{"accept": {"reasons": 1}}')
    assert isinstance(agent.act(form), Wait), "wrong arguments are no agreement"


@pytest.mark.parametrize(
    "reply",
    [
        'If there were a number, I would call {"accept": {"reason": "placed"}}. There is none.\n{"reject": {"missing": "m"}}',
        'First thought: {"accept": {"reason": "shown"}}. But no:\n{"reject": {"missing": "m"}}',
        'Final: {"reject": {"missing": "m"}}. I would have said {"accept": {"reason": "x"}} otherwise.',
        'Thought: {"reject": {"missing": "m"}}\nAction: {"accept": {"reason": "x"}}',
        '{"accept": {"reason": "r"}, "reject": {"missing": "m"}}',
        '{"accept": null, "reject": "m"}',
    ],
)  # fmt: skip
def test_a_reply_that_rejects_anywhere_rejects(served: Any, form: Observation, reply: str) -> None:
    agent, _ = served(DONE, reply)
    assert isinstance(agent.act(form), Wait)
    assert agent.task().missing == "m"


def test_of_several_calls_the_last_one_counts() -> None:
    for reply, reason in (
        ('Perhaps {"accept": {"reason": "a"}}. No, rather {"accept": {"reason": "b"}}', "b"),
        ('{"accept": {"reason": "a"}}, since {"finish": "4"} is right.', "a"),
        ('Thought: {"accept": {"reason": "a"}}\nAction: {"accept": {"reason": "b"}}\nThought: {"accept": {"reason": "c"}}', "b"),
    ):  # fmt: skip
        assert Verifier.tools.read(reply)[0] == Accept(reason=reason)


def test_the_verifier_is_not_asked_otherwise_and_can_be_left_out(served: Any, form: Observation) -> None:
    gives_up = 'No.\nAction: {"infeasible":"no way"}'
    agent, bodies = served(CLICK, gives_up)
    assert [agent.act(form), agent.act(form)] == [Click(id=7), Infeasible(reason="no way")]
    assert len(bodies) == 2
    agent, bodies = served(DONE, verifier=None)
    assert agent.act(form) == Finish(answer="ok")
    assert len(bodies) == 1


def test_over_tool_calls(served: Any, form: Observation) -> None:
    def act(action: Any) -> dict[str, Any]:
        return tool_call("act", {"thought": "So.", "action": action})

    agent, bodies = served(
        act({"mark_complete": {"answer": "yes", "reason": "seen"}}), act({"accept": {"reason": "so"}}), tools=True
    )
    [decision] = agent.decide([form])
    assert decision.action == Finish(answer="yes", reason="seen")
    parameters = bodies[1]["tools"][0]["function"]["parameters"]
    assert [list(one["properties"]) for one in parameters["properties"]["action"]["anyOf"]] == [["accept"], ["reject"]]


def test_a_server_that_fails_is_nobodys_fault(form: Observation) -> None:
    class Lost(Saying):
        def complete(self, conversations: Any, **options: Any) -> list[Completion]:
            if "You check whether" in conversations[0][0].text:
                raise PolicyError("gone")
            return super().complete(conversations, **options)

    from selfsurf.agents.policies.openai.policy import OpenAIPolicy

    policy = Lost(OpenAIPolicy(model="m", base_url="http://127.0.0.1:9/v1"), DONE)
    with pytest.raises(PolicyError, match="gone"):
        TaskExecutor(LLMAgent(policy)).act(form)


def test_a_verdict_that_fails_is_that_claims_alone(form: Observation) -> None:
    agreed = Completion(ACCEPTED, [], [], [], None, "eos")

    class Half(Saying):
        def complete(self, conversations: Any, **options: Any) -> list[Completion]:
            if "You check whether" in conversations[0][0].text:
                raise PolicyError("1 of 2 failed", [agreed, PolicyError("down")])
            return super().complete(conversations, **options)

    class Show(Tool):
        """Show something."""

        what: str

        def run(self, task: RoleTask) -> str:
            if task.slot == 1:
                raise RuntimeError("boom")
            return task.accept()

    class Showing(Verifier):
        tools = Verifier.tools + ToolRegistry(Show)

    server = OpenAIPolicy(model="m", base_url="http://127.0.0.1:9/v1")
    shown = Saying(server, DONE, DONE, '{"show": {"what": "it"}}')
    for policy, verifier, failed in ((Half(server, DONE), Verifier, PolicyError), (shown, Showing, RuntimeError)):
        agent = TaskExecutor(LLMAgent(policy), verifier=verifier)
        done, error = agent.decide_each([form, form])
        assert isinstance(done, Decision)
        assert done.action == Finish(answer="ok")
        assert isinstance(error, failed)
        task = agent.task(1)
        assert task is not None
        assert task.mode is Mode.PROPOSE


def test_several_actions_have_a_result_each(served: Any, form: Observation, observation: Any) -> None:
    both = 'Both.\nActions:\n{"fill":3,"text":"A"}\n{"click":7}'
    agent, bodies = served(both, both, CLICK, max_actions=2)
    assert agent.act(form) == Fill(id=3, text="A")
    assert agent.act(form) == Click(id=7)
    assert agent.act({**form, "last_error": "It is covered."}) == Fill(id=3, text="A")
    assert len(bodies) == 2
    first = agent.task().history[0].proposals[0]
    assert [(one.tool, one.ok, one.said) for one in first.results] == [
        ("fill", True, ""), ("click", False, "It is covered."),
    ]  # fmt: skip
    agent.act({**form, "last_error": "No."})
    second = agent.task().history[2].proposals[0]
    assert [(one.tool, one.ok) for one in second.results] == [("fill", False), ("click", False)]
    assert "was not carried out: the action before it failed" in second.results[1].said


@pytest.mark.slow
def test_the_real_small_model_is_kept_to_tools_by_a_grammar(policy: Any, form: Observation) -> None:
    agent = TaskExecutor(LLMAgent(policy, prefill=None, actions=TaskExecutor.actions))
    action = agent.act(form)
    assert not isinstance(action, str)
    task = agent.task()
    assert task is not None
    task.claim = Finish(answer="x")
    assert agent.verifier is not None
    [verdict] = agent.verifier.propose([task])
    assert isinstance(verdict.calls[0], (Accept, Reject))
    assert verdict.completion.finish_reason == "grammar"


def test_registries() -> None:
    assert Proposer.tools.names[:8] == ("navigate", "click", "fill", "type", "upload", "press", "select", "scroll")
    assert {"mark_complete", "infeasible"} < {*Proposer.tools.names}
    assert Verifier.tools.names == ("accept", "reject")

    class Click(Tool):
        """One more click."""

    class Inner(BaseModel):
        x: int

    class Deep(Tool):
        inner: Inner

    with pytest.raises(ValueError, match="is not the name of an action"):
        ToolRegistry(Click).functions()
    with pytest.raises(ValueError, match="Deep must be texts"):
        ToolRegistry(Deep).functions()

    class Probing(Verifier):
        tools = Verifier.tools + ToolRegistry(Deep)

    with pytest.raises(ValueError, match="Deep must be texts"):
        TaskExecutor(LLMAgent(OpenAIPolicy(model="m", base_url="http://127.0.0.1:9/v1")), verifier=Probing)
    with pytest.raises(ValueError, match="same name"):
        ToolRegistry(Accept) + ToolRegistry(Accept)


def test_the_role_in_the_documentation_works(tmp_path: Path, served: Any, form: Observation) -> None:
    found = re.search(r"```python\n(# my_roles\.py\n.*?)```", DOCS.read_text(encoding="utf8"), re.DOTALL)
    assert found is not None
    (tmp_path / "my_roles.py").write_text(found[1])
    agent, bodies = served(DONE, '{"ask_for": {"what": "the total"}}', verifier=f"{tmp_path}/my_roles.py:Careful")
    assert isinstance(agent.act(form), Wait)
    assert agent.task().missing == "show the total first"
    assert '{"ask_for": {"what": "string"}}' in bodies[1]["messages"][0]["content"]
    assert agent.task().history[0].proposals[1].results[0].tool == "ask_for"


def test_wrong_options_are_refused_before_anything_begins() -> None:
    for options, said in (
        ({"policy": "openai", "nonsense": 1}, "no option nonsense"),
        ({"policy": "nobody"}, "Unknown agent 'nobody'"),
        ({"policy": "openai", "model": "m", "verifier": "selfsurf.agents.roles:Tool"}, "is not a role"),
        ({"policy": "openai", "model": "m", "verifier": "selfsurf.agents.roles:Proposer"}, "is a proposer; a verifier"),
        ({"policy": "selfsurf.agents.scripted:ScriptedAgent"}, "needs a policy, but"),
    ):
        with pytest.raises((OptionError, ValueError), match=said):
            agents.make("roles", **options)
    listed = CliRunner().invoke(app, ["run", "--agent", "roles", "--set", "policy=openai", "--settings"])
    assert 'policy = "openai"' in listed.output
    assert 'verifier = "selfsurf.agents.roles.verifier:Verifier"' in listed.output
    assert "base_url = null" in listed.output
    assert "agent (required)" not in listed.output
    refused = CliRunner().invoke(
        app, ["run", "--agent", "roles", "--set", "policy=nobody", "--url", "data:,", "--goal", "x"]
    )
    assert refused.exit_code == 2


@pytest.mark.slow
def test_bench_run(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = []
    with serve_raw(replying(bodies, DONE, REJECTED, 'Click.\nAction: {"click":1}'), ["m"]) as url:
        options = [f"--set={one}" for one in ("policy=openai", "model=m", f"base_url={url}", "retries=0")]
        done = CliRunner().invoke(
            app,
            ["bench", "run", "miniwob", "--task", "MiniWoB/click-test-v0", "--seeds", "1", "--workers", "1",
             "--agent", "roles", "--out", str(tmp_path / "run"), "--json", *options],
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    [line] = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert (record["outcome"], record["steps"], record["prompt_tokens"]) == ("solved", 2, 3000)
    assert not record["claimed"]
    episode = Episode(tmp_path / "run" / record["episode"])
    first, second = episode.steps()
    assert first["actions"][0]["action"] == "wait"
    assert [one["role"] for one in first["decision"]["roles"]] == ["proposer", "verifier"]
    assert second["decision"]["roles"][0]["calls"] == [{"click": {"id": 1}}]
    about = json.loads((tmp_path / "run" / "run.json").read_text())["agent"]
    assert (about["name"], about["backend"], about["model"]) == ("roles", "openai", "m")


def test_claims_are_counted_and_those_that_a_verifier_rejected_wrongly(tmp_path: Path) -> None:
    replies = (DONE, REJECTED, 'Click.\nAction: {"click":1}', DONE, REJECTED, DONE, ACCEPTED)
    with serve_raw(replying([], *replies), ["m"]) as url, ExitStack() as stack:
        agent: Any = agents.make("roles", policy="openai", model="m", base_url=url, retries=0)
        stack.callback(agent.policy.close)
        summary = selfsurf.evaluate([MiniWobTask("click-test", ends="finish")], agent, seeds=1, out=tmp_path)
    [line] = summary.results.lines
    assert (line.outcome, line.steps, line.claimed, line.rejected, line.wrongly_rejected) == ("solved", 4, True, 2, 1)
    row = summary.overall
    assert (row.claims.mean, row.false_claims.mean, row.rejected, row.wrongly_rejected) == (1, 0, 2, 1)
    assert "| 2 (1 wrongly) |" in (tmp_path / "report.md").read_text()


def test_a_verifier_that_doubts_the_first_claim_asks_no_model(served: Any, form: Observation) -> None:
    agent, bodies = served(DONE, verifier="selfsurf.scripts.agents.doubting:Doubting")
    (first,) = agent.decide([form])
    (second,) = agent.decide([form])
    assert (first.action.name, first.rejected) == ("wait", Doubting.missing)
    assert first.completion.usage is not None
    assert first.completion.usage.prompt_tokens == 1000, "a verifier that asks no model costs nothing"
    assert (second.action.name, second.rejected) == ("finish", "")
    assert len(bodies) == 2, "the proposer's"


def test_tools_that_can_not_work_are_refused_as_they_are_written() -> None:
    with pytest.raises(TypeError, match=r"Late\.run must be a plain function"):

        class Late(Tool):
            async def run(self, task: RoleTask) -> str:  # type: ignore[override]
                return ""

    class Idle(Tool):
        """Do nothing."""

    with pytest.raises(ValueError, match="Idle does nothing"):
        ToolRegistry(Idle).functions()

    class Listing(Verifier):
        tools = [Idle]  # type: ignore[assignment] # noqa: RUF012

    with pytest.raises(TypeError, match=r"Listing\.tools must be a ToolRegistry"):
        Listing(OpenAIPolicy(model="m", base_url="http://127.0.0.1:9/v1"))
    with pytest.raises(ValueError, match="'random' is an agent, not a policy"):
        agents.make("roles", policy="random")
