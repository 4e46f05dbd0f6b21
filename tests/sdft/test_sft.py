"""Supervised fine-tuning on what the oracles do, beside a plain reference."""

import copy
import json
import shutil
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from peft import get_peft_model_state_dict
from trl import SFTConfig, SFTTrainer

from selfsurf.agents.adapters.identity import WrongBase
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.browser_env import EnvError
from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rollouts import RolloutError
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.rows.demonstrator import Demonstrator
from selfsurf.sdft.rows.jobs import training_jobs
from selfsurf.sdft.run.model import lora_config, trainable
from selfsurf.sdft.trainers.base import shared_arguments
from selfsurf.sdft.trainers.sft import batches_of, collect, train_sft


@pytest.fixture(scope="module")
def collected(new_policy, settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("collected") / "rows.jsonl"
    collect(settings, new_policy(), path)
    return path


@pytest.fixture
def rows(collected, tmp_path):
    return Path(shutil.copy(collected, tmp_path))


@pytest.fixture
def few(rows, settings):
    """Demonstrations enough for one step."""
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[: settings.max_rows]))
    return rows


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_row_is_what_the_student_would_have_seen_and_written(tiny_policy, settings, rows):
    from selfsurf.sdft.rollouts import Rollouts

    found = read(rows)
    assert {row["env_id"] for row in found} == set(settings.tasks)
    for row in found:
        shown, written = (
            tiny_policy.tokenizer.decode(row["prompt_ids"]),
            tiny_policy.tokenizer.decode(row["completion_ids"]),
        )
        assert "Correct action" not in shown
        assert shown.endswith('{"')
        assert json.loads('{"' + written.removesuffix(tiny_policy.tokenizer.eos_token))["click"] >= 0
    # The first prompt of an episode is the student's own, token by token.
    job = training_jobs(settings)[0]
    with Rollouts(1, max_episode_steps=1) as rollouts:
        (result,) = rollouts.run(make_agent(tiny_policy, settings, sampling=True), [job])
    first = result.steps[0].decision.completion
    assert first.prompt_token_ids in [row["prompt_ids"] for row in found if row["env_id"] == job.env_id]


def test_the_history_is_the_oracles(tiny_policy, settings):
    from selfsurf.sdft.rollouts import Job, Rollouts

    agent = make_agent(tiny_policy, settings, sampling=False, kind=Demonstrator)
    with Rollouts(1, max_episode_steps=3) as rollouts:
        (result,) = rollouts.run(agent, [Job("MiniWoB/click-option-v0", 0)], demonstrate=True)
    assert result.solved
    assert len(result.steps) == 2
    assert "Done so far" not in result.steps[0].decision.messages[-1].text
    assert "Done so far: " + result.steps[0].decision.completion.text in result.steps[1].decision.messages[-1].text


def test_the_loss_is_on_the_action_alone(tiny_policy, settings, few, tmp_path):
    chosen = settings.model_copy(update={"steps": 1, "learning_rate": 0.0})
    batch = read(few)
    total, count = 0.0, 0
    with torch.no_grad():
        for row in batch:
            ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
            logprobs = torch.log_softmax(tiny_policy.model(input_ids=ids).logits[0].double(), -1)
            for place, token in enumerate(row["completion_ids"], len(row["prompt_ids"])):
                total, count = total - float(logprobs[place - 1, token]), count + 1
    train_sft(chosen, tmp_path / "run", rows=few, policy=tiny_policy)
    (line,) = read(tmp_path / "run" / "metrics.jsonl")
    assert line["loss"] == pytest.approx(total / count, rel=1e-4)
    assert line["rows"] == len(batch)
    assert line["tokens/learned"] == count


