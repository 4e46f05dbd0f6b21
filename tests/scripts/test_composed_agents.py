"""Agents of roles and of a graph by the commands: benchmark, Ray, run, replay, training, shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfsurf.browser_env.record.episode import Episode
from selfsurf.scripts.cli import app
from tests.agents.graphs import call, serving
from tests.agents.policy_server import replying, serve_raw
from tests.scripts.test_bench_run import bench, results
from tests.scripts.test_shell import piped, site  # noqa: F401  (a fixture)

PAGE = "data:text/html,<button onclick=\"document.title='pressed'\">Press</button>"


def words(agent: str, url: str) -> list[str]:
    sets = (f"--set={one}" for one in ("policy=openai", "model=m", f"base_url={url}", "retries=0"))
    return ["--agent", agent, *sets]


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--ray",)], ids=["here", "ray"])
def test_a_graph_is_benchmarked_and_its_episode_teaches(tmp_path: Path, more: tuple[str, ...], tiny: Path) -> None:
    with serving(call("scroll", "down"), call("click", 1)) as url:
        task = ("miniwob", "--task", "click-test", "--seeds", 1, "--workers", 1)
        bench(*task, *words("graph", url), *more, "--out", tmp_path / "run")
    (record,) = results(tmp_path / "run").values()
    assert (record["outcome"], record["steps"], record["claimed"]) == ("solved", 2, False)
    episode = Episode(tmp_path / "run" / record["episode"])
    first, second = episode.steps()
    assert first["decision"]["graph"]["stage"] == "orient"
    assert "planner" in second["decision"]["graph"]["nodes"]
    assert episode.meta["terminal_reason"] == "goal_satisfied"
    small = {"episodes_per_step": 2, "max_rows": 2, "lora_rank": 2, "least_first_divergence": 0.0,
             "evaluate_every": 0}  # fmt: skip
    trained = CliRunner().invoke(app, [
        "train", "--episodes", str(tmp_path / "run"), "--offline", "--model", str(tiny), "--out", str(tmp_path / "out"), "--steps", "1",
        *(f"--set={name}={value}" for name, value in small.items()),
    ])  # fmt: skip
    assert trained.exit_code == 0, trained.output
    assert (tmp_path / "out" / "adapter" / "selfsurf.json").exists()


@pytest.mark.parametrize("agent", ["roles", "graph"])
def test_a_run_is_recorded_with_its_pictures_and_can_be_replayed(tmp_path: Path, agent: str) -> None:
    replies = ['Go.\nAction: {"click":1}', 'Done.\nAction: {"finish":"ok"}', '{"accept":{"reason":"It is pressed."}}']
    served = serving(call("click", 1), call("finish", "ok")) if agent == "graph" else serve_raw(replying([], *replies))
    with served as url:
        run: list[Any] = ["run", "--goal", "Press it.", "--url", PAGE, *words(agent, url), "--out", tmp_path / "one"]
        done = CliRunner().invoke(app, [str(one) for one in run])
    assert done.exit_code == 0, done.output
    episode = Episode(tmp_path / "one")
    assert [step["actions"][0]["action"] for step in episode.steps()] == ["click", "finish"]
    assert episode.meta["final"]["title"] == "pressed"
    if agent == "graph":
        lines = (tmp_path / "one" / "logs" / "trace.jsonl").read_text().splitlines()
        pictures = {one["screenshot"] for line in lines if not (one := json.loads(line)).get("summary")}
        assert None not in pictures
        assert all((tmp_path / "one" / one).read_bytes().startswith(b"\x89PNG") for one in pictures)
    replayed = CliRunner().invoke(app, ["record", "--replay", str(tmp_path / "one")])
    assert replayed.exit_code == 0, replayed.output


def test_a_graph_whose_episode_is_for_sharing_leaves_no_traces(tmp_path: Path) -> None:
    page = "data:text/html,<input aria-label=Address>"
    with serving(call("fill", 1, text="ada.private@home.test"), call("finish", "ok")) as url:
        words_ = ["run", "--goal", "Fill it in.", "--url", page, *words("graph", url), "--redacted", "full"]
        done = CliRunner().invoke(app, [*words_, "--out", str(tmp_path / "one")])
    assert done.exit_code == 0, done.output
    left = [path for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert left
    assert not [path for path in left if b"ada.private" in path.read_bytes()]
    assert not (tmp_path / "one" / "logs").exists()


def test_a_run_that_was_given_up_says_why(tmp_path: Path) -> None:
    with serving(*[call("scroll", "down")] * 4) as url:
        words_ = ["run", "--goal", "Press it.", "--url", PAGE, *words("graph", url), "--set", "budget_steps=1"]
        done = CliRunner().invoke(app, [*words_, "--out", str(tmp_path / "one")])
        told = CliRunner().invoke(app, [*words_, "--json", "--out", str(tmp_path / "two")])
    assert "stopped.\nthe budget of 1 step is used up" in done.output
    assert json.loads(told.stdout)["terminal_reason"] == "budget_exhausted"
    assert json.loads(told.stdout)["terminal_type"] == "limit"
    assert json.loads(told.stdout)["detail"] == "the budget of 1 step is used up"


@pytest.mark.slow
def test_a_graph_works_in_the_shell(tmp_path: Path, site: str) -> None:  # noqa: F811
    with serving(call("scroll", "down"), call("finish", "It is about lunch.")) as url:
        (said,) = piped(tmp_path, ["What is it about?"], *words("graph", url), "--url", f"{site}/start.html")
    assert (said["outcome"], said["answer"]) == ("done", "It is about lunch.")
