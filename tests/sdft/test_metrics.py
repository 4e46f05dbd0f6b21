"""What a run says of itself."""

import json
import math
import sys
from types import SimpleNamespace

import pytest
import torch

from selfsurf.envs_registry import open_id
from selfsurf.sdft import train
from selfsurf.sdft.measure.retention import drift, perplexity
from selfsurf.sdft.rollouts import Job, Result
from selfsurf.sdft.rows.samples import Sample
from selfsurf.sdft.run.metrics import MetricsLog, batch_figures
from selfsurf.sdft.run.reporters import reporting
from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer

OPEN = open_id("https://example.org", "Look around.")


def row(task="a", *, right=False, tokens=4):
    return Sample(task, [1] * 10, [1], [1] * tokens, [0.0] * tokens, [], None, right=right)


def logged(log, step, **figures):
    log.on_log(None, SimpleNamespace(global_step=step), None, {"loss": 0.5, **figures})


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_figures_of_a_batch_say_what_was_masked_and_why():
    results = [
        Result(Job("a", 0), "solved", trainable=True),
        Result(Job("a", 1), "failed", trainable=True),
        Result(Job("b", 0), "env_error", trainable=False),
        Result(Job(OPEN, 1), "stopped", trainable=False),
        Result(Job(OPEN, 2), "timeout", trainable=True, judged=False),
        Result(Job("unjudged", 3), "timeout", trainable=True, judged=False),
    ]
    samples = [row(right=True), row(), row(tokens=6)]
    figures = batch_figures(results, samples, samples[1:])
    assert figures["episodes/success"] == 0.5
    assert (figures["episodes/masked"], figures["episodes/masked_share"]) == (1, pytest.approx(1 / 6))
    assert {name: value for name, value in figures.items() if name.startswith(("masked/", "success/"))} == {
        "masked/env_error": 1, "success/a": 0.5,
    }, "nobody judges a task without a score, and what the student did there is learned from"  # fmt: skip
    assert (figures["rows"], figures["rows/left_out"], figures["tokens/learned"]) == (2, 1, 10)
    assert figures["steps/right"] == pytest.approx(1 / 3)


def test_a_line_has_families_of_columns_as_objects_and_no_infinities(tmp_path):
    told = []
    log = MetricsLog(tmp_path / "metrics.jsonl", lambda step, logs: told.append(step), resumed_at=None)
    log.on_log(None, SimpleNamespace(global_step=0), None, {"evaluation/perplexity": math.inf, "evaluation/tasks/a": 1})
    log.remark("rollback", "too far")
    logged(log, 1, **{"success/MiniWoB/a": 1.0, "masked/env_error": 2, "rows": 3})
    logged(log, 2)
    log.on_log(None, SimpleNamespace(global_step=2), None, {"train_runtime": 1.0})
    base, first, second = lines(tmp_path / "metrics.jsonl")
    assert (base["evaluation/perplexity"], base["evaluation/tasks"]) == (None, {"a": 1})
    assert (first["success"], first["masked"], first["rows"]) == ({"MiniWoB/a": 1.0}, {"env_error": 2}, 3)
    assert first["rollback"] == "too far"
    assert "rollback" not in second
    assert (second["success"], second["masked"]) == ({}, {})
    assert told == [1, 2]


@pytest.mark.parametrize("torn", ["", '{"step": 4, "lo', '{"step": 4}\n{"st', "\n"])
def test_a_run_that_goes_on_has_no_line_twice_and_none_torn(tmp_path, torn):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, None, resumed_at=None)
    log.seconds = {"learn": 7.0}
    for step in (1, 2, 3):
        logged(log, step)
    with path.open("a") as file:
        file.write(torn)
    again = MetricsLog(path, None, resumed_at=2)
    assert again.seconds == {"learn": 7.0}  # counted on
    logged(again, 3)
    assert [line["step"] for line in lines(path)] == [1, 2, 3]
    MetricsLog(path, None, resumed_at=None)
    assert path.read_text() == ""


