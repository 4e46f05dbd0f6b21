"""Several actions in one reply: carried out in order until one fails or leads elsewhere, the rest told and recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfsurf import browser_env
from selfsurf.agents.agent import Decision
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play import AgentAdapter, Environments, EpisodeRequest, Job, Player, PlayOptions
from selfsurf.agents.policy import Completion
from selfsurf.agents.reply.constraint import grammar
from selfsurf.agents.reply.parse import parse
from selfsurf.agents.reply.schema import action_schema, strict, thoughtful
from selfsurf.browser_env.actions import Click, Fill, Finish, Press
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.record.episode import Episode, EpisodeWriter
from tests.agents.policy_server import replying, schema_grammar, serve_raw, tool_call
from tests.agents.said import Noting, Saying, saying
from tests.agents.test_schema import allows

ORIGIN = "http://site.test"
FORM = """<!doctype html><title>form</title><input aria-label=First> <input aria-label=Second>
<button onclick="document.getElementById('gone').remove()">Remove</button>
<button id=gone>Extra</button> <a href=next.html>Next</a> <button disabled>Never</button>
<button onclick="alert('Not sent')">Warn</button>"""
IDS = {"First": 1, "Second": 2, "Remove": 3, "Extra": 4, "Next": 5, "Never": 6, "Warn": 7}
END = '{"finish":"end"}'


class Site(browser_env.Task):
    """A form."""

    def __init__(self, folder: Path) -> None:
        super().__init__(start_url=f"{ORIGIN}/index.html", goal="Fill it in.")
        self.sites = {ORIGIN: folder}


class Asked(Noting):
    """Keeps the last prompt of each question, and all decisions."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.prompts: list[str] = []
        self.all: list[Decision] = []

    def decide(self, *args: Any, **options: Any) -> list[Decision]:
        made = super().decide(*args, **options)
        self.prompts += [decision.messages[-1].text for decision in made if decision.messages]
        self.all += made
        return made


@pytest.fixture
def play(policy: Any, tmp_path: Path) -> Callable[..., tuple[Asked, Any, list[dict[str, Any]]]]:
    """Plays the form with these replies; returns the agent, the result and what was written."""
    (tmp_path / "index.html").write_text(FORM, encoding="utf8")
    (tmp_path / "next.html").write_text("<!doctype html><title>next</title><input aria-label=First>", "utf8")

    def run(*replies: str, steps: int = 10, **options: Any) -> tuple[Asked, Any, list[dict[str, Any]]]:
        agent = Asked(
            Saying(policy, *replies),
            **{"constrained": False, "prefill": "", "max_actions": 4, "guards": False, **options},
        )
        environments = Environments(lambda name: Site(tmp_path), 1, max_episode_steps=steps, viewport=(800, 600))
        player = Player(
            AgentAdapter(agent),
            environments,
            1,
            PlayOptions(),
            record=lambda ask: EpisodeWriter(tmp_path / "episode", {}),
        )
        try:
            result = player.play(EpisodeRequest(0, Job("form", 0)))
        finally:
            player.close()
            environments.close()
        return agent, result, list(Episode(tmp_path / "episode").steps())

    return run


def reply(*actions: str) -> str:
    return f'{{"actions":[{",".join(actions)}]}}'


FILLED = ('{"fill":1,"text":"Ada"}', '{"fill":2,"text":"L"}')


def test_they_are_carried_out_a_step_each_until_the_page_is_another(play: Any) -> None:
    agent, result, steps = play(reply(*FILLED, '{"click":5}', '{"fill":1,"text":"wrong page"}'), END)
    assert [step["actions"][0]["action"] for step in steps] == ["fill", "fill", "click", "finish"]
    assert [step["observation"]["title"] for step in steps] == ["form", "form", "form", "next"]
    assert [step["observation"]["elements"][0]["value"] for step in steps] == ["", "Ada", "Ada", ""]
    assert (len(agent.prompts), result.length) == (2, 4), "one question for three steps"
    left = 'Of your last reply, {"fill":1,"text":"wrong page"} was not carried out: the page is another one now.'
    assert f"Note: {left}" in agent.prompts[1]
    assert "wrong page" not in agent.prompts[1].partition("Note: ")[0], "it is not among what was done"
    assert [len(step["completions"]) for step in steps] == [1, 0, 0, 1]
    assert [step["decision"]["place"] for step in steps] == [0, 1, 2, 0]
    assert [len(step["decision"]["more"]) for step in steps] == [3, 0, 0, 0]
    assert steps[0]["decision"]["more"][2]["text"] == "wrong page"
    assert [step["decision"]["left"] for step in steps] == ["", "", "", left]


