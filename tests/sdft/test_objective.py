"""The objective on known logits: divergences, weights and the gate against a plain reference in float64."""

import numpy as np
import pytest
import torch
from peft import LoraConfig
from trl.experimental.sdft.loss_utils import compute_divergence

from selfsurf.sdft.loss.distillation import divergence
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.run.batches import NothingToTeach
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.following import heeded, places, throughout
from selfsurf.sdft.trainers.base import shared_arguments
from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer

ROWS, WIDTH, VOCABULARY = 4, 6, 30


@pytest.fixture
def trainer_of(tiny_policy, settings, tmp_path):
    def make(least=0.0, sharp=1.0, **changes):
        chosen = {"least_first_divergence": least, "teacher_temperature": sharp, **changes}
        return EpisodeSDFTTrainer(
            settings.model_copy(update=chosen),
            tmp_path,
            rollouts=Rollouts(),
            model=tiny_policy.model,
            processing_class=tiny_policy.tokenizer,
            jobs=[Job("MiniWoB/click-test-v0", 0)],
            peft_config=LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"),
        )

    return make


def test_where_no_recorded_row_was_drawn_nothing_was_learned(trainer_of):
    batches = trainer_of()._batches
    batches.recorded_rows, batches._told = 4, True
    for _ in range(2):
        batches.gated(0, 7)
    with pytest.raises(NothingToTeach, match=r"confidence gate left out all 7 tokens"):
        batches.gated(0, 7)
    assert not batches.learned
    batches._shown = True
    batches.gated(0, 7)
    assert batches.learned


def test_a_teacher_that_does_not_follow_is_not_the_gates_doing(trainer_of):
    batches = trainer_of()._batches
    batches._told = True
    for _ in range(2):
        batches.gated(0, 0)
    with pytest.raises(NothingToTeach, match="nor the untrained model follows the teacher's context"):
        batches.gated(0, 0)


@pytest.fixture
def case():
    """Logits, a mask of ragged rows, tokens that a grammar forbids, and samples that are a little stale."""
    chance = np.random.default_rng(0)
    student, teacher = chance.normal(size=(2, ROWS, WIDTH, VOCABULARY)) * 2
    ids = chance.integers(VOCABULARY, size=(ROWS, WIDTH))
    allowed = chance.random((ROWS, WIDTH, VOCABULARY)) < 0.7
    np.put_along_axis(allowed, ids[..., None], True, -1)
    mask = (np.arange(WIDTH) < np.array([6, 4, 5, 2])[:, None]).astype(int)
    old = log_softmax(np.where(allowed, student, -np.inf)) + 0
    stale = np.take_along_axis(old, ids[..., None], -1)[..., 0] + chance.normal(size=(ROWS, WIDTH))
    return student, teacher, ids, allowed, mask, stale


def log_softmax(values):
    values = values - values.max(-1, keepdims=True)
    return values - np.log(np.exp(values).sum(-1, keepdims=True))


def kl(p, q):
    """KL(p || q) of log-probabilities over the last axis."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(p), 0, np.exp(p) * (p - q)).sum(-1)


def reference(case, alpha=0.0, clip=None, least=0.0):
    """The loss over the whole vocabulary, with nothing of the trainer's in it."""
    student, teacher, ids, drawn_under, mask, old = case
    s, t = log_softmax(student), log_softmax(teacher)
    if alpha in (0, 1):
        losses = kl(s, t) if alpha else kl(t, s)
    else:
        mixture = np.log((1 - alpha) * np.exp(s) + alpha * np.exp(t))
        losses = (1 - alpha) * kl(s, mixture) + alpha * kl(t, mixture)
    if clip is not None:
        now = np.take_along_axis(log_softmax(np.where(drawn_under, student, -np.inf)), ids[..., None], -1)[..., 0]
        losses = losses * np.minimum(np.exp(np.clip(now - old, -20, 20)), clip)
    mask = mask * (np.exp(t).max(-1) >= least)
    rows = mask.any(-1)
    return ((losses * mask).sum(-1)[rows] / mask.sum(-1)[rows]).mean()


def loss_of(trainer, case):
    student, teacher, ids, drawn_under, mask, old = (torch.from_numpy(np.asarray(one)) for one in case)
    inputs = {"completion_ids": ids, "completion_mask": mask, "allowed": drawn_under, "old_per_token_logps": old}
    return float(trainer._distillation_loss(student, teacher, inputs))


@pytest.mark.parametrize("clip", [None, 1.5])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_the_loss_is_the_reference_number_for_number(trainer_of, case, alpha, clip):
    expected = reference(case, alpha, clip)
    assert loss_of(trainer_of(divergence=alpha, importance_clip=clip), case) == pytest.approx(expected, rel=1e-5)
    assert abs(expected) > 0.01


def test_of_what_was_recorded_a_short_reply_counts_as_much_as_a_long_one(trainer_of, case, monkeypatch):
    student, _, ids, _, mask, _ = case
    trainer = trainer_of()
    monkeypatch.setattr(trainer, "student_logits", lambda *_: torch.from_numpy(student))
    rows = {
        "completion_ids": torch.from_numpy(ids), "completion_mask": torch.from_numpy(mask),
        "places": [throughout(row.tolist()) for row in ids],
    }  # fmt: skip
    losses = -np.take_along_axis(log_softmax(student), ids[..., None], -1)[..., 0] * mask
    known = float(np.median(losses[mask.astype(bool)]))
    monkeypatch.setattr("selfsurf.sdft.trainers.sdft.KNOWN", known)
    unknown = losses > known
    expected = ((losses * unknown).sum(-1) / np.maximum(unknown.sum(-1), 1)).mean()
    assert abs(expected / ((losses * unknown).sum() / unknown.sum()) - 1) > 0.01, "the mean over tokens is another"
    assert abs(expected / (losses.sum(-1) / mask.sum(-1)).mean() - 1) > 0.01, "what is known counts no more"
    assert float(trainer._shown_loss(trainer.model, rows, torch.zeros(student.shape))) == pytest.approx(
        expected, rel=1e-5
    )


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_divergence_is_that_of_trls_trainer(case, alpha):
    student, teacher = (torch.from_numpy(log_softmax(one)) for one in case[:2])
    assert torch.allclose(divergence(student, teacher, alpha), compute_divergence(student, teacher, alpha), atol=1e-12)