def test_time_that_is_up_ends_a_training_with_its_adapter(tiny_policy, settings, few, tmp_path):
    chosen = settings.model_copy(update={"minutes": 1e-6})
    again = TransformersPolicy(copy.deepcopy(tiny_policy.model), tiny_policy.tokenizer)
    summary = train_sft(chosen, tmp_path / "run", rows=few, policy=tiny_policy)
    assert summary["cut_off"]
    assert summary["steps"] == 1
    weights = (tmp_path / "run" / "adapter" / "adapter_model.safetensors").read_bytes()
    # Killed before it was done, it has no more time when it goes on.
    shutil.rmtree(tmp_path / "run" / "adapter")
    summary = train_sft(chosen, tmp_path / "run", rows=few, policy=again, resume=True)
    assert (summary["cut_off"], summary["steps"]) == (True, 1)
    assert len(read(tmp_path / "run" / "metrics.jsonl")) == 1
    assert (tmp_path / "run" / "adapter" / "adapter_model.safetensors").read_bytes() == weights


@pytest.mark.slow
def test_it_teaches_what_trls_own_trainer_does(tiny_policy, settings, few, tmp_path):
    chosen = settings.model_copy(update={"steps": 1})
    policy = TransformersPolicy(copy.deepcopy(tiny_policy.model), tiny_policy.tokenizer)
    run = train_sft(chosen, tmp_path / "run", rows=few, policy=policy)
    (line,) = read(tmp_path / "run" / "metrics.jsonl")
    weights = get_peft_model_state_dict(run["model"])
    demonstrations = [
        {
            "input_ids": row["prompt_ids"] + row["completion_ids"],
            "labels": [-100] * len(row["prompt_ids"]) + row["completion_ids"],
        }
        for row in read(few)
    ]
    theirs = SFTTrainer(
        model=tiny_policy.model,
        args=SFTConfig(
            **shared_arguments(chosen, tmp_path / "theirs"), max_length=None, save_strategy="no",
            dataset_kwargs={"skip_prepare_dataset": True}, per_device_train_batch_size=len(demonstrations),
        ),
        train_dataset=Dataset.from_list(demonstrations),
        processing_class=tiny_policy.tokenizer,
        peft_config=lora_config(tiny_policy.model, chosen),
    )  # fmt: skip
    theirs.train()
    own = theirs.state.log_history[0]
    assert line["loss"] == pytest.approx(own["loss"], rel=1e-4)
    assert line["grad_norm"] == pytest.approx(own["grad_norm"], rel=1e-3)
    # Adam's first step is the rate times the gradient's sign, nearly: weights without a gradient to speak of may differ.
    own_weights = get_peft_model_state_dict(theirs.model)
    moved = torch.cat([(weights[name] - own_weights[name]).abs().flatten() for name in weights])
    assert float((moved > 1e-4).float().mean()) < 0.01


def test_every_demonstration_is_learned_from_once(tiny_policy, settings, few, tmp_path):
    # Five rows in four steps: batches of one size, two, would be used up after three.
    train_sft(settings.model_copy(update={"steps": 4}), tmp_path / "run", rows=few, policy=tiny_policy)
    assert [line["rows"] for line in read(tmp_path / "run" / "metrics.jsonl")] == [1, 1, 1, 2]
    assert len(read(few)) == 5