@pytest.mark.parametrize(
    ("actions", "done", "why"),
    [
        (('{"click":3}', '{"click":4}', '{"click":5}'), ["click"], "element 4 is gone or has changed"),
        (('{"click":6}', *FILLED), ["click"], "the action before it failed"),
        (('{"click":3}', END), ["click"], "look first at what the other actions led to"),
        (('{"click":5}', END), ["click"], "look first at what the other actions led to"),
        (('{"click":7}', '{"finish":""}'), ["click"], "look first at what the other actions led to"),
        (('{"click":6}', '{"finish":""}'), ["click"], "the action before it failed"),
        (('{"fill":1,"text":"a"}', '{"infeasible":"no"}'), ["fill"], "look first at what the other actions led to"),
        (('{"new_tab":""}', *FILLED), ["new_tab"], "new_tab ends a reply"),
        (('{"wait":1}', '{"click":99}'), ["wait"], "There is no element 99 on the page."),
    ],
)
def test_what_ends_a_reply(play: Any, actions: tuple[str, ...], done: list[str], why: str) -> None:
    agent, _, steps = play(reply(*actions), END)
    assert [step["actions"][0]["action"] for step in steps] == [*done, "finish"]
    assert why in agent.prompts[1]


@pytest.mark.parametrize(
    "actions",
    [('{"fill":1,"text":"a"}', END), ('{"click":5}', '{"finish":""}'), ('{"click":3}', '{"finish":""}')],
    ids=["an answer on the same page", "on another page", "without an element"],
)
def test_a_reply_may_end_with_finish(play: Any, actions: tuple[str, ...]) -> None:
    agent, result, steps = play(reply(*actions))
    assert [step["actions"][0]["action"] for step in steps][1:] == ["finish"]
    assert (len(agent.prompts), result.length) == (1, 2)


def test_each_counts_as_a_step(play: Any) -> None:
    agent, result, steps = play(reply(*FILLED, '{"click":3}'), steps=2)
    assert (result.outcome, result.length, len(agent.prompts), len(steps)) == ("timeout", 2, 1, 2)


def test_a_guard_that_does_something_else_ends_a_reply(play: Any) -> None:
    agent, _, steps = play(reply(*['{"click":4}'] * 5), END, guards=["repetition"], max_actions=5)
    assert [step["actions"][0]["action"] for step in steps] == ["click", "click", "press", "finish"]
    assert '{"click":4} was not carried out: something else was done before it.' in agent.prompts[1]
    assert steps[2]["decision"]["guard"].endswith('did {"press":"Escape"} instead.')


def test_one_action_a_reply_unless_more_are_asked_for(play: Any) -> None:
    _, _, steps = play(reply(*FILLED), END, max_actions=1)
    assert [step["actions"][0]["action"] for step in steps] == ["fill", "finish"]


def test_others_are_asked_while_one_goes_on(policy: Any, form: Observation) -> None:
    """And a new episode forgets what was left of the last."""
    asked: list[int] = []

    class Counting(Saying):
        def complete(self, conversations: Any, **options: Any) -> list[Completion]:
            asked.append(len(conversations))
            return super().complete(conversations, **options)

    said = reply('{"fill":3,"text":"A"}', '{"click":7}')
    agent: LLMAgent = Noting(Counting(policy, said), constrained=False, prefill="", max_actions=2)
    fill = Fill(id=3, text="A")
    assert agent.act_batch([form], [0]) == [fill]
    assert agent.act_batch([form, form], [0, 1]) == [Click(id=7), fill]
    agent.reset(slot=1)
    assert agent.act_batch([form, form], [0, 1]) == [fill, fill]
    assert asked == [1, 1, 2]


@pytest.mark.parametrize("prompt", ["compact", pytest.param("chat", marks=pytest.mark.slow)])
def test_a_list_is_all_that_a_grammar_or_schema_allows(
    policy: Any, tokenizer: Any, form: Observation, prompt: str
) -> None:
    agent = Noting(
        policy,
        prompt=prompt,
        constrained=True,
        max_actions=3,
        temperature=2.0,
        max_new_tokens=40 if prompt == "compact" else 5,
        seed=3,
    )
    action = agent.act(form)
    (decision,) = agent.decisions
    assert decision.completion.text.startswith('{"actions":[{"' if prompt == "compact" else '{"thought":"')
    if decision.completion.finish_reason == "grammar":
        again = parse(decision.completion.text, {one["id"] for one in form["elements"]}, most=3)
        assert (again.action, again.more) == (action, decision.more)
    one, two = '{"click":7}', '{"fill":3,"text":"a"}'
    text = grammar(form["elements"], max_actions=2)
    schema = action_schema(form["elements"], max_actions=2)
    for said, allowed in ((reply(one), True), (reply(one, two), True), (reply(one, two, one), False), (one, False),
                          (reply(), False), (reply('{"click":8}'), False)):  # fmt: skip
        assert allows(tokenizer, text, said) is allows(tokenizer, schema_grammar(schema), said) is allowed, said
    for made in (strict(schema), strict(thoughtful(schema))):
        assert made["properties"]["actions"]["type"] == "array"
        assert "maxItems" not in made["properties"]["actions"]
        assert made["required"] == list(made["properties"])


