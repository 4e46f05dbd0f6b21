"""How `selfsurf run` and `selfsurf shell` end: limits, an agent's word that it is done, reasons. With a real browser."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfsurf.browser_env.record.episode import EpisodeError, EpisodeWriter
from selfsurf.scripts.cli import app
from selfsurf.scripts.suite.records import Records
from selfsurf.sdft.teacher.recording import load_recordings
from tests.agents.policy_server import replying, serve_raw
from tests.processes import crowd
from tests.scripts.test_run import PAGE, run  # noqa: F401  (a fixture)

POLICY = """
import time

from selfsurf.agents.policy import Completion, Usage


class Own:
    name, guidance, sees_images, prompt_budget = "own", "none", False, 2000
    parameter_count = context_length = None

    def __init__(self, replies=(), usage=True, seconds=0):
        self.replies, self.usage, self.seconds, self.prompts = list(replies), usage, seconds, []

    def count_tokens(self, text):
        return len(text)

    def count_prompt_tokens(self, messages, prefill=""):
        return 10

    def complete(self, conversations, **options):
        time.sleep(self.seconds)
        text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        usage = Usage(90, 10, cost=0.25) if self.usage else None
        return [Completion(text, [], [], [], None, "eos", usage=usage) for _ in conversations]
"""

WAIT = '{"wait":1}'


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., list[str]]:
    """Returns the arguments of `run` for a goal with these replies of a model."""
    (tmp_path / "policy.py").write_text(POLICY)

    def words(*replies: str, **options: Any) -> list[str]:
        given = {"replies": list(replies), "guards": False, **options}
        sets = [part for name, value in given.items() for part in ("--set", f"{name}={json.dumps(value)}")]
        return ["--goal", "Which colour?", "--url", PAGE, "--agent", f"{tmp_path / 'policy.py'}:Own", *sets]

    return words


@pytest.mark.parametrize(
    ("limit", "reason", "steps"),
    [
        (("--max-tokens", "200"), "The limit of 200 tokens is reached (200).", 2),
        (("--max-cost", "0.6"), "The limit of $0.6 is reached ($0.7500).", 3),
    ],
)
def test_a_limit_ends_a_run_as_stopped(
    run: Any,  # noqa: F811
    own: Callable[..., list[str]],
    limit: tuple[str, str],
    reason: str,
    steps: int,
) -> None:
    result, meta, taken = run(*own(WAIT), *limit)
    assert (result.exit_code, meta["outcome"], meta["trainable"], len(taken)) == (1, "stopped", False, steps)
    assert meta["outcome_detail"] == reason
    first, second, *_ = result.stdout.splitlines()
    assert (first, second) == ("stopped.", reason)
    assert f"Used: {90 * steps}+{10 * steps} tokens, ${0.25 * steps:.4f}, " in result.stdout


def test_a_limit_of_time_ends_a_run_before_the_model_is_asked_again(run: Any, own: Callable[..., list[str]]) -> None:  # noqa: F811
    seconds = crowd()
    given = ("--max-seconds", str(2 * seconds), "--max-steps", "100", "--json")
    result, _, taken = run(*own(WAIT, seconds=seconds), *given)
    said = json.loads(result.stdout)
    assert (said["outcome"], said["detail"]) == ("stopped", f"The limit of {2 * seconds:g} s is reached.")
    assert 1 <= len(taken) <= 2
    assert said["cost"] == 0.25 * len(taken)


def test_a_limit_that_cannot_be_kept_ends_the_run_after_one_step(run: Any, own: Callable[..., list[str]]) -> None:  # noqa: F811
    _, meta, taken = run(*own(WAIT, usage=False), "--max-tokens", "200")
    assert (meta["outcome"], len(taken)) == ("stopped", 1)
    assert meta["outcome_detail"].startswith("--max-tokens can't be enforced: ")


def test_limits_that_limit_nothing_are_refused() -> None:
    words = ["--goal", "Look.", "--url", PAGE]
    for given, says in (
        (["--agent", "random", "--max-tokens", "5"], "The agent random has no model"),
        (["--agent", "openai", "--model", "m", "--max-cost", "1"], "--max-cost needs the model's prices"),
        (["--agent", "random", "--max-seconds", "0"], "greater than 0"),
    ):
        result = CliRunner().invoke(app, ["run", *words, *given], env={"COLUMNS": "400"})
        assert (result.exit_code, says in " ".join(result.output.split())) == (2, True), result.output


def test_an_agent_that_says_that_it_is_done_is_quoted_and_nobody_has_judged_it(
    run: Any,  # noqa: F811
    own: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    result, meta, _ = run(*own('{"finish":"blue"}'))
    assert (result.exit_code, meta["outcome"]) == (0, "stopped")
    folder = tmp_path / "episode"
    first, second, used, last = result.stdout.splitlines()
    assert first == "The agent says that it is done: blue"
    assert second == f"Nobody has judged the episode: selfsurf judge {folder}, or selfsurf mark {folder} solved."
    assert used.startswith("Used: 90+10 tokens, $0.2500, ")
    assert last == f"Episode: {folder}"
    shown = CliRunner().invoke(app, ["view", str(folder)]).output
    assert "the agent says that it is done after 1 step; nobody has judged the episode" in shown
    assert "reward 0\n" not in shown.split("the agent says")[1]
    assert "not used for training" not in shown
    assert CliRunner().invoke(app, ["mark", str(folder), "solved"]).exit_code == 0
    assert "nobody has judged the episode" not in CliRunner().invoke(app, ["view", str(folder)]).output


def test_why_a_goal_cannot_be_reached_is_said(run: Any, own: Callable[..., list[str]], tmp_path: Path) -> None:  # noqa: F811
    result, meta, _ = run(*own('{"infeasible":"Nothing here has a colour."}'))
    assert (result.exit_code, meta["outcome"]) == (1, "infeasible")
    assert meta["outcome_detail"] == "Nothing here has a colour."
    assert result.stdout.startswith("infeasible.\nNothing here has a colour.\n")
    assert "Nothing here has a colour." in CliRunner().invoke(app, ["view", str(tmp_path / "episode")]).output
    for reply, reason, line in (
        ('{"infeasible":"No colour."}', "No colour.", "No colour."),
        ('{"action":"infeasible"}', "", "The agent gave no reason."),
    ):
        shutil.rmtree(tmp_path / "episode")
        said = json.loads(run(*own(reply), "--json")[0].stdout)
        assert (said["outcome"], said["reason"]) == ("infeasible", reason)
        shutil.rmtree(tmp_path / "episode")
        assert run(*own(reply))[0].stdout.startswith(f"infeasible.\n{line}\nUsed: ")


def test_a_run_that_is_out_of_steps_does_not_blame_its_last_reply(run: Any, own: Callable[..., list[str]]) -> None:  # noqa: F811
    result, meta, _ = run(*own('{"colour":"blue"}'), "--max-steps", "1")
    assert meta["outcome"] == "timeout"
    assert "Unknown action None" not in result.output
    _, why, limit, *_ = result.stdout.splitlines()
    assert why.startswith("The last action failed: The JSON names no action: {'colour': 'blue'}; ")
    assert limit == "The limit of 1 steps was reached. Use --max-steps to set another."


def test_a_limit_ends_a_goal_of_a_shell_and_the_next_has_its_own(own: Callable[..., list[str]], tmp_path: Path) -> None:
    words = [word for word in own(WAIT, WAIT, WAIT, '{"finish":"blue"}') if word not in ("--goal", "Which colour?")]
    done = subprocess.run(
        [sys.executable, "-m", "selfsurf.scripts.cli", "shell", *words, "--max-tokens", "200", "--json",
         "--session", str(tmp_path / "session")],
        input="Which colour?\n/continue\n/goals\n", capture_output=True, text=True, timeout=60 * crowd(), env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second, goals = map(json.loads, done.stdout.splitlines())
    assert (first["outcome"], first["error"]) == ("stopped", "The limit of 200 tokens is reached (200).")
    assert (second["outcome"], second["answer"], second["cost"]) == ("done", "blue", 0.5)
    assert [one["outcome"] for one in goals["goals"]] == ["stopped", "done"]


OFFER = {
    "type": "object", "required": ["name", "price"],
    "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
}  # fmt: skip
MODEL = "from pydantic import BaseModel\n\n\nclass Offer(BaseModel):\n    name: str\n    price: float\n"


@pytest.mark.parametrize("kind", ["json", "model"])
def test_an_answer_has_the_form_that_is_asked_for(
    run: Any,  # noqa: F811
    own: Callable[..., list[str]],
    tmp_path: Path,
    kind: str,
) -> None:
    (tmp_path / "offer.json").write_text(json.dumps(OFFER))
    (tmp_path / "offer.py").write_text(MODEL)
    form = str(tmp_path / "offer.json") if kind == "json" else f"{tmp_path / 'offer.py'}:Offer"
    replies = (
        '{"finish":"a mug, 4 euros"}',
        '{"finish":{"name":"mug","colour":"blue"}}',
        '{"finish":{"name":"mug","price":4}}',
    )
    result, meta, taken = run(*own(*replies), "--schema", form, "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code, said["outcome"], said["steps"]) == (0, "stopped", 3), said
    assert said["data"] == {"name": "mug", "price": 4}
    assert json.loads(said["answer"]) == said["data"]
    assert [step["outcome"] for step in taken] == ["running", "running", "stopped"]
    first, second, third = ("\n".join(m["text"] for m in step["completions"][0]["prompt"]) for step in taken)
    assert '"required": ["name", "price"]' in first
    assert "The answer does not fit: all: " in second
    assert "price" in third.split("The answer does not fit: ")[1].split(". The answer of finish")[0]
    assert meta["goal"] == "Which colour?"


def test_answers_that_never_fit_end_at_the_step_limit(
    run: Any,  # noqa: F811
    own: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    (tmp_path / "offer.json").write_text(json.dumps(OFFER))
    schema = ("--schema", str(tmp_path / "offer.json"))
    result, meta, _ = run(*own('{"finish":"blue"}'), *schema, "--max-steps", "2")
    assert (result.exit_code, meta["outcome"]) == (1, "timeout")
    assert "The last action failed: The answer does not fit: " in result.stdout


def test_a_form_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "offer.json").write_text('{"type": "offer"}')
    (tmp_path / "list.json").write_text("[]")
    words = ["run", "--goal", "Look.", "--url", PAGE, "--agent", "random", "--schema"]
    for name, says in (
        (str(tmp_path / "offer.json"), "The JSON schema is malformed"),
        (str(tmp_path / "list.json"), "must contain a JSON schema"),
        (str(tmp_path / "none.json"), "can't be read"),
        ("no_such_module:Offer", "no_such_module"),
    ):
        result = CliRunner().invoke(app, [*words, name], env={"COLUMNS": "400"})
        assert (result.exit_code, says in " ".join(result.output.split())) == (2, True), result.output


FULL = """
import resource

