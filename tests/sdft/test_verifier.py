"""What a verifier learns from episodes whose outcome is known, and an agent of roles that asks a trained one."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from selfsurf import agents
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play.job import Job
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.reply.constraint import Matcher, ll_tokenizer
from selfsurf.agents.roles import Accept, Reject, TaskExecutor, Verifier
from selfsurf.agents.roles.role import _grammar
from selfsurf.agents.scripted import OracleAgent, ScriptedAgent
from selfsurf.browser_env import Finish
from selfsurf.browser_env.record.episode import EpisodeError, change_meta
from selfsurf.scripts.cli import app
from selfsurf.sdft import TrainSettings, train, train_verifier
from selfsurf.sdft.rollouts import Rollouts
from selfsurf.sdft.rows.jobs import learned_offline
from selfsurf.sdft.rows.stored import load_stored
from selfsurf.sdft.rows.verdicts import MISSED, balanced, by_others, claims_of, verdict_rows
from tests.models.adapters import save_random_adapter

OPTION = "MiniWoB/click-option-v0"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The oracle's episodes of a task with two steps."""
    folder = tmp_path_factory.mktemp("shown")
    with Rollouts(2) as rollouts:
        results = rollouts.run(OracleAgent(), [Job(OPTION, seed) for seed in range(4)], folder=folder)
    assert all(one.solved for one in results)
    return folder


@pytest.fixture
def episodes(shown):
    return load_stored([shown]).episodes


def short(folder, **more):
    small = {"steps": 2, "max_rows": 4, "lora_rank": 4, "warmup_steps": 0, "rehearsal": 0.0, "evaluate_every": 0}
    return TrainSettings(**{**learned_offline([folder]), **small, **more})


def test_a_solved_episode_bears_out_a_claim_at_its_end_and_none_before(episodes):
    claims = claims_of(episodes, np.random.default_rng(0))
    assert [(one.true, one.early) for one in claims] == [(True, False), (False, True)] * 4
    for end, early in zip(claims[::2], claims[1::2], strict=True):
        assert isinstance(end.verdict, Accept)
        assert len(end.task.history) == 2
        assert isinstance(early.verdict, Reject)
        index = len(early.task.history)
        kind = ("radio", "button")[index]
        assert early.verdict.missing.startswith('{"click":')
        assert kind in early.verdict.missing, "what was done next is what was missing"


def test_a_failed_episode_has_a_false_claim_and_one_that_nobody_judged_or_that_the_infrastructure_failed_none(episodes):
    failed = replace(episodes[0], solved=False)
    claims = claims_of([failed], np.random.default_rng(0))
    assert [(one.verdict, one.early) for one in claims] == [(Reject(missing=MISSED), early) for early in (False, True)]
    unknown = [replace(failed, judged=False), replace(failed, rewarded=False)]
    assert claims_of(unknown, np.random.default_rng(0)) == []
    (early,) = claims_of([replace(failed, final=None)], np.random.default_rng(0))
    assert early.early


def test_a_claim_that_a_verifier_rejected_is_none_of_the_end(episodes):
    first, second = episodes[0].steps
    rejected = replace(first, actions=(Finish(answer="42"),), rejected="the option")
    longer = replace(episodes[0], steps=(rejected, first, second))
    end = claims_of([longer], np.random.default_rng(0))[0]
    assert len(end.task.history) == 3
    (result,) = end.task.history[0].proposals[0].results
    assert (result.tool, result.ok, result.said) == ("mark_complete", False, "the option")
    finished = replace(episodes[0], steps=(first, second, replace(second, actions=(Finish(answer="42"),))))
    end = claims_of([finished], np.random.default_rng(0))[0]
    assert end.task.claim == Finish(answer="42")
    assert len(end.task.history) == 2


def test_where_the_goal_was_reached_a_claim_is_not_too_early(tmp_path):
    scripted = ScriptedAgent([{"action": "click", "id": 1}, {"action": "click", "id": 1}, {"action": "finish"}])
    with Rollouts(1) as rollouts:
        (result,) = rollouts.run(scripted, [Job("MiniWoB/click-test-v0?ends=finish", 0)], folder=tmp_path)
    assert (result.solved, result.length, result.claimed) == (True, 3, True)
    (episode,) = load_stored([tmp_path]).episodes
    assert [step.reached for step in episode.steps] == [True, True, False]
    for seed in range(5):
        claims = claims_of([episode], np.random.default_rng(seed))
        assert [(one.true, len(one.task.history)) for one in claims] == [(True, 2), (False, 0)]


def test_a_verifier_is_taught_at_the_prompt_that_it_would_be_asked_with(episodes, tiny_policy):
    claim = claims_of(episodes[:1], np.random.default_rng(0))[0]
    executor = TaskExecutor(LLMAgent(tiny_policy))
    executor.reset(episodes[0].goal)
    for step in episodes[0].steps:
        executor.recall(step.observation, step.actions)
    task = executor.task()
    task.observe(episodes[0].final)
    asked = executor.verifier.messages(task)
    (row,) = verdict_rows([claim], tiny_policy)
    assert row.prompt_ids == tiny_policy.encode(asked)
    assert 'proposer: {"click": {"id": ' in asked[-1].text
    assert '} button "Submit"' in asked[-1].text, "the page may be gone by then"


def test_what_it_learns_to_say_is_what_it_can_say(episodes, tiny_policy):
    wrapped = ll_tokenizer(tiny_policy.tokenizer, tiny_policy.eos_token_ids)
    for row in verdict_rows(claims_of(episodes, np.random.default_rng(0)), tiny_policy):
        matcher = Matcher(wrapped, _grammar(Verifier.tools.schema(160)), [])
        for token in row.completion_ids:
            assert matcher.allowed()[token]
            matcher.step(token)
        assert matcher.done