def test_a_demonstration_is_a_list_too(policy: Any, form: Observation) -> None:
    agent = Noting(policy, max_actions=3, guards=False)
    [decision] = agent.decide([form], privileged=[{"action": {"action": "click", "id": 12}, "reason": ""}])
    assert decision.messages[-1].text.endswith('Reply with exactly this: {"actions":[{"click":12}]}')
    assert decision.action == Click(id=12), "the real model follows it"


@pytest.mark.parametrize(
    "message",
    [
        tool_call("act", {"thought": "Both.", "actions": [{"fill": 3, "text": "A"}, {"press": "Enter"}]}),
        {"content": None, "tool_calls": [
            *tool_call("act", {"action": {"fill": 3, "text": "A"}})["tool_calls"],
            *tool_call("press", {"key": "Enter"})["tool_calls"],
        ]},
        {"text": 'Both.\nActions:\n{"fill":3,"text":"A"}\n{"press":"Enter"}\n\nThen {"click":7} may follow.'},
        {"text": '```json\n[{"action":"fill","id":3,"text":"A"},\n {"action":"press","key":"Enter"}]\n```'},
    ],
    ids=["a list in a call", "parallel calls", "lines", "a JSON list"],
)  # fmt: skip
def test_a_server_says_them_in_any_form(form: Observation, message: dict[str, Any]) -> None:
    from selfsurf import agents

    bodies: list[dict[str, Any]] = []
    tools = "tool_calls" in message
    with serve_raw(replying(bodies, message)) as url:
        agent: Any = agents.make("openai", model="m", base_url=url, retries=0, tools=tools, max_actions=3)
        agent.reset("")
        assert [agent.act(form), agent.act(form)] == [Fill(id=3, text="A"), Press(key="Enter")]
        agent.policy.close()
    (body,) = bodies
    system = body["messages"][0]["content"]
    assert "You may give up to 3 actions in one reply" in system
    assert "exactly one" not in system
    if tools:
        assert list(body["tools"][0]["function"]["parameters"]["properties"]) == ["thought", "actions"]


def test_no_row_is_made_of_several_actions(policy: Any, form: Observation) -> None:
    from selfsurf.agents.play import Result, Step
    from selfsurf.sdft.rows.samples import rows_of

    agent = saying(policy, reply(*('{"click":7}', '{"click":12}')), max_actions=2)
    agent.act(form)
    info = {"outcome": "running", "outcome_detail": "", "trainable": True, "score": {}, "timing": {}}
    result = Result(Job("MiniWoB/click-link-v0", 3), "solved", trainable=True)
    result.steps = [Step(form, agent.decisions[0], None, 0.0, info, form)]
    with pytest.raises(
        ValueError, match=r"click-link-v0 seed 3 contains several actions.*play training episodes with max_actions=1"
    ):
        rows_of([result], policy)


def test_what_may_stand_between_actions() -> None:
    ids = {3, 5}
    for text in (
        '1. {"click":3}\n2. {"click":5}',
        'Action 1: {"click":3}\nAction 2: {"click":5}',
        '- {"click":3}\n- {"click":5}',
    ):
        assert parse(text, ids, most=2).more == (Click(id=5),), text
    for text in (
        '{"click":3} or else {"click":5}',
        '{"click":3}\n\nThen:\n{"click":5}',
        '{"click":3}\nNot {"click":5}',
    ):
        assert (parse(text, ids, most=2).action, parse(text, ids, most=2).more) == (Click(id=3), ()), text
    assert parse('{"actions":[{"click":9},{"finish":"x"}]}', ids, most=2).action is None, "nothing is passed over"
    assert parse("The answer is 42.", ids, most=2).action == Finish(answer="42")
    assert parse('{"actions":[{"click":3},{"click":5}]}', ids, most=2).more == (Click(id=5),)
    assert parse('{"actions":[{"click":3},{"click":5},{"click":3}]}', ids, most=2).more == (Click(id=5),)
