"""The agent as a whole, on the real small model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from selfsurf import agents
from selfsurf.agents.prompt.examples import Example
from selfsurf.agents.prompt.prompt import PromptTooLong
from selfsurf.agents.reply.parse import parse
from selfsurf.agents.reply.said import longest_said
from selfsurf.browser_env.actions import ACTION_TYPES, Click, Finish, Wait
from selfsurf.browser_env.observation import Element, Observation
from tests.agents.said import Noting, saying


def test_importing_agents_loads_no_model_library() -> None:
    code = """
import sys, agents, agents.llm.llm_agent, agents.model_files
assert not {"torch", "transformers", "llguidance"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_agents_and_options() -> None:
    with pytest.raises(
        ValueError, match="transformers, openai, nim, tensorrt, mlx, graph, roles, scripted, random, oracle"
    ):
        agents.make("gpt")
    with pytest.raises(TypeError):
        agents.make("random", speed=3)


def pages(observation: Callable[..., Observation], element: Callable[..., Element]) -> list[Observation]:
    """Pages of different lengths, each asking for one of its links."""
    made = []
    for size in (2, 5, 14):
        elements = [element(10 * size + number, "link", f"word{number}") for number in range(size)]
        made.append(observation(f'Click on the link "word{size - 1}".', elements))
    return made


@pytest.mark.slow
def test_a_batch_equals_one_by_one(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    observations = pages(observation, element)
    agent = Noting(policy, actions=("click", "press", "scroll"))
    assert agent.constrained
    together = agent.act_batch(observations)
    decisions = agent.decisions
    for slot, (obs, action) in enumerate(zip(observations, together, strict=True)):
        agent.reset(slot=slot)
        assert agent.act_batch([obs], [slot]) == [action]
        assert decisions[slot].visible_ids == {item["id"] for item in obs["elements"]}
        assert decisions[slot].completion.text == agent.decisions[0].completion.text


@pytest.mark.parametrize("temperature", [pytest.param(0.0, marks=pytest.mark.slow), 2.0])
def test_constrained_actions_are_always_valid(
    policy: Any, form: Observation, observation: Callable[..., Observation], element: Callable[..., Element],
    temperature: float,
) -> None:  # fmt: skip
    agent = Noting(policy, temperature=temperature, max_new_tokens=28, guards=False, seed=7)
    observations = [*pages(observation, element), form, observation("Wait.", [])]
    for obs, action, decision in zip(observations, agent.act_batch(observations), agent.decisions, strict=True):
        assert not isinstance(action, str), decision.error
        assert getattr(action, "id", None) in {None, *(item["id"] for item in obs["elements"])}
        assert decision.how == "json"


@pytest.mark.slow
def test_the_demonstration_is_followed(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    observations = pages(observation, element)
    told = [{"action": {"action": "click", "id": obs["elements"][-1]["id"]}, "reason": ""} for obs in observations]
    agent = Noting(policy)
    decided = [decision.action for decision in agent.decide(observations, privileged=told)]
    assert decided == [Click(id=view["action"]["id"]) for view in told]
    assert agent.decisions[1].privileged == told[1]
    assert "Correct action:" in agent.decisions[1].messages[-1].text
    agent.decide(observations, privileged=[None, told[1], None])
    assert ["Correct action:" in d.messages[-1].text for d in agent.decisions] == [False, True, False]


def test_an_unreadable_reply_is_returned_as_it_is(policy: Any, form: Observation) -> None:
    agent = Noting(policy, constrained=False, prefill="The answer is", max_new_tokens=6)
    agent.reset("Say hello.")
    action = agent.act(form)
    (decision,) = agent.decisions
    assert action == decision.completion.text == decision.action
    assert str(action).startswith("The answer is")
    assert decision.error
    assert decision.completion.grammar is None
    agent.act(form)
    assert decision.error in agent.decisions[0].messages[-1].text
    assert "unreadable" in agent.decisions[0].messages[-1].text


def test_an_action_on_a_missing_element_is_recorded_as_the_action_that_it_is(policy: Any, form: Observation) -> None:
    agent = saying(policy, 'I press it. {"click":99}')
    agent.reset("Say hello.")
    for _ in range(2):
        assert agent.act(form) == Click(id=99)
        assert agent.decisions[0].error == "There is no element 99 on the page."
    told = agent.decisions[0].messages[-1].text
    assert 'Done so far: {"click":99}' in told
    assert "There is no element 99 on the page." in told


def test_a_grammar_has_room_for_the_longest_text_of_the_goal(
    policy: Any, form: Observation, observation: Callable[..., Observation]
) -> None:
    text = "I would like to move my appointment to next Thursday, please, if it's not too late"
    obs = observation(f'Write "{text}".', list(form["elements"]))
    agent = Noting(policy, max_new_tokens=1)
    agent.reset(obs["goal"])
    assert agent._guide(obs, agent._slots[0], frozenset({3})).count(f"{{0,{len(text)}}}") == 1
    assert longest_said("It's Ada's: open http://a.test/b?c=1, not 'that'") == len("http://a.test/b?c=1,")


def test_history_is_kept_by_slot(policy: Any, form: Observation) -> None:
    agent = Noting(policy, actions=("click",))
    agent.reset("Press Submit.", slot=4)
    agent.reset("Press Cancel.", slot=9)
    agent.act_batch([form, form], [4, 9])
    agent.act_batch([form], [9])
    (decision,) = agent.decisions
    assert "Goal: Press Cancel." in decision.messages[-1].text
    assert decision.messages[-1].text.count("Done so far: {") == 1
    agent.reset("Press Cancel.", slot=9)
    agent.act_batch([form], [9])
    assert "Done so far" not in agent.decisions[0].messages[-1].text


def test_the_prompt_keeps_to_its_budget(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    obs = observation("Click.", [element(number, "link", f"some words {number}") for number in range(1, 300)])
    agent = Noting(policy, max_prompt_tokens=256, actions=("click",))
    told = {"action": {"action": "click", "id": 2}, "reason": ""}
    action = agent.act(obs, privileged=told)
    (decision,) = agent.decisions
    assert 200 < len(decision.completion.prompt_token_ids) <= 256
    assert len(decision.visible_ids) < 299
    assert not isinstance(action, str)
    assert action.id in decision.visible_ids  # type: ignore[union-attr]
    with pytest.raises(PromptTooLong):
        Noting(policy, max_prompt_tokens=20).act(obs)


def test_guards_can_be_off(policy: Any, form: Observation) -> None:
    for guards, overridden in ((True, True), (False, False)):
        agent = Noting(policy, guards=guards, actions=("back",))
        for _ in range(3):
            agent.act(form)
        assert bool(agent.decisions[0].guard_note) is overridden


def test_slots_must_match(policy: Any, form: Observation) -> None:
    agent = Noting(policy)
    with pytest.raises(ValueError, match="as long as observations"):
        agent.act_batch([form, form], [1, 1])
    with pytest.raises(ValueError, match="as long as observations"):
        agent.decide([form], privileged=[None, None])
    with pytest.raises(ValueError, match="prefill"):
        Noting(policy, constrained=True, prefill="Well, ")


def test_scripted_random_and_oracle(form: Observation, observation: Callable[..., Observation]) -> None:
    scripted = agents.make("scripted", actions=['{"action":"click","id":7}', Finish(answer="x")])
    scripted.reset("")
    assert [scripted.act(form), scripted.act(form)] == [Click(id=7), Finish(answer="x")]
    assert scripted.act(form).name == "infeasible"  # type: ignore[union-attr]
    scripted.reset("")
    assert scripted.act(form) == Click(id=7)

    first, second = agents.make("random", seed=1), agents.make("random", seed=1)
    drawn = [first.act(form) for _ in range(40)]
    assert drawn == second.act_batch([form] * 40, [0] * 40)
    assert {action.name for action in drawn} == {"click", "fill"}  # type: ignore[union-attr]
    for action in drawn:
        assert parse(action.to_json(), {3, 5, 7, 12, 71}).action == action  # type: ignore[union-attr]
    assert first.act(observation("Go.", [])).name == "wait"  # type: ignore[union-attr]

    oracle = agents.make("oracle", privileged=lambda slot: {"action": {"action": "click", "id": slot}, "reason": ""})
    assert oracle.act_batch([form, form], [3, 5]) == [Click(id=3), Click(id=5)]
    assert set(ACTION_TYPES) >= {"click", "finish"}


def test_guards_are_counted_by_slot_and_step(policy: Any, form: Observation) -> None:
    agent = saying(policy, '{"fill":3,"text":""}', '{"click":7}', '{"fill":3,"text":""}', '{"finish":"ok"}')
    agent.act_batch([form, form], [2, 5])
    assert [decision.guard_counts for decision in agent.decisions] == [{"empty_text.overridden": 1}, {}]
    agent.act_batch([form], [2])
    assert agent.decisions[0].guard_counts == agent.guard_counts(2) == {"empty_text.overridden": 2}
    assert agent.guard_counts(5) == agent.guard_counts(77) == {}
    agent.reset(slot=2)
    assert agent.guard_counts(2) == {}


def test_an_answer_is_asked_for(policy: Any, form: Observation) -> None:
    agent = saying(policy, '{"finish":""}', '{"finish":"nine"}')
    agent.reset("What does it cost?")
    assert agent.act(form) == Wait(ms=0)
    assert agent.act(form) == Finish(answer="nine")
    assert "\nNote: The goal asks for an answer" in agent.decisions[0].messages[-1].text


def test_what_was_done_instead_is_told_beside_the_environments_error(policy: Any, form: Observation) -> None:
    agent = saying(policy, *['{"click":7}'] * 4)
    agent.reset("Go on.")
    failed = Observation(**{**form, "last_error": "Element 7 is covered."})
    for page in (form, form, form, failed):
        agent.act(page)
    shown = agent.decisions[0].messages[-1].text
    assert "The last action failed: Element 7 is covered.\n" in shown
    assert 'Note: {"click":7} changed nothing 2 times: did {"press":"Escape"} instead. Do something else.' in shown


def test_an_element_of_an_earlier_page_is_found_again(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    first = observation("Go on.", [element(1, "link", "Next"), element(2, "link", "Help")])
    second = observation("Go on.", [element(11, "link", "Next")])
    agent = saying(policy, '{"click":1}', '{"click":1}', '{"click":2}', '{"click":3}')
    agent.act(first)
    assert agent.act(second) == Click(id=11)
    assert agent.act(second) == Click(id=2)  # known, but not there: the environment will say so
    assert agent.act(second) == Click(id=3)  # never there: the environment will say so, too
    assert agent.guard_counts() == {"vanished.overridden": 1, "vanished.noticed": 1}
    unguarded = saying(policy, '{"click":1}', '{"click":1}', guards=False)
    unguarded.act(first)
    assert unguarded.act(second) == Click(id=1)


def test_a_long_history_is_counted(policy: Any, form: Observation) -> None:
    agent = saying(policy, *['{"click":7}', '{"click":12}'] * 5, guards=False)
    for _ in range(10):
        agent.act(form)
    text = agent.decisions[0].messages[-1].text
    assert 'Done so far: earlier: 4 steps (click x4: button "Submit" x2, button "Cancel" x2); {"click"' in text


def test_examples_are_given_to_the_model(policy: Any, form: Observation) -> None:
    example = Example("Press OK.", 'button "OK" {"click":1}', {"action": "click", "id": 1})
    agent = Noting(policy, examples=[example])
    agent.act(form)
    assert agent.decisions[0].messages[:2] == example.turns()
    assert "Press OK." in policy.tokenizer.decode(agent.decisions[0].completion.prompt_token_ids)


def test_what_was_typed_is_submitted_before_the_end(policy: Any, tmp_path: Path) -> None:
    """A form in a real browser: the model types and says that it has finished; the guard presses the button."""
    from selfsurf.browser_env import Score, Task

    class Form(Task):
        async def score(self, page: Any, episode: Any) -> Score:
            sent = await page.evaluate("document.title") == "Ada"
            return Score(reward=float(sent), done=episode.finished or sent)

    page = tmp_path / "index.html"
    page.write_text(
        "<!doctype html><title>Form</title><label>Name <input></label><button>Submit</button><script>"
        "document.querySelector('button').onclick = () => document.title = document.querySelector('input').value"
        "</script>"
    )
    outcomes = {}
    for guards in (True, False):
        task = Form(start_url=page.as_uri(), goal='Enter "Ada" and submit it.')
        env = gymnasium.make("Browser-v0", task=task, screenshot=False)
        obs, info = env.reset(seed=0)
        field = next(item["id"] for item in obs["elements"] if item["role"] == "textbox")
        agent = saying(policy, f'{{"fill":{field},"text":"Ada"}}', *['{"finish":""}'] * 2, guards=guards)
        agent.reset(obs["goal"])
        ended = False
        while not ended:
            obs, _, terminated, truncated, info = env.step(agent.act(obs))
            ended = terminated or truncated
        outcomes[guards] = info["outcome"]
        if guards:
            assert agent.guard_counts() == {"submit.overridden": 1}
            assert "pressed button" in agent.decisions[0].guard_note
        env.close()
    assert outcomes == {True: "solved", False: "failed"}


def test_what_is_not_a_policy_is_refused_by_name(policy: Any) -> None:
    class Bare:
        name = "bare"

    with pytest.raises(TypeError, match="Bare is not a policy: it lacks guidance"):
        Noting(Bare())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_new_tokens"):
        Noting(policy, max_new_tokens=0)


def test_a_policy_that_returns_too_little_is_named(
    policy: Any, form: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Noting(policy)
    for answer, said in (([], "returned 0 for 1"), (None, "returned NoneType for 1")):
        monkeypatch.setattr(policy, "complete", lambda *_, answer=answer, **__: answer)
        with pytest.raises(TypeError, match=said):
            agent.act(form)
