"""Whether anything is learned is told by what the student achieves, while it trains and on the adapter's card."""

import json
import logging
from types import SimpleNamespace

import pytest
from huggingface_hub import ModelCard

from selfsurf.agents.play.provenance import versions
from selfsurf.scripts.terminal.console import training_progress
from selfsurf.scripts.train import _summary_text, _warn_of_perplexity
from selfsurf.sdft.measure.heldout import extent
from selfsurf.sdft.run.card import card
from selfsurf.sdft.run.learning import Learning
from selfsurf.sdft.settings import TrainSettings


def learned(success, right=(), earlier=0):
    """The figures of a run with these shares a step, the first of them of an earlier start."""
    lines = [{"episodes/success": share} for share in success] or [{} for _ in right]
    for line, share in zip(lines, right, strict=False):
        line["steps/right"] = share
    learning = Learning(lines[:earlier])
    for number, line in enumerate(lines[earlier:], earlier + 1):
        state = SimpleNamespace(global_step=number, max_steps=len(lines))
        learning.on_log(None, state, None, {"loss": 0.5, **line})
    learning.on_train_end(None, None, None)
    return learning


@pytest.mark.parametrize(
    ("success", "right", "warned"),
    [
        ([0.3, 0.2, 0.3, 0.2, 0.3, 0.2], [], "success 0.27 in the first 3 steps and 0.23 in the last"),
        ([], [0.15, 0.33, 0.04, 0.1, 0.2, 0.1], "right steps 0.17 in the first 3 steps and 0.13 in the last"),
        ([0.0] * 6, [0.2, 0.2, 0.3, 0.5, 0.6, 0.7], ""),  # it can't do it yet, but comes nearer
        ([0.2, 0.3, 0.3, 0.5, 0.7, 0.8], [], ""),
        ([1.0, 0.9, 1.0, 1.0, 0.9, 1.0], [], ""),  # there was nothing to learn
        ([], [1.0, 1.0, 1.0, 0.0, 1.0, 1.0], ""),  # nor here, whatever a sample was
        ([0.2] * 5, [], ""),  # too short to tell
        ([], [], ""),
    ],
)
def test_a_run_that_learns_nothing_says_so(caplog, success, right, warned):
    with caplog.at_level(logging.WARNING, "selfsurf.sdft"):
        learned(success, right)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == bool(warned)
    assert not warned or said[0].startswith(f"Nothing is being learned: {warned}. Try more steps")


def test_where_actions_are_recorded_the_teachers_share_is_said():
    lines = [{"episodes/success": 0.2, "recorded/distilled": 0.25 * (step % 2)} for step in range(6)]
    assert Learning(lines).warning().endswith("12% of the rows with a recorded action are learned from the teacher.")


def test_it_is_said_halfway_and_what_came_before_a_resume_counts(caplog):
    shares = [0.5] * 12
    with caplog.at_level(logging.WARNING, "selfsurf.sdft"):
        learned(shares)
        assert len(caplog.records) == 2
        caplog.clear()
        assert learned(shares, earlier=8).figures() == learned(shares).figures()


def test_the_progress_line_shows_success_or_right_steps(capsys):
    with training_progress("Training", 10) as update:
        for step in range(1, 11):
            update(step, {"loss": 0.25, "episodes/success": step / 10, "steps/right": 0.1})
    assert capsys.readouterr().err.splitlines()[-1].endswith("success 0.80, loss 0.250")  # of the last five
    with training_progress("Training", 2) as update:
        update(1, {"loss": 0.25, "steps/right": 0.5})
        update(2, {"loss": 0.25, "steps/right": 0.25, "evaluation/success": 0.75})
    told = capsys.readouterr().err.splitlines()
    assert told[1].endswith("steps/right 0.50, loss 0.250")
    assert told[2].endswith("steps/right 0.38, held-out success 0.75, loss 0.250")
    with training_progress("Training", 1) as update:  # SFT plays no episodes
        update(1, {"loss": 0.25})
    assert capsys.readouterr().err.splitlines()[-1].endswith("s loss 0.250")


def test_the_card_of_an_adapter_has_what_the_hub_reads_and_what_came_of_it(tmp_path):
    settings = TrainSettings(contexts=("demonstration",), demonstrations=("/home/me/shown",), lora_rank=4)
    about = {
        "base_model": "smollm2", "base_model_sha256": "0" * 64, "learned": ["MiniWoB/click-link-v0"], "steps": 28,
        "settings": settings.model_dump(mode="json"), "versions": versions(),
        "learning": learned([0.2, 0.2, 0.2, 0.6, 0.6, 0.6]).figures(),
    }  # fmt: skip
    (tmp_path / "README.md").write_text(card(about), encoding="utf8")
    read = ModelCard.load(tmp_path / "README.md")
    hub = "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert (read.data.base_model, read.data.library_name) == (hub, "peft")
    assert f"base_model:adapter:{hub}" in read.data.tags
    assert "success 0.20 in the first 3 steps, 0.60 in the last" in read.text
    assert json.loads(read.text.partition("```json\n")[2].partition("```")[0]) == {
        "contexts": ["demonstration"],
        "lora_rank": 4,
    }
    assert "/home/me" not in read.text
    found = {"best": {"step": 20, "success": 0.9, "perplexity": 31.0}, "base": {"success": None, "perplexity": 30.0}}
    text = card({**about, "base_model": "/models/own", "evaluation": found})
    assert "| this adapter (step 20) | 0.90 | 31.00 |" in text
    assert "| before | unknown | 30.00 |" in text
    assert "base_model:" not in text
    assert "/models" not in text


def test_a_gain_says_how_little_it_was_measured_on(tmp_path, capsys):
    found = {
        "base": {"step": 0, "success": 0.0, "perplexity": 30.0}, "best": {"step": 40, "success": 1.0, "perplexity": 33.0},
        "measure": "agreement", "held_out": True, "rollbacks": 0, "states": 4, "episodes": 1,
    }  # fmt: skip
    said = _summary_text({"adapter": "a", "evaluation": found})
    assert "agreement 0.00 before, 1.00 after (4 states of 1 episode, too few to show much); perplexity" in said
    assert "best state" not in said
    assert (
        "a, 25% of the rows with a recorded action learned from the teacher, the others from the recorded action"
        in _summary_text({"adapter": "a", "evaluation": found, "distilled": 0.25})
    )
    assert "a, the state at the start, because no later state did better: held-out" in _summary_text(
        {"adapter": "a", "evaluation": {**found, "best": found["base"]}}
    )
    assert extent({**found, "states": 20, "episodes": 3}) == "20 states of 3 episodes"
    about = {"base_model": "smollm2", "base_model_sha256": "0" * 64, "learned": ["x"], "versions": versions()}
    settings = TrainSettings(episodes=("e",), contexts=("demonstration",)).model_dump(mode="json")
    assert "held-out recorded states (4 states of 1 episode, too few to show much)" in card(
        {**about, "settings": settings, "evaluation": found}
    )
    _warn_of_perplexity(found)
    assert "rose by 10%" in capsys.readouterr().err
    _warn_of_perplexity({**found, "best": found["base"]})
    assert not capsys.readouterr().err
