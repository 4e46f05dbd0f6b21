"""Episodes are the same whoever writes them, and are what their specification says."""

import json

import pytest
from typer.testing import CliRunner

from selfsurf import __version__, browser_env
from selfsurf.agents.play.replay import replay
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.record.episode import Episode, write_manifest
from selfsurf.browser_env.record.format import COMPLETION, DECISION, EPISODE, STEP
from selfsurf.browser_env.record.recorder import Recorder
from selfsurf.envs_registry import task_of
from selfsurf.scripts.cli import app

TASK = "MiniWoB/click-button-v0"
PAGE = "data:text/html,<title>Shop</title><button>Buy</button>"
SCRIPT = 'actions=[{"action":"ask_user","question":"Which one?"},{"action":"click","id":1},{"action":"finish","answer":"done"}]'


def by_run(tmp_path):
    CliRunner().invoke(app, ["run", "--task", TASK, "--agent", "oracle", "--out", str(tmp_path / "run")])
    return tmp_path / "run"


def by_run_with_a_model(tmp_path):
    arguments = ["run", "--task", TASK, "--max-steps", "1", "--out", str(tmp_path / "model")]
    CliRunner().invoke(app, arguments)
    return tmp_path / "model"


def by_run_for_a_goal(tmp_path):
    script = ["--agent", "scripted", "--set", SCRIPT]
    CliRunner().invoke(app, ["run", "--goal", "Buy.", "--url", PAGE, *script, "--out", str(tmp_path / "goal")])
    return tmp_path / "goal"


def by_a_benchmark(tmp_path):
    arguments = ["--agent", "oracle", "--task", "click-button", "--seeds", "1", "--out", str(tmp_path / "bench")]
    CliRunner().invoke(app, ["bench", "run", "miniwob", *arguments])
    (folder,) = (tmp_path / "bench" / "episodes").iterdir()
    return folder


def by_rollouts(tmp_path):
    from selfsurf.agents.llm.llm_agent import LLMAgent
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.rollouts import Job, Rollouts

    with Rollouts(1, max_episode_steps=1) as rollouts:
        rollouts.run(LLMAgent(TransformersPolicy()), [Job(TASK, 1)], folder=tmp_path / "rollouts")
    (folder,) = (tmp_path / "rollouts").iterdir()
    return folder


def by_a_person(tmp_path):
    env = browser_env.AsyncBrowserEnv(task=task_of(TASK), screenshot=False)
    recorder = Recorder(env, tmp_path / "person")
    wanted = recorder.start(1)
    target = next(one for one in wanted["elements"] if one["role"] == "button")["bbox"]
    x, y = target[0] + target[2] / 2, target[1] + target[3] / 2
    runtime().run(env.core.session.active.page.mouse.click(x, y))
    recorder.wait(3)
    recorder.finish("stopped")
    return tmp_path / "person"


WAYS = [by_run, by_run_with_a_model, by_run_for_a_goal, by_a_benchmark, by_rollouts, by_a_person]
LONG = [by_run_with_a_model, by_a_benchmark]


@pytest.mark.parametrize(
    "write",
    [pytest.param(way, marks=pytest.mark.slow) if way in LONG else way for way in WAYS],
    ids=lambda way: way.__name__,
)
def test_the_fields_are_the_same_whoever_writes(write, tmp_path):
    folder = write(tmp_path)
    meta = json.loads((folder / "episode.json").read_text())
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert set(meta) == set(EPISODE)
    assert steps
    for step in steps:
        assert set(step) == set(STEP)
        assert len(step["actions"]) == 1
        assert meta["started"] - 1 < step["time"] <= meta["ended"]
        for completion in step["completions"]:
            assert set(completion) == set(COMPLETION)
            assert set(step["decision"]) == set(DECISION)
    assert (meta["format"], meta["versions"]["selfsurf"]) == (2, __version__)
    assert meta["score"] or "goal" in folder.name
    assert meta["totals"]["judged"] is ("goal" not in folder.name)
    assert Episode(folder).damage() == []


def test_what_was_asked_of_the_user_is_kept(tmp_path):
    first, *_ = Episode(by_run_for_a_goal(tmp_path)).steps()
    assert [one["question"] for one in first["questions"]] == ["Which one?"]


@pytest.mark.slow
def test_fields_that_nobody_knows_are_ignored(tmp_path):
    folder = by_run(tmp_path)
    meta = json.loads((folder / "episode.json").read_text())
    (folder / "episode.json").write_text(json.dumps({**meta, "weather": "fine"}))
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    (folder / "steps.jsonl").write_text("".join(json.dumps({**step, "mood": 1}) + "\n" for step in steps))
    write_manifest(folder)
    assert CliRunner().invoke(app, ["view", str(folder)]).exit_code == 0
    assert replay(Episode(folder), task_of(TASK)).same_outcome
