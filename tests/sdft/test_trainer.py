"""The trainer on a tiny model in real episodes, and its objective against a plain reference."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from selfsurf.agents.adapters.identity import AdapterError
from selfsurf.agents.adapters.tensors import DamagedFile
from selfsurf.envs_registry import open_id
from selfsurf.sdft import train
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rollouts import Job, Result, Rollouts
from selfsurf.sdft.rows.jobs import training_jobs
from selfsurf.sdft.rows.samples import Sample, allowed_tokens, choose, collate, samples_of
from selfsurf.sdft.run.batches import NothingToTeach
from selfsurf.sdft.run.start import check_start, shape_of
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.feedback import FeedbackContext
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.trainers.base import shared_arguments
from tests.few import few
from tests.sdft.unjudged import UNJUDGED


@pytest.fixture(scope="module")
def episodes(new_policy, settings):
    with Rollouts(3, max_episode_steps=2) as rollouts:
        return rollouts.run(make_agent(new_policy(), settings, sampling=True), training_jobs(settings)[:3])


def test_a_row_is_exactly_what_the_student_saw_and_sampled(episodes, tiny_policy):
    rows = samples_of(episodes, tiny_policy)
    steps = [step for result in episodes for step in result.steps]
    assert len(rows) == len(steps) >= 3
    for row, step in zip(rows, steps, strict=True):
        assert row.prompt_ids == step.decision.completion.prompt_token_ids
        assert row.completion_ids == step.decision.completion.token_ids
        told = tiny_policy.tokenizer.decode(row.teacher_prompt_ids)
        shown = tiny_policy.tokenizer.decode(row.prompt_ids)
        assert "Correct action:" in told
        assert "Correct action:" not in shown
        assert row.teacher_prompt_ids[: len(row.prompt_ids) // 2] == row.prompt_ids[: len(row.prompt_ids) // 2]
        assert row.teacher_prompt_ids[-len(row.prefill_ids) :] == row.prefill_ids


def test_a_process_that_sees_several_gpus_trains_on_one(tiny_policy, settings, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        "selfsurf.sdft.trainers.base.shared_arguments",
        lambda *about: {**shared_arguments(*about), "use_cpu": False},
    )
    run, played = Rollouts.run, []
    monkeypatch.setattr(
        Rollouts, "run", lambda self, agent, jobs, **about: played.append(len(jobs)) or run(self, agent, jobs, **about)
    )
    with caplog.at_level("INFO"):
        train(settings.model_copy(update={"steps": 1}), tmp_path, policy=tiny_policy)
    assert "one of 2 GPUs" in caplog.text
    assert played == [settings.episodes_per_step]


@pytest.mark.parametrize("sight", ["page", "goal"])
def test_a_teacher_is_not_shown_what_leads_it_astray(sight, episodes, tiny_policy):
    rows = samples_of(episodes, tiny_policy, teacher_sees=sight)
    whole = samples_of(episodes, tiny_policy)
    assert len(rows) == len(whole)
    for row, other in zip(rows, whole, strict=True):
        told, page = tiny_policy.tokenizer.decode(row.teacher_prompt_ids).split("Correct action:")[0], sight == "page"
        assert "Goal: " in told
        assert ("Page:" in told) == page
        assert "Done so far" not in told
        assert '{"click":' not in told
        assert row.teacher_prompt_ids[-len(row.prefill_ids) :] == row.prefill_ids
        assert (row.prompt_ids, row.completion_ids) == (other.prompt_ids, other.completion_ids)
    shown = [tiny_policy.tokenizer.decode(row.teacher_prompt_ids).split("Correct action:")[0] for row in whole]
    assert any("Done so far" in text for text in shown)
    assert all('{"click":' in text for text in shown)
    silent = samples_of(episodes, tiny_policy, LessonContext((FeedbackContext(),)), teacher_sees=sight)
    assert all('{"click":' in tiny_policy.tokenizer.decode(row.teacher_prompt_ids) for row in silent)


def test_what_the_infrastructure_failed_is_not_learned_from(episodes, tiny_policy):
    whole = len(samples_of(episodes, tiny_policy))
    lost = replace(episodes[0], trainable=False)
    assert len(samples_of([lost, *episodes[1:]], tiny_policy)) == whole - len(lost.steps)


def test_rows_are_drawn_evenly_over_tasks():
    def row(task):
        return Sample(task, [1], [1], [1], [0.0], [], None, right=False)

    rows = [row("long")] * 20 + [row("short")] * 3
    chosen = choose(rows, 8, np.random.default_rng(0))
    assert sorted(sample.env_id for sample in chosen) == ["long"] * 5 + ["short"] * 3
    assert len(choose(rows[:4], 8, np.random.default_rng(0))) == 4


def reference_divergence(model, rows, teacher, temperature, alpha):
    """KL over all tokens, forward (alpha 0) or reverse (1), row by row, without padding, in float64.

    The teacher is sharpened by `temperature`.
    """
    means = []
    for row in rows:

        def logprobs(prompt, sharpened=1.0, row=row):
            ids = torch.tensor([prompt + row.completion_ids])
            logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].double()
            return torch.log_softmax(logits / sharpened, -1)

        with torch.no_grad():
            student = logprobs(row.prompt_ids)
            with teacher():
                target = logprobs(row.teacher_prompt_ids, temperature)
        one, other = (student, target) if alpha else (target, student)
        means.append((one.exp() * (one - other)).sum(-1).mean())
    return float(torch.stack(means).mean())


@pytest.mark.parametrize(
    "changes",
    few(1, [
        {}, {"divergence": 1.0}, {"importance_clip": 2.0},  # fresh samples, of which none is weighed
    ]),
)  # fmt: skip
def test_the_objective_is_the_divergence_on_completion_tokens(
    tiny_policy, settings, episodes, tmp_path, monkeypatch, changes
):
    import selfsurf.sdft.trainers.sdft as module
    from selfsurf.sdft.run import batches
    from selfsurf.sdft.teacher.weights import teaching

    rows = samples_of(episodes, tiny_policy)[:5]
    losses = []
    compute_loss = module.EpisodeSDFTTrainer.compute_loss

    def watched(self, *args, **kwargs):
        loss = compute_loss(self, *args, **kwargs)
        losses.append(float(loss.detach()))
        return loss

    # One step of training on rows that are known.
    monkeypatch.setattr(batches, "samples_of", lambda *_, **options: rows)
    monkeypatch.setattr(batches, "choose", lambda *_: rows)
    monkeypatch.setattr(module.EpisodeSDFTTrainer, "compute_loss", watched)
    chosen = settings.model_copy(update={"steps": 1, "learning_rate": 0.0, **changes})
    model = train(chosen, tmp_path / "run", policy=tiny_policy)["model"]
    expected = reference_divergence(
        model, rows, lambda: teaching(model), chosen.teacher_temperature, chosen.divergence
    )  # fmt: skip
    assert losses == [pytest.approx(expected, rel=1e-4)]
    assert expected > 1e-6


def test_what_was_sampled_was_allowed_and_what_was_forced_was_certain(tiny_policy, settings, episodes):
    rows = samples_of(episodes, tiny_policy)
    batch, allowed = collate(rows, 2), allowed_tokens(rows, tiny_policy)
    choices = allowed.sum(-1)
    for row, sample in enumerate(rows):
        for position, logprob in enumerate(sample.logprobs):
            assert allowed[row, position, sample.completion_ids[position]]
            if choices[row, position] == 1:
                assert logprob == 0.0
    assert (choices[batch["completion_mask"].bool()] >= 1).all()


def test_the_teacher_starts_as_a_copy_and_follows_as_an_average(tiny_policy):
    from peft import LoraConfig, get_peft_model

    from selfsurf.sdft.teacher.weights import add_teacher, move_teacher, pairs, teaching

    model = get_peft_model(tiny_policy.model, LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    add_teacher(model)
    assert all(torch.equal(student, teacher) for student, teacher in pairs(model))
    assert any(student.abs().sum() > 0 for student, _ in pairs(model))  # A is not zero
    start = [teacher.clone() for _, teacher in pairs(model)]
    with torch.no_grad():
        for student, _ in pairs(model):
            student.add_(1.0)
    move_teacher(model, 0.25)
    for first, (_, teacher) in zip(start, pairs(model), strict=True):
        assert torch.allclose(teacher, first + 0.25)
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        student_logits = model(input_ids=ids).logits
        with teaching(model):
            teacher_logits = model(input_ids=ids).logits
    assert not torch.allclose(student_logits, teacher_logits)
    trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trainable
    assert all(".default." in name for name in trainable)


def test_training_changes_the_adapter_saves_it_and_it_can_be_used(tiny_policy, settings, tmp_path):
    from selfsurf.agents.adapters.identity import read_about
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    base = {name: value.clone() for name, value in tiny_policy.model.state_dict().items()}
    base_model = tiny_policy.model
    summary = train(settings, tmp_path / "run", policy=tiny_policy)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert lines[0]["step0_divergence"] > 0
    assert set(lines[0]["success"]) <= set(settings.tasks)
    assert all(line["rows"] <= settings.max_rows for line in lines)
    folder = tmp_path / "run" / "adapter"
    assert {"adapter_config.json", "adapter_model.safetensors", "selfsurf.json"} <= {p.name for p in folder.iterdir()}
    assert not (folder / "teacher").exists()
    about = read_about(folder)
    assert about["settings"] == settings.model_dump(mode="json")
    assert len(about["base_model_sha256"]) == 64
    trained = summary["model"]
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        after = trained(input_ids=ids).logits
        with trained.disable_adapter():
            before = trained(input_ids=ids).logits
    assert not torch.allclose(before, after)
    for name, value in trained.get_base_model().state_dict().items():
        if "lora_" not in name:
            assert torch.equal(value, base[name.replace(".base_layer", "")])
    fresh = TransformersPolicy(trained.unload(), tiny_policy.tokenizer)
    fresh.set_adapter(folder)
    with torch.no_grad():
        assert torch.allclose(fresh.model(input_ids=ids).logits, after, atol=1e-5)
    assert base_model is not None


def test_a_run_that_was_cut_off_ends_as_an_unbroken_one(new_policy, settings, tmp_path):
    class Cut(Exception):
        pass

    def cut(step, _):
        if step == 3:
            raise Cut

    train(settings, tmp_path / "whole", policy=new_policy())
    with pytest.raises(Cut):
        train(settings, tmp_path / "cut", policy=new_policy(), progress=cut)
    with pytest.raises(ValueError, match="already holds a training run"):
        train(settings, tmp_path / "cut", policy=new_policy())
    train(settings, tmp_path / "cut", policy=new_policy(), resume=True)
    whole = load_file(tmp_path / "whole/adapter/adapter_model.safetensors")
    resumed = load_file(tmp_path / "cut/adapter/adapter_model.safetensors")
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        assert torch.allclose(value, resumed[name], atol=1e-6), name
    steps = [json.loads(line)["step"] for line in (tmp_path / "cut/metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4]


def test_batches_that_the_environment_failed_are_skipped_until_they_are_three_in_a_row(
    new_policy, settings, tmp_path, monkeypatch
):
    from selfsurf.browser_env import EnvError
    from selfsurf.browser_env.environment.env import AsyncBrowserEnv
    from selfsurf.sdft.rollouts import RolloutError

    original = AsyncBrowserEnv.reset

    async def broken(self, *, seed=None, options=None):
        if seed > 0:  # of all batches after the first
            raise EnvError("The browser went away.")
        return await original(self, seed=seed, options=options)

    def rows():
        return [json.loads(line)["rows"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]

    chosen = settings.model_copy(update={"episodes_per_step": 2, "snapshot_every": 1})
    monkeypatch.setattr(AsyncBrowserEnv, "reset", broken)
    with pytest.raises(RolloutError, match=r"last 3 batches .*env_error The browser went away\.\).* --resume"):
        train(chosen, tmp_path / "run", policy=new_policy())
    first, *failed = rows()
    assert first > 0
    assert failed == [0, 0]
    learned, after = [load_file(tmp_path / f"run/snapshots/step-{step}/adapter_model.safetensors") for step in (1, 2)]
    assert any(bool(weight.any()) for name, weight in learned.items() if "lora_B" in name)
    assert all(torch.equal(weight, after[name]) for name, weight in learned.items())
    monkeypatch.setattr(AsyncBrowserEnv, "reset", original)
    train(chosen, tmp_path / "run", policy=new_policy(), resume=True)
    assert rows()[:2] == [first, 0]
    assert all(count > 0 for count in rows()[2:])
    assert len(rows()) == 4


def test_an_oracle_is_silent_about_what_the_student_cannot_do(tiny_policy, settings, tmp_path):
    """A slider is dragged: where that is not offered there is nothing to learn, and the run says so."""
    chosen = settings.model_copy(update={"tasks": ("MiniWoB/use-slider-v0",), "steps": 2, "episodes_per_step": 1})
    with pytest.raises(NothingToTeach, match="of kinds that the student is not offered"):
        train(chosen, tmp_path / "run", policy=tiny_policy)
    rows = [json.loads(line)["rows"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert rows == [0]


@pytest.mark.parametrize(
    ("changes", "why"),
    few(
        1,
        [
            ({"min_confidence": 1.0}, r"the confidence gate left out all \d+ tokens"),
            ({"lead": 0.999}, "the oracle took every step"),
        ],
    ),
)
def test_settings_by_which_nothing_can_be_learned_end_a_run(tiny_policy, settings, tmp_path, changes, why):
    chosen = settings.model_copy(update={"steps": 2, "max_new_tokens": 16, **changes})
    with pytest.raises(NothingToTeach, match=rf"The first 2 batches taught nothing. In the last one, .*{why}"):
        train(chosen, tmp_path / "run", policy=tiny_policy)
    assert not (tmp_path / "run/adapter").exists()


@pytest.mark.slow
def test_the_gate_may_leave_out_batches_once_something_was_learned(tiny_policy, settings, tmp_path):
    """The student may do its tasks by then."""
    learned = iter([True, False, False, False])

    def confident(teacher, mask, least):
        return mask if next(learned) else torch.zeros_like(mask)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("selfsurf.sdft.trainers.sdft.confident", confident)
        train(settings, tmp_path / "run", policy=tiny_policy)
    assert (tmp_path / "run/adapter").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"actions": ["clik"]}, "Unknown actions"),
        ({"temperature": float("inf")}, "finite"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings, changes, why):
    with pytest.raises(ValueError, match=why):
        TrainSettings.model_validate({**settings.model_dump(), "max_new_tokens": 48, **changes})


def test_a_damaged_adapter_to_go_on_from_is_told_before_anything_is_written(tiny_policy, settings, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/adapter_config.json").write_text("{}")
    (tmp_path / "a/adapter_model.safetensors").write_bytes(b"\x08\x00\x00")
    chosen = settings.model_copy(update={"start_from": tmp_path / "a"})
    with pytest.raises(DamagedFile, match="is cut off"):
        train(chosen, tmp_path / "run", policy=tiny_policy)
    with pytest.raises(FileNotFoundError, match="There is no LoRA adapter at"):
        train(settings.model_copy(update={"start_from": tmp_path / "b"}), tmp_path / "run", policy=tiny_policy)
    assert not (tmp_path / "run").exists()


def bare_adapter(folder, **config):
    """An adapter of which only the configuration matters."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", **config}))
    save_file({}, folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize(
    "more", [{"modules_to_save": ["lm_head"]}, {"trainable_token_indices": [3]}, {"bias": "all"}, {"peft_type": "IA3"}]
)
def test_an_adapter_that_is_more_than_lora_matrices_is_not_gone_on_from(tiny_policy, settings, tmp_path, more):
    chosen = settings.model_copy(update={"start_from": bare_adapter(tmp_path / "a", **more)})
    with pytest.raises(AdapterError, match="more than LoRA matrices"):
        train(chosen, tmp_path / "run", policy=tiny_policy)
    assert not (tmp_path / "run").exists()


def test_the_shape_of_the_adapter_that_is_gone_on_from_is_its_own(tiny_policy, settings, tmp_path):
    adapter = bare_adapter(tmp_path / "a", r=8, target_modules=["v_proj", "model.layers.0.self_attn.q_proj"])
    chosen = settings.model_copy(update={"start_from": adapter})
    with pytest.raises(ValueError, match=r"lora_rank is 4, but the adapter at .* has 8: leave it out"):
        train(chosen, tmp_path / "run", policy=tiny_policy)
    free = TrainSettings(tasks=settings.tasks, start_from=adapter)
    check_start(free)
    assert shape_of(free.start_from) == {"lora_rank": 8, "lora_targets": ("q_proj", "v_proj")}
    check_start(TrainSettings(tasks=settings.tasks, start_from=adapter, lora_targets=("v_proj", "q_proj")))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"tasks": (open_id("https://example.org", "Look."),), "contexts": ("feedback",)},
            "open-ended tasks have no judge",
        ),
        ({"tasks": (UNJUDGED,), "contexts": ("feedback",)}, "open-ended tasks have no judge"),
        ({"first_evaluation_seed": 1}, "include training seeds"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_anything_is_done(tiny_policy, settings, tmp_path, changes, why):
    with pytest.raises(ValueError, match=why):
        train(settings.model_copy(update={"evaluate_every": 1, **changes}), tmp_path / "run", policy=tiny_policy)
    assert not (tmp_path / "run").exists()


def test_a_task_without_oracle_is_refused_clearly(tiny_policy, settings, tmp_path):
    chosen = settings.model_copy(update={"tasks": ("MiniWoB/count-sides-v0",), "steps": 1})
    with pytest.raises(ValueError, match="No context teaches MiniWoB/count-sides-v0: there is no oracle for it"):
        train(chosen, tmp_path / "run", policy=tiny_policy)
    assert not (tmp_path / "run").exists()


def test_results_are_in_the_order_of_the_jobs(tiny_policy, settings):
    jobs = [Job(task, seed) for seed in (3, 1, 2) for task in settings.tasks]
    with Rollouts(4, max_episode_steps=2) as rollouts:
        results = rollouts.run(make_agent(tiny_policy, settings, sampling=False), jobs)
    assert [result.job for result in results] == jobs
    assert all(isinstance(result, Result) and result.outcome != "running" for result in results)
