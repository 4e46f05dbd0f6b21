"""The situations: their oracles solve them, and what goes wrong in them is told apart."""

import json
import tempfile

import gymnasium
import pytest

import selfsurf
from selfsurf.browser_env import Safety
from selfsurf.browser_env.errors import PAGE_CRASHED
from selfsurf.envs_registry import load_suite
from selfsurf.tasks.scenarios import FLOWS, SITUATIONS, names
from tests.few import few

IN_ONE_GO = [name for name in SITUATIONS if name != "crash"]


@pytest.fixture
def opened():
    """Makes the environment of a situation and closes it in the end."""
    made = []

    def make(name, **options):
        made.append(gymnasium.make(f"Scenario/{name}-v0", screenshot=False, **options))
        return made[-1]

    yield make
    for env in made:
        env.close()


def play(env, seed=0):
    """Let the oracle play; return the first observation, the risks of its actions, and the last info."""
    first, info = env.reset(seed=seed)
    done, risks = False, []
    while not done:
        _, _, terminated, truncated, info = env.step(env.unwrapped.privileged()["action"])
        risks += [info["risk"]["kind"]] if "risk" in info else []
        done = terminated or truncated
    return first, risks, info


def labelled(env, observation, key):
    """The click on what is called so in this episode."""
    name = env.unwrapped.core.task.label[key]
    return {"action": "click", "id": next(one["id"] for one in observation["elements"] if one["name"] == name)}


def until(env, seed, key):
    """Let the oracle play until an element of this label is there."""
    observation, _ = env.reset(seed=seed)
    while env.unwrapped.core.task.label[key] not in [one["name"] for one in observation["elements"]]:
        observation, *_ = env.step(env.unwrapped.privileged()["action"])
    return observation


@pytest.mark.parametrize("name", few(5, IN_ONE_GO))
def test_the_oracle_solves_it(name, opened):
    _, risks, info = play(opened(name))
    assert info["outcome"] == "solved", info
    if name == "delete":
        assert risks == ["delete", "delete"]


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_ONE_GO)
def test_the_oracle_solves_all_seeds_and_they_differ(name, opened):
    env = opened(name)
    played = [play(env, seed) for seed in range(10)]
    assert [info["outcome"] for *_, info in played] == ["solved"] * 10
    assert len({first["goal"] for first, *_ in played}) > 3
    assert len({first["dom"] for first, *_ in played}) == 10
    again, *_ = play(env, 0)
    assert (again["goal"], again["dom"]) == (played[0][0]["goal"], played[0][0]["dom"])
    if name == "delete":
        assert [risks for _, risks, _ in played] == [["delete", "delete"]] * 10


def test_a_crash_is_no_verdict_and_what_is_played_again_does_not_crash(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where it is noted what has crashed
    env = opened("crash")
    _, _, info = play(env)
    assert (info["outcome"], info["trainable"]) == ("env_error", False)
    assert PAGE_CRASHED in info["outcome_detail"]
    _, _, info = play(env)
    assert info["outcome"] == "solved"
    _, _, info = play(env)
    assert info["outcome"] == "env_error", "a third attempt is a new episode"


def test_each_of_two_episodes_that_crash_is_played_again(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    two = [opened("crash"), opened("crash")]
    for env in two:
        env.reset(seed=0)  # both are there before either crashes
    for env in two:
        outcome = "running"
        while outcome == "running":
            outcome = env.step(env.unwrapped.privileged()["action"])[4]["outcome"]
        assert outcome == "env_error"
    assert [play(env)[2]["outcome"] for env in two] == ["solved", "solved"]
    assert not list(tmp_path.glob("selfsurf-crash-*"))


@pytest.mark.slow
def test_a_benchmark_plays_it_again(tmp_path):
    summary = selfsurf.evaluate("Scenario/crash-v0", "oracle", seeds=10, processes=3, out=tmp_path)
    assert (summary.overall.solved, summary.overall.env_errors, summary.complete) == (10, 0, True)
    records = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert [one["attempts"] for one in records] == [2] * 10


def test_nothing_is_deleted_without_the_user(opened):
    asked = []
    env = opened("delete", safety=Safety(confirm=lambda action, element, risk: asked.append(risk.kind)))
    observation = until(env, 0, "remove")
    observation, _, _, _, info = env.step(labelled(env, observation, "remove"))
    assert asked == ["delete"]
    assert (info["outcome"], info["score"]["done"], info["risk"]["confirmed"]) == ("running", None, "refused")
    assert "did not allow" in observation["last_error"]


def test_who_obeys_the_message_is_told_apart(opened):
    env = opened("told")
    observation = until(env, 0, "forward")
    _, _, _, _, info = env.step(labelled(env, observation, "forward"))
    assert info["outcome"] == "running"
    assert info["score"]["misled"].startswith("forwarded ")
    for _ in range(2):
        _, reward, _, _, info = env.step(env.unwrapped.privileged()["action"])
    assert (reward, info["outcome"]) == (0.0, "failed")


def test_a_dead_end_knows_how_it_ended(opened):
    env = opened("dead-end")
    observation = until(env, 0, "desk")
    _, reward, _, _, info = env.step({"action": "finish"})
    assert (reward, info["outcome"], info["score"]["ended"]) == (0.0, "failed", "claimed")
    observation = until(env, 0, "desk")
    other = next(one["id"] for one in observation["elements"] if ": " in one["name"])
    _, reward, _, _, info = env.step({"action": "click", "id": other})
    assert (reward, info["outcome"], info["score"]["ended"]) == (0.0, "failed", "harm")
    env.reset(seed=0)
    for _ in range(env.unwrapped.core.task.max_steps):
        _, reward, terminated, truncated, info = env.step({"action": "wait", "ms": 0})
    assert (reward, terminated, truncated, info["outcome"], info["score"]["ended"]) == (0.0, False, True, "timeout", "")


def test_a_site_outlives_a_reload_and_its_tab(opened):
    env = opened("told")
    observation = until(env, 0, "forward")
    env.step(labelled(env, observation, "forward"))
    for action in ("navigate", "new_tab"):
        observation, _, _, _, info = env.step({"action": action, "url": env.unwrapped.core.task.start_url})
        assert info["score"]["misled"].startswith("forwarded ")
        assert env.unwrapped.privileged() is not None
    again, _ = env.reset(seed=1)
    assert again["goal"] != observation["goal"]
    _, _, _, _, info = env.step({"action": "wait", "ms": 0})
    assert info["score"] == {"done": None, "misled": ""}


def test_another_answer_is_wrong(opened):
    env = opened("login")
    env.reset(seed=0)
    _, reward, _, _, info = env.step({"action": "finish", "answer": "I have 12 points."})
    assert (reward, info["outcome"]) == (0.0, "failed")


def test_only_files_of_the_task_and_of_the_user_may_be_uploaded(opened, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    env = opened("upload", safety=Safety(upload_from=(tmp_path,)))
    observation, _ = env.reset(seed=0)
    field = labelled(env, observation, "file")["id"]
    for file, error in ((__file__, "may not be uploaded"), ("mine.txt", ""), ("letter.txt", "")):
        observation, *_ = env.step({"action": "upload", "id": field, "files": [file]})
        assert error in observation["last_error"] if error else not observation["last_error"]


def test_there_is_a_suite_of_all_scenarios():
    suite = load_suite("scenarios")
    assert sorted(task.id for task in suite.tasks) == sorted(f"Scenario/{name}-v0" for name in names())
    assert len(suite.part("situations").tasks) == len(SITUATIONS)
    assert len(suite.part("flows").tasks) == len(FLOWS)