def test_a_run_that_is_at_its_end_makes_no_further_step(tiny_policy, settings, few, tmp_path):
    few.write_text("".join(few.read_text().splitlines(keepends=True)[:3]))
    again = TransformersPolicy(copy.deepcopy(tiny_policy.model), tiny_policy.tokenizer)
    train_sft(settings, tmp_path / "run", rows=few, policy=tiny_policy)
    weights = (tmp_path / "run/adapter/adapter_model.safetensors").read_bytes()
    shutil.rmtree(tmp_path / "run/adapter")
    summary = train_sft(settings, tmp_path / "run", rows=few, policy=again, resume=True)
    assert (summary["steps"], summary["cut_off"]) == (4, False)
    assert [line["step"] for line in read(tmp_path / "run/metrics.jsonl")] == [1, 2, 3, 4]
    assert (tmp_path / "run/adapter/adapter_model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(("rows", "steps"), [(100, 80), (1436, 80), (7, 7), (3, 5)])
def test_batches_are_nearly_equal_and_hold_every_row_once(rows, steps):
    batches = batches_of(rows, steps)
    assert [row for batch in batches for row in batch] == list(range(rows))
    assert len(batches) == min(rows, steps)
    assert max(map(len, batches)) - min(map(len, batches)) <= 1


@pytest.mark.parametrize(
    ("only", "changes"),
    [
        ("rollouts.workers works with SDFT and GRPO", {"rollouts": RolloutSettings(workers=1)}),
        ("evaluate_every works with SDFT", {"evaluate_every": 1}),
    ],
)
def test_what_only_sdft_does_is_refused(tiny_policy, settings, rows, tmp_path, only, changes):
    with pytest.raises(ValueError, match=f"{only} only"):
        train_sft(settings.model_copy(update=changes), tmp_path / "run", rows=rows, policy=tiny_policy)


def test_a_run_goes_on_with_the_same_settings_only(tiny_policy, settings, few, tmp_path):
    chosen = settings.model_copy(update={"steps": 1})
    train_sft(chosen, tmp_path / "run", rows=few, policy=tiny_policy)
    other = chosen.model_copy(update={"learning_rate": 0.5})
    with pytest.raises(ValueError, match=r"other settings: learning_rate was .* and is 0.5"):
        train_sft(other, tmp_path / "run", rows=few, policy=tiny_policy, resume=True)


@pytest.mark.slow
def test_a_run_goes_on_from_another_ones_adapter(tiny_policy, settings, few, tmp_path):
    from safetensors.torch import load_file

    base = tmp_path / "base"
    tiny_policy.model.save_pretrained(base)
    tiny_policy.tokenizer.save_pretrained(base)
    first = settings.model_copy(update={"steps": 1, "model": str(base)})
    train_sft(first, tmp_path / "first", rows=few)
    started = first.model_copy(update={"start_from": tmp_path / "first" / "adapter", "learning_rate": 0.0})
    train_sft(started, tmp_path / "second", rows=few)
    one, two = (load_file(tmp_path / name / "adapter" / "adapter_model.safetensors") for name in ("first", "second"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(bool(value.any()) for key, value in one.items() if "lora_B" in key)
    tiny_policy.model.get_output_embeddings().weight.data += 1
    with pytest.raises(WrongBase):
        trainable(tiny_policy, tmp_path / "second" / "adapter")


@pytest.mark.slow
def test_what_the_environment_fails_is_counted_and_ends_it_when_nothing_else_comes(
    tiny_policy, settings, tmp_path, monkeypatch
):
    original = AsyncBrowserEnv.reset

    def from_seed(first):
        async def broken(self, *, seed=None, options=None):
            if seed >= first:
                raise EnvError("The browser went away.")
            return await original(self, seed=seed, options=options)

        monkeypatch.setattr(AsyncBrowserEnv, "reset", broken)

    from_seed(5)
    with pytest.warns(UserWarning, match="2 of 12 episodes failed because of the environment"):
        assert collect(settings, tiny_policy, tmp_path / "rows.jsonl")["masked"] == 2
    from_seed(1)
    with pytest.raises(RolloutError, match=r"every episode of the last 3 batches \(The browser went away"):
        collect(settings, tiny_policy, tmp_path / "none.jsonl")


def test_what_sft_can_not_do_is_said_before_anything_is_collected(tiny_policy, settings, tmp_path, monkeypatch):
    monkeypatch.setattr("selfsurf.sdft.trainers.sft.collect", None)
    with pytest.raises(ValueError, match="lead works with SDFT only"):
        train_sft(settings.model_copy(update={"lead": 0.5}), tmp_path / "run", policy=tiny_policy)
