"""A run that goes on from an adapter is kept close to what that did in the tasks that it had learned."""

import json
import re

import pytest
import torch
from peft import LoraConfig, get_peft_model

from selfsurf.agents.adapters.identity import write_about
from selfsurf.browser_env import EnvError
from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.sdft import train
from selfsurf.sdft.forgetting.practice import (
    NothingToPractise,
    Practice,
    learned_tasks,
    played,
    practice_of,
    tasks_before,
)
from selfsurf.sdft.rollouts import RolloutError, Rollouts
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.trainers.sft import collect, train_sft
from tests.few import few
from tests.sdft.rows import copied
from tests.sdft.unjudged import UNJUDGED

EASY = "MiniWoB/click-test-v0"
"""There is but one thing to click."""


def random_lora(policy, seed=3):
    torch.manual_seed(seed)
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    return get_peft_model(copied(policy).model, config)


@pytest.fixture
def earlier(tiny_policy, settings, tmp_path, monkeypatch):
    """An adapter of an earlier run, on an easy task, of which it plays a few episodes."""
    monkeypatch.setattr("selfsurf.sdft.forgetting.practice.EPISODES", 8)
    learned = settings.model_copy(update={"tasks": (EASY,), "first_episode_seed": 50}).model_dump(mode="json")
    random_lora(tiny_policy).save_pretrained(tmp_path / "earlier")
    write_about(tmp_path / "earlier", {"settings": learned})
    return tmp_path / "earlier"


def test_the_divergence_is_that_from_the_adapter_as_it_was(tiny_policy):
    model = random_lora(tiny_policy)
    row = ([5, 6, 7, 8], [9, 10, 11])
    practice = Practice(model, [row], most=4, seed=0)
    assert float(practice.divergence(model, 0).detach()) == pytest.approx(0.0, abs=1e-6)
    ids = torch.tensor([row[0] + row[1]])
    before = torch.log_softmax(model(input_ids=ids).logits.detach().double(), -1)[0, 3:6]
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    now = torch.log_softmax(model(input_ids=ids).logits.double(), -1)[0, 3:6]
    divergence = practice.divergence(model, 1)
    assert float(divergence.detach()) == pytest.approx(float((before.exp() * (before - now)).sum(-1).mean()), rel=1e-4)
    divergence.backward()
    assert all(weight.grad is not None for name, weight in model.named_parameters() if "lora_" in name)


def test_it_plays_what_it_has_learned(tiny_policy, settings, earlier):
    rows = played(settings.model_copy(update={"start_from": earlier}), tiny_policy)
    assert len(rows) == 8  # each solved by its only action
    assert {tiny_policy.tokenizer.decode(reply, skip_special_tokens=True) for _, reply in rows} == {'click":1}'}


def says(adapter, **about):
    (adapter / "selfsurf.json").write_text(json.dumps(about))


def test_what_was_learned_before_is_known(settings, earlier):
    chosen = settings.model_copy(update={"start_from": earlier})
    assert tasks_before(chosen) == [EASY]
    assert tasks_before(chosen.model_copy(update={"tasks": (*settings.tasks, EASY)})) == []
    says(earlier, learned=["MiniWoB/click-link-v0", EASY], settings={"tasks": [EASY]})
    assert tasks_before(chosen.model_copy(update={"tasks": (EASY,)})) == ["MiniWoB/click-link-v0"]


def test_no_file_is_run_only_because_an_adapter_names_it(tiny_policy, settings, earlier, tmp_path, caplog):
    (tmp_path / "own.py").write_text("raise SystemExit('it ran')")
    own, chosen = f"{tmp_path / 'own.py'}:Own", settings.model_copy(update={"start_from": earlier})
    says(earlier, learned=[own, EASY], settings={"tasks": [EASY], "first_episode_seed": 50})
    assert len(played(chosen, tiny_policy)) == 8
    assert f"not practised ({tmp_path / 'own.py'} not imported: if you trust that code, add --trust" in caplog.text
    says(earlier, learned=[own])
    with pytest.raises(NothingToPractise, match=r"can be judged here .*--trust"):
        played(chosen, tiny_policy)


@pytest.mark.parametrize(
    ("about", "why"),
    few(3, [
        ({}, "doesn't record the tasks that it was trained on"),
        ({"learned": ["Shop/buy-v0", "Browser-v0?goal=Go."]}, "None of the tasks .* can be judged here: Shop/buy-v0"),
        ({"learned": [UNJUDGED]}, "None of the tasks .* can be judged here"),
        ({"learned": ["MiniWoB/enter-text-v0"]}, "solved none of its practice episodes"),
    ]),
)  # fmt: skip
def test_nothing_to_practise_ends_only_a_run_that_asks_for_it(
    tiny_policy, settings, earlier, tmp_path, caplog, about, why
):
    says(earlier, **about)
    chosen = settings.model_copy(
        update={"start_from": earlier, "tasks": ("MiniWoB/click-link-v0", "MiniWoB/click-button-v0")}
    )
    with pytest.raises(NothingToPractise, match=why):
        practice_of(chosen.model_copy(update={"practice": 0.5}), tiny_policy, tiny_policy.model, tmp_path, begun=False)
    assert practice_of(chosen, tiny_policy, tiny_policy.model, tmp_path, begun=False) is None
    told = [record.getMessage() for record in caplog.records if "may forget" in record.getMessage()]
    assert all(re.search(why, one) for one in told)
    assert told
    assert practice_of(chosen, tiny_policy, tiny_policy.model, tmp_path, begun=True) is None


