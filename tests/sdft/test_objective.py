"""The objective on known logits: TRL's numbers, gates and masks against a plain reference in float64."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from pydantic import ValidationError
from trl.experimental.sdft.sdft_trainer import DistillationLogits

from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.loss.scoring import FORBIDDEN
from selfsurf.sdft.rollouts import Rollouts
from selfsurf.sdft.rows.gates import Gates, passed
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.trainers.arguments import sdft_arguments
from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer, NothingToTeach

ROWS, WIDTH, VOCABULARY = 4, 6, 30


@pytest.fixture
def trainer_of(tiny_policy, settings, tmp_path):
    def make(gates=None, least=0.0, sharp=1.0, **changes):
        chosen = settings.model_copy(update=changes)
        return EpisodeSDFTTrainer(
            agent_of=lambda policy: make_agent(policy, chosen, sampling=True),
            rollouts=Rollouts(),
            max_rows=5,
            gates=gates or Gates(),
            least_first_divergence=least,
            teacher_temperature=sharp,
            mean_over=chosen.mean_over,
            model=tiny_policy.model,
            processing_class=tiny_policy.tokenizer,
            args=sdft_arguments(chosen, tmp_path),
            train_dataset=Dataset.from_dict({"env_id": ["MiniWoB/click-test-v0"], "seed": [0]}),
            peft_config=LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"),
        )

    return make


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


def reference(case, alpha=0.0, support="vocabulary", top_k=5, clip=None, rows=None, mean_over="rows", over_all=False):
    """The loss, with nothing of TRL's in it; `over_all`: that of all tokens, whatever those sampled from."""
    student, teacher, ids, drawn_under, mask, old = case
    allowed = drawn_under | over_all
    s = log_softmax(np.where(allowed, student, -np.inf))
    t = log_softmax(np.where(allowed, teacher, -np.inf))
    if support == "top":
        best = np.argsort(-t, -1)[..., :top_k]
        s, t = (np.take_along_axis(x, best, -1) for x in (s, t))
        s, t = (np.concatenate([x, np.log1p(-np.exp(x).sum(-1, keepdims=True))], -1) for x in (s, t))
    if support == "sampled":
        # Its gradient is that of the score function; its value is the log-ratio times the log-probability.
        chosen_s, chosen_t = (np.take_along_axis(x, ids[..., None], -1)[..., 0] for x in (s, t))
        losses = (chosen_s - chosen_t) * chosen_s
    elif alpha in (0, 1):
        losses = kl(s, t) if alpha else kl(t, s)
    else:
        with np.errstate(divide="ignore"):
            mixture = np.log((1 - alpha) * np.exp(s) + alpha * np.exp(t))
        losses = (1 - alpha) * kl(s, mixture) + alpha * kl(t, mixture)
    if clip is not None:
        now = np.take_along_axis(log_softmax(np.where(drawn_under, student, -np.inf)), ids[..., None], -1)[..., 0]
        losses = losses * np.minimum(np.exp(np.clip(now - old, -20, 20)), clip)
    mask = mask if rows is None else mask[rows]
    losses = losses if rows is None else losses[rows]
    if mean_over == "tokens":
        return (losses * mask).sum() / mask.sum()
    return ((losses * mask).sum(-1) / mask.sum(-1)).mean()


def loss_of(trainer, case, right=None, over_all=False, solved=None):
    student, teacher, ids, drawn_under, mask, old = (torch.from_numpy(np.asarray(one)) for one in case)
    allowed = drawn_under | over_all
    logits = DistillationLogits(
        completion_ids=ids,
        loss_mask=mask,
        student_logits=student.masked_fill(~allowed, FORBIDDEN),
        teacher_logits=teacher.masked_fill(~allowed, FORBIDDEN),
    )
    right = torch.zeros(ROWS, dtype=torch.bool) if right is None else torch.tensor(right)
    solved = torch.zeros(ROWS, dtype=torch.bool) if solved is None else torch.tensor(solved)
    inputs = {"old_per_token_logps": old, "right": right, "solved": solved, "allowed": allowed}
    inputs |= {"drawn_under": drawn_under} if over_all else {}
    return float(trainer._compute_self_distillation_loss(trainer.model, inputs, logits))


