"""Recorded actions are learned from a teacher that follows what it is told, and by cross-entropy from one that doesn't."""

import json

import pytest
import torch

from selfsurf.agents.scripted import OracleAgent
from selfsurf.sdft import TrainSettings, train
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.jobs import as_recorded
from selfsurf.sdft.run.batches import KNOWN, Batches, NothingToTeach, StepRows
from selfsurf.sdft.run.card import card
from selfsurf.sdft.run.model import lora_config
from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer
from tests.few import few
from tests.sdft.reader import recorded_rows, teach_to_read

FIGURES = {"tokens/generated": 1.0, "rollouts/seconds": 1.0, "tokens/learned": 1.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recorded flow of six actions."""
    made = tmp_path_factory.mktemp("recorded")
    with Rollouts(1) as rollouts:
        (result,) = rollouts.run(OracleAgent(), [Job("Scenario/register-v0", 0)], folder=made)
    assert result.solved
    return made


@pytest.fixture(scope="module")
def short(folder):
    """Settings of a short run that learns it."""
    more = {"steps": 2, "recorded_rows": 2, "max_rows": 1, "lora_rank": 4, "rehearsal": 0, "evaluate_every": 0}
    return TrainSettings(**{**as_recorded([folder]), **more, "warmup_steps": 0})


@pytest.fixture
def trainer_of(short, tmp_path, monkeypatch):
    """Makes a trainer whose batches are these rows with a known action."""

    def make(policy, rows, **changes):
        settings = short.model_copy(update=changes)
        monkeypatch.setattr(Batches, "draw", lambda *_: StepRows([], rows, FIGURES))
        trainer = EpisodeSDFTTrainer(
            settings, tmp_path, rollouts=Rollouts(), model=policy.model, processing_class=policy.tokenizer,
            jobs=[Job("it", 0)] * 4, peft_config=lora_config(policy.model, settings),
        )  # fmt: skip
        trainer.recorded_rows = True
        return trainer

    return make


def logits_of(model, prompt, completion):
    """Of one row alone, without padding."""
    ids = torch.tensor([prompt + completion])
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return logits[0, len(prompt) - 1 : -1].float()


def expected(trainer, rows, *, taught):
    """The loss with nothing of the trainer's in it: `taught` rows from the teacher, the others by cross-entropy."""
    losses, settings = [], trainer.settings
    with torch.no_grad():
        for number, row in enumerate(rows):
            student = logits_of(trainer.model, row.prompt_ids, row.completion_ids).log_softmax(-1)
            teacher = logits_of(trainer.model, row.teacher_prompt_ids, row.completion_ids)
            teacher = (teacher / settings.teacher_temperature).log_softmax(-1)
            if number in taught:
                each = (teacher.exp() * (teacher - student)).sum(-1)
            else:
                each = -student[range(len(row.completion_ids)), row.completion_ids]
            losses.append(each[each > KNOWN].mean())
    return float(torch.stack(losses).mean())


def loss_of(trainer):
    loss = trainer.compute_loss(trainer.model, trainer._prepare_training_batch([]))
    (share,) = trainer._metrics["recorded/distilled"]
    return float(loss.detach()), share


def test_an_action_is_told_in_the_words_in_which_it_is_written(tiny_policy, short):
    assert short.labels is True
    for row in recorded_rows(tiny_policy, short, 2):
        told = tiny_policy.tokenizer.decode(row.teacher_prompt_ids)
        assert '"on":' in row.told
        assert f"Reply with exactly this: {row.told}" in told
        assert told.count(row.told) == 2


def test_of_a_teacher_that_cannot_read_the_actions_are_learned_alone(tiny_policy, short, trainer_of):
    rows = recorded_rows(tiny_policy, short, 2)
    trainer = trainer_of(tiny_policy, rows)
    loss, share = loss_of(trainer)
    assert share == 0
    assert loss == pytest.approx(expected(trainer, rows, taught=()), rel=1e-5)


def test_of_a_teacher_that_reads_its_distribution_is_learned_where_it_follows(new_policy, short, trainer_of):
    policy = new_policy()
    rows = recorded_rows(policy, short, 2)
    assert len(rows) == 4
    teach_to_read(policy, rows[:3])
    trainer = trainer_of(policy, rows, teacher_temperature=1.0)
    loss, share = loss_of(trainer)
    assert share == 0.75
    assert loss == pytest.approx(expected(trainer, rows, taught=(0, 1, 2)), rel=1e-5)
    assert loss != pytest.approx(expected(trainer, rows, taught=()), rel=1e-3)


@pytest.fixture(scope="module")
def reader(new_policy, short, tmp_path_factory):
    """The folder of a tiny model that reads what a teacher of this run is told."""
    policy, where = new_policy(), tmp_path_factory.mktemp("reader")
    teach_to_read(policy, recorded_rows(policy, short, short.steps))
    policy.model.save_pretrained(where)
    policy.tokenizer.save_pretrained(where)
    return where


@pytest.mark.parametrize("reads", few(1, [True, False]))
def test_the_share_is_in_metrics_and_card(reader, tiny_folder, short, tmp_path, reads):
    model = str(reader if reads else tiny_folder)
    summary = train(short.model_copy(update={"model": model}), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    shares = [line["recorded/distilled"] for line in lines]
    assert len(shares) == short.steps
    about = json.loads((tmp_path / "run/adapter/selfsurf.json").read_text())
    assert about["distilled"] == summary["distilled"] == pytest.approx(sum(shares) / len(shares), abs=1e-4)
    text = (tmp_path / "run/adapter/README.md").read_text()
    assert text == card(about)
    if reads:
        assert summary["distilled"] > 0.5, "most of the rows"
    else:
        assert shares == [0, 0]
    assert f"in {summary['distilled']:.0%} of the rows with a recorded action" in text


def test_explanations_of_which_nothing_is_learned_end_the_run(tiny_policy, short):
    batches = Batches(
        short.model_copy(update={"enrich": object(), "steps": 9}), tiny_policy, None, [], episodes=1, max_rows=1
    )
    batches._explained = 1
    for _ in range(2):
        batches.heard([False, True])
    batches.heard([])
    with pytest.raises(NothingToTeach, match="In 3 batches nothing was learned from the explanations"):
        batches.heard([False, True])
    batches._unheard = 2
    for follows in (True, *[False] * 5):
        batches.heard([follows, False])


def test_explanations_that_nobody_would_learn_from_are_refused(folder, short):
    known = short.model_dump(exclude_unset=True)
    TrainSettings(**known, enrich={})
    with pytest.raises(ValueError, match="nothing would be learned from the explanations of enrich: contexts is"):
        TrainSettings(**known, enrich={"contexts": ["oracle"]})
    with pytest.raises(ValueError, match="from the explanations of enrich: a verifier has no teacher"):
        TrainSettings(**known, enrich={}, role="verifier")
