"""`run --cache`, `selfsurf cache`, `selfsurf sample` and `selfsurf bench cache`, with agents that need no model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from selfsurf.browser_env.goal.spec import read_spec
from selfsurf.browser_env.safety.redaction import masked
from selfsurf.envs_registry.suites import load_suite
from selfsurf.scripts.agents.healing import wrong_actions
from selfsurf.scripts.cli import app
from selfsurf.scripts.report.sampled import Candidate, CandidateFile, read_samples, write_samples
from selfsurf.tasks.goal import GoalTask
from tests.browser_env.conftest import loopback  # noqa: F401  (a fixture)

SPEC = """
goal = "Subscribe ada@moreau.test to the letter."
start = "https://letter.test/"
criteria = [{ text = "Welcome" }]
"""

AGENT = """
class Presser:
    def act(self, obs):
        return {"action": "click", "id": next(one["id"] for one in obs["elements"] if one["role"] == "button")}
"""


def selfsurf(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "400"}).invoke(app, list(map(str, arguments)))


def test_a_solved_run_is_played_again_without_its_agent(tmp_path: Path) -> None:
    run = ("run", "--task", "Scenario/upload-v0", "--cache", tmp_path / "cache", "--json")
    first = selfsurf(*run, "--agent", "oracle", "--out", tmp_path / "1")
    assert json.loads(first.stdout)["cache"]["kept"]["actions"] == 3, first.output
    again = selfsurf(*run, "--agent", "random", "--out", tmp_path / "2")
    said = json.loads(again.stdout)
    assert (said["outcome"], said["cache"]["actions"], said["cache"]["left"]) == ("solved", 3, "")
    listed = selfsurf("cache", tmp_path / "cache")
    assert "3 actions on http://form.test: Upload the file <param:0>" in listed.stdout
    other = selfsurf("cache", tmp_path / "other", tmp_path / "1", "--json")
    assert [one["id"] for one in json.loads(other.stdout)] == [said["cache"]["kept"]["flow"]]
    (tmp_path / "cache" / "broken.json").write_text("no flow")
    refused = selfsurf(*run, "--agent", "random", "--out", tmp_path / "3")
    assert (refused.exit_code, "broken.json" in refused.output, (tmp_path / "3").exists()) == (2, True, False)


def subscribed(tmp_path: Path) -> Path:
    """The episode of a run that was solved."""
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "agent.py").write_text(AGENT)
    page = "data:text/html,<button onclick=\"document.body.append('Welcome, reader')\">Subscribe</button>"
    given = ("run", "--spec", tmp_path / "spec.toml", "--agent", f"{tmp_path}/agent.py:Presser", "--json")
    ran = selfsurf(*given, "--url", page, "--out", tmp_path / "runs" / "1")
    assert json.loads(ran.stdout)["outcome"] == "solved", ran.output
    meta = tmp_path / "runs" / "1" / "episode.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "url": "https://letter.test/?token=abc123"}))
    return tmp_path / "runs" / "1"


def copied(episode: Path, name: str, **meta: object) -> Path:
    """Another run, which was like one."""
    other = shutil.copytree(episode, episode.with_name(name))
    whole = json.loads((other / "episode.json").read_text())
    (other / "episode.json").write_text(json.dumps({**whole, "episode_id": name, **meta}))
    return other


def test_real_runs_become_a_suite_that_a_person_has_read(tmp_path: Path) -> None:
    copied(subscribed(tmp_path), "2")
    out, into = tmp_path / "candidates.toml", tmp_path / "scenarios"
    said = json.loads(selfsurf("sample", tmp_path / "runs", "--out", out, "--json").stdout)
    (one,) = said["candidates"]
    assert (said["duplicates"], one["episodes"], one["solved"]) == (1, 2, 2)
    assert (one["start"], one["criteria"]) == ("https://letter.test/", [{"text": "Welcome, reader"}])
    assert not any(text in out.read_text() for text in ("ada@moreau", "abc123"))

    accept = ("sample", "--accept", one["name"], "--out", out, "--into", into)
    refused = selfsurf(*accept)
    assert (refused.exit_code, "<email>" in refused.output, into.exists()) == (2, True, False)
    out.write_text(out.read_text().replace("<email>", "someone"))
    assert selfsurf(*accept).exit_code == 0
    (task,) = load_suite(into / "suite.py").tasks
    made = task.make()
    assert isinstance(made, GoalTask)
    assert made.goal == "Subscribe someone to the letter."
    assert read_spec(into / f"{one['name']}.toml").criteria[0].text == "Welcome, reader"
    assert "[[candidates]]" not in out.read_text()

    copied(tmp_path / "runs" / "2", "3")  # the next night
    said = json.loads(selfsurf("sample", tmp_path / "runs", "--out", out, "--json").stdout)
    assert (said["candidates"], said["duplicates"], said["accepted"][0]["episodes"]) == ([], 3, 3)


def test_runs_for_goals_by_run_and_shell_are_sampled_and_the_rest_is_counted(
    tmp_path: Path,
    loopback: Callable[..., Any],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    page = b"<button onclick=\"document.body.append('Bought')\">Buy</button>"
    url = loopback(lambda request: page).url
    given = ("--agent", f"{tmp_path}/agent.py:Presser", "--max-steps", "1", "--url", f"{url}/shop")
    for number in (1, 2):
        ran = selfsurf("run", "--goal", "Buy it.", *given, "--out", tmp_path / "runs" / str(number), "--json")
        assert json.loads(ran.stdout)["steps"] == 1, ran.output
    shell = [sys.executable, "-m", "selfsurf.scripts.cli", "shell", "--json", *given]
    subprocess.run(
        [*shell, "--session", tmp_path / "runs" / "shell"], input="Have a look.\n", text=True, check=True, timeout=100
    )
    task = ("run", "--task", "MiniWoB/click-test-v0", "--agent", "oracle", "--out", tmp_path / "runs" / "task")
    assert selfsurf(*task).exit_code == 0
    copied(tmp_path / "runs" / "1", "cut off", outcome="running")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "episode.json").write_text("{")

    out = tmp_path / "candidates.toml"
    sample = ("sample", tmp_path / "runs", "--out", out, "--json")
    said = json.loads(selfsurf(*sample).stdout)
    reasons = {"its goal is that of a task": 1, "it has not ended": 1, "it can't be read": 1}
    assert {one["goal"]: one["episodes"] for one in said["candidates"]} == {"Buy it.": 2, "Have a look.": 1}
    assert {one["start"] for one in said["candidates"]} == {f"{url}/shop"}
    assert (said["left_out"], said["reasons"]) == (3, reasons)
    again = json.loads(selfsurf(*sample).stdout)
    assert (again["candidates"], again["left_out"]) == (said["candidates"], 3)

    logged = (
        "run",
        "--goal",
        "Buy it.",
        *given,
        "--attempt-log",
        tmp_path / "logs",
        "--out",
        tmp_path / "runs" / "logged",
    )
    selfsurf(*logged)
    monkeypatch.chdir(tmp_path)
    report = json.loads(selfsurf("report", "logs", "--out", "report.md", "--since", "1d", "--json").stdout)
    assert report["sampling"] | {"file": ""} == {
        "file": "", "runs": 3, "solved": 0, "candidates": 2, "accepted": 0, "left_out": reasons
    }  # fmt: skip
    assert "left out because its goal is that of a task: 1" in (tmp_path / "report.md").read_text()


def test_only_episodes_that_ended_since_a_moment_are_sampled(tmp_path: Path) -> None:
    old = subscribed(tmp_path)
    copied(old, "2", ended=time.time() - 3 * 86400, goal="Something else.")

    def goals(since: str) -> list[str]:
        said = selfsurf("sample", tmp_path / "runs", "--out", tmp_path / f"{since}.toml", "--since", since, "--json")
        return [one["goal"] for one in json.loads(said.stdout)["candidates"]]

    assert goals("2d") == ["Subscribe <email> to the letter."]
    assert len(goals("5d")) == len(goals("2026-01-01")) == len(goals("2026-01-01T04:00+02:00")) == 2
    assert goals("2126-01-01") == []
    left = json.loads(
        selfsurf("sample", tmp_path / "runs", "--out", tmp_path / "2d.toml", "--since", "2d", "--json").stdout
    )
    assert left["reasons"] == {"it ended before --since": 1}
    everything = json.loads(selfsurf("sample", tmp_path / "runs", "--out", tmp_path / "2d.toml", "--json").stdout)
    assert (len(everything["candidates"]), everything["reasons"]) == (2, {})
    assert len(goals("30m")) == 1
    empty = selfsurf("sample", tmp_path / "runs", "--since", "")
    assert (empty.exit_code, "30m" in empty.output) == (2, True)
    refused = selfsurf("sample", tmp_path / "runs", "--since", "yesterday")
    assert (refused.exit_code, "36h" in refused.output) == (2, True)


def test_of_candidates_with_one_name_each_can_be_accepted(tmp_path: Path) -> None:
    out, into = tmp_path / "candidates.toml", tmp_path / "scenarios"
    one = Candidate("look", "Look.", "https://letter.test/", [{"text": "Welcome"}], alike=["look", "0 click link A"])
    write_samples(
        out, CandidateFile([one, replace(one, criteria=[{"text": "Hello"}], alike=["look", "0 click link B"])])
    )
    accept = ("sample", "--out", out, "--into", into, "--accept")
    asked = selfsurf(*accept, "look")
    assert (asked.exit_code, into.exists()) == (2, False)
    assert all(text in asked.output for text in ("look#1", "click link A", "look#2", "click link B"))
    assert selfsurf(*accept, "look#2").exit_code == 0
    assert read_spec(into / "look-2.toml").criteria[0].text == "Hello"
    assert [one.criteria for one in read_samples(out).candidates] == [[{"text": "Welcome"}]]
    assert selfsurf(*accept, "look").exit_code == 0
    assert read_spec(into / "look.toml").criteria[0].text == "Welcome"


def test_what_a_person_has_corrected_stays_and_a_run_counts_once(tmp_path: Path) -> None:
    solved, out = subscribed(tmp_path), tmp_path / "candidates.toml"
    failed = copied(solved, "2", outcome="failed")

    def sampled(*episodes: Path) -> tuple[int, int, object]:
        (one,) = json.loads(selfsurf("sample", *episodes, "--out", out, "--json").stdout)["candidates"]
        return one["episodes"], one["solved"], one["criteria"]

    question = {"question": "Has this been done: Subscribe <email> to the letter."}
    assert sampled(failed, failed) == (1, 0, [question])
    drafted = out.read_text()
    assert sampled(solved) == (2, 1, [{"text": "Welcome, reader"}])
    out.write_text(drafted.replace(question["question"], "Is she welcome?"))
    assert sampled(solved, failed) == (2, 1, [{"question": "Is she welcome?"}])
    assert sampled(tmp_path / "runs") == (2, 1, [{"question": "Is she welcome?"}])


def test_criteria_tell_where_a_run_came_from_where_it_got(tmp_path: Path, loopback: Callable[..., Any]) -> None:  # noqa: F811
    pages = {"/": b"<title>Home</title><h1>Home</h1><a href=/two>Two</a>", "/two": b"<h1>Second page</h1><p>42 euros"}
    url = loopback(lambda request: pages[request.path]).url
    into = tmp_path / "scenarios"
    for number, (answer, told) in enumerate((("Done.", []), ("42 euros", [{"answer": "42 euros"}]))):
        runs, out = tmp_path / f"{number}", tmp_path / f"{number}.toml"
        actions = [{"action": "click", "selector": "text=Two"}, {"action": "finish", "answer": answer}]
        script = ("--agent", "scripted", "--set", f"actions={json.dumps(actions)}", "--out", runs / "1")
        ran = selfsurf("run", "--goal", f"Go on {number}, call +49 30 1234567.", "--url", f"{url}/", *script)
        assert ran.exit_code == 0, ran.output
        assert selfsurf("mark", runs / "1", "solved").exit_code == 0
        (one,) = json.loads(selfsurf("sample", runs, "--out", out, "--json").stdout)["candidates"]
        assert one["criteria"] == [{"url": "/two"}, {"text": "Second page"}, *told]
        assert one["goal"] == f"Go on {number}, call <phone>."
        out.write_text(out.read_text().replace("<phone>", "me"))
        accepted = selfsurf("sample", "--accept", one["name"], "--out", out, "--into", into)
        assert (accepted.exit_code, "no verdict" in accepted.stderr) == (0, False)
        other = ("sample", runs, "--out", tmp_path / f"{number}-other.toml", "--into", into, "--json")
        again = json.loads(selfsurf(*other).stdout)
        assert (again["candidates"], again["reasons"]) == ([], {"its scenario is already accepted": 1})


def test_a_candidate_that_only_a_model_can_judge_says_so(tmp_path: Path) -> None:
    out = tmp_path / "candidates.toml"
    write_samples(
        out, CandidateFile([Candidate("look", "Look.", "https://letter.test/", [{"question": "Has she looked?"}])])
    )
    said = selfsurf("sample", "--accept", "look", "--out", out, "--into", tmp_path / "scenarios")
    assert (said.exit_code, "look has only questions" in said.stderr, "can't judge it" in said.stderr) == (
        0,
        True,
        True,
    )


def test_candidates_are_reported_where_nothing_was_logged(tmp_path: Path) -> None:
    write_samples(tmp_path / "c.toml", CandidateFile([Candidate("look", "Look.", "https://letter.test/", [])]))
    given = ("report", tmp_path / "runs", "--out", tmp_path / "report.md", "--candidates")
    said = selfsurf(*given, tmp_path / "c.toml")
    assert (said.exit_code, "1 candidate" in (tmp_path / "report.md").read_text()) == (0, True), said.output
    refused = selfsurf(*given, tmp_path / "none.toml")
    assert (refused.exit_code, "no attempt logs" in refused.output) == (2, True)


def test_a_file_of_candidates_holds_any_text(tmp_path: Path) -> None:
    goal = 'Press "😀"\x7f\t\\ und grüße.'
    one = Candidate("press", goal, "https://letter.test/", [{"text": goal}])
    write_samples(tmp_path / "out.toml", CandidateFile([one], left_out={"run 😀": "it has no goal"}))
    assert read_samples(tmp_path / "out.toml") == CandidateFile([one], left_out={"run 😀": "it has no goal"})


def test_of_several_candidates_all_are_accepted_or_none(tmp_path: Path) -> None:
    out, into = tmp_path / "candidates.toml", tmp_path / "scenarios"
    good = Candidate("good", "Look.", "https://letter.test/", [{"text": "Welcome"}])
    write_samples(out, CandidateFile([good, replace(good, name="masked", goal="Mail <email>.")]))
    accept = ("sample", "--accept", "good", "--accept", "masked", "--out", out, "--into", into)
    refused = selfsurf(*accept)
    assert (refused.exit_code, "<email>" in refused.output, into.exists()) == (2, True, False)
    out.write_text(out.read_text().replace("<email>", "Ada"))
    assert selfsurf(*accept).exit_code == 0
    assert sorted(path.name for path in into.iterdir()) == ["good.toml", "masked.toml", "suite.py"]


def test_masked() -> None:
    text = "Mail a.b@c.de, card 4111 1111 1111 1111, order 4111 1111 1111 1112: http://x.test/p?q=me&t=1#a"
    wanted = "Mail <email>, card <card>, order 4111 1111 1111 1112: http://x.test/p?q=<redacted>&t=<redacted>#a"
    assert masked(text) == masked(masked(text)) == wanted


def test_whatever_was_not_next_is_a_wrong_action() -> None:
    assert wrong_actions(["a", "away", "b"], ["a", "b", "c"]) == 0
    assert wrong_actions(["a", "c"], ["a", "b", "c"]) == 1
    assert wrong_actions(["decoy a", "a"], ["a"]) == 1


@pytest.mark.slow
def test_the_benchmark_counts_what_was_healed_and_refused(tmp_path: Path, tiny: Path) -> None:
    changes = [part for change in ("relabelled", "decoys", "removed") for part in ("--change", change)]
    ran = selfsurf(
        "bench", "cache", "--scenario", "delete", "--seeds", 1, *changes, "--json", "--out", tmp_path / "out",
        "--model", tiny,
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    figures = json.loads(ran.stdout)
    rows = {row["change"]: row for row in figures["rows"]}
    assert figures["model"]["decision_ms"] > 0
    assert figures["model"]["pages"] > 1
    assert [rows[name]["solved"] for name in ("relabelled", "decoys", "removed")] == [1, 0, 0]
    assert [rows[name]["refused"] for name in ("relabelled", "decoys", "removed")] == [0, 1, 1]
    assert not any(row["wrong"] for row in rows.values())
