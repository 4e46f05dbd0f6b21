"""GRPO on real episodes: groups, masks, likelihoods, and TRL's loss."""

import json

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import load_file
from trl import GRPOConfig, GRPOTrainer

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.browser_env import EnvError, Outcome
from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.sdft.rollouts import Job, Result, RolloutError, Rollouts
from selfsurf.sdft.settings import GRPOSettings
from selfsurf.sdft.trainers.grpo import EpisodeGRPOTrainer, advantages, train_grpo
from tests.sdft.rows import copied
from tests.sdft.unjudged import UNJUDGED


def result(reward, *, trainable=True):
    outcome = Outcome.SOLVED if reward == 1 else Outcome.FAILED
    ended = Result(Job("a", 0), str(outcome if trainable else Outcome.ENV_ERROR), trainable=trainable)
    ended.reward = reward
    return ended


def test_advantages_are_the_groups_own():
    group = [result(1.0), result(0.0), result(0.0), result(0.0)]
    expected = (np.array([1, 0, 0, 0]) - 0.25) / (0.5 + 1e-4)
    assert advantages(group, 4) == pytest.approx(expected)
    assert advantages([*group, *(result(1.0) for _ in range(4))], 4)[4:] == [0.0] * 4


def test_what_the_infrastructure_failed_belongs_to_no_group():
    with_failure = [result(1.0), result(0.0), result(0.0, trainable=False), result(0.0, trainable=False)]
    without = advantages([result(1.0), result(0.0)], 2)
    assert advantages(with_failure, 4) == pytest.approx([*without, 0.0, 0.0])
    assert advantages([result(1.0), result(0.0, trainable=False)], 2) == [0.0, 0.0]


@pytest.fixture
def grpo_settings(settings):
    changes = {"episodes_per_step": 4, "group_size": 2, "steps": 2, "checkpoint_every": 1}
    return GRPOSettings(**{**settings.model_dump(), **changes})


def test_groups_are_whole(settings):
    with pytest.raises(ValueError, match="multiple of group_size"):
        GRPOSettings(**{**settings.model_dump(), "episodes_per_step": 3, "group_size": 2})


def test_rows_are_scored_under_the_mask_they_were_sampled_under(tiny_policy, grpo_settings, tmp_path, monkeypatch):
    sampled, computed = [], []
    collated, loss = EpisodeGRPOTrainer.collate, EpisodeGRPOTrainer.compute_loss

    def collate(self, rows, **options):
        sampled.extend(sum(row.logprobs) for row in rows)
        return collated(self, rows, **options)

    def compute_loss(self, model, inputs, *args, **options):
        scores = self.logprobs(model, inputs)
        computed.extend((scores * inputs["completion_mask"]).sum(-1).tolist())
        return loss(self, model, inputs, *args, **options)

    monkeypatch.setattr(EpisodeGRPOTrainer, "collate", collate)
    monkeypatch.setattr(EpisodeGRPOTrainer, "compute_loss", compute_loss)
    train_grpo(grpo_settings.model_copy(update={"steps": 1}), tmp_path / "run", policy=tiny_policy)
    assert len(sampled) >= 2
    assert computed == pytest.approx(sampled, abs=1e-3)