def test_samples_are_weighed_under_the_grammar_that_they_were_drawn_under(trainer_of, case):
    expected = reference(case, clip=1.5)
    assert loss_of(trainer_of(importance_clip=1.5), case) == pytest.approx(expected, rel=1e-5)
    student, teacher, ids, drawn_under, mask, old = case
    assert abs(expected / reference(case) - 1) > 0.01
    anything = student, teacher, ids, np.ones_like(drawn_under), mask, old
    assert abs(expected / reference(anything, clip=1.5) - 1) > 0.01


def test_tokens_that_the_gate_leaves_out_count_neither_in_the_sum_nor_in_the_mean(trainer_of, case):
    student, teacher, ids, drawn_under, mask, old = case
    sure = np.exp(log_softmax(teacher)).max(-1)
    unsure = sure.copy()
    least = float(np.median(sure[mask.astype(bool)]))
    unsure[1] = 0  # a whole row
    teacher = np.where((unsure[..., None] == 0), 0.0, teacher)
    case = student, teacher, ids, drawn_under, mask, old
    trainer = trainer_of(min_confidence=least)
    expected = reference(case, least=least)
    assert loss_of(trainer, case) == pytest.approx(expected, rel=1e-5)
    assert abs(expected / reference(case) - 1) > 0.01
    left_out = ((np.exp(log_softmax(teacher)).max(-1) < least) & (mask == 1)).sum()
    assert trainer._metrics["gate/confidence"] == [left_out]
    assert loss_of(trainer_of(min_confidence=1.0), case) == 0.0


def test_a_right_action_that_the_student_does_not_think_of_is_learned(trainer_of):
    """Its tokens' logits rise, whatever was sampled."""
    student = torch.zeros(1, 1, 20).index_fill_(-1, torch.tensor([3, 4, 5]), 6.0).requires_grad_()
    teacher = torch.zeros(1, 1, 20).index_fill_(-1, torch.tensor([17]), 12.0)
    inputs = {"completion_ids": torch.tensor([[3]]), "completion_mask": torch.ones(1, 1, dtype=torch.long)}
    trainer_of()._distillation_loss(student, teacher, inputs).backward()
    gradient = student.grad[0, 0]
    assert gradient.argmin() == 17
    assert gradient[17] < -0.9
    assert gradient[16] == pytest.approx(gradient[18])
    assert abs(gradient[16]) < 0.01


def test_a_teacher_that_is_no_different_ends_the_training_before_it_begins(trainer_of, case):
    student, _, *rest = case
    with pytest.raises(NothingToTeach, match=r"differs from the student by only .* nats per token"):
        loss_of(trainer_of(least=1e-3), (student, student, *rest))
    # Sharpened, it would seem to know more.
    with pytest.raises(NothingToTeach):
        loss_of(trainer_of(least=1e-3, sharp=0.5), (student, student, *rest))
    trainer = trainer_of(least=1e-3)
    loss_of(trainer, case)
    assert trainer._metrics["step0_divergence"][0] > 0.1


def test_a_short_run_does_not_spend_itself_on_warming_up(tmp_path):
    task = ("MiniWoB/click-link-v0",)
    rates = [shared_arguments(TrainSettings(tasks=task, steps=steps), tmp_path)["warmup_steps"] for steps in (1, 8, 28)]
    assert rates == [0, 2, 3]


def test_an_action_is_read_as_far_as_the_reply_agrees_with_it():
    assert places([1, 2, 3], [1, 2, 3]) == ([0, 1, 2], [1, 2, 3])
    assert places([1, 7, 3], [1, 2, 3]) == ([0, 1], [1, 2])
    assert places([5], None) == ([], [])
    assert [heeded(0.6, 0.9), heeded(0.2, 0.1), heeded(0.2, 0.4)] == [True, True, False]


def test_a_row_is_taught_by_who_follows_what_it_is_told(trainer_of, tmp_path, monkeypatch):
    trainer = trainer_of(start_from=tmp_path / "adapter")
    model = trainer.model
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name and ".teacher." in name:
                weight.normal_()
    ids = torch.arange(3, 15).reshape(3, 4)
    told = ids, torch.ones_like(ids), torch.ones_like(ids[:, :2])
    ema, base = (trainer._taught(who, model, told, None) for who in ("ema", "base"))
    assert not torch.allclose(ema, base)
    liked = [([0], [int(one[row, 0].argmax())]) for row, one in ((0, ema), (1, base))]
    sharp = (ema / trainer.settings.teacher_temperature).softmax(-1)
    monkeypatch.setattr("selfsurf.sdft.trainers.sdft.FOLLOWS", float(sharp[0, 0].max()) * 0.999)
    chosen = trainer._chosen(model, told, None, {"places": [*liked, ([], [])]})
    for row, expected in enumerate((ema, base, ema)):
        torch.testing.assert_close(chosen[row], expected[row])