from selfsurf.browser_env import Wait


class Filling:
    def act(self, obs):
        resource.setrlimit(resource.RLIMIT_FSIZE, (%d, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return Wait(ms=1)
"""
"""An agent that leaves its process room for files of some bytes, once the browser runs."""

NOISE = (
    "data:text/html,<canvas id=c width=600 height=400></canvas><script>const x=c.getContext('2d'),"
    "d=x.createImageData(600,400);d.data.forEach((_,i)=>d.data[i]=i&3^3?Math.random()*256:255);x.putImageData(d,0,0)"
    "</script>"
)
"""A page whose picture has more than 300 KB."""


@pytest.mark.parametrize(("room", "outcome"), [(100, "running"), (100_000, "env_error")])
def test_a_run_without_room_names_its_folder_and_how_to_go_on(tmp_path: Path, room: int, outcome: str) -> None:
    """A step's line, its picture, the end: nothing is half written."""
    (tmp_path / "full.py").write_text(FULL % room)
    out = tmp_path / "episode"
    words = ["--goal", "Look.", "--url", NOISE, "--agent", f"{tmp_path / 'full.py'}:Filling", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "selfsurf.scripts.cli", "run", *words], capture_output=True, text=True,
        timeout=60 * crowd(),
    )  # fmt: skip
    assert done.returncode == 1
    assert (
        f"There is no room left for {out}. The files written so far are complete: make room, then run the command again with "
        "another folder, or move this folder away first." in done.stderr
    )
    assert "Errno" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    names = {str(path.relative_to(out)) for path in out.rglob("*")}
    assert names - {"manifest.json"} == {"episode.json", "steps.jsonl", "artifacts"}
    assert json.loads((out / "episode.json").read_text())["outcome"] == outcome
    assert (out / "steps.jsonl").read_text() == ""


def test_a_suite_without_room_names_its_folder_and_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "full.py").write_text(FULL % 100)
    out = tmp_path / "run"
    words = ["MiniWoB", "--task", "click-test", "--seeds", "1", "--workers", "1", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "selfsurf.scripts.cli", "bench", "run", *words, "--agent",
         f"{tmp_path / 'full.py'}:Filling"], capture_output=True, text=True, timeout=120 * crowd(),
    )  # fmt: skip
    assert done.returncode == 1
    assert (
        f"There is no room left for {out}. The files written so far are complete: make room, then the same"
        in done.stderr
    )
    assert "Errno" not in done.stderr
    assert "Traceback" not in done.stderr