def test_the_loss_and_its_gradient_are_those_of_trls_trainer(tiny_policy, grpo_settings, tmp_path, monkeypatch):
    theirs = GRPOTrainer(
        model=tiny_policy.model,
        reward_funcs=lambda **_: [],
        args=GRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to=[], per_device_train_batch_size=2,
            num_generations=2,
        ),
        train_dataset=Dataset.from_dict({"prompt": ["Count."] * 2}),
        processing_class=tiny_policy.tokenizer,
        peft_config=LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"),
    )  # fmt: skip
    theirs.current_gradient_accumulation_steps = 1  # as within its training loop
    ours = EpisodeGRPOTrainer(
        grpo_settings, tmp_path, jobs=[Job("a", 0)], rollouts=Rollouts(), model=theirs.model,
        processing_class=tiny_policy.tokenizer,
    )  # fmt: skip
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    ids, no_prompt = torch.ones(2, 5, dtype=torch.long), torch.ones(2, 0, dtype=torch.long)
    inputs = {
        "prompt_ids": no_prompt, "prompt_mask": no_prompt, "completion_ids": ids, "completion_mask": mask,
        "advantages": torch.tensor([1.5, -0.5]), "num_items_in_batch": mask.sum(),
    }  # fmt: skip
    losses, gradients = [], []
    for compute in (lambda: theirs._compute_loss(theirs.model, inputs), lambda: ours.compute_loss(ours.model, inputs)):
        scores = torch.linspace(-3, -0.1, 10).reshape(2, 5).requires_grad_()
        told = (scores, torch.zeros(2, 5), None)
        monkeypatch.setattr(theirs, "_get_per_token_logps_and_entropies", lambda *_, told=told, **__: told)
        monkeypatch.setattr(ours, "logprobs", lambda *_, scores=scores: scores)
        loss = compute()
        loss.backward()
        losses.append(float(loss))
        gradients.append(scores.grad)
    assert losses[0] == pytest.approx(losses[1])
    assert torch.allclose(*gradients)
    assert gradients[0].abs().max() > 0.1


def test_nobody_needs_to_know_the_right_action(tiny_policy, grpo_settings, tmp_path):
    chosen = grpo_settings.model_copy(update={"steps": 1, "tasks": ("MiniWoB/count-sides-v0",)})
    train_grpo(chosen, tmp_path / "run", policy=tiny_policy)
    (line,) = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert line["rows"] > 0


def test_what_nobody_judges_has_no_reward_to_learn_from(tiny_policy, grpo_settings, tmp_path):
    chosen = grpo_settings.model_copy(update={"tasks": (*grpo_settings.tasks, UNJUDGED)})
    with pytest.raises(ValueError, match="these tasks have no judge: tests"):
        train_grpo(chosen, tmp_path / "run", policy=tiny_policy)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_batch_that_the_environment_failed_is_skipped(tiny_policy, grpo_settings, tmp_path, monkeypatch):
    original, other = AsyncBrowserEnv.reset, copied(tiny_policy)

    async def broken(self, *, seed=None, options=None):
        if seed > 0:  # of the second batch
            raise EnvError("The browser went away.")
        return await original(self, seed=seed, options=options)

    monkeypatch.setattr(AsyncBrowserEnv, "reset", broken)
    chosen = grpo_settings.model_copy(update={"steps": 2, "snapshot_every": 1})
    with pytest.raises(RolloutError, match="went away"):  # of one batch
        train_grpo(
            chosen.model_copy(update={"steps": 1, "first_episode_seed": 1}), tmp_path / "all", policy=tiny_policy
        )
    train_grpo(chosen, tmp_path / "run", policy=other)
    first, second = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert first["rows"] > second["rows"] == 0
    assert (second["episodes/masked"], second["loss"]) == (4, 0)
    before, after = (load_file(tmp_path / f"run/snapshots/step-{step}/adapter_model.safetensors") for step in (1, 2))
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())


@pytest.mark.slow
def test_a_run_that_was_cut_off_ends_like_an_unbroken_one(tiny_policy, grpo_settings, tmp_path, tokenizer):
    base = tmp_path / "base"
    tiny_policy.model.save_pretrained(base)
    tokenizer.save_pretrained(base)
    chosen = grpo_settings.model_copy(update={"model": str(base)})
    whole = train_grpo(chosen, tmp_path / "whole")
    lines = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]
    assert all("episodes/success" in json.loads(line) for line in lines)

    class Killed(Exception):
        pass

    def killed(step, logs):
        if step == 2:
            raise Killed

    with pytest.raises(Killed):
        train_grpo(chosen, tmp_path / "cut", progress=killed)
    resumed = train_grpo(chosen, tmp_path / "cut", resume=True)
    one, two = (dict(run["model"].named_parameters()) for run in (whole, resumed))
    assert all(torch.equal(one[name], two[name]) for name in one if "lora" in name)
    assert TransformersPolicy(str(base), adapter=tmp_path / "cut" / "adapter").adapter is not None
