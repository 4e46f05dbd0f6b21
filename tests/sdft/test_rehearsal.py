"""The student is kept close to the untrained model on what that wrote itself."""

import json

import pytest
import torch
from peft import LoraConfig, get_peft_model

from selfsurf.sdft import train
from selfsurf.sdft.forgetting.rehearsal import ROWS, Rehearsal, own_texts, rehearsal_of
from selfsurf.sdft.trainers.grpo import GRPOSettings, train_grpo
from selfsurf.sdft.trainers.sft import collect, train_sft
from tests.sdft.rows import copied


def test_the_texts_are_the_models_own(tiny_policy):
    texts = own_texts(tiny_policy, seed=1, rows=4, length=6)
    assert texts.shape == (4, 6)
    assert len({tuple(text) for text in texts.tolist()}) == 4
    assert not torch.equal(own_texts(tiny_policy, seed=2, rows=4, length=6), texts)


def test_a_run_that_has_begun_keeps_its_texts_and_a_new_one_writes_its_own(
    tiny_policy, settings, tmp_path, monkeypatch
):
    written = [torch.ones(2, 3, dtype=torch.long), torch.zeros(2, 3, dtype=torch.long)]
    monkeypatch.setattr("selfsurf.sdft.forgetting.rehearsal.own_texts", lambda *_: written.pop())
    chosen = settings.model_copy(update={"rehearsal": 0.1})
    path = tmp_path / "rehearsal.json"
    rehearsal_of(chosen, tiny_policy, tmp_path, begun=False)
    assert json.loads(path.read_text()) == [[0, 0, 0], [0, 0, 0]]
    rehearsal_of(chosen, tiny_policy, tmp_path, begun=True)
    assert len(written) == 1
    rehearsal_of(chosen, tiny_policy, tmp_path, begun=False)
    assert json.loads(path.read_text()) == [[1, 1, 1], [1, 1, 1]], "what an earlier start left may be another model's"


def test_no_more_texts_are_written_than_are_read(tiny_policy, settings, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "selfsurf.sdft.forgetting.rehearsal.own_texts", lambda _, seed, rows: asked.append(rows) or torch.ones(rows, 3)
    )
    for steps, rows in ((5, 2), (40, 4)):
        chosen = settings.model_copy(update={"rehearsal": 0.1, "steps": steps, "rehearsal_rows": rows})
        rehearsal_of(chosen, tiny_policy, tmp_path, begun=False)
    assert asked == [10, ROWS]


def test_the_divergence_is_that_from_the_untrained_model(tiny_policy):
    torch.manual_seed(0)
    texts = torch.randint(0, 100, (5, 9))
    before = torch.log_softmax(tiny_policy.model(input_ids=texts).logits.detach().double(), -1)
    student = get_peft_model(tiny_policy.model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    rehearsal = Rehearsal(texts, rows=5, seed=0)
    assert float(rehearsal.divergence(student, 0).detach()) == pytest.approx(0.0, abs=1e-6)
    with torch.no_grad():
        for name, weight in student.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    now = torch.log_softmax(student(input_ids=texts).logits.double(), -1)
    expected = (before.exp() * (before - now)).sum(-1).mean()
    divergence = rehearsal.divergence(student, 3)
    assert float(divergence.detach()) == pytest.approx(float(expected), rel=1e-4)
    divergence.backward()
    assert all(weight.grad is not None for name, weight in student.named_parameters() if "lora_" in name)


def test_the_gradient_of_what_is_learned_is_left_alone(tiny_policy):
    """The adapter is off for a moment between the student's pass and its backward pass."""
    torch.manual_seed(0)
    ids = torch.randint(0, 100, (2, 7))
    student = get_peft_model(tiny_policy.model, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    weights = [weight for weight in student.parameters() if weight.requires_grad]
    rehearsal = Rehearsal(torch.randint(0, 100, (3, 9)), rows=3, seed=0)

    def learned():
        return student(input_ids=ids, labels=ids).loss

    apart = [torch.autograd.grad(part(), weights) for part in (learned, lambda: rehearsal.divergence(student, 0))]
    (learned() + rehearsal.divergence(student, 0)).backward()
    for weight, one, other in zip(weights, *apart, strict=True):
        assert float(one.abs().max()) > 0
        torch.testing.assert_close(weight.grad, one + other)


def test_other_texts_in_every_step_and_the_same_again(tiny_policy):
    student = get_peft_model(tiny_policy.model, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    rehearsal = Rehearsal(torch.randint(0, 100, (20, 9)), rows=2, seed=0)
    figures = [float(rehearsal.divergence(student, step).detach()) for step in (0, 1, 2, 0)]
    assert len(set(figures)) == 3
    assert figures[0] == figures[3]


@pytest.mark.slow
@pytest.mark.parametrize("way", [train, train_sft, train_grpo])
def test_a_run_says_how_far_it_went(tiny_policy, settings, tmp_path, monkeypatch, way):
    """From the untrained model, whatever the run began with: nothing at first, and what an adapter brings along."""
    monkeypatch.setattr("selfsurf.sdft.forgetting.rehearsal.own_texts", lambda *_: torch.randint(0, 100, (4, 9)))
    chosen = settings.model_copy(update={"steps": 1, "rehearsal": 1.0})
    if way is train_grpo:
        chosen = GRPOSettings(**{**chosen.model_dump(exclude_unset=True), "episodes_per_step": 4, "group_size": 2})
    went = []
    for start_from in (None, tmp_path / "other"):
        policy, folder = copied(tiny_policy), tmp_path / str(start_from is None)
        if start_from is not None:
            config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
            get_peft_model(copied(tiny_policy).model, config).save_pretrained(start_from)
        way(chosen.model_copy(update={"start_from": start_from, "teacher": "ema"}), folder, policy=policy)
        went.append(json.loads((folder / "metrics.jsonl").read_text())["rehearsal/divergence"])
    assert went[0] == pytest.approx(0.0, abs=1e-6)
    assert went[1] > 1e-3


@pytest.mark.slow
def test_it_holds_the_student_back(tiny_policy, settings, tmp_path, monkeypatch):
    """The same demonstrations, with and without: with it, what the model wrote itself changes less."""
    texts = torch.randint(0, 100, (4, 9))
    monkeypatch.setattr("selfsurf.sdft.forgetting.rehearsal.own_texts", lambda *_: texts)
    rows = tmp_path / "rows.jsonl"
    collect(settings.model_copy(update={"steps": 2}), tiny_policy, rows)
    drift = {}
    for weight in (0.0, 10.0):
        folder = tmp_path / str(weight)
        changes = {"steps": 10, "rehearsal": weight, "rehearsal_rows": 4, "learning_rate": 0.01}
        run = train_sft(settings.model_copy(update=changes), folder, rows=rows, policy=copied(tiny_policy))
        with torch.no_grad():
            drift[weight] = float(Rehearsal(texts, rows=4, seed=0).divergence(run["model"], 0))
    assert 0 < drift[10.0] < 0.5 * drift[0.0]