@pytest.mark.parametrize("clip", [None, 1.5])
@pytest.mark.parametrize(
    ("support", "alpha"),
    [("vocabulary", 0.0), ("vocabulary", 0.3), ("vocabulary", 0.5), ("vocabulary", 1.0), ("top", 0.0), ("top", 0.5),
     ("top", 1.0), ("sampled", 1.0)],
)  # fmt: skip
def test_the_loss_is_the_reference_number_for_number(trainer_of, case, support, alpha, clip):
    trainer = trainer_of(support=support, divergence=alpha, top_k=5, importance_clip=clip)
    expected = reference(case, alpha, support, clip=clip)
    assert loss_of(trainer, case) == pytest.approx(expected, rel=1e-5)
    assert abs(expected) > 0.01


@pytest.mark.parametrize("mean_over", ["rows", "tokens"])
def test_samples_are_weighed_under_the_grammar_that_they_were_drawn_under(trainer_of, case, mean_over):
    trainer = trainer_of(importance_clip=1.5, mean_over=mean_over, gates=Gates(skip_right=True))
    expected = reference(case, clip=1.5, over_all=True, rows=[1, 3], mean_over=mean_over)
    assert loss_of(trainer, case, [True, False, True, False], over_all=True) == pytest.approx(expected, rel=1e-5)
    assert abs(expected / reference(case, over_all=True, rows=[1, 3], mean_over=mean_over) - 1) > 0.01


@pytest.mark.parametrize("support", ["vocabulary", "top"])
def test_tokens_count_the_same_where_asked(trainer_of, case, support):
    trainer = trainer_of(mean_over="tokens", support=support, top_k=5, importance_clip=1.5)
    expected = reference(case, support=support, clip=1.5, mean_over="tokens")
    assert loss_of(trainer, case) == pytest.approx(expected, rel=1e-5)
    assert abs(expected / reference(case, support=support, clip=1.5) - 1) > 0.01
    trainer = trainer_of(mean_over="tokens", gates=Gates(skip_right=True))
    expected = reference(case, rows=[1, 3], mean_over="tokens")
    assert loss_of(trainer, case, right=[True, False, True, False]) == pytest.approx(expected, rel=1e-6)


def test_rows_that_a_gate_leaves_out_count_neither_in_the_sum_nor_in_the_mean(trainer_of, case):
    trainer = trainer_of(gates=Gates(skip_right=True))
    assert loss_of(trainer, case, right=[True, False, True, False]) == pytest.approx(
        reference(case, rows=[1, 3]), rel=1e-6
    )
    assert trainer._metrics["train"]["gate/right"] == [2]
    assert loss_of(trainer, case, right=[True] * 4) == 0.0


def test_gates_leave_out_what_they_say_and_count_it():
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    teacher = torch.zeros(2, 3, 4)
    teacher[0, 0, 1] = teacher[1, :, 2] = 5.0  # sure; elsewhere the teacher has no idea
    student = teacher.clone()
    student[1, 0, 2] = 0.0
    nobody = torch.zeros(2, dtype=torch.bool)
    free = torch.ones(2, 3, dtype=torch.bool)
    whole = {"right": 0, "solved": 0, "divergence": 0, "confidence": 0}
    assert [one.tolist() if i == 0 else one for i, one in enumerate(passed(Gates(), teacher, student, mask, nobody, nobody, free))] == [
        mask.tolist(), whole,
    ]  # fmt: skip
    kept, counts = passed(Gates(min_confidence=0.9), teacher, student, mask, nobody, nobody, free)
    assert (kept.tolist(), counts) == ([[1, 0, 0], [1, 1, 1]], {**whole, "confidence": 1})
    free[0, 0] = False
    kept, counts = passed(Gates(min_confidence=0.9), teacher, student, mask, nobody, nobody, free)
    assert (kept.tolist(), counts) == ([[0, 0, 0], [1, 1, 1]], {**whole, "confidence": 1})
    kept, counts = passed(Gates(min_divergence=0.1), teacher, student, mask, nobody, nobody, free)
    assert (kept.tolist(), counts) == ([[0, 0, 0], [1, 1, 1]], {**whole, "divergence": 1})
    kept, counts = passed(Gates(skip_right=True), teacher, student, mask, torch.tensor([False, True]), nobody, free)
    assert (kept.tolist(), counts) == ([[1, 1, 0], [0, 0, 0]], {**whole, "right": 1})
    kept, counts = passed(Gates(skip_solved=True), teacher, student, mask, nobody, torch.tensor([True, False]), free)
    assert (kept.tolist(), counts) == ([[0, 0, 0], [1, 1, 1]], {**whole, "solved": 1})


