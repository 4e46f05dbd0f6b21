"""The best state of a run is kept, a fall is undone, and a run that is killed ends as an unbroken one."""

import errno
import json
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from selfsurf.agents.adapters.identity import read_about
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.browser_env import EnvError
from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.sdft import train
from selfsurf.sdft.measure.heldout import Evaluation, better, fault
from selfsurf.sdft.measure.retention import general_text
from selfsurf.sdft.run.checkpoint_files import (
    check_whole,
    checkpoint,
    discard,
    forget_old,
    last_step,
    note_hashes,
    publish,
    room_in,
    steps_saved,
)
from selfsurf.sdft.run.checkpoints import CheckpointManager
from selfsurf.sdft.run.folder import alone_in, settle
from selfsurf.sdft.run.interruption import InterruptibleSteps
from selfsurf.sdft.settings import from_earlier
from tests.sdft.runs import WEIGHTS, lines_of, same_run, start

DRIVER = str(Path(__file__).with_name("killed.py"))


@pytest.fixture
def watched(settings, tiny_folder):
    """Settings of a run that evaluates itself."""
    return settings.model_copy(
        update={"model": str(tiny_folder), "evaluate_every": 2, "evaluate_seeds": 1, "max_perplexity_rise": 1e9}
    )


def saved_model(policy, tokenizer, folder):
    """Write a model where other processes can load it."""
    policy.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


# Folders


def folder_with(path, **files):
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_a_folder_has_its_name_only_when_it_is_complete(tmp_path):
    made = folder_with(tmp_path / "unfinished" / "checkpoint-2", new="2")
    folder_with(tmp_path / "checkpoint-2", old="1")
    publish(made, tmp_path / "checkpoint-2")
    assert [path.name for path in (tmp_path / "checkpoint-2").iterdir()] == ["new"]
    assert not made.exists()
    assert steps_saved(tmp_path) == [2]
    discard(tmp_path / "checkpoint-2")
    discard(tmp_path / "checkpoint-2")
    assert steps_saved(tmp_path) == []
    assert last_step(tmp_path) is None


def test_a_checkpoint_that_is_damaged_is_named(tmp_path):
    folder = checkpoint(tmp_path, 4)
    folder_with(folder / "teacher", weights="0123")
    (folder / "optimizer.pt").write_text("4567")
    note_hashes(folder)
    check_whole(folder, [2])
    (folder / "teacher" / "weights").write_text("0023")
    with pytest.raises(
        ValueError, match=r"checkpoint-4/teacher/weights is damaged: .* Remove .*-4 to resume from step 2"
    ):
        check_whole(folder, [2])
    (folder / "teacher" / "weights").write_text("0123")
    (folder / "optimizer.pt").unlink()
    with pytest.raises(ValueError, match=r"optimizer\.pt is missing\. Remove .*-4 to resume from the beginning"):
        check_whole(folder, [])
    (folder / "hashes.json").write_text("{")
    with pytest.raises(ValueError, match=r"hashes\.json is missing or damaged"):
        check_whole(folder, [])


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("file write failed"),
    ],
)
def test_a_full_disk_is_told_as_one(tmp_path, monkeypatch, error):
    with pytest.raises(type(error)) as other, room_in(tmp_path):
        raise type(error)("something else")
    assert "no room" not in str(other.value)
    if isinstance(error, RuntimeError):  # torch does not say why
        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(
            "selfsurf.sdft.run.checkpoint_files.shutil.disk_usage", lambda path: usage._replace(free=1000)
        )
    with pytest.raises(OSError, match=r"There is no room left for .* --resume"), room_in(tmp_path):
        raise error


@pytest.mark.parametrize(
    "there",
    [
        {"settings.json": '{"training": {}}'},
        {"episode.json": "{}"},
        {"report.json": "{}", "settings.json": "{}"},
        {"adapter_config.json": "{}"},
        {"training.log": "", "guide.md": "# Guide"},
    ],
)
def test_a_folder_of_something_else_is_left_alone(tiny_policy, settings, tmp_path, there):
    run = folder_with(tmp_path / "run", **there)
    with pytest.raises(ValueError, match="contains something other than a training run"):
        train(settings, run, policy=tiny_policy)
    assert {path.name: path.read_text() for path in run.iterdir()} == there


