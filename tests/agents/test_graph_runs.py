"""What the graph tells its planner in a run, on what it spends, and what it survives; with models of several kinds."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from selfsurf import agents
from selfsurf.agents.graph.agent import GraphAgent
from selfsurf.agents.graph.brief import brief
from selfsurf.agents.graph.budgets import Budgets
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.nodes import observe
from selfsurf.agents.graph.state import first_state
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.browser_env import Observation, Safety, Task
from selfsurf.browser_env.goal.spec import Criterion, GoalSpec
from selfsurf.browser_env.record.episode import Episode
from selfsurf.tasks.goal import GoalTask
from tests.agents.graphs import call, graph, play, serving, trace_of
from tests.agents.said import Seeing
from tests.browser_env.conftest import loopback  # noqa: F401  (a fixture)
from tests.models.small import small_llama


class Listing(Task):
    """A long list; what the goal names is far below what is seen, or comes with the first key that is pressed."""

    start_url = "data:text/html," + "".join(f"<p style='height:90px'><a href='%23'>Item {n}</a></p>" for n in range(40))

    def __init__(self, late: bool = False) -> None:
        super().__init__(goal="Open the Marmalade.")
        last = "<a href='%23'>Marmalade</a>"
        add = f'<script>onkeydown = () => {{ onkeydown = null; document.body.insertAdjacentHTML("beforeend", "{last}") }}</script>'
        self.start_url = Listing.start_url + (add if late else last)


def asked(bodies: list[dict[str, Any]]) -> list[str]:
    """The last message of each request."""
    return [body["messages"][-1]["content"] for body in bodies]


def run(task: Task, folder: Path, *script: Any, options: Any = (), **around: Any) -> tuple[Any, list[str]]:
    bodies: list[dict[str, Any]] = []
    with serving(*script, bodies=bodies) as url:
        agent = graph(url, **dict(options))
        [result] = play(agent, lambda _: task, folder, **around)
        agent.policy.close()
    return result, asked(bodies)


@pytest.mark.parametrize(("text", "replies"), [("Thank you, Ada", 1), ("Thank you, Bo", 2)])
def test_the_criteria_of_a_specification_end_a_run_and_words_of_success_do_not(
    tmp_path: Path, text: str, replies: int
) -> None:
    page = "data:text/html,<button onclick=\"nextSibling.textContent = 'Thank you, Ada!'\">Order</button><p></p>"
    spec = GoalSpec(goal="Order the mug.", start=page, criteria=(Criterion(text=text),))
    result, told = run(GoalTask(spec), tmp_path, call("click", 1), call("finish", "Done."), steps=5)
    _, summary = trace_of(tmp_path / "episode-0")
    assert len(told) == replies
    assert (result.outcome, summary["terminal_reason"], summary["terminal_type"]) == (
        ("solved", "goal_satisfied", "success") if replies == 1 else ("failed", "goal_failed", "failure")
    )  # fmt: skip
    assert all("check whether all of the goal is reached" in one for one in told[1:])


def test_what_the_planner_is_told(form: Observation) -> None:
    state = first_state(form["goal"], "s", open_ended=True)
    assert (state["task_kind"], state["stage"], state["step"], state["spent"]) == ("open", "orient", 0, {})
    assert first_state("", "s")["task_kind"] == "none"
    assert first_state("Buy it.", "s")["task_kind"] == "judged"
    now = cast(Observation, {**form, "events": ("download: now.pdf",)})
    told = brief(
        {
            **state, "tab_events": ["opened: http://shop/"], "context_events": ["dialog: Sure?", "download: now.pdf"],
            "found": ['link "Marmalade"'], "intent_history": ["look  around"], "advice": ["Do something else."],
        },
        now,
    )  # fmt: skip
    assert 'Elements that the goal may mean: [7] button "Submit"' in told
    assert "Of late: opened: http://shop/; dialog: Sure?." in told, "the prompt has the events of now"
    assert 'Further down on this page: link "Marmalade".' in told
    assert "What you meant to do so far: look around." in told
    assert told.endswith("Do something else.")


def test_events_and_tabs_stay_known(form: Observation) -> None:
    state = first_state(form["goal"], "s")

    live = Live(Budgets())
    live.see(cast(Observation, {**form, "events": ("dialog: Sure?",)}))
    change = observe.run(state, live)
    assert (change["context_events"], change["tab_events"]) == (["dialog: Sure?"], [])
    assert observe.run({**state, **change}, live)["context_events"] == ["dialog: Sure?"] * 2


def test_a_request_offers_a_strict_tool_for_each_kind_and_takes_one(form: Observation) -> None:
    bodies: list[dict[str, Any]] = []
    with serving(call("click", 7), bodies=bodies) as url:
        agent = agents.make(
            "graph", policy="openai", model="m", base_url=url, endpoint="openai", api_key="k", retries=0
        )
        agent.reset("Press Submit")
        agent.act(form)
        agent.policy.close()
    assert bodies[0]["parallel_tool_calls"] is False
    assert {tool["function"]["strict"] for tool in bodies[0]["tools"]} == {True}
    assert len(bodies[0]["tools"]) > 5


@pytest.mark.parametrize(("late", "scans"), [(False, 1), (True, 2)])
def test_a_long_page_that_does_not_show_what_is_wanted_is_scanned(tmp_path: Path, late: bool, scans: int) -> None:
    _, told = run(Listing(late), tmp_path, *[call("press", key) for key in ("Home", "Escape", "Tab")], steps=3)
    found = [one.partition("Further down on this page: ")[2] for one in told]
    assert found[late].startswith('link "Marmalade"; ')
    assert not late or found[0].startswith('link "Item ')
    assert not found[scans]
    steps = Episode(tmp_path / "episode-0").steps()
    assert [one["ask"] for step in steps for one in step["decision"]["graph"]["asked"]].count("scan") == scans


SHELVES = {
    "a list": "<ul>{}</ul>|<li><a href='%23'>{name}</a><p>{price}</p><p>{stock}</p></li>",
    "a table": "<table>{}</table>|<tr><td>{price}</td><td>{stock}</td><td><a href='%23'>{name}</a></td></tr>",
    "no structure": "{}|<div><a href='%23'>{name}</a></div><div>{price}</div><div>{stock}</div>",
    "headings": "{}|<h3>{name}</h3><div>{price}</div><div>{stock}</div><button>Add</button>",
}
"""Pages of 30 things, each with its price; what holds them and what each is."""


@pytest.mark.parametrize("shelf", SHELVES)
def test_a_scan_tells_the_static_text_beside_what_the_goal_names(tmp_path: Path, shelf: str) -> None:
    around, one = SHELVES[shelf].split("|")
    things = [(f"Item {n}", f"{n}.00 EUR", "in stock") for n in range(30)]
    things.insert(25, ("Marmalade", "3.20 EUR", "sold out"))
    rows = [one.format(name=name, price=price, stock=stock) for name, price, stock in things]
    page = "data:text/html,<style>td,li{height:90px}div{height:50px}</style>" + around.format("".join(rows))
    task = Task(goal="What does the Marmalade cost?", start_url=page)
    _, told = run(task, tmp_path, call("press", "Home"), steps=1)
    passage = told[0].partition("Further down on this page: ")[2].partition("; ")[0]
    assert all(text in passage for text in ("Marmalade", "3.20 EUR", "sold out")), passage
    assert "Item" not in passage
    assert "24.00" not in passage
    assert "25.00" not in passage


@pytest.mark.slow
def test_a_budget_of_dollars_ends_a_run(tmp_path: Path) -> None:
    options = {"budget_dollars": 0.0025, "prices": {"input": 1.0, "output": 1.0}}
    result, told = run(Listing(), tmp_path, *[call("scroll", "down")] * 9, options=options, steps=9)
    _, summary = trace_of(tmp_path / "episode-0")
    assert summary["terminal_reason"] == "budget_exhausted"
    assert "dollars" in summary["terminal_detail"]
    assert summary["spent"]["dollars"] >= 0.0025
    assert 0 < result.length < 9
    assert told


@pytest.mark.slow
def test_a_tab_that_closes_is_survived(tmp_path: Path) -> None:
    page = "data:text/html,<button onclick=\"w = window.open('about:blank')\">Look</button><button onclick='w.close()'>Enough</button>"
    script = [call("click", 1), call("focus_tab", 0), call("click", 2), call("finish", "looked")]
    result, told = run(Task(goal="Look.", start_url=page), tmp_path, *script)
    assert result.outcome == "stopped"
    _, summary = trace_of(tmp_path / "episode-0")
    assert summary["terminal_reason"] == "goal_satisfied"
    assert any(event.startswith("closed: ") for event in summary["tab_events"])
    assert "closed: " in told[-1]


@pytest.mark.slow
def test_a_page_that_does_not_load_in_time_is_told(tmp_path: Path, loopback: Any) -> None:  # noqa: F811
    over = threading.Event()  # the limit stretches where other work takes the cores
    hanging = loopback(lambda request: over.wait(300) and b"")
    script = [call("navigate", f"{hanging.url}/"), call("finish", "it does not load")]
    result, told = run(
        Task(goal="Open it.", start_url="data:text/html,<p>Hello"), tmp_path, *script,
        safety=Safety(allowed=("127.0.0.1",)),
    )  # fmt: skip
    over.set()
    records, _ = trace_of(tmp_path / "episode-0")
    assert result.outcome == "stopped"
    assert [one["error"]["kind"] for one in records if one.get("error")] == ["timeout"]
    assert "The page did not load" in told[-1]


@pytest.mark.slow
def test_a_local_model_plans_under_the_grammar(tmp_path: Path, tokenizer: Any) -> None:
    policy = TransformersPolicy(small_llama(tokenizer, tie_word_embeddings=True), tokenizer)
    agent = GraphAgent(LLMAgent(policy, **GraphAgent.defaults(TransformersPolicy), seed=0, temperature=1.0))
    [result] = play(agent, lambda _: Listing(), tmp_path, steps=4)
    steps = list(Episode(tmp_path / "episode-0").steps())
    planned = [step for step in steps if "planner" in step["decision"]["graph"]["nodes"]]
    assert planned
    assert all(step["completions"][0]["grammar"] for step in planned)
    assert not any("unreadable" in step["actions"][0] for step in steps)
    assert result.length == len(steps)


@pytest.mark.slow
def test_a_model_that_sees_is_shown_the_page_where_it_is_stuck(tmp_path: Path, tokenizer: Any) -> None:
    policy = TransformersPolicy(small_llama(tokenizer, tie_word_embeddings=True), tokenizer)
    seeing = Seeing(policy, *['{"press":"Escape"}'] * 4, '{"press":"Home"}')
    agent = GraphAgent(LLMAgent(seeing, constrained=False, prefill="", guards=False))
    [result] = play(agent, lambda _: Listing(late=True), tmp_path, steps=6)
    episode = Episode(tmp_path / "episode-0")
    asked = [[one["ask"] for one in step["decision"]["graph"]["asked"]] for step in episode.steps()]
    shown = [step["screenshot"] is not None for step in episode.steps()]
    assert shown == ["screenshot" in one for one in asked]
    assert shown.count(True) == 1
    pictured = [bool(step.decision.messages and step.decision.messages[-1].images) for step in result.steps]
    assert pictured == shown
    assert not episode.damage()
    records, _ = trace_of(tmp_path / "episode-0")
    pictures = {one["step"]: one["screenshot"] for one in records if one["node"] == "execute"}
    assert [pictures[number] is not None for number in pictures] == shown[: len(pictures)]
    assert all((episode.folder / one).exists() for one in pictures.values() if one)


def test_a_checkpoint_holds_no_picture_and_no_class_of_others(tmp_path: Path, form: Observation) -> None:
    (tmp_path / "running").mkdir()
    picture = np.full((720, 1280, 3), 77, np.uint8)
    with serving(call("click", 7)) as url:
        agent = graph(url)
        agent.reset("Press Submit", folder=tmp_path)
        agent.act({**form, "screenshot": picture})
        kept = (tmp_path / "running" / "graph.sqlite").stat().st_size
        serde = agent._runs[0].checkpoints.saver.serde
        agent.policy.close()
    assert kept < 100_000
    written = JsonPlusSerializer().dumps_typed(Foreign("x"))
    assert JsonPlusSerializer(allowed_msgpack_modules=True).loads_typed(written) == Foreign("x")
    assert not isinstance(serde.loads_typed(written), Foreign), "a checkpoint that somebody else wrote makes no objects"


@dataclass
class Foreign:
    """No part of the graph's state."""

    text: str