LINE = """
import resource, sys
from pathlib import Path
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.scripts.report.report import write_report

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

def tried(write):
    try:
        write()
    except OSError as error:
        print(error)

folder = Path(sys.argv[1])
writer = EpisodeWriter(folder / "episode", {"goal": "Look."})
after = {"last_action": {"action": "wait", "ms": 1}, "last_error": "", "events": ()}
info = {"timing": {}, "outcome": "running", "score": {}}
step = lambda: writer.step({"dom": "x" * 2000}, None, reward=0.0, info=info, after=after)
step()
room((folder / "episode" / "steps.jsonl").stat().st_size + 1000)
tried(step)
room(100)
tried(lambda: EpisodeWriter(folder / "new", {"goal": "Look."}))
tried(lambda: write_report(folder / "run"))
"""


def test_a_line_a_first_file_and_a_report_without_room_leave_nothing_half_written(tmp_path: Path) -> None:
    about = {"format": 1, "suite": "one", "agent": {"name": "random"}, "tasks": [{"id": "one"}], "seeds": [0]}
    with Records(tmp_path / "run", about):
        pass
    done = subprocess.run(
        [sys.executable, "-c", LINE, str(tmp_path)], capture_output=True, text=True, timeout=60 * crowd()
    )
    said = done.stdout.splitlines()
    assert [line.partition(". ")[0].rpartition("/")[2] for line in said] == ["episode", "new", "run"], done.stderr
    assert ["another folder" in line for line in said] == [True, False, False]
    assert len((tmp_path / "episode" / "steps.jsonl").read_text().splitlines()) == 1
    assert (tmp_path / "episode" / "steps.jsonl").read_text().endswith("\n")
    assert [*(tmp_path / "new").iterdir()] == []
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "results.jsonl"}


