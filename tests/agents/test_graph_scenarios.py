"""The graph on the scenario sites: every edge is really taken, and every run ends for a reason that is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfsurf.agents.graph.wiring import edges
from selfsurf.browser_env import Safety
from selfsurf.browser_env.record.episode import Episode
from selfsurf.scripts.suite.plan import record_of
from selfsurf.tasks.scenarios import scenario
from tests.agents.graphs import call, graph, play, serving, shown, trace_of

ASKS = ("open", "ask_user")
"""Kinds of actions."""

ID = Callable[[dict[str, Any]], dict[str, Any]]


def press(name: str) -> ID:
    """Click the element of a name, as the prompt shows it."""

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        import re

        line = re.search(rf'"{re.escape(name)}".*?\{{"(?:click|fill)":(\d+)', body["messages"][-1]["content"])
        assert line, body["messages"][-1]["content"][-500:]
        return call("click", int(line[1]))

    return reply


def played(folder: Path, name: str, *script: Any, options: Any = (), **around: Any) -> Any:
    """Play a scenario; return the result, the trace's records, its summary, and the episode."""
    bodies: list[dict[str, Any]] = []
    with serving(*script, bodies=bodies) as url:
        agent = graph(url, **dict(options))
        [result] = play(agent, lambda _: scenario(name), folder, **around)
        agent.policy.close()
    records, summary = trace_of(folder / "episode-0")
    return result, records, summary, Episode(folder / "episode-0"), bodies


def taken(records: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["node"], one["next"]) for one in records}


def test_a_risky_action_is_allowed_by_the_user_once_and_done_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def user(question: str) -> str:
        asked.append(question)
        return "yes"

    result, records, summary, episode, _ = played(
        tmp_path, "delete", shown, call("wait", 200, extra="x"), options={"confirm": "user"}, user=user
    )
    assert result.outcome == "solved"
    for record in (summary, episode.meta, result.steps[-1].info):
        assert (record["terminal_reason"], record["terminal_type"]) == ("goal_satisfied", "success")
    steps = list(episode.steps())
    assert [step["actions"][0]["action"] for step in steps if step["actions"][0]["action"] != "wait"] == [
        "click", "ask_user", "click", "ask_user", "click",
    ]  # fmt: skip
    assert len(asked) == 2, "one question for each risky action"
    assert all("The agent wants to" in one for one in asked)
    risks = [one for step in steps for one in step["decision"]["graph"]["asked"] if one["risk"]]
    assert [one["risk"]["kind"] for one in risks] == ["delete", "delete"], "the environment judged, once each"
    judged = [step["risk"] for step in steps if step["risk"]]
    assert [(one["kind"], one["confirmed"]) for one in judged] == [("delete", "by the user")] * 2
    assert {("safety", "confirm"), ("confirm", "execute"), ("execute", "progress"), ("progress", "observe"),
            ("execute", "END"), ("observe", "goal_check"), ("goal_check", "planner")} <= taken(records)  # fmt: skip
    folder = episode.folder
    first = json.loads((folder / "data" / "state" / "0000-planner.json").read_text())
    assert (first["session"], first["step"], first["state"]["planned"]["action"]) == ("episode-0", 0, "click")
    assert "Stage: orient" in first["told"]
    assert (folder / "data" / "state" / "0000-execute.json").exists()
    assert "planner: I will" in (folder / "logs" / "agent.log").read_text()
    assert steps[0]["narration"].startswith('I see "')
    assert episode.damage() == []


def test_a_question_that_is_the_last_step_is_no_refusal(tmp_path: Path) -> None:
    result, records, summary, episode, _ = played(
        tmp_path, "delete", options={"confirm": "user"}, user=lambda question: "yes", steps=2
    )
    assert ("confirm", "END") in taken(records)
    assert [step["actions"][0]["action"] for step in episode.steps()] == ["click", "ask_user"]
    assert (result.outcome, summary["terminal_reason"]) == ("timeout", "budget_exhausted")
    assert "This is not allowed" not in (episode.folder / "logs" / "agent.log").read_text()


