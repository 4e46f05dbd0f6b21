"""`selfsurf run --train` with a tiny model: what is learned, what is kept, and what stays as it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfsurf.agents.adapters.prompt import read_prompt
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.browser_env.record.episode import Episode, write_manifest
from selfsurf.browser_env.record.verdict import Mark, mark_episode
from selfsurf.scripts.cli import app
from selfsurf.scripts.terminal.interrupts import Interrupts
from selfsurf.scripts.training import after_run
from selfsurf.scripts.training.after_run import learn_from, prompt_settings, settings_of_update, training_folder
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rows.jobs import offline_states
from tests.models.small import save_small
from tests.sdft.reader import recorded_rows, teach_to_read

TASK = "MiniWoB/click-test-2-v0"
WEIGHTS = "adapter_model.safetensors"
SHORT = {"steps": 2, "evaluate_every": 2, "warmup_steps": 0, "episodes_per_step": 3, "max_rows": 3}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(after_run, "UPDATE", {**after_run.UPDATE, **SHORT})


@pytest.fixture(scope="module")
def ran(saved, tmp_path_factory):
    """A run that is solved and learned from: what was said, its episode, the options of its agent and its prompt."""
    options = {"model": str(saved(save_small, initializer_range=0.3)), "actions": ["click"]}
    out = tmp_path_factory.mktemp("ran") / "episode"
    command = ["run", "--task", TASK, "--model", options["model"], "--set", 'actions=["click"]', "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(after_run, "UPDATE", {**after_run.UPDATE, **SHORT})
        result = CliRunner().invoke(app, [*command, "--train"])
    agent = LLMAgent(TransformersPolicy(options["model"]), actions=["click"])
    return result, out, options, prompt_settings(agent)


@pytest.fixture
def copy(ran, tmp_path):
    """The same episode, from which nothing has been learned."""
    return shutil.copytree(ran[1], tmp_path / "copy")


def test_a_solved_run_leaves_an_adapter_beside_its_episode(ran):
    result, episode, options, _ = ran
    assert result.exit_code == 0, result.output
    folder = training_folder(episode)
    said = " ".join(result.output.split())
    assert said.index("solved. Used: ") < said.index(
        "Learned: the actions that reached the goal. The adapter does 1 of 1 such actions"
    )
    assert "1.00 before and 1.00 after; perplexity" in said
    assert "shows neither a gain nor a loss elsewhere" in said
    assert "0% of the rows were learned from the teacher, the others from the recorded action" in said, (
        "random weights can't read"
    )
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["recorded/distilled"] for line in lines if "loss" in line] == [0, 0]
    assert f"selfsurf run --task {TASK} --model {options['model']} --adapter {folder / 'adapter'}" in result.output
    assert not Episode(episode).damage()
    assert sorted(one.name for one in folder.iterdir()) == ["adapter", "metrics.jsonl", "settings.json", "sources.json"]
    assert read_prompt(folder / "adapter").actions == ("click",)


def test_what_is_learned_from_is_the_prompt_that_was_shown(ran):
    _, episode, options, prompt = ran
    settings = settings_of_update(episode, options, prompt)
    (state,), _ = offline_states(settings)
    agent = make_agent(TransformersPolicy(options["model"]), settings, sampling=False, guarded=True)
    (decision,) = agent.decide([state.bring(agent)])
    (step,) = Episode(episode).steps()
    (reply,) = step["completions"]
    assert decision.completion.prompt_token_ids == reply["prompt_token_ids"]
    assert decision.completion.grammar == reply["grammar"]


def test_an_adapter_that_names_elements_goes_on_doing_so(ran):
    _, episode, options, _ = ran
    policy = TransformersPolicy(options["model"])
    prompt = prompt_settings(LLMAgent(policy, actions=["click"], labels=True))
    assert make_agent(policy, settings_of_update(episode, options, prompt), sampling=False).labels


def learn(episode, ran, more=(), number=None):
    """In this process; a signal of this number comes with the first line of metrics."""
    _, _, options, prompt = ran
    with Interrupts() as interrupts:
        interrupts.hold()
        if number:
            metrics = training_folder(episode) / "metrics.jsonl"
            threading.Thread(target=send, args=(number, metrics), daemon=True).start()
        learned = learn_from(episode, {**options, **dict(more)}, prompt, interrupts, silent=True)
    return learned, interrupts.exit_code


@pytest.mark.slow
def test_a_teacher_that_reads_teaches_most_of_the_rows(ran, copy, tmp_path):
    _, _, options, prompt = ran
    policy = TransformersPolicy(options["model"], dtype="float32")
    teach_to_read(policy, recorded_rows(policy, settings_of_update(copy, options, prompt), SHORT["steps"]))
    policy.model.save_pretrained(tmp_path / "reader")
    policy.tokenizer.save_pretrained(tmp_path / "reader")
    learned, code = learn(copy, ran, {"model": str(tmp_path / "reader")})
    assert code == 0
    assert learned.adapter is not None, learned.why
    about = json.loads((Path(learned.adapter) / "selfsurf.json").read_text())
    assert about["distilled"] > 0.5
    assert f"{about['distilled']:.0%} of the rows were learned from the teacher" in learned.why


def spoil(episode):
    """Take away what its steps earned."""
    steps = [json.loads(line) for line in (episode / "steps.jsonl").read_text().splitlines()]
    (episode / "steps.jsonl").write_text("".join(json.dumps({**step, "reward": 0.0}) + "\n" for step in steps))
    write_manifest(episode)


def send(number, path):
    while not path.exists() or not path.read_text():
        time.sleep(0.01)
    os.kill(os.getpid(), number)


@pytest.mark.slow
def test_what_is_lost_is_undone_and_the_old_adapter_stays(ran, copy, monkeypatch):
    ruinous = {"steps": 1, "evaluate_every": 1, "learning_rate": 1e30}
    monkeypatch.setattr(after_run, "UPDATE", {**after_run.UPDATE, **ruinous})
    old = training_folder(ran[1]) / "adapter"
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    learned, code = learn(copy, ran, {"adapter": str(old)})
    assert (learned.adapter, learned.verdict, code) == (None, "solved", 0)
    assert learned.why.startswith("every update was undone ("), learned.why
    assert "perplexity rose" in learned.why
    assert learned.evaluation["rollbacks"] == 1
    assert not training_folder(copy).exists()
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before
    assert f"The adapter {old} is unchanged." in after_run.said(learned, {"adapter": str(old)}, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_an_update_that_is_interrupted_leaves_nothing(ran, copy, monkeypatch, number, code):
    monkeypatch.setitem(after_run.UPDATE, "steps", 500)
    learned, left = learn(copy, ran, number=number)
    assert (learned.adapter, learned.why, left) == (None, "interrupted", code)
    assert not training_folder(copy).exists()
    assert not Episode(copy).damage()


def test_an_update_that_fails_is_not_the_runs_failure(ran, copy, monkeypatch):
    monkeypatch.setitem(after_run.UPDATE, "lora_targets", ("no_such_layer",))
    learned, code = learn(copy, ran)
    assert (learned.adapter, code) == (None, 0)
    assert "the update failed: lora_targets names no_such_layer" in learned.why


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("env_error", "the infrastructure failed"),
        ("failed", "the goal was not reached, no step earned a reward, and no"),
        ("", "nobody said whether"),
    ],
)
def test_what_was_not_solved_teaches_nothing_by_itself(ran, copy, says, why):
    if says == "env_error":
        meta = json.loads((copy / "episode.json").read_text())
        (copy / "episode.json").write_text(json.dumps({**meta, "outcome": says}))
        says = ""
    elif says:
        spoil(copy)
        mark_episode(copy, Mark(says, "person"))
    else:
        meta = json.loads((copy / "episode.json").read_text())
        meta["totals"]["judged"] = False
        (copy / "episode.json").write_text(json.dumps(meta))
    learned, _ = learn(copy, ran)
    assert (learned.adapter, learned.verdict) == (None, says or None)
    assert why in learned.why


def test_a_failed_run_teaches_what_worked_later_in_it(ran, tmp_path, monkeypatch):
    """It presses the idle button, then the right one, which leads on, and does not reach its goal."""
    quick = {"steps": 8, "learning_rate": 1e-2, "max_perplexity_rise": 1e9, "max_success_fall": 1.0}
    monkeypatch.setattr(after_run, "UPDATE", {**after_run.UPDATE, **quick})
    page = "data:text/html,<button>Idle</button><button onclick=\"document.body.innerHTML='<button>Pay</button>'\">Buy</button>"
    done = [{"action": "click", "id": 1}, {"action": "click", "id": 2}, {"action": "finish", "answer": ""}]
    command = ["run", "--goal", "Buy it.", "--url", page, "--agent", "scripted", "--set", f"actions={json.dumps(done)}"]
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "failed")])
    assert result.exit_code == 0, result.output
    mark_episode(tmp_path / "failed", Mark("failed", "person"))
    learned, _ = learn(tmp_path / "failed", ran)
    assert (learned.lessons, learned.verdict) == (1, "failed")
    assert learned.adapter, learned.why
    assert not Episode(tmp_path / "failed").damage()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--agent", "oracle"], "not those of oracle"),
        (["--agent", "openai", "--model", "m", "--set", "base_url=http://127.0.0.1:9/v1"], "not those of openai"),
        (["--set", "max_actions=3"], "training does not support this value of max_actions"),
        (["--set", "constrained=false"], "training does not support this value of constrained"),
        (["--set", "dtype=fp16"], "a model in fp16 can't be trained"),
        ([], "copy-training already exists"),
    ],
)
def test_what_can_t_be_trained_is_refused_before_anything_begins(tmp_path: Path, tiny, arguments, says):
    (tmp_path / "copy-training").mkdir()
    model = [] if "--model" in arguments or "oracle" in arguments else ["--model", str(tiny)]
    command = ["run", "--task", TASK, "--train", "--out", str(tmp_path / "copy"), *model, *arguments]
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, command)
    assert result.exit_code == 2
    assert says in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "copy").exists()
