import json

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app


def test_run_leaves_an_episode_with_what_was_sampled(tmp_path):
    out = tmp_path / "episode"
    arguments = ["run", "--task", "MiniWoB/click-test-v0", "--max-steps", "2", "--out", str(out), "--json"]
    result = CliRunner().invoke(app, arguments)
    said = json.loads(result.stdout)
    assert result.exit_code == (0 if said["outcome"] == "solved" else 1), result.output
    assert said["episode"] == str(out)
    assert said["outcome"] in ("solved", "failed", "timeout")
    (first, *_) = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    assert first["completions"][0]["token_ids"]
    assert len(first["completions"][0]["logprobs"]) == len(first["completions"][0]["token_ids"])
    assert first["privileged"]["action"] == {"action": "click", "id": 1}
    meta = json.loads((out / "episode.json").read_text())
    assert meta["outcome"] == said["outcome"]
    assert meta["versions"]["torch"]


def test_a_run_whose_episodes_can_t_be_made_says_why(tmp_path, monkeypatch):
    from selfsurf.sdft.rollouts import RolloutError

    def train(*_, **__):
        raise RolloutError("The policy workers did not start: no room.")

    monkeypatch.setattr("selfsurf.sdft.train", train)
    result = CliRunner().invoke(app, ["train", "MiniWoB/click-test-v0", "--out", str(tmp_path / "run")])
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert "The policy workers did not start: no room." in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("there", "says"),
    [("checkpoints/checkpoint-5/x", "resume it (--resume), or choose another"), ("notes.md", "training run (notes.md)"),
     ("settings.json", "Repair the file, or choose another folder")],
)  # fmt: skip
def test_a_folder_that_is_taken_is_refused_before_anything_is_loaded(tmp_path, monkeypatch, there, says):
    (tmp_path / "run" / there).parent.mkdir(parents=True)
    (tmp_path / "run" / there).touch()
    monkeypatch.setattr("selfsurf.scripts.train.quiet_libraries", lambda: pytest.fail("loads transformers"))
    result = CliRunner().invoke(app, ["train", "MiniWoB/click-test-v0", "--out", str(tmp_path / "run")])
    assert (result.exit_code, says in " ".join(result.output.replace("│", " ").split())) == (2, True), result.output


@pytest.mark.parametrize(
    ("checkpoints", "says"),
    [((), "The same command starts again"), ((5, 10), "with --resume resumes from step 10 of 28")],
)
def test_a_run_that_is_interrupted_says_how_to_go_on(tmp_path, monkeypatch, checkpoints, says):
    def train(settings, out, **_):
        for step in checkpoints:
            (out / "checkpoints" / f"checkpoint-{step}").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("selfsurf.sdft.train", train)
    result = CliRunner().invoke(app, ["train", "MiniWoB/click-test-v0", "--out", str(tmp_path / "run")])
    assert result.exit_code == 130
    assert says in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "Give --task, --goal or --spec"),
        (["run", "--task", "MiniWoB/click-test-v0", "--goal", "x", "--url", "y"], "Give --task, --goal or --spec"),
        (["run", "--task", "MiniWoB/no-such-task-v0"], "no task"),
        (["train", "MiniWoB/no-such-task-v0"], "no task"),
        (["train", "MiniWoB/click-test-v0", "--set", "colour=1"], "no setting colour; the settings are actions"),
        (["train", "MiniWoB/click-test-v0", "--set", "divergnce=1"], "did you mean divergence?"),
        (["train", "MiniWoB/click-test-v0", "--set", "rollout_workers=1"], "rollout_workers is rollouts.workers now"),
        (["train", "MiniWoB/click-test-v0", "--set", "rollouts.workers=-1"], "rollouts.workers: Input should be"),
        (["train", "MiniWoB/click-test-v0", "--set", 'rollouts={"ahead": 1}'], "set rollouts.workers to at least 1"),
        (["train", "MiniWoB/click-test-v0", "--set", "rollouts=1", "--set", "rollouts.ahead=1"], "is 1 already"),
        (
            ["train", "MiniWoB/click-test-v0", "--set", "rollouts=2"],
            "rollouts is a group of settings: give rollouts.wor",
        ),
        (
            ["train", "MiniWoB/click-test-v0", "--set", "rollouts.worker=1"],
            "rollouts.worker; did you mean rollouts.workers?",
        ),
        (["bench", "learn", "--set", "rollouts.worker=1"], "rollouts.worker; did you mean rollouts.workers?"),
        (["bench", "learn", "--set", "rollouts=2"], "rollouts is a group of settings"),
        (["bench", "lern"], "Did you mean 'learn'?"),
        (["trian"], "Did you mean 'train'?"),
        (["train", "MiniWoB/click-test-v0", "--set", "divergence=7"], "divergence: Input should be less than or equal"),
        (["train", "MiniWoB/click-test-v0", "--set", "learning_rate=-1"], "learning_rate: Input should be greater"),
        (["train", "MiniWoB/click-test-v0", "--set", "steps=0"], "--set steps: give --steps instead"),
        (["train", "MiniWoB/click-test-v0", "--out", "/dev/null/x"], "is not a folder that can be written"),
        (
            ["train", "MiniWoB/click-test-v0", "--set", "learning_rate=fast"],
            "learning_rate: Input should be a valid number",
        ),
        (["train", *["MiniWoB/click-test-v0"] * 2], "MiniWoB/click-test-v0: named twice"),
        (["train", "--demonstrations", "/nowhere"], "There is no folder /nowhere."),
        (["train", "MiniWoB/click-test-v0", "--set", 'hindsight_episodes=["x"]'], 'need the context "hindsight"'),
        (["train", "MiniWoB/click-test-v0", "--set", 'evaluate_tasks=["MiniWoB/click-link-v0"]'], "evaluate_every"),
        (["bench", "contexts", "--task", "click-linq"], "no task 'MiniWoB/click-linq-v0'"),
        (["bench", "contexts", "--task", "MiniWoB/count-sides-v0"], "no oracle"),
    ],
)
def test_wrong_arguments_are_explained(arguments, says):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0
    assert says in " ".join(result.output.replace("│", " ").split())


def test_settings_are_listed_with_what_they_mean():
    listed = CliRunner().invoke(app, ["train", "--settings"])
    assert listed.exit_code == 0
    assert "\nlearning_rate = 0.001\n    Peak learning rate of AdamW" in listed.stdout
    assert "\ntasks = " not in listed.stdout
    names = [line.split(" = ")[0] for line in listed.stdout.splitlines() if not line.startswith(" ")]
    texts = [line for line in listed.stdout.splitlines() if line.startswith("    ")]
    assert len(texts) >= len(names) > 50


def test_folders_may_stand_one_after_the_other(tmp_path):
    from selfsurf.scripts.train import Settings, _with_all_folders

    one, two = tmp_path / "one", tmp_path / "two"
    two.mkdir()
    found = _with_all_folders(Settings(tasks=(str(two), "MiniWoB/click-link-v0"), episodes=(one,), offline=True))
    assert (found.episodes, found.tasks) == ((one, two), ("MiniWoB/click-link-v0",))
    assert _with_all_folders(Settings(tasks=(str(two),), demonstrations=(one,))).demonstrations == (one, two)
    assert _with_all_folders(Settings(tasks=(str(two),))).tasks == (str(two),)