@pytest.mark.slow
def test_where_the_environment_asks_the_graph_does_not(tmp_path: Path) -> None:
    asked: list[str] = []

    def user(question: str) -> str:
        asked.append(question)
        return "yes"

    result, _, _, episode, _ = played(
        tmp_path, "delete", options={"confirm": "user"}, user=user, safety=Safety(confirm="ask")
    )
    assert (result.outcome, len(asked)) == ("solved", 2)
    assert {step["actions"][0]["action"] for step in episode.steps()} == {"click"}


def test_a_dead_end_ends_in_loop_stuck_within_its_budget(tmp_path: Path) -> None:
    result, records, summary, _, bodies = played(
        tmp_path, "dead-end", *[call("scroll", "down")] * 40, options={"budget_steps": 20}, steps=30
    )
    assert result.outcome == "solved", "giving up is what this task wants"
    assert (summary["terminal_reason"], result.steps[-1].info["terminal_reason"]) == ("loop_stuck", "loop_stuck")
    assert (summary["terminal_type"], record_of(result)["terminal_type"]) == ("limit", "limit")
    assert result.length < 20
    assert {("observe", "loop_mitigation"), ("loop_mitigation", "goal_check"), ("safety", "error_retry"),
            ("error_retry", "observe"), ("error_retry", "END")} <= taken(records)  # fmt: skip
    assert "It is barred now" in json.dumps(bodies)


@pytest.mark.parametrize(
    ("script", "budget", "reason"),
    [(["garbage"] * 9, None, "goal_failed"), ([call("scroll", "down")] * 9, 1, "budget_exhausted")],
)
def test_failing_is_no_success_where_the_goal_can_not_be_reached(
    tmp_path: Path, script: list[Any], budget: int | None, reason: str
) -> None:
    replies = [{"text": one} if isinstance(one, str) else one for one in script]
    result, _, summary, episode, _ = played(
        tmp_path, "dead-end", *replies, options={} if budget is None else {"budget_steps": budget}
    )
    assert (result.outcome, result.reward, summary["terminal_reason"]) == ("failed", 0.0, reason)
    assert episode.meta["outcome"] == "failed"


@pytest.mark.slow
def test_refused_actions_are_not_done(tmp_path: Path) -> None:
    result, records, summary, episode, bodies = played(
        tmp_path, "delete", options={"confirm": "user"}, user=lambda question: "No, keep it."
    )
    assert (summary["terminal_reason"], result.reward) == ("goal_failed", 0.0)
    assert {("confirm", "error_retry"), ("error_retry", "observe"), ("error_retry", "END")} <= taken(records)
    asked = [body["messages"][-1]["content"] for body in bodies]
    done = re.findall(r"^\d+\. .*", "\n".join(asked), re.MULTILINE)
    assert not any("Delete" in one for one in done), "what was refused does not count as done"
    last = list(episode.steps())[-1]
    assert "No, keep it." in last["decision"]["graph"]["detail"]


@pytest.mark.slow
def test_what_a_server_does_wrong_costs_no_step(tmp_path: Path) -> None:
    from tests.agents.policy_server import tool_call

    script = [429, tool_call("click", '{"thought": "x", "id": '), tool_call("dance", {"x": 1}), shown, 500]
    result, records, summary, _, _ = played(tmp_path, "pages", *script, options={"retries": 2})
    assert (result.outcome, summary["terminal_reason"]) == ("solved", "goal_satisfied")
    assert {("planner", "error_retry"), ("error_retry", "planner")} <= taken(records)
    assert result.length == summary["steps"]


@pytest.mark.slow
def test_failed_actions_are_told_and_too_many_end_it(tmp_path: Path) -> None:
    result, records, summary, _, _bodies = played(tmp_path, "cookies", *[call("focus_tab", 7)] * 2)
    assert result.outcome == "solved"
    assert {("execute", "error_retry"), ("error_retry", "observe")} <= taken(records)
    result, _, summary, _, _ = played(
        tmp_path / "again", "cookies", *[call("navigate", f"http://10.0.0.{n}/") for n in range(30)]
    )
    assert summary["terminal_reason"] == "goal_failed", summary


