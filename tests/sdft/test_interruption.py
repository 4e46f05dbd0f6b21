"""Ctrl-C and SIGTERM leave a checkpoint of the last finished step, and the resumed run ends as an unbroken one."""

import json
import os
import signal
import time

import pytest
from typer.testing import CliRunner

from selfsurf import agents
from selfsurf.agents.adapters.identity import WrongBase, check_base, read_about
from selfsurf.agents.adapters.prompt import read_prompt
from selfsurf.agents.play.player import Player
from selfsurf.scripts.cli import app
from selfsurf.sdft import train
from selfsurf.sdft.measure import heldout
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.run.checkpoint_files import last_step
from selfsurf.sdft.run.interruption import DeferredSignals
from selfsurf.sdft.teacher import weights
from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer
from tests.models.small import small_llama
from tests.sdft.rows import copied
from tests.sdft.runs import WEIGHTS, command, lines_of, same_run, start


@pytest.fixture
def alone(settings):
    """Settings under which a run ends with the same bytes; it writes no checkpoint of its own before the last step."""
    return settings.model_copy(update={"checkpoint_every": 100, "rollouts": RolloutSettings(batch=1)})


def interrupt(patch, moment, run, lines, number=signal.SIGINT):
    """Send the signal when the run comes to a moment after so many lines of metrics."""
    where, name = moment
    original, sent = getattr(where, name), []

    def signalled(*arguments, **options):
        if not sent and len(lines_of(run)) == lines:
            sent.append(number)
            signal.raise_signal(number)
        return original(*arguments, **options)

    patch.setattr(where, name, signalled)


IN_AN_EPISODE = (Player, "_act")
IN_THE_LOSS = (EpisodeSDFTTrainer, "_distillation_loss")
BEFORE_THE_TEACHER = (weights.FollowStudent, "on_step_end")
"""The student's weights have changed, its teacher's have not: the step is finished first."""
IN_AN_EVALUATION = (heldout, "drift")


