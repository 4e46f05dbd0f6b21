"""Image rows on tiny vision-language models of three families: student and teacher score what was really seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import get_peft_model
from transformers import AutoConfig, AutoModelForImageTextToText

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policy import Message
from selfsurf.agents.prompt.prompt import with_demonstration
from selfsurf.sdft import train
from selfsurf.sdft.loss.scoring import FORBIDDEN
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.images import VisualInputs
from selfsurf.sdft.rows.samples import allowed_tokens, samples_of
from selfsurf.sdft.run.model import lora_config
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer
from tests.models.vision import FAMILIES, idefics3, qwen2_5_vl
from tests.sdft.rows import TOLD, batch_of, episodes_of

SETTINGS = TrainSettings(
    tasks=("MiniWoB/click-test-2-v0", "MiniWoB/click-button-v0"), steps=5, episodes_per_step=2, max_rows=2,
    max_episode_steps=1, lora_rank=4, learning_rate=1e-2, warmup_steps=0, dtype="fp32", teacher="base",
    max_prompt_tokens=400, max_image_side=120,
)  # fmt: skip


def picture(height: int, width: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


ASKED = [
    [Message("user", "What is it?", (picture(60, 90, 1),))],
    [Message("system", "Be brief."), Message("user", "Hi")],
    [Message("user", "Which of them is the larger one?", (picture(90, 40, 2), picture(64, 64, 3)))],
    [Message("user", "Look.", (picture(40, 120, 4),)), Message("user", "And now? " * 9, (picture(120, 120, 5),))],
]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(family, id=name, marks=() if name == "idefics3" else pytest.mark.slow)
        for name, family in FAMILIES.items()
    ],
)
def folder(request: pytest.FixtureRequest, saved: Any) -> Path:
    written: Path = saved(request.param)
    return written


def trainer_of(policy: TransformersPolicy, out: Path, settings: TrainSettings) -> Any:
    return EpisodeSDFTTrainer(
        settings,
        out,
        rollouts=Rollouts(),
        model=policy.model,
        processing_class=policy.processor,
        jobs=[Job("MiniWoB/click-test-v0", 0)],
        peft_config=lora_config(policy.model, settings),
    )


@pytest.fixture(scope="module")
def trainer(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One whose adapter is not nothing."""
    out = tmp_path_factory.mktemp("run")
    made = trainer_of(TransformersPolicy(folder, device="cpu", dtype="fp32"), out, SETTINGS)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in made.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, 0.05)
    return made


def alone(trainer: Any, messages: Any, prefill: list[int], completion: list[int]) -> torch.Tensor:
    """Logits of one row, without padding: transformers' own inputs, the model's own positions."""
    prompt = trainer.policy.prompt(messages)
    new = torch.tensor([[*prefill, *completion]])
    ids = torch.cat([torch.tensor([prompt.ids]), new], 1)
    extras = {
        key: torch.cat([value, value.new_zeros(new.shape)], 1) if value.shape == (1, len(prompt.ids)) else value
        for key, value in prompt.extras.items()
    }
    with torch.no_grad():
        logits: torch.Tensor = trainer.model(input_ids=ids, attention_mask=torch.ones_like(ids), **extras).logits
    return logits[0, -len(completion) - 1 : -1]


def scored(trainer: Any, batch: Any) -> Any:
    """Student's and teacher's logits, which the loss is taken on."""
    return trainer.student_logits(trainer.model, batch), trainer._teacher_logits(trainer.model, batch)


def test_student_and_teacher_score_what_was_seen(trainer: Any) -> None:
    results = episodes_of(trainer.policy, ASKED)
    rows = samples_of(results, trainer.policy)
    assert len(rows) == len(ASKED)
    batch = batch_of(trainer, rows)
    with torch.no_grad():
        student, teacher = scored(trainer, batch)
    allowed_in = allowed_tokens(rows, trainer.policy)
    student = student.masked_fill(~allowed_in, FORBIDDEN)
    logprobs = torch.log_softmax(student, -1).gather(-1, batch["completion_ids"][..., None])[..., 0]
    for row, sample in enumerate(rows):
        length = len(sample.completion_ids)
        assert logprobs[row, :length].tolist() == pytest.approx(sample.logprobs, abs=2e-5)
        messages = results[row].steps[0].decision.messages
        with trainer.model.disable_adapter():  # the teacher of these settings
            expected = alone(trainer, with_demonstration(messages, TOLD), sample.prefill_ids, sample.completion_ids)
        assert torch.allclose(teacher[row, :length], expected, atol=1e-4)
        told = trainer.policy.tokenizer.decode(sample.teacher_prompt_ids)
        assert told.rindex("Correct action:") > told.rindex(messages[-1].text.strip())
    assert min(sample.logprobs[-1] for sample in rows) < -0.01