def test_the_newest_checkpoints_and_the_best_are_kept(tmp_path):
    for step, best in [(0, 0), (2, 2), (4, 2), (6, 2), (8, 8)]:
        folder_with(checkpoint(tmp_path, step), **{"trainer_state.json": json.dumps({"best_global_step": best})})
    forget_old(tmp_path, 2)
    assert steps_saved(tmp_path) == [2, 6, 8]  # 6 can't be gone on from without 2
    folder_with(checkpoint(tmp_path, 10), **{"trainer_state.json": json.dumps({"best_global_step": None})})
    forget_old(tmp_path, 2)
    assert steps_saved(tmp_path) == [8, 10]


# What is the best, and what is a fall


def evaluation(*solved, step=2, perplexity=10.0):
    """One task; an episode is solved (1), not (0), or lost to the infrastructure (None)."""
    judged = {seed: bool(one) for seed, one in enumerate(solved) if one is not None}
    return Evaluation(
        step=step, solved={"a": judged}, env_errors=len(solved) - len(judged), perplexity=perplexity, drift=0.0
    )


def test_a_fall_is_one_of_success_or_of_general_ability(settings):
    base, best = evaluation(0, 0, 0, 0, 0, step=0), evaluation(1, 1, 1, 1, 0)
    assert fault(evaluation(1, 1, 1, 0, 0), best, base, settings) == ""  # by 0.2, which is not more than 0.2
    assert fault(evaluation(1, 1, 0, 0, 0), best, base, settings) == (
        "held-out success fell from 0.80 (step 2) to 0.40"
    )
    assert fault(evaluation(1, 1, 1, 1, 1, perplexity=11.0), best, base, settings) == ""
    assert "perplexity rose from 10.00 to 11.10" in fault(evaluation(1, perplexity=11.1), best, base, settings)
    assert "perplexity rose" in fault(evaluation(1, perplexity=float("nan")), best, base, settings)


def test_a_failure_of_the_infrastructure_is_never_a_fall(settings):
    base, best = evaluation(0, 0, 0, step=0), evaluation(1, 1, 0)
    assert fault(evaluation(None, None, 0), best, base, settings) == ""
    assert fault(evaluation(None, None, None), best, base, settings) == ""
    assert fault(evaluation(None, 0, None), best, base, settings) != ""


def test_a_state_of_which_few_episodes_were_not_judged_can_be_the_best():
    best = evaluation(*[0] * 19, 1)
    assert better(evaluation(None, *[1] * 19), best)
    assert not better(evaluation(*[0] * 19, None), best)
    assert not better(evaluation(*[None] * 3, *[1] * 17), best)


def test_the_best_solves_most_and_forgets_least_and_was_judged_in_most():
    best = evaluation(1, 0)
    assert better(evaluation(1, 1, perplexity=10.5), best)
    assert not better(evaluation(1, 0), best)
    assert better(evaluation(0, 1, perplexity=9.0), best)
    assert not better(evaluation(0, 0, perplexity=9.0), best)
    assert not better(evaluation(1, None), best)
    assert better(evaluation(1, 1), evaluation(0, None))
    assert better(evaluation(1), evaluation(None))
    assert not better(evaluation(None), evaluation(None))


def test_of_states_where_nothing_is_held_out_a_later_one_that_does_as_much_is_the_best():
    known = [
        one.model_copy(update={"held_out": False}) for one in (evaluation(1, 0), evaluation(1, 0, perplexity=10.5))
    ]
    assert better(known[1], known[0])
    assert not better(evaluation(0, 0).model_copy(update={"held_out": False}), known[0])