def broken_off(policy, chosen, tmp_path, monkeypatch, moments):
    """Break a run off at moments: after so many lines, with that checkpoint left. It ends as an unbroken one does."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    handler = signal.getsignal(signal.SIGINT)
    for moment, lines, left in moments:
        with monkeypatch.context() as patch:
            interrupt(patch, moment, broken, lines)
            with pytest.raises(KeyboardInterrupt):
                train(chosen, broken, policy=copied(policy), resume=True)
        assert last_step(broken) == left
        assert lines_of(broken)[-1]["step"] == left
        assert not list(broken.glob("checkpoints/unfinished*"))
        assert signal.getsignal(signal.SIGINT) is handler
    train(chosen, broken, policy=copied(policy), resume=True)
    train(chosen, whole, policy=copied(policy))
    same_run(whole, broken)


@pytest.mark.slow
def test_a_run_that_is_interrupted_goes_on_from_its_last_finished_step(tiny_policy, alone, tmp_path, monkeypatch):
    chosen = alone.model_copy(update={"steps": 3})
    moments = [(IN_AN_EPISODE, 1, 1), (BEFORE_THE_TEACHER, 1, 2)]
    broken_off(tiny_policy, chosen, tmp_path, monkeypatch, moments)


@pytest.mark.slow
def test_an_evaluation_that_is_interrupted_is_made_again(tiny_policy, alone, tmp_path, monkeypatch):
    changes = {"steps": 5, "evaluate_every": 4, "evaluate_seeds": 1, "max_perplexity_rise": 1e9}
    moments = [(IN_THE_LOSS, 3, 2), (IN_AN_EVALUATION, 4, 3), (IN_AN_EPISODE, 5, 4)]
    broken_off(tiny_policy, alone.model_copy(update=changes), tmp_path, monkeypatch, moments)


@pytest.mark.slow
def test_nothing_is_kept_of_a_run_that_has_finished_no_step(tiny_policy, alone, tmp_path, monkeypatch):
    chosen = alone.model_copy(update={"steps": 1})
    with monkeypatch.context() as patch:
        interrupt(patch, IN_THE_LOSS, tmp_path, 0)
        with pytest.raises(KeyboardInterrupt):
            train(chosen, tmp_path, policy=copied(tiny_policy))
    assert last_step(tmp_path) is None
    assert train(chosen, tmp_path, policy=copied(tiny_policy))["steps"] == 1  # the same command begins again


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_the_command_says_how_to_go_on(alone, tiny_folder, tmp_path, monkeypatch, number, code):
    chosen = alone.model_copy(update={"model": str(tiny_folder), "steps": 3})
    interrupt(monkeypatch, IN_AN_EPISODE, tmp_path / "run", 1, number)
    result = CliRunner().invoke(app, command(chosen, tmp_path / "run")[3:])
    assert result.exit_code == code, result.output
    said = " ".join(result.output.split())
    assert f"Adapter of step 1: {tmp_path / 'run/adapter'}" in said
    assert "The same command with --resume resumes from step 1 of 3" in said
    assert last_step(tmp_path / "run") == 1
    check_exported(tmp_path / "run", 1, tiny_folder)
    other = CliRunner().invoke(app, [*command(chosen, tmp_path / "run")[3:], "--seed", "9"])
    assert other.exit_code == 2, other.output
    assert "holds a run with other settings: seed was" in " ".join(other.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "works"),
    [
        (["demo"], "selfsurf.scripts.learning.demonstration.run"),
        (["bench", "learn"], "selfsurf.scripts.bench.learn._run"),
    ],
)
def test_the_commands_that_train_end_by_sigterm_as_by_ctrl_c(tmp_path, monkeypatch, arguments, works):
    monkeypatch.setattr(works, lambda *_: signal.raise_signal(signal.SIGTERM))
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "run")])
    assert result.exit_code == 143, result.output
    assert "Interrupted. The same command" in result.output


def test_signals_wait_and_come_through():
    quiet, seen = DeferredSignals(), []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    for _ in range(2):
        quiet.begin()
        quiet.begin()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert seen == []
        quiet.end()
        quiet.end()
        assert seen.pop() == signal.SIGTERM


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ctrl_c_in_a_terminal(alone, tiny_folder, tmp_path):
    """For the whole group, as a terminal does it: browser and driver get it, too."""
    chosen, run = alone.model_copy(update={"model": str(tiny_folder), "steps": 50}), tmp_path / "run"
    process = start(chosen, run, start_new_session=True)
    while process.poll() is None and not ((run / "metrics.jsonl").exists() and lines_of(run)):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert f"resumes from step {last_step(run)} of 50" in " ".join(said.split())
    assert [line["step"] for line in lines_of(run)] == list(range(1, last_step(run) + 1))
    assert "Traceback" not in said
    check_exported(run, last_step(run), tiny_folder)


@pytest.mark.timeout(300)
def test_of_a_training_that_was_killed_the_last_checkpoint_becomes_the_adapter(alone, tiny_folder, tmp_path):
    run = tmp_path / "run"
    chosen = alone.model_copy(update={"model": str(tiny_folder), "steps": 50, "checkpoint_every": 1})
    process = start(chosen, run)
    while process.poll() is None and last_step(run) is None:
        time.sleep(0.01)
    running = CliRunner().invoke(app, ["train", "--export", str(run)])
    assert running.exit_code == 1, running.output
    assert "No adapter was written" in running.output
    assert not (run / "adapter").exists()
    process.kill()
    process.communicate(timeout=60)
    step = last_step(run)
    result = CliRunner().invoke(app, ["train", "--export", str(run), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"adapter": str(run / "adapter"), "step": step}
    said = " ".join(result.output.split())
    assert f"Adapter of step {step}: {run / 'adapter'}" in said
    assert "repeat its command with --resume" in said
    check_exported(run, step, tiny_folder)


def test_without_a_whole_checkpoint_no_adapter_is_written(tmp_path):
    for made, says in (
        (tmp_path / "run", "holds no checkpoint"),
        (tmp_path / "run/checkpoints/checkpoint-5", "damaged"),
    ):
        made.mkdir(parents=True)
        result = CliRunner().invoke(app, ["train", "--export", str(tmp_path / "run")])
        assert result.exit_code == 1, result.output
        assert says in " ".join(result.output.split())
        assert not (tmp_path / "run/adapter").exists()


def check_exported(run, step, base):
    """The adapter is that of the checkpoint, and acts on its base under the prompt that it was trained with."""
    adapter = run / "adapter"
    assert (adapter / WEIGHTS).read_bytes() == (run / f"checkpoints/checkpoint-{step}" / WEIGHTS).read_bytes()
    assert read_about(adapter)["steps"] == step
    assert (adapter / "README.md").read_text().count("| optimizer steps |") == 1
    agent = agents.make("transformers", model=str(base), adapter=str(adapter))
    assert agent.kinds() == ("click", "fill", "select")
    assert read_prompt(adapter).prompt == "compact"
    with pytest.raises(WrongBase):
        check_base(adapter, model=small_llama(agent.policy.tokenizer, hidden_size=16), name="another")