def test_rounding_below_no_divergence_at_all_is_no_gate(case):
    teacher = torch.tensor(case[0][:, :, :5], dtype=torch.float32)
    student = teacher + 1e-4 * torch.arange(4)[:, None, None]  # the same distributions, in other last bits
    mask, nobody = torch.ones(4, 6), torch.zeros(4, dtype=torch.bool)
    kept, counts = passed(Gates(skip_right=True), teacher, student, mask, nobody, nobody, mask.bool())
    assert kept.equal(mask)
    assert counts["divergence"] == 0


def test_the_teachers_likeliest_tokens_are_learned_whatever_the_student_thinks_likely(trainer_of):
    """A right action that the student gives next to nothing: its tokens' logits rise."""
    trainer = trainer_of(support="top", top_k=2)
    student = torch.zeros(1, 1, 20).index_fill_(-1, torch.tensor([3, 4, 5]), 6.0).requires_grad_()
    teacher = torch.zeros(1, 1, 20).index_fill_(-1, torch.tensor([17]), 12.0)
    logits = DistillationLogits(
        completion_ids=torch.tensor([[3]]), loss_mask=torch.ones(1, 1), student_logits=student, teacher_logits=teacher
    )
    nothing = torch.zeros(1, dtype=torch.bool)
    inputs = {"old_per_token_logps": torch.zeros(1, 1), "right": nothing, "solved": nothing,
              "allowed": torch.ones(1, 1, 20, dtype=torch.bool)}  # fmt: skip
    trainer._compute_self_distillation_loss(trainer.model, inputs, logits).backward()
    gradient = student.grad[0, 0]
    assert gradient.argmin() == 17
    assert gradient[17] < -0.9
    assert gradient[16] == pytest.approx(gradient[18])
    assert abs(gradient[16]) < 0.01


def test_a_teacher_that_is_no_different_ends_the_training_before_it_begins(trainer_of, case):
    student, _, *rest = case
    with pytest.raises(NothingToTeach, match=r"differs from the student by .* nats a token only"):
        loss_of(trainer_of(least=1e-3), (student, student, *rest))
    # Sharpened, it would seem to know more.
    with pytest.raises(NothingToTeach):
        loss_of(trainer_of(least=1e-3, sharp=0.5), (student, np.asarray(student) / 0.5, *rest))
    trainer = trainer_of(least=1e-3)
    loss_of(trainer, case)
    assert trainer._metrics["train"]["step0_divergence"][0] > 0.1


@pytest.mark.parametrize("changes", [{}, {"divergence": 1.0}, {"under_grammar": True}])
def test_sampled_tokens_estimate_the_reverse_divergence_under_the_grammar_only(changes):
    with pytest.raises(ValidationError, match="set divergence=1 and under_grammar=true"):
        TrainSettings(tasks=("MiniWoB/click-test-v0",), support="sampled", **changes)


def test_a_short_run_does_not_spend_itself_on_warming_up(tmp_path):
    task = ("MiniWoB/click-link-v0",)
    rates = [sdft_arguments(TrainSettings(tasks=task, steps=steps), tmp_path).warmup_steps for steps in (1, 8, 28)]
    assert rates == [0, 2, 3]


def test_who_has_learned_something_else_already_does_not_teach(tmp_path):
    first = TrainSettings(tasks=("MiniWoB/click-link-v0",))
    on = first.model_copy(update={"start_from": tmp_path})
    for settings, kind in [(first, "ema"), (on, "base"), (on.model_copy(update={"teacher": "ema"}), "ema")]:
        assert settings.teacher_weights == sdft_arguments(settings, tmp_path).teacher_model_kind == kind