def test_rows_without_images_make_a_batch_of_their_own(trainer: Any) -> None:
    rows = samples_of(episodes_of(trainer.policy, [ASKED[1], [Message("user", "Count to ten. " * 5)]]), trainer.policy)
    assert [row.seen for row in rows] == [VisualInputs(), VisualInputs()]
    batch = batch_of(trainer, rows)
    with torch.no_grad():
        logits = scored(trainer, batch)[0].masked_fill(~allowed_tokens(rows, trainer.policy), FORBIDDEN)
    logprobs = torch.log_softmax(logits, -1).gather(-1, batch["completion_ids"][..., None])[..., 0]
    for row, sample in enumerate(rows):
        assert logprobs[row, : len(sample.logprobs)].tolist() == pytest.approx(sample.logprobs, abs=2e-5)


def test_the_teacher_sees_the_image(trainer: Any) -> None:
    results = episodes_of(trainer.policy, [ASKED[0]])
    (row,) = samples_of(results, trainer.policy)
    assert row.seen.teacher["pixel_values"] is row.seen.student["pixel_values"]
    other = trainer.policy.prompt([Message("user", "What is it?", (picture(60, 90, 8),))]).extras
    teacher = {**row.seen.teacher, "pixel_values": other["pixel_values"]}
    batch = batch_of(trainer, [row])
    with torch.no_grad():
        before = scored(trainer, batch)
        batch["seen"] = [VisualInputs(row.seen.student, teacher)]
        after = scored(trainer, batch)
    assert torch.equal(before[0], after[0])
    assert (before[1] - after[1]).abs().max() > 0.01


def test_a_prompt_that_was_made_otherwise_is_refused(trainer: Any) -> None:
    (result,) = episodes_of(trainer.policy, [ASKED[0]])
    result.steps[0].decision.completion.prompt_token_ids.insert(0, 5)
    with pytest.raises(ValueError, match="same processor and image size"):
        samples_of([result], trainer.policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "steps", "rate"),
    [(idefics3, 5, 1e-2), (qwen2_5_vl, 16, 2e-3)],
    ids=["idefics3", "qwen2_5_vl"],
)
def test_training_on_screenshots_lowers_the_divergence(
    family: Any, steps: int, rate: float, saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainers: list[Any] = []
    batches: list[Any] = []
    prepare = EpisodeSDFTTrainer._prepare_training_batch

    def watched(self: Any, inputs: Any) -> Any:
        trainers.append(self)
        batches.append(prepare(self, inputs))
        return batches[-1]

    monkeypatch.setattr(EpisodeSDFTTrainer, "_prepare_training_batch", watched)
    folder = saved(family)
    settings = SETTINGS.model_copy(update={"model": str(folder), "steps": steps, "learning_rate": rate})
    summary = train(settings, tmp_path / "run")
    trainer = trainers[0]
    assert len(batches) == steps
    assert all("pixel_values" in row.student for batch in batches for row in batch["seen"])
    used = TransformersPolicy(folder, device="cpu", dtype="fp32", adapter=summary["adapter"])
    trained, loaded = (policy.complete([ASKED[0]], max_new_tokens=6)[0] for policy in (trainer.policy, used))
    assert trained.token_ids == loaded.token_ids
    assert trained.logprobs == pytest.approx(loaded.logprobs, abs=1e-4)

    def divergence() -> float:
        with torch.no_grad():
            return sum(float(trainer.compute_loss(trainer.model, batch)) for batch in batches) / steps

    after = divergence()
    with torch.no_grad():
        for name, value in trainer.model.named_parameters():
            if "lora_B" in name:
                assert value.any(), name
                value.zero_()
    before = divergence()
    assert after < 0.95 * before


def test_a_vision_tower_is_left_alone_unless_asked_for(folder: Path) -> None:
    def adapted(**changes: Any) -> set[str]:
        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(folder))
            wrapped = get_peft_model(model, lora_config(model, SETTINGS.model_copy(update=changes)))
        return {name.split(".lora_A")[0] for name, _ in wrapped.named_parameters() if ".lora_A." in name}

    inside, everywhere = adapted(), adapted(lora_vision=True)
    assert len(inside) == 2 * 7
    assert not [name for name in inside if "vision" in name or "visual" in name]
    assert everywhere > inside
    assert all("vision" in name or "visual" in name for name in everywhere - inside)
    with pytest.raises(
        ValueError, match=r"in the language model \(lora_vision adds the other layers\). Available are down_proj"
    ):
        adapted(lora_targets=("fc1", "patch_embedding"))