@pytest.mark.parametrize(
    ("first", "then", "stops"),
    [((1, 1), (1, 1), True), ((1, 1), (1, None), False), ((0, 0), (0, 1), False), ((1, 1), (0, 0), False)],
)
def test_the_first_evaluation_that_is_good_enough_ends_a_run(settings, tmp_path, first, then, stops):
    chosen = settings.model_copy(update={"evaluate_every": 2, "stop_at_success": 0.9, "max_rollbacks": 9})
    found, nothing = iter([evaluation(*first, step=0), evaluation(*then, perplexity=10.5)]), lambda *_, **__: None
    trainer = SimpleNamespace(
        args=SimpleNamespace(output_dir=str(tmp_path)), state=SimpleNamespace(), seconds={}, model=None, note=nothing,
        policy=SimpleNamespace(forget=nothing), pipeline=SimpleNamespace(forget=nothing), log=nothing,
        put_back=nothing, slow_down=nothing, _save_checkpoint=nothing,
    )  # fmt: skip
    log = SimpleNamespace(remark=nothing)
    manager = CheckpointManager(trainer, lambda step: next(found), chosen, log, InterruptibleSteps())
    control = SimpleNamespace(should_training_stop=False, should_save=False)
    manager.on_train_begin(None, None, control)
    manager.on_step_end(None, SimpleNamespace(global_step=2, max_steps=4), control)
    assert control.should_training_stop == manager.stopped == manager.state()["attributes"]["enough"] == stops


def test_seeds_of_evaluation_are_not_those_of_training(settings):
    from pydantic import ValidationError

    from selfsurf.sdft.settings import TrainSettings

    chosen = settings.model_dump() | {"evaluate_every": 1, "first_evaluation_seed": 5}
    with pytest.raises(ValidationError, match="overlap the training seeds"):
        TrainSettings(**chosen)
    TrainSettings(**chosen | {"first_evaluation_seed": 6})


# On a real model, in real episodes


def teach_words(policy):
    """Make the tiny model say every token as often as the general text does: now there is something to forget.

    The first number of an embedding outweighs the others, so that it alone decides what is said.
    """
    model, ids = policy.model, policy.tokenizer.encode(general_text())
    often = torch.bincount(torch.tensor(ids), minlength=model.config.vocab_size) + 0.1
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 0] = -(often / often.sum()).log() / model.config.hidden_size**0.5
        model.model.norm.weight[0] = -1.0


@pytest.mark.slow
def test_a_fall_is_undone_and_the_best_is_what_is_left(tiny_policy, settings, tmp_path):
    chosen = settings.model_copy(
        update={"evaluate_every": 1, "evaluate_seeds": 1, "learning_rate": 30.0, "max_rollbacks": 2,
                "least_first_divergence": 0.0, "evaluate_tasks": ("MiniWoB/click-test-v0",)}
    )  # fmt: skip
    run = tmp_path / "run"
    teach_words(tiny_policy)
    summary = train(chosen, run, policy=tiny_policy)
    lines = lines_of(run)
    assert [line["step"] for line in lines] == [0, 1, 2]  # of 4: it stopped
    assert set(lines[0]["evaluation/tasks"]) == {*settings.tasks, "MiniWoB/click-test-v0"}
    limit = lines[0]["evaluation/perplexity"] * 1.1
    for line, times in zip(lines[1:], (1, 2), strict=True):
        assert line["evaluation/perplexity"] > limit
        assert line["rows"] <= settings.max_rows
        assert "perplexity rose" in line["rollback"]
        assert (line["rollbacks"], line["best_step"]) == (times, 0)
    assert lines[2]["learning_rate"] == pytest.approx(30.0 * 0.5 * 3 / 4)  # halved, one of four steps done
    steps = [checkpoint(run / "checkpoints", step) for step in (0, 1, 2)]
    for part in (WEIGHTS, f"teacher/{WEIGHTS}"):
        assert len({(step / part).read_bytes() for step in steps}) == 1
    for step in steps:
        assert not torch.load(step / "optimizer.pt", weights_only=True)["state"]  # as new, as before the first step
    assert (run / "adapter" / WEIGHTS).read_bytes() == (steps[0] / WEIGHTS).read_bytes()
    about = read_about(run / "adapter")["evaluation"]
    assert (about["best"]["step"], about["rollbacks"]) == (0, 2)
    assert all(
        torch.equal(value, summary["model"].state_dict()[name.replace(".weight", ".default.weight")])
        for name, value in load_file(run / "adapter" / WEIGHTS).items()
    )
    again = train(chosen, run, policy=TransformersPolicy(summary["model"].unload(), tiny_policy.tokenizer), resume=True)
    assert [line["step"] for line in lines_of(run)] == [0, 1, 2]  # it stays stopped
    assert again["evaluation"] == summary["evaluation"]


