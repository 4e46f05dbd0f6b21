"""Episodes are the same whoever writes them, and are what their specification says."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfsurf import browser_env
from selfsurf.agents.play.replay import replay
from selfsurf.browser_env.record.episode import META, STEP, Episode, EpisodeError
from selfsurf.browser_env.record.recorder import Recorder
from selfsurf.browser_env.session.runtime import runtime
from selfsurf.envs_registry import task_of
from selfsurf.scripts.cli import app

DOC = Path(__file__).parents[2] / "docs" / "episodes.md"
FORMAT_1 = Path(__file__).parents[1] / "browser_env" / "format_1"
TASK = "MiniWoB/click-button-v0"
PAGE = "data:text/html,<title>Shop</title><button>Buy</button>"
SCRIPT = 'actions=[{"action":"ask_user","question":"Which one?"},{"action":"click","id":1},{"action":"finish","answer":"done"}]'
COMPLETION = {
    "prompt", "text", "prompt_token_ids", "prefill_token_ids", "token_ids", "logprobs", "tokens", "grammar",
    "finish_reason", "usage",
}  # fmt: skip


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
    from selfsurf.agents.llm_agent import LLMAgent
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


@pytest.mark.parametrize("write", WAYS, ids=lambda way: way.__name__)
def test_the_fields_are_the_same_whoever_writes(write, tmp_path):
    folder = write(tmp_path)
    meta = json.loads((folder / "episode.json").read_text())
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert set(meta) == set(META)
    assert steps
    for step in steps:
        assert set(step) == set(STEP)
        assert len(step["actions"]) == 1
        assert meta["started"] - 1 < step["time"] <= meta["ended"]
        for completion in step["completions"]:
            assert set(completion) == COMPLETION
            assert set(step["decision"]) == {"error", "guard", "guards", "demonstrated"}
    assert (meta["format"], meta["versions"]["selfsurf"] != "absent") == (2, True) if meta["versions"] else True
    if "goal" not in folder.name:
        assert meta["judged"] == (meta["outcome"] not in ("stopped", "env_error"))
        assert meta["score"] or meta["outcome"] == "timeout"
    Episode(folder).verify()


def test_what_was_asked_of_the_user_is_kept(tmp_path):
    first, *_ = Episode(by_run_for_a_goal(tmp_path)).steps()
    assert [one["question"] for one in first["questions"]] == ["Which one?"]


def test_a_changed_or_missing_file_is_named(tmp_path):
    folder = by_run(tmp_path)
    lines = folder / "steps.jsonl"
    lines.write_text(lines.read_text().replace("reward", "REWARD"))
    with pytest.raises(EpisodeError, match=r"steps\.jsonl is not what was written"):
        Episode(folder).verify()
    lines.unlink()
    with pytest.raises(EpisodeError, match=r"steps\.jsonl is missing"):
        Episode(folder).verify()


def test_fields_that_nobody_knows_are_ignored(tmp_path):
    folder = by_run(tmp_path)
    meta = json.loads((folder / "episode.json").read_text())
    (folder / "episode.json").write_text(json.dumps({**meta, "weather": "fine"}))
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    (folder / "steps.jsonl").write_text("".join(json.dumps({**step, "mood": 1}) + "\n" for step in steps))
    assert CliRunner().invoke(app, ["view", str(folder)]).exit_code == 0
    assert replay(Episode(folder), task_of(TASK)).same_outcome


def test_format_1_is_read_and_played():
    episode = Episode(FORMAT_1 / "oracle")
    assert set(episode.meta) >= set(META)
    assert (episode.meta["agent"], episode.meta["judged"], episode.meta["outcome"]) == ("oracle", True, "solved")
    assert episode.meta["score"]["raw_reward"] == 1
    for step in episode.steps():
        assert set(step) == set(STEP)
        assert step["actions"][0]["action"] == "click"
        assert step["completions"] == []
    result = replay(episode, task_of("MiniWoB/click-option-v0"))
    assert (result.complete, result.same_outcome) == (True, True)


def test_completions_of_format_1_are_read():
    for step in Episode(FORMAT_1 / "model").steps():
        (completion,) = step["completions"]
        assert set(completion) == COMPLETION
        assert completion["token_ids"]
        assert set(step["decision"]) == {"error", "guard", "guards", "demonstrated"}


@pytest.mark.parametrize(("heading", "fields"), [("episode.json", META), ("steps.jsonl", STEP), ("completions", None)])
def test_the_specification_has_every_field(heading, fields):
    section = DOC.read_text().split(f"## `{heading}`")[1].split("\n## ")[0]
    listed = [
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    ]
    assert sorted(listed) == sorted(COMPLETION if fields is None else fields)
