"""`selfsurf bench learn` on a tiny model; it stands here for its fixtures."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.scripts.learning.arms import Arm, note, read_arms
from selfsurf.scripts.learning.figures import figures
from selfsurf.scripts.learning.report import arm_rows, markdown
from selfsurf.scripts.learning.run import Comparison, check
from selfsurf.scripts.learning.settings import default_settings, demonstrations, prepare_folder
from selfsurf.scripts.report.formats import NONE
from selfsurf.sdft.measure.questions import questions
from selfsurf.sdft.settings import TrainSettings

TASKS = ("click-test-2", "click-option")


def command(tiny_folder, out, arms, *more):
    small = ["episodes_per_step=4", "max_rows=4", "max_episode_steps=2", "lora_rank=2", "checkpoint_every=1",
             "min_confidence=0.000001", "warmup_steps=0", "group_size=2", "sft_learning_rates=[0.001]",
             "least_first_divergence=0", "snapshot_every=1", "validation_seeds=1"]  # fmt: skip
    return [
        "bench", "learn", "--out", str(out), "--arms", arms, "--tasks", ",".join(TASKS), "--unseen", "click-button",
        "--model", str(tiny_folder), "--steps", "2", "--episodes", "2", *more,
        *(part for one in small for part in ("--set", one)),
    ]  # fmt: skip


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result


def report(out):
    return json.loads((out / "report.json").read_text())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_arm_from_end_to_end_and_again(tiny_folder, tmp_path):
    out = tmp_path / "learn"
    trained = ("sft", "sdft", "sdft-ungated", "grpo", "sft-offline", "sdft-offline", "sft-sdft")
    arms = ",".join(("base", "demonstrated", *trained, "sequence-sft", "sequence-sdft"))
    own = ("--set", "recordings=3", "--set", "start_steps=1")
    run(*command(tiny_folder, out, arms, *own))
    found = report(out)
    assert list(found["arms"]) == ["base", "demonstrated", *trained]
    for name, arm in found["arms"].items():
        assert arm["trained"]["episodes"] == 4
        assert arm["unseen"]["episodes"] == 2
        assert [training["steps"] for training in arm["training"]] == ([] if name in ("base", "demonstrated") else [2])
        assert [[one["step"] for one in way] for way in arm["snapshots"]] == ([[1, 2]] if arm["training"] else [[]])
    assert {name: len(runs) for name, runs in found["sequences"].items()} == {"sequence-sdft": 1, "sequence-sft": 1}
    assert found["arms"]["demonstrated"]["retention"][0]["perplexity"] is None
    assert (out / "forgetting.png").read_bytes()[:4] == b"\x89PNG"
    assert "| sdft-ungated |" in (out / "report.md").read_text()
    # Done again, nothing is done; another training seed and an ablation are added to what is there.
    before = {path: path.stat().st_mtime_ns for path in (out / "stages").rglob("*.json")}
    run(*command(tiny_folder, out, arms, *own))
    assert before == {path: path.stat().st_mtime_ns for path in (out / "stages").rglob("*.json")}
    run("bench", "learn", "--out", str(out), "--arms", "sdft", "--seeds", "1,")
    run("bench", "learn", "--out", str(out), "--arms", "sdft:reverse", "--set", "divergence=1")
    run("bench", "learn", "--out", str(out), "--arms", "sdft-offline:one", "--set", "recordings=1")
    assert len([*(out / "recordings/seed-0-3").glob("*/episode.json")]) == 6
    assert len([*(out / "recordings/seed-0-1").glob("*/episode.json")]) == 2
    found = report(out)
    assert found["arms"]["sdft-offline+one"]["trained"]["episodes"] == 4
    assert found["arms"]["sdft"]["seeds"] == [0, 1]
    assert found["arms"]["sdft"]["trained"]["episodes"] == 8
    assert any((one["first"], one["other"]) == ("sdft+reverse", "sdft") for one in found["differences"])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("arm", ["sft", "grpo", "sequence-sdft"])
def test_an_arm_that_was_killed_ends_like_an_unbroken_one(tiny_folder, tmp_path, arm):
    from safetensors.torch import load_file

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(*command(tiny_folder, whole, arm))
    start = [sys.executable, "-m", "selfsurf.scripts.cli", *command(tiny_folder, cut, arm)]
    # The second moment is after a whole checkpoint, not one that is still being made in a folder beside it.
    for sign in ("arms/**/metrics.jsonl", "arms/**/checkpoints/checkpoint-1", "stages/**/test/click-option.json"):
        process = subprocess.Popen(start, start_new_session=True)
        while process.poll() is None and not any(cut.glob(sign)):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run(*command(tiny_folder, cut, arm))
    adapters = sorted(path.relative_to(whole) for path in whole.glob("arms/**/adapter/adapter_model.safetensors"))
    assert adapters
    for name in adapters:
        one, two = load_file(whole / name), load_file(cut / name)
        assert all((one[key] - two[key]).abs().max() < 1e-6 for key in one)
    assert report(whole)["arms"].keys() == report(cut)["arms"].keys()


def test_other_settings_are_refused(tmp_path):
    out = tmp_path / "learn"
    prepare_folder(default_settings(), out)
    prepare_folder(default_settings(), out)
    with pytest.raises(ValueError, match=r"training\.steps \(100 there\)"):
        prepare_folder(default_settings(steps=3), out)
    with pytest.raises(ValueError, match="evaluate_every: not supported by all"):
        default_settings(evaluate_every=5)
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(ValueError, match="holds other files"):
        prepare_folder(default_settings(), tmp_path)


def test_sft_with_a_learning_rate_of_its_own_chooses_none(tmp_path, monkeypatch):
    class Trained(Exception):
        pass

    def train(self, name, arm, seed, changes):
        raise Trained(name, changes)

    monkeypatch.setattr(Comparison, "_train", train)
    comparison = Comparison(default_settings(), tmp_path / "learn")
    with pytest.raises(Trained) as found:
        comparison.run(Arm("sft", "fast", {"learning_rate": 0.01}), 0)
    assert found.value.args == ("sft+fast/seed-0", {"learning_rate": 0.01})
    with pytest.raises(Trained) as found:
        comparison.run(Arm("sft", "plain", {"rehearsal": 0.0}), 0)
    assert found.value.args == ("sft-learning-rates/0.0003", {"learning_rate": 0.0003})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--arms", "sdft:long", "--set", "steps=3"], "sdft:long: steps must be equal for all arms"),
        (["--arms", "base", "--set", "divergnce=1"], "no setting divergnce; did you mean divergence?"),
        (["--arms", "sdft:x", "--set", "divergence=7"], "divergence: Input should be less than or equal"),
        (["--arms", "sdft-ungated"], "begin a comparison with, for example, --set min_confidence=0.5"),
        (["--seeds", "a"], "--seeds a: give a number of seeds"),
        (["--seeds", ""], "give a number of seeds"),
        (["--arms", "base", "--tasks", "nope"], "no task 'MiniWoB/nope-v0'"),
        (["--arms", "base", "--set", 'unseen_tasks=["MiniWoB/nope-v0"]'], "no task 'MiniWoB/nope-v0'"),
        (["--arms", "sequence-sdft", "--tasks", "click-link"], "learning in sequence needs at least two tasks"),
        (["--arms", "sdft", "--seeds", "0,30"], "training seed 30 (3000000 to 3000071) overlap with those of testing"),
        (["--arms", "sft", "--seeds", "15,"], "training seed 15 (1500000 to 1500071) overlap with those of validation"),
        (
            ["--arms", "sequence-sft", "--seeds", "1,", "--set", "first_seed=100240"],
            "training seed 1 (100000 to 100249)",
        ),
        (["--arms", "base", "--set", "first_seed=1500004"], "(1500000 to 1500004) overlap with the test seeds"),
        (["--arms", "sdft-offline:x", "--set", "recordings=0"], "recordings: Input should be greater than or equal"),
        (["--arms", "sdft:x", "--set", "recordings=3"], "sdft:x: recordings must be equal for all arms"),
        (["--arms", "sft-offline", "--seeds", "29,", "--set", "recordings=100001"], "overlap with those of testing"),
        (["--arms", "base", "--set", "first_episode_seed=5"], "first_episode_seed: set by the training seeds"),
        (
            ["--arms", "sdft", "--set", 'contexts=["feedback"]'],
            "only SDFT uses contexts and demonstrations",
        ),
        (["--arms", "sft:x", "--set", "sft_learning_rates=[1]"], "sft_learning_rates must be equal for all arms"),
        (["--out", "/dev/null/x"], "is not a folder that can be written"),
        (["--report-only"], "There is no comparison in"),
    ],
)
def test_wrong_arguments_are_explained(tmp_path, arguments, says):
    out = tmp_path / "learn"
    own = [] if "--out" in arguments else ["--out", str(out)]
    result = CliRunner().invoke(app, ["bench", "learn", *own, *arguments])
    assert result.exit_code == 2
    assert says in " ".join(result.output.replace("│", " ").split())
    assert not out.exists()


def test_an_arm_of_sdft_may_be_told_something_else():
    told = Arm("sdft", "told", {"contexts": ["feedback", "oracle"]})
    check(told, default_settings(), [0, 1])
    check(Arm("grpo", "ten", {"group_size": 10}), default_settings(), [0])


def test_what_an_arm_is_about_can_be_corrected_until_it_has_begun(tmp_path):
    note(Arm("sdft", "x", {"learning_rate": 0.1}), tmp_path)
    right = Arm("sdft", "x", {"learning_rate": 0.01})
    note(right, tmp_path)
    (tmp_path / "arms" / right.folder / "seed-0" / "checkpoints" / "checkpoint-10").mkdir(parents=True)
    note(right, tmp_path)
    with pytest.raises(ValueError, match=r"was begun with --set \{'learning_rate': 0.01\}"):
        note(Arm("sdft", "x", {"learning_rate": 0.1}), tmp_path)
    note(Arm("sft-sdft", "x", {"start_steps": 10}), tmp_path)
    (tmp_path / "arms/sft-sdft+x/start-of-seed-0/training/adapter").mkdir(parents=True)
    with pytest.raises(ValueError, match="was begun with"):
        note(Arm("sft-sdft", "x", {"start_steps": 50}), tmp_path)


def test_an_arm_that_fails_does_not_end_the_others(tmp_path, monkeypatch):
    run_arms = []

    def run_arm(self, arm, seed):
        run_arms.append((arm.name, seed))
        if arm.name == "sft":
            raise ValueError("[red] There is nothing.")

    monkeypatch.setattr(Comparison, "run", run_arm)
    out = tmp_path / "learn"
    arguments = ["bench", "learn", "--out", str(out), "--arms", "base,sft,sdft", "--seeds", "0,1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert run_arms == [("base", 0), ("sft", 0), ("sdft", 0), ("sft", 1), ("sdft", 1)]
    assert "sft, training seed 0 failed: [red] There is nothing." in result.output
    assert "Failed: sft, training seed 0, sft, training seed 1." in result.output
    assert (out / "report.md").exists()


def test_a_report_is_of_the_settings_that_are_there(tmp_path):
    out = tmp_path / "learn"
    prepare_folder(default_settings(), out)
    result = CliRunner().invoke(app, ["bench", "learn", "--out", str(out), "--report-only", "--steps", "3"])
    assert result.exit_code == 2
    assert "training.steps (100 there)" in " ".join(result.output.replace("│", " ").split())


def test_arms_are_read_from_the_command_line():
    assert [arm.name for arm in read_arms("base,sft,sdft", {})] == ["base", "sft", "sdft"]
    (arm,) = read_arms("sdft:reverse", {"divergence": 1})
    assert (arm.folder, arm.changes) == ("sdft+reverse", {"divergence": 1})
    wrong = (
        ("sfd", {}, "no arm 'sfd'"),
        ("base:x", {"steps": 1}, "only trained arms can have a label"),
        ("sdft:x", {}, "of this arm with --set"),
        ("sdft,sdft:x", {"steps": 1}, "in a separate command"),
        ("", {}, "Name at least one arm"),
    )
    for text, changes, message in wrong:
        with pytest.raises(ValueError, match=message):
            read_arms(text, changes)


def short_tasks(settings):
    return [task.removeprefix("MiniWoB/").removesuffix("-v0") for task in settings.tasks]


def write_stage(out, name, result, seconds=1.0):
    path = out / "stages" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"result": result, "seconds": seconds}))


def write_episodes(out, name, tasks, solved):
    """The tests of some tasks; None stands for an episode that the infrastructure failed."""
    for task in tasks:
        episodes = [{"seed": i, "solved": s, "judged": s is not None} for i, s in enumerate(solved)]
        write_stage(out, f"{name}/test/{task}", {"episodes": episodes})


def write_measured(out, name, tasks, solved, perplexity=20.0):
    """All that is measured of an adapter or of the base model."""
    write_episodes(out, name, tasks, solved)
    write_stage(out, f"{name}/perplexity", {"perplexity": perplexity})
    write_stage(out, f"{name}/questions", {"accuracy": 0.5, "probability": 0.5, "right": [True, False]})


def test_a_folder_of_stages_gives_these_figures(tmp_path):
    settings = default_settings().model_copy(update={"unseen_tasks": ()})
    tasks = short_tasks(settings)
    write_measured(tmp_path, "base", tasks, [True, False, False, False])
    write_measured(tmp_path, "sdft/seed-0", tasks, [True, True, True, False], 21.0)
    write_measured(tmp_path, "sdft/seed-1", tasks, [True, True, True, None], 22.0)
    write_measured(tmp_path, "sft/seed-0", tasks, [True, True, False, False], 25.0)
    found = figures(settings, tmp_path)
    sdft = found["arms"]["sdft"]["trained"]
    assert sdft["by_seed"] == {"0": 0.75, "1": 1.0}
    assert sdft["episodes"] == 7 * len(tasks)
    assert sdft["success"] == pytest.approx(6 / 7)
    assert sdft["low"] < 6 / 7 < sdft["high"] <= 1
    assert [kept["rise"] for kept in found["arms"]["sdft"]["retention"]] == [pytest.approx(0.05), pytest.approx(0.1)]
    pairs = {(one["other"], one["tasks"]): one for one in found["differences"]}
    assert pairs["sft", "trained"]["difference"] == pytest.approx(0.25)
    assert pairs["sft", "trained"]["pairs"] == 4 * len(tasks)
    # Seed 1 stands beside the base, too: its three judged episodes, of which the base solves one.
    assert pairs["base", "trained"]["difference"] == pytest.approx((2 + 2) / 7)


def write_training(out, name, changes, where=None):
    """A training of two steps, with its metrics in the folder that it has now, wherever it was made."""
    trained = default_settings().training_for(0, changes, TrainSettings).model_dump(mode="json")
    summary = {"steps": 2, "cut_off": False, "seconds": {"total": 60.0, "learn": 50.0}, "settings": trained}
    write_stage(out, f"{name}/training", {**summary, "adapter": "elsewhere/adapter"})
    folder = out / "arms" / (where or name)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "step": step,
            "rows": 3,
            "rows/prompt_tokens": 10,
            "tokens/learned": 6,
            "loss": 1.0,
            "seconds": {"total": 30.0},
        }
        for step in (1, 2)
    ]
    lines.insert(0, {"step": 0, "evaluation/success": 0.0, "seconds": {"total": 1.0}})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return trained


def test_metrics_are_found_from_the_folder_of_the_comparison(tmp_path):
    settings = default_settings().model_copy(update={"unseen_tasks": ()})
    for name in ("sft/seed-0", "sdft/seed-0"):
        write_measured(tmp_path, name, short_tasks(settings), [True, False])
    write_stage(tmp_path, "sft-learning-rates", {"best": 0.001, "success": {"0.001": 0.5}})
    trained = write_training(tmp_path, "sft/seed-0", {"learning_rate": 0.001}, where="sft-learning-rates/0.001")
    write_training(tmp_path, "sdft/seed-0", {})
    write_stage(tmp_path, demonstrations(trained), {"rows": 6}, seconds=30.0)
    sft, sdft = (figures(settings, tmp_path)["arms"][name]["training"][0] for name in ("sft", "sdft"))
    assert (sft["rows"], sdft["rows"]) == (6, 6)
    # Collecting its demonstrations is part of SFT's time.
    assert (sft["seconds"]["total"], sft["curve"][0]["seconds"], sdft["seconds"]["total"]) == (90.0, 60.0, 60.0)


def test_what_sdft_goes_on_from_is_part_of_its_time(tmp_path):
    settings = default_settings().model_copy(update={"unseen_tasks": ()})
    write_measured(tmp_path, "sft-sdft/seed-0", short_tasks(settings), [True, False])
    start = write_training(tmp_path, "sft-sdft/start-of-seed-0", {"steps": 25})
    write_stage(tmp_path, demonstrations(start), {"rows": 6}, seconds=30.0)
    write_training(tmp_path, "sft-sdft/seed-0", {})
    (training,) = figures(settings, tmp_path)["arms"]["sft-sdft"]["training"]
    assert training["seconds"]["total"] == 30 + 60 + 60


def test_every_kind_of_sdft_stands_beside_the_others_once(tmp_path):
    settings = default_settings().model_copy(update={"unseen_tasks": ()})
    for name in ("base", "sft/seed-0", "sdft/seed-0", "sdft+reverse/seed-0", "sdft-ungated+fast/seed-0"):
        write_measured(tmp_path, name, short_tasks(settings), [True, False])
    pairs = [(one["first"], one["other"]) for one in figures(settings, tmp_path)["differences"]]
    kinds = ("sdft", "sdft+reverse", "sdft-ungated+fast")
    assert sorted(pairs) == sorted(
        [*((kind, other) for kind in kinds for other in ("base", "sft")), *((kind, "sdft") for kind in kinds[1:])]
    )


def test_a_training_seed_counts_once_all_of_it_is_measured(tmp_path):
    settings = default_settings()
    tasks = short_tasks(settings)
    write_measured(tmp_path, "base", tasks, [True, False])
    write_measured(tmp_path, "sdft/seed-0", tasks, [True, False])
    write_episodes(tmp_path, "sdft/seed-1", tasks[:3], [True, True])
    write_episodes(tmp_path, "demonstrated", tasks[:3], [True, True])
    (tmp_path / "stages" / "sft" / "seed-0").mkdir(parents=True)  # made when its training begins
    write_measured(tmp_path, "sequence-sdft/seed-0/first", tasks, [True, True])
    write_episodes(tmp_path, "sequence-sdft/seed-0/second", tasks[:3], [True, True])
    found = figures(settings, tmp_path)
    sdft = found["arms"]["sdft"]
    assert (sdft["seeds"], sdft["unfinished"], len(sdft["retention"])) == ([0], [1], 1)
    assert (sdft["trained"]["success"], sdft["trained"]["by_seed"]) == (0.5, {"0": 0.5})
    assert {row[0]: row[1] for row in arm_rows(found)} == {
        "base": NONE, "demonstrated": "unfinished", "sft": "unfinished: 0", "sdft": "0; unfinished: 1",
    }  # fmt: skip
    assert found["arms"]["sft"]["trained"]["success"] is None
    assert {one["other"] for one in found["differences"]} == {"base"}
    (sequence,) = found["sequences"]["sequence-sdft"]
    assert sequence["kept"] is None
    assert markdown({**found, "curves": []})


def test_the_questions_are_well_formed():
    found = questions()
    assert len(found) >= 60
    assert len({one.question for one in found}) == len(found)
    for one in found:
        assert len(set(one.options)) == len(one.options) == 4
        assert 0 <= one.answer < 4
    counts = [sum(one.answer == place for one in found) for place in range(4)]
    assert min(counts) >= 10  # no place is the right one by habit


@pytest.mark.slow
def test_the_model_knows_more_than_chance():
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.measure.questions import answers

    found = answers(TransformersPolicy("smollm2"))
    assert found["accuracy"] >= 0.5
    assert len(found["right"]) == len(questions())