def test_true_claims_and_others_are_drawn_in_equal_number(episodes):
    rng = np.random.default_rng(0)
    claims = claims_of(episodes, rng)
    some = balanced([*claims, *claims[1::2]], 100, rng)
    assert (len(some), sum(one.true for one in some)) == (8, 4)
    assert len(balanced(claims, 5, rng)) == 4
    assert balanced(claims[::2], 100, rng) == []
    only_failed = [replace(one, env_id="Another-v0") for one in claims if not one.true]
    assert {one.env_id for one in balanced([*claims, *only_failed], 100, rng)} == {OPTION}


def test_a_trained_verifier_is_asked_by_roles_and_is_no_agent(shown, tiny_folder, tmp_path):
    out = tmp_path / "run"
    summary = train(short(shown, model=str(tiny_folder), role="verifier"), out)
    assert summary["steps"] == 2
    about = json.loads((out / "adapter/selfsurf.json").read_text())
    assert about["prompt"]["role"] == "verifier"
    with pytest.raises(ValueError, match="pass it to roles as verifier_adapter"):
        agents.make("transformers", model=str(tiny_folder), adapter=out / "adapter")
    agent = agents.make("roles", model=str(tiny_folder), verifier_adapter=out / "adapter")
    (claim, *_) = claims_of(load_stored([shown]).episodes, np.random.default_rng(0))
    agent.verifier.propose([claim.task])
    assert agent.policy.adapter is None, "the agent goes on with its own"
    used = []
    complete = agent.policy.complete
    agent.policy.complete = lambda *given, **more: used.append(agent.policy.adapter) or complete(*given, **more)
    agent.verifier.propose([claim.task])
    assert used == [out / "adapter"]


def test_the_proposers_adapter_does_not_verify(shown, tiny_folder, tmp_path):
    adapter = save_random_adapter(tiny_folder, tmp_path / "adapter")
    agent = agents.make("roles", model=str(tiny_folder), adapter=adapter)
    (claim, *_) = claims_of(load_stored([shown]).episodes, np.random.default_rng(0))
    used = []
    complete = agent.policy.complete
    agent.policy.complete = lambda *given, **more: used.append(agent.policy.adapter) or complete(*given, **more)
    agent.verifier.propose([claim.task])
    assert (used, agent.policy.adapter) == ([None], adapter)


@pytest.mark.slow
def test_an_adapter_that_was_not_trained_to_verify_does_not(shown, tiny_folder, tiny_policy, tmp_path):
    agent = tmp_path / "agent"
    train(short(shown, model=str(tiny_folder), steps=1, least_first_divergence=0.0), agent)
    with pytest.raises(ValueError, match="was not trained to verify"):
        agents.make("roles", model=str(tiny_folder), verifier_adapter=agent / "adapter")
    with pytest.raises(ValueError, match="leave it out"):
        TaskExecutor(LLMAgent(OneAdapter(tiny_policy)), verifier_adapter=agent / "adapter")


class OneAdapter:
    """A policy that can't change its adapter."""

    def __init__(self, policy: TransformersPolicy) -> None:
        self._policy = policy

    def __getattr__(self, name):
        if name == "use_adapters":
            raise AttributeError(name)
        return getattr(self._policy, name)


def test_episodes_without_both_kinds_of_claims_teach_no_verifier(shown, tiny_policy, tmp_path):
    endless = shutil.copytree(shown, tmp_path / "endless")
    for path in endless.rglob("episode.json"):
        change_meta(path.parent, lambda meta: meta.update(final=None))
    with pytest.raises(EpisodeError, match="0 of 4 claims are true"):
        train_verifier(short(endless), tmp_path / "run", policy=tiny_policy)
    with pytest.raises(ValueError, match="learns from recorded episodes"):
        train_verifier(TrainSettings(tasks=(OPTION,)), tmp_path / "other")


def test_what_the_claims_of_other_episodes_tell(episodes):
    claims = claims_of(episodes[:3], np.random.default_rng(0))
    assert by_others(claims, lambda claim: len(claim.task.history) == 2) == [True, False] * 3
    assert by_others(claims, lambda claim: claim.task.goal) == [None] * 6, "nobody else has that goal"
    assert by_others(claims, lambda claim: claim.env_id) == [None] * 6, "there are as many of either kind"


def test_the_commands_train_and_measure_a_verifier(shown, tiny_folder, tmp_path):
    out = tmp_path / "run"
    small = ("max_rows=4", "lora_rank=4")
    command = ["train", "--verifier", "--episodes", shown, "--offline", "--model", tiny_folder, "--out", out]
    more = ["--steps", 2, *(part for one in small for part in ("--set", one))]
    done = CliRunner().invoke(app, [*map(str, command), *map(str, more)])
    assert done.exit_code == 0, done.output
    asked = ["bench", "verifier", shown, "--adapter", out / "adapter", "--model", tiny_folder, "--json"]
    done = CliRunner().invoke(app, [*map(str, asked)])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    counted = found["all claims"]
    assert counted["hits"] + counted["misses"] + counted["unknown"] >= 4
    assert found["too early"]["hits"] == found["too early"]["misses"] == 0
    by_steps, by_goal = found["by the number of steps alone"], found["by the goal alone"]
    assert (by_steps["hits"], by_steps["false_alarms"]) == (4, 0), "a true claim comes after two steps"
    assert by_goal["unknown"] == 8, "each goal is that of one episode"
    wrong = CliRunner().invoke(app, ["train", "--verifier", "--out", str(tmp_path / "other")])
    assert wrong.exit_code == 2
    assert "give their folders as --episodes" in " ".join(wrong.output.replace("│", " ").split())