@pytest.mark.slow
@pytest.mark.parametrize("way", [train, train_sft])
def test_it_holds_the_student_back_and_goes_on(tiny_policy, settings, earlier, tmp_path, monkeypatch, way):
    few = {"steps": 6, "episodes_per_step": 2, "max_rows": 2, "learning_rate": 0.02}
    chosen = settings.model_copy(update={"start_from": earlier, **few})
    monkeypatch.setattr(
        "selfsurf.sdft.forgetting.practice.played", lambda *_: [([5, 6, 7, n], [9, 10, 11]) for n in range(20, 24)]
    )
    options = {}
    if way is train_sft:
        options = {"rows": tmp_path / "rows.jsonl"}
        collect(chosen, tiny_policy, options["rows"])
    apart = {}
    for weight in (1e-6, 100.0):
        run = tmp_path / str(weight)
        way(chosen.model_copy(update={"practice": weight}), run, policy=copied(tiny_policy), **options)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert lines[0]["practice/divergence"] == pytest.approx(0.0, abs=1e-5)
        assert learned_tasks(run / "adapter") == [EASY, *settings.tasks]
        apart[weight] = lines[-1]["practice/divergence"]
    assert 0 < apart[100.0] < 0.5 * apart[1e-6]


@pytest.mark.slow
def test_a_run_that_was_cut_off_ends_as_an_unbroken_one(tiny_policy, settings, earlier, tmp_path, monkeypatch):
    class Cut(Exception):
        pass

    def cut(step, logs):
        if step == 3:
            raise Cut

    chosen = settings.model_copy(
        update={"start_from": earlier, "rollouts": RolloutSettings(batch=1), "snapshot_every": 2}
    )
    train(chosen, tmp_path / "whole", policy=copied(tiny_policy))
    with pytest.raises(Cut):
        train(chosen, tmp_path / "run", policy=copied(tiny_policy), progress=cut)
    monkeypatch.setattr("selfsurf.sdft.forgetting.practice.played", None)
    train(chosen, tmp_path / "run", policy=copied(tiny_policy), resume=True)
    whole, lines = (
        [json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("whole", "run")
    )
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [line["practice/divergence"] for line in lines] == [line["practice/divergence"] for line in whole]
    assert lines[2]["practice/divergence"] > 0
    weights = [(tmp_path / run / "adapter/adapter_model.safetensors").read_bytes() for run in ("whole", "run")]
    assert weights[0] == weights[1]
    assert learned_tasks(tmp_path / "run/snapshots/step-2") == [EASY, *settings.tasks]


@pytest.mark.slow
def test_the_adapter_that_a_run_began_with_must_be_there_when_it_goes_on(tiny_policy, settings, earlier, tmp_path):
    chosen = settings.model_copy(update={"start_from": earlier, "practice": 0.0, "steps": 2})
    train(chosen, tmp_path / "run", policy=copied(tiny_policy))
    random_lora(tiny_policy, seed=4).save_pretrained(earlier)
    with pytest.raises(ValueError, match=r"The adapter in .* has changed since the run in .* began"):
        train(chosen, tmp_path / "run", policy=copied(tiny_policy), resume=True)


@pytest.mark.parametrize("working", [3, 5])
def test_what_the_infrastructure_fails_is_not_the_adapters_failure(
    tiny_policy, settings, earlier, monkeypatch, working
):
    original = AsyncBrowserEnv.reset

    async def broken(self, *, seed=None, options=None):
        if seed >= 50 + working:
            raise EnvError("The browser went away.")
        return await original(self, seed=seed, options=options)

    monkeypatch.setattr(AsyncBrowserEnv, "reset", broken)
    chosen = settings.model_copy(update={"start_from": earlier})
    if working < 4:
        with pytest.raises(RolloutError, match=r"5 of 8 practice episodes could not be run \(The browser went away"):
            played(chosen, tiny_policy)
    else:
        assert len(played(chosen, tiny_policy)) == 5


def test_it_is_played_as_it_was_learned(tiny_policy, settings, earlier, monkeypatch, caplog):
    seen = []

    class Watched(Rollouts):
        def __init__(self, *args, **options):
            seen.append(options)
            super().__init__(*args, **options)

        def run(self, agent, jobs, **options):
            seen.append({"actions": agent.actions, "tasks": {job.env_id for job in jobs}})
            return super().run(agent, jobs, **options)

    monkeypatch.setattr("selfsurf.sdft.forgetting.practice.Rollouts", Watched)
    own = {"max_episode_steps": 5, "actions": ["click", "press"], "first_episode_seed": 50}
    says(earlier, learned=[EASY, "MiniWoB/enter-text-v0"], settings=own)
    played(settings.model_copy(update={"start_from": earlier, "rollouts": RolloutSettings(batch=1)}), tiny_policy)
    assert re.search("Not practised, because .* solved no episode of these tasks: MiniWoB/enter-text-v0", caplog.text)
    assert seen[0] == {"most": 1, "max_episode_steps": 5}
    assert tuple(seen[1]["actions"]) == ("click", "press")
    assert seen[1]["tasks"] == {EASY, "MiniWoB/enter-text-v0"}