@pytest.mark.slow
def test_what_the_infrastructure_fails_in_an_evaluation_undoes_nothing(watched, tmp_path, monkeypatch):
    only = "MiniWoB/click-test-v0"  # one button, so that any click solves it
    chosen = watched.model_copy(
        update={
            "steps": 2,
            "evaluate_tasks": (only,),
            "actions": ("click",),
            "learning_rate": 0.0,
            "max_success_fall": 0.0,
        }
    )
    original, resets = AsyncBrowserEnv.reset, []

    async def flaky(self, *, seed=None, options=None):
        if self.task.id == only:
            resets.append(seed)
            if len(resets) > 1:
                raise EnvError("The browser went away.")
        return await original(self, seed=seed, options=options)

    monkeypatch.setattr(AsyncBrowserEnv, "reset", flaky)
    train(chosen, tmp_path / "run")
    lines = lines_of(tmp_path / "run")
    assert lines[0]["evaluation/tasks"][only] == 1.0
    assert lines[2]["evaluation/success"] < lines[0]["evaluation/success"]
    assert lines[2]["evaluation/env_errors"] == 1
    assert (lines[2]["rollbacks"], lines[2]["best_step"]) == (0, 0)
    assert "rollback" not in lines[2]


def test_other_settings_don_t_go_on_with_a_run(settings, tmp_path):
    note_hashes(folder_with(tmp_path / "checkpoints" / "checkpoint-2"))
    (tmp_path / "settings.json").write_text(settings.model_dump_json())
    with pytest.raises(ValueError, match=r"learning_rate was 0\.005 and is 0\.1"):
        train(settings.model_copy(update={"learning_rate": 0.1}), tmp_path, resume=True)
    more = settings.model_copy(update={"steps": settings.steps + 1})
    with pytest.raises(
        ValueError, match=rf"of {settings.steps} steps, which can't become .* start_from={tmp_path}/adap"
    ):
        train(more, tmp_path, resume=True)


EARLIER = {
    "rollout_workers": 0, "rollout_contexts": 6, "policy_workers": 1, "ahead": 0, "rollout_batch": 1,
    "browser_resources": {"num_cpus": 0.5, "num_gpus": 0.0, "custom": {}}, "rollout_engine": None,
    "rollout_call_timeout": 60.0, "skip_right": False, "skip_solved": False, "min_divergence": 0.0,
    "under_grammar": False, "mean_over": "rows", "support": "vocabulary", "top_k": 7, "skip_tokens": 0,
    "teacher_every": 1, "oracle_reason": False,
}  # fmt: skip
"""Settings as an earlier version saved them, `top_k` without effect."""


def test_a_run_of_an_earlier_version_goes_on_by_settings_that_are_the_same(settings, tmp_path):
    rollouts = {"contexts": 3, "batch": 1}
    same = type(settings).model_validate({**settings.model_dump(), "rollouts": rollouts})
    path = tmp_path / "settings.json"
    old = {**settings.model_dump(mode="json", exclude={"rollouts"}), **EARLIER}
    path.write_text(json.dumps(old))
    settle(same, tmp_path, begun=True)
    assert json.loads(path.read_text()) == same.model_dump(mode="json")
    path.write_text(json.dumps(old))
    with pytest.raises(ValueError, match=r"rollouts\.batch was 1 and is None"):
        settle(settings, tmp_path, begun=True)


