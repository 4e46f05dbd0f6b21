"""The files that docs/tasks.md shows are a suite, and its oracle solves it."""

import re
from pathlib import Path

import gymnasium
import pytest

from selfsurf.envs_registry.suites import load_suite

DOC = Path(__file__).parents[2] / "docs" / "tasks.md"


@pytest.fixture
def suite(tmp_path):
    files = re.findall(r"^`(\S+)`\n\n```\w+\n(.*?)```", DOC.read_text(encoding="utf8"), re.DOTALL | re.MULTILINE)
    assert [name for name, _ in files] == ["site/index.html", "notes.py", "notes.toml"]
    for name, text in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf8")
    return load_suite(tmp_path / "notes.toml")


def test_its_oracle_solves_it(suite):
    assert [(task.split, task.groups) for task in suite.tasks] == [("train", ()), ("test", ("buttons",)), ("test", ())]
    for task in suite.tasks:
        env = gymnasium.make("Browser-v0", task=task.make(), screenshot=False)
        for seed in suite.seeds[:2]:
            env.reset(seed=seed)
            ended = False
            while not ended:
                _, reward, ended, cut, info = env.step(env.unwrapped.privileged()["action"])
                assert not cut, info
            assert (reward, info["outcome"]) == (1.0, "solved")
        env.close()


def test_a_wrong_answer_is_a_failure(suite):
    count = suite.only(ids=["notes.py:Count"]).tasks[0].make()
    env = gymnasium.make("Browser-v0", task=count, screenshot=False)
    obs, _ = env.reset(seed=0)
    assert obs["goal"] == "How many entries are there? Finish with the number."
    *_, info = env.step({"action": "finish", "answer": "5"})
    assert info["outcome"] == "failed"
    env.close()