@pytest.mark.slow
def test_without_progress_the_user_is_asked_and_may_end_it(tmp_path: Path) -> None:
    answers = ["Try again.", "Stop."]
    _result, records, summary, episode, bodies = played(
        tmp_path, "slow", *[call("press", key) for key in ("Escape", "Home", "End", "PageUp", "Tab") * 3],
        options={"actions": ASKS}, user=lambda question: answers.pop(0),
    )  # fmt: skip
    assert {("progress", "ask_user"), ("ask_user", "observe"), ("ask_user", "END")} <= taken(records)
    assert (summary["terminal_reason"], summary["terminal_detail"]) == ("goal_failed", 'the user said: "Stop."')
    assert "Try again." in bodies[-1]["messages"][-1]["content"]
    asked = [step["questions"] for step in episode.steps() if step["questions"]]
    assert [one["answer"] for [one] in asked] == ["Try again.", "Stop."]
    assert asked[0][0]["question"].startswith("I am stuck on")


@pytest.mark.slow
def test_the_model_may_ask_and_two_tabs_are_followed(tmp_path: Path) -> None:
    result, records, summary, _episode, _ = played(
        tmp_path,
        "two-tabs",
        call("ask_user", "Which voucher?"),
        options={"actions": ASKS},
        user=lambda question: "Mine.",
    )
    assert result.outcome == "solved"
    assert ("planner", "ask_user") in taken(records)
    assert any(event.startswith("opened: ") for event in summary["tab_events"])
    assert any(event.startswith("active: ") for event in summary["tab_events"])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [("budget_tokens", 3000), ("budget_steps", 2), ("budget_seconds", 0.01)])
def test_budgets_end_it(tmp_path: Path, name: str, value: float) -> None:
    result, records, summary, _, _ = played(tmp_path, "pages", options={name: value})
    assert (summary["terminal_reason"], result.steps[-1].info["terminal_reason"]) == ("budget_exhausted",) * 2
    assert ("goal_check", "END") in taken(records)
    assert "budget" in summary["terminal_detail"]


@pytest.mark.slow
def test_a_crash_is_nobodys_reason_and_several_run_at_the_same_time(tmp_path: Path) -> None:
    with serving() as url:
        agent = graph(url)
        results = play(agent, scenario, tmp_path, names=("crash", "upload", "login", "scroll"), seeds=(3,))
        agent.policy.close()
    assert [one.outcome for one in results] == ["env_error", "solved", "solved", "solved"]
    assert trace_of(tmp_path / "episode-0")[1]["terminal_reason"] == ""
    assert [trace_of(tmp_path / f"episode-{n}")[1]["terminal_reason"] for n in (1, 2, 3)] == ["goal_satisfied"] * 3


@pytest.mark.slow
def test_every_edge_is_taken_by_one_of_these(tmp_path: Path) -> None:
    """The scripts above, once more in short; what they took together is the graph."""
    found: set[tuple[str, str]] = set()
    no = {"confirm": "user", "actions": ASKS}
    for number, (name, script, more) in enumerate(
        [
            ("delete", [], {"options": no, "user": lambda question: "yes"}),
            ("delete", [], {"options": no, "user": lambda question: "no"}),
            ("delete", [], {"options": no, "user": lambda question: "yes", "steps": 2}),
            ("dead-end", [call("scroll", "down")] * 30, {}),
            ("cookies", [call("focus_tab", 7), call("ask_user", "Which?"), {"content": "?"}], {"options": no, "user": lambda question: "Any."}),
            ("slow", [call("press", key) for key in ("Escape", "Home", "End", "PageUp", "Tab")], {"options": no, "user": lambda question: "stop"}),
            ("pages", [], {"options": {**no, "budget_steps": 2}}),
        ]
    ):  # fmt: skip
        _, records, *_ = played(tmp_path / str(number), name, *script, **more)
        found |= taken(records)
    assert found == set(edges())