def test_drift_is_none_at_the_start_and_the_divergence_after(tiny_policy):
    from peft import LoraConfig, get_peft_model

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.measure.retention import DRIFT_TOKENS, general_text

    model = get_peft_model(tiny_policy.model, LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    policy = TransformersPolicy(model, tiny_policy.tokenizer)
    assert drift(policy) == pytest.approx(0.0, abs=1e-7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.add_(5.0)
    ids = tiny_policy.tokenizer.encode(general_text(), add_special_tokens=False)[:DRIFT_TOKENS]
    with torch.no_grad():
        student = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
        with model.disable_adapter():
            base = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
    expected = float((base.exp() * (base - student)).sum(-1).mean())
    assert expected > 1e-5
    assert drift(policy) == pytest.approx(expected, rel=1e-2)
    assert all(parameter.requires_grad == ("lora_" in name) for name, parameter in model.named_parameters())


def test_perplexity_of_a_broken_model_is_infinite(tiny_policy):
    with torch.no_grad():
        tiny_policy.model.model.norm.weight.fill_(math.nan)
    assert perplexity(tiny_policy, "a few words")["perplexity"] == math.inf


def test_a_run_says_all_of_it(tiny_policy, settings, tmp_path):
    chosen = settings.model_copy(update={"steps": 2, "evaluate_every": 2, "evaluate_seeds": 1})
    train(chosen, tmp_path / "run", policy=tiny_policy)
    base, first, second = lines(tmp_path / "run" / "metrics.jsonl")
    always = {
        "step", "loss", "learning_rate", "grad_norm", "success", "masked", "episodes/success", "episodes/masked",
        "episodes/masked_share", "gate/confidence", "rows", "rows/left_out",
        "rows/prompt_tokens", "rows/staleness", "steps/right", "tokens/generated", "tokens/learned",
        "tokens/generated_per_second", "tokens/learned_per_second", "memory/peak_mb", "seconds",
    }  # fmt: skip
    evaluated = {f"evaluation/{name}" for name in ("success", "perplexity", "drift", "env_errors", "tasks")}
    assert base.keys() >= {"step", "seconds", *evaluated}
    assert base["evaluation/drift"] == pytest.approx(0.0, abs=1e-7)
    assert first.keys() >= always
    assert not first.keys() & evaluated
    assert second.keys() >= always | evaluated | {"rollbacks", "best_step"}
    assert second["evaluation/drift"] > 0
    assert first["tokens/learned"] <= first["tokens/generated"]
    assert first["tokens/generated_per_second"] > 0
    assert first["memory/peak_mb"] > 50
    assert second["seconds"]["total"] >= second["seconds"]["evaluate"] > 0


def test_a_loss_that_is_no_number_is_not_told_as_zero(tiny_policy, settings, tmp_path, monkeypatch):
    whole = EpisodeSDFTTrainer._distillation_loss
    broken = lambda self, *args: whole(self, *args) * math.nan  # noqa: E731
    monkeypatch.setattr(EpisodeSDFTTrainer, "_distillation_loss", broken)
    train(settings.model_copy(update={"steps": 1}), tmp_path / "run", policy=tiny_policy)
    (line,) = lines(tmp_path / "run" / "metrics.jsonl")
    assert line["loss"] is None


def test_a_reporter_that_is_missing_is_named_before_anything_is_done(settings, tiny_policy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    chosen = settings.model_copy(update={"report_to": ("trackio",)})
    with pytest.raises(ValueError, match="needs trackio, which is not installed: pip install trackio"):
        train(chosen, tmp_path / "run", policy=tiny_policy)
    assert not (tmp_path / "run").exists()


def test_the_environment_says_where_reports_go_and_is_put_back(tmp_path, monkeypatch):
    import os

    monkeypatch.setenv("WANDB_DIR", "elsewhere")
    monkeypatch.delenv("TRACKIO_DIR", raising=False)
    with reporting(("wandb", "trackio"), tmp_path / "logs"):
        assert (os.environ["WANDB_DIR"], os.environ["TRACKIO_DIR"]) == ("elsewhere", str(tmp_path / "logs"))
    assert os.environ["WANDB_DIR"] == "elsewhere"
    assert "TRACKIO_DIR" not in os.environ


@pytest.mark.slow
def test_metrics_go_to_tensorboard(tiny_policy, settings, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    chosen = settings.model_copy(
        update={"steps": 1, "evaluate_every": 1, "evaluate_seeds": 1, "report_to": ("tensorboard",)}
    )
    train(chosen, tmp_path / "run", policy=tiny_policy)
    events = EventAccumulator(str(tmp_path / "run" / "logs"))
    events.Reload()
    base, line = lines(tmp_path / "run" / "metrics.jsonl")
    (loss,) = events.Scalars("train/loss")
    assert (loss.step, loss.value) == (1, pytest.approx(line["loss"], rel=1e-5))
    found = [(event.step, event.value) for event in events.Scalars("train/evaluation/perplexity")]
    assert found == [
        (step, pytest.approx(each["evaluation/perplexity"], rel=1e-5)) for step, each in enumerate((base, line))
    ]
    for task, success in line["success"].items():
        assert [event.value for event in events.Scalars(f"train/success/{task}")] == [success]
    assert line["success"]