RECORDS = """
import resource, sys
from pathlib import Path
from selfsurf.scripts.suite.evaluate import played
from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.suite.records import Records
from selfsurf.scripts.suite.run import RunError

folder = Path(sys.argv[1])
plan = Plan(str(folder), ({"id": "one"},), "random", (0,))
with Records(folder, {"tasks": [{"id": "one"}], "seeds": [0]}) as records:
    class Pool:
        def start(self, number):
            pass

        def receive(self, seconds):
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            from selfsurf.agents.play import EpisodeRequest, Job, Result
            ask = EpisodeRequest(0, Job("one", 0))
            solved = Result(ask.job, "solved", True)
            return [(0, ("done", sent.pop(), solved, None))] if sent else [(0, ("ready", "here"))]

        def send(self, number, message):
            sent.append(message[1])

        def kill(self, number):
            pass

        def close(self):
            pass

    sent = []
    try:
        played(plan, records, Pool, {})
    except RunError as error:
        print(error)
"""


def test_records_without_room_say_how_to_go_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RECORDS, str(tmp_path / "run")], capture_output=True, text=True, timeout=60 * crowd()
    )
    assert done.stdout.startswith(f"There is no room left for {tmp_path / 'run'}. "), done.stderr
    assert done.stdout.rstrip().endswith("make room, then the same command resumes.")


def test_an_episode_that_is_being_written_is_told_from_one_that_was_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "episode"
    writer = EpisodeWriter(folder, {"env_id": "Browser-v0", "goal": "Look.", "url": PAGE})
    replay = ["record", "--replay", str(folder)]
    told = CliRunner().invoke(app, replay, env={"COLUMNS": "400"})
    assert (told.exit_code, f"{folder} is still being recorded" in " ".join(told.output.split())) == (2, True)
    assert "running after 0 steps, reward 0; it goes on" in CliRunner().invoke(app, ["view", str(folder)]).output
    with pytest.raises(EpisodeError, match="is still being recorded: end the recording first"):
        load_recordings([folder])
    writer._lines.close()  # as a kill does
    assert "it was cut off" in CliRunner().invoke(app, ["view", str(folder)]).output
    with pytest.raises(EpisodeError, match="There is no solved episode"):
        load_recordings([folder])


def test_the_goal_in_the_readme_is_carried_out_by_a_server_that_speaks_openais_form(
    run: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf8")
    _, block = readme.split(".venv/bin/selfsurf run ", 1)
    words = shlex.split(block.split("\n.venv", 1)[0].replace("\\\n", " "))
    words[words.index("--url") + 1] = PAGE
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with serve_raw(replying([], 'Done.\nAction: {"finish":"3.14"}')) as url:
        result, meta, _ = run(*words, "--set", f"base_url={url}", "--set", "retries=0")
    assert result.stdout.startswith("The agent says that it is done: 3.14\n"), result.output
    assert meta["model"] == "gpt-4.1-mini"