@pytest.mark.parametrize(
    ("changes", "matters"),
    [
        ({"skip_right": True}, True),
        ({"support": "top", "top_k": 7}, True),
        ({"mean_over": "tokens"}, True),
        ({"teacher_every": 3}, True),
        ({"teacher_every": 3, "teacher": "base"}, False),
        ({"teacher_every": 3, "start_from": "adapter"}, False),
        ({"oracle_reason": True}, True),
        ({"oracle_reason": True, "contexts": ["feedback"]}, False),
    ],
)
def test_what_this_version_can_t_do_is_named_if_it_matters(tmp_path, changes, matters):
    saved = {**EARLIER, **changes}
    if matters:
        with pytest.raises(
            ValueError, match=f"was begun with {next(iter(changes))}=.*, which this version doesn't support"
        ):
            from_earlier(saved, tmp_path)
    else:
        assert not from_earlier(saved, tmp_path).keys() & EARLIER.keys()


# Killed


@pytest.mark.timeout(400)
@pytest.mark.slow
def test_a_run_that_is_killed_ends_as_an_unbroken_one(watched, tmp_path):
    chosen = watched.model_copy(update={"steps": 3})
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    process = start(chosen, broken)
    metrics = broken / "metrics.jsonl"
    try:
        while process.poll() is None and not (metrics.exists() and '"step": 2' in metrics.read_text()):
            time.sleep(0.01)
    finally:
        process.kill()
    said = process.communicate()[1]
    assert "holds no checkpoint yet: starting from the beginning" in " ".join(said.split())
    assert process.returncode == -signal.SIGKILL
    assert last_step(broken) in (1, 2)  # the checkpoint of step 2 was about to be written
    train(chosen, broken, resume=True)
    train(chosen, whole)
    assert [line["step"] for line in lines_of(broken)] == [0, 1, 2, 3]
    same_run(whole, broken)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_that_is_killed_at_all_bad_moments_ends_as_an_unbroken_one(watched, tmp_path):
    chosen = watched.model_copy(update={"steps": 9, "checkpoint_every": 3})
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    saved = []
    for moment, count in [
        ("evaluation", 1),  # of the base model
        ("checkpoint half written", 1),  # the first one
        ("rollout", 6),
        ("checkpoint without its name", 2),
        ("line of metrics", 3),
        ("evaluation", 1),
        ("teacher not moved yet", 2),
        ("old checkpoint half removed", 1),
        ("checkpoint half written", 5),
        ("adapter without its name", 1),
    ]:
        process = start(chosen, broken, DRIVER, moment, str(count))
        said = process.communicate()
        assert process.returncode == -signal.SIGKILL, (moment, said)
        saved.append(last_step(broken))
    assert not (broken / "adapter").exists()
    assert saved[-1] == 9
    process = start(chosen, broken)
    said = process.communicate()
    assert process.returncode == 0, said
    assert "Resuming from step 9 of 9" in " ".join(said[1].split())
    train(chosen, whole)
    assert [line["step"] for line in lines_of(broken)] == list(range(10))
    assert not list(broken.glob("checkpoints/unfinished*"))
    same_run(whole, broken)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_between_two_returns_to_the_best_ends_as_an_unbroken_one(
    watched, tiny_policy, tokenizer, tmp_path
):
    teach_words(tiny_policy)
    chosen = watched.model_copy(
        update={"model": str(saved_model(tiny_policy, tokenizer, tmp_path / "taught")), "steps": 5,
                "learning_rate": 30.0, "max_perplexity_rise": 0.1, "least_first_divergence": 0.0}
    )  # fmt: skip
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    process = start(chosen, broken, DRIVER, "evaluation", "3")  # after those of steps 0 and 2
    said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said
    assert [line.get("rollbacks") for line in lines_of(broken)] == [None, None, 1, None]
    train(chosen, broken, resume=True)
    train(chosen, whole)
    assert [line.get("rollbacks") for line in lines_of(broken)] == [None, None, 1, None, 2, 3]
    same_run(whole, broken)


def test_two_trainings_do_not_write_into_one_folder(settings, tiny_policy, tmp_path):
    with alone_in(tmp_path / "run"), pytest.raises(ValueError, match="Another process is using"):
        train(settings, tmp_path / "run", policy=tiny_policy)
    assert not (tmp_path / "run").exists()
