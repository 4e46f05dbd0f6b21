"""What actions change, told from what changes by itself: guards and graph on pages that move."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gymnasium
import pytest

from selfsurf import agents
from selfsurf.agents.agent import Decision
from selfsurf.agents.guards.changes import Changes
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policy import Policy
from selfsurf.browser_env import Task
from selfsurf.browser_env.actions import Click, Hover, Scroll, Type, Wait
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.record.episode import Episode
from tests.agents.graphs import call, graph, play, serving, trace_of
from tests.agents.said import Saying

STEPPERS = {
    "time": "let m=540;const show=()=>o.textContent=String(m/60|0).padStart(2,'0')+':'+String(m%60).padStart(2,'0');show();"
    "b.onclick=()=>{m+=15;show()}",
    "minutes left": "let m=15;b.onclick=()=>{m+=15;o.textContent=m+' minutes left'}",
    "hours ago": "let m=15;b.onclick=()=>{m-=1;o.textContent=m+' hours ago'}",
    "score": "let m=10;b.onclick=()=>{m+=1;o.textContent='10:'+m}",
    "own name": "let m=9;b.onclick=()=>{m+=1;b.textContent='Later than '+m+':00'}",
    "title": "let m=0;b.onclick=()=>{document.title='Step '+ ++m}",
    "progress": "o.innerHTML='<progress id=p max=20 value=1 aria-label=Done></progress>';b.onclick=()=>{p.value+=1}",
    "picture": "o.innerHTML='<img id=i alt=\"Picture 0\" width=9 height=9>';let m=0;b.onclick=()=>{i.alt='Picture '+ ++m}",
    "below": "document.body.insertAdjacentHTML('beforeend','<p id=far style=\"margin-top:900px\">0</p>');"
    "b.onclick=()=>{far.textContent++}",
    "a word": "let m=0;b.onclick=()=>{o.textContent=['Paris','Rome','Oslo','Bonn','Bern','Kyiv','Baku','Lima','Suva','Doha'][m++]}",
}  # fmt: skip
"""Pages on which only the button changes something."""

TICKERS = {
    "clock": "setInterval(()=>o.textContent=new Date().toISOString().slice(11),10)",
    "visitors": "let n=1042;setInterval(()=>o.textContent='Visitors: '+(n+=Math.random()>.5?1:-1)+Math.random(),10)",
    "headlines": "let n=0;setInterval(()=>o.textContent=(n+=7919).toString(36)+' today',7)",
    "log": "setInterval(()=>o.insertAdjacentHTML('beforeend','line '),40)",
    "title": "let n=0;setInterval(()=>document.title='('+ ++n+') Mail',7)",
    "feed": "document.body.append(o);let n=0;const add=()=>{o.insertAdjacentHTML('afterbegin','<p><a href=#'+n+'>News '"
    "+n+++'</a></p>');if(o.children.length>5)o.lastChild.remove()};for(let i=0;i<5;i++)add();setInterval(add,150)",
}
"""Pages that change by themselves, beside a button that does nothing."""

LOOKS = {
    "title": "document.title='Step '+m",
    "its own colour": "b.style.background='hsl('+m*50+',90%,50%)'",
    "text colour": "document.body.style.color='hsl('+m*50+',90%,40%)'",
    "picture": "o.innerHTML='<svg width=90 height=60><rect width='+m*9+' height=60 /></svg>'",
    "bar": "o.style.cssText='background:green;height:9px;width:'+m*20+'px'",
    "box": "o.style.cssText='background:red;position:absolute;width:40px;height:40px;top:200px;left:'+m*30+'px'",
    "font size": "document.querySelector('p').style.fontSize=12+m*2+'px'",
}
"""What a click changes that no text of the outline shows, as a script with the number of clicks, `m`."""

TOGGLES = {
    "pressed": "b.onclick=()=>b.setAttribute('aria-pressed',b.getAttribute('aria-pressed')!='true')",
    "paragraph": "o.textContent='Menu';b.onclick=()=>{o.hidden=!o.hidden}",
}


class Plain(Policy):
    """What an agent asks of a policy besides replies."""

    name, guidance, sees_images = "plain", "none", False
    prompt_budget, parameter_count, context_length = 4000, None, None

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def count_prompt_tokens(self, messages: Any, prefill: str = "") -> int:
        return sum(self.count_tokens(message.text) for message in messages)


def page_of(script: str) -> str:
    html = f"<title>Page</title><div id=o></div><button id=b>Later</button><p>Text</p><script>{script}</script>"
    return "data:text/html;charset=utf-8," + quote(html)


def decided(script: str, replies: list[str], *, screenshot: bool = False, **options: Any) -> list[Decision]:
    """Let an agent reply in turn on the page; return its decisions."""
    env = gymnasium.make(
        "Browser-v0", start_url=page_of(script), goal="Set 11:00.", screenshot=screenshot, max_episode_steps=20
    )
    agent = LLMAgent(Saying(Plain(), *replies), constrained=False, vision="none", prompt="compact", **options)
    obs, _ = env.reset(seed=0)
    agent.reset(obs["goal"])
    done = []
    for _ in range(len(replies)):
        done += agent.decide([obs])
        obs, *_ = env.step(done[-1].action)
    env.close()
    return done


def followed(script: str, replies: list[str], *, screenshot: bool = False) -> list[str]:
    """Return the kinds of actions that were done."""
    return [kind_of(decision.action) for decision in decided(script, replies, screenshot=screenshot)]


def kind_of(action: Any) -> str:
    return str(action.name)


CLICK = '{"click":1}'


@pytest.mark.parametrize("kind", STEPPERS)
def test_what_changes_with_a_click_is_its_effect(kind: str) -> None:
    assert followed(STEPPERS[kind], [CLICK] * 8) == ["click"] * 8


def test_a_drawing_is_seen_in_the_screenshot_alone() -> None:
    drawing = "o.innerHTML='<canvas id=c width=90 height=90></canvas>';let m=0;b.onclick=()=>{c.getContext('2d').fillRect(m++*9,0,5,9)}"
    assert followed(drawing, [CLICK] * 6, screenshot=True) == ["click"] * 6
    assert followed(drawing, [CLICK] * 3)[-1] == "press", "nothing that could be seen has changed"


@pytest.mark.parametrize("kind", TICKERS)
def test_what_also_changes_over_a_wait_is_the_pages_own(kind: str) -> None:
    wait = '{"wait":600}'
    assert followed(TICKERS[kind], [wait, wait, *[CLICK] * 3])[2:] == ["click", "click", "press"]


@pytest.mark.parametrize("kind", LOOKS)
def test_guards_know_what_can_only_be_seen(kind: str) -> None:
    script = f"let m=0;b.onclick=()=>{{m++;{LOOKS[kind]}}}"
    done = decided(script, [CLICK] * 5, screenshot=True)
    assert [kind_of(one.action) for one in done] == ["click"] * 5


@pytest.mark.parametrize("kind", TOGGLES)
def test_a_toggle_is_told_as_one(kind: str) -> None:
    done = decided(TOGGLES[kind], [CLICK] * 7)
    assert [kind_of(one.action) for one in done][:5] == ["click"] * 4 + ["press"]
    assert f"{CLICK} has been done 4 times, and the page goes back and forth" in done[4].guard_note
    assert not any("changed nothing" in one.guard_note for one in done)


@pytest.mark.parametrize("seconds", [0.05, 0])
def test_a_page_that_changes_while_the_model_thinks(tmp_path: Path, seconds: float) -> None:
    def click(body: dict[str, Any]) -> dict[str, Any]:
        time.sleep(seconds)
        return {"text": f"Action: {CLICK}"}

    script = TICKERS["clock"] if seconds else STEPPERS["time"]
    with serving(*[click] * 30) as url:
        agent: Any = agents.make("openai", model="m", base_url=url, retries=0)
        play(agent, lambda _: Moving(script), tmp_path, steps=6)
        agent.policy.close()
    done = [step["actions"][0]["action"] for step in Episode(tmp_path / "episode-0").steps()]
    assert ("press" in done) is bool(seconds), done


def test_what_nobody_knows_counts_as_an_effect() -> None:
    assert followed(TICKERS["headlines"], [CLICK] * 5) == ["click"] * 5


class Moving(Task):
    """A page of a script."""

    def __init__(self, script: str) -> None:
        super().__init__(goal="Set it to 17.", start_url=page_of(script))


def nodes_of(folder: Path, script: str, steps: int = 13, seconds: float = 0) -> tuple[list[str], float]:
    """Play twelve equal clicks by the graph, each thought about; return the nodes that ran and the progress."""

    def click(body: dict[str, Any]) -> dict[str, Any]:
        time.sleep(seconds)
        return call("click", 1)

    with serving(*[click] * 30) as url:
        agent = graph(url, budget_steps=40)
        play(agent, lambda _: Moving(script), folder, steps=steps)
        agent.policy.close()
    records, summary = trace_of(folder / "episode-0")
    return [record["node"] for record in records], summary["progress"]


@pytest.mark.parametrize("kind", ["time", "minutes left", "own name", "title"])
def test_the_graph_goes_on_where_clicks_change_something(tmp_path: Path, kind: str) -> None:
    nodes, progress = nodes_of(tmp_path, STEPPERS[kind])
    assert "loop_mitigation" not in nodes
    assert progress > 1


@pytest.mark.parametrize("kind", TICKERS)
def test_the_graph_leaves_a_loop_beside_what_changes_by_itself(tmp_path: Path, kind: str) -> None:
    nodes, progress = nodes_of(tmp_path, TICKERS[kind], seconds=0.2 * (kind == "feed"))
    assert "loop_mitigation" in nodes
    assert progress < 0.5, "12 effects would be 1.2"


@pytest.fixture
def page(observation: Any, element: Any) -> Callable[..., Observation]:
    """Makes the page after an action: `page("text", Click(id=1))`."""

    def make(text: str, action: Any = None, error: str = "", y: float = 0, **more: Any) -> Observation:
        button = element(1, "button", "OK", bbox=(0.0, y, 9.0, 9.0))
        last = "" if action is None else action.to_json()
        return observation("Go.", [button], page_text=text, last_action=last, last_error=error, **more)

    return make


def test_late_content_is_no_ticker(page: Any) -> None:
    changes, click, wait = Changes(), Click(id=1), Wait(ms=1000)
    changes.see(page("Loading"))
    assert changes.see(page("one", wait)), "it has come"
    assert not changes.see(page("one", wait))
    assert changes.see(page("two", click))


def test_what_changes_while_an_action_fails_is_the_pages_own(page: Any) -> None:
    changes, click = Changes(), Click(id=1)
    changes.see(page("3 users and 1 item"))
    changes.see(page("4 users and 1 item", click, "It failed."))
    assert not changes.see(page("5 users and 1 item", click))
    assert changes.see(page("6 users and 2 item", click)), "another word of the same line"
    assert not changes.see(page("7 users and 2 item", click))


def test_a_short_wait_or_look_without_a_change_shows_nothing(page: Any) -> None:
    changes, click = Changes(), Click(id=1)
    changes.see(page("1"))
    changes.look(page("2"))
    changes.look(page("2"))
    changes.see(page("2", Wait(ms=10)))
    assert not changes.see(page("3", click))
    changes.see(page("3", Wait(ms=1000)))
    assert changes.see(page("4", click)), "it has stood still long enough"


def test_what_every_kind_of_action_changes_depends_on_none(page: Any) -> None:
    changes = Changes()
    steps = [Click(id=1), Scroll(dy=9), Hover(id=1), Type(text="a")]
    assert [changes.see(page(str(number), step)) for number, step in enumerate(steps)] == [True, True, True, True]
    changes = Changes()
    changes.see(page("0"))
    assert [changes.see(page(f"{number}", step)) for number, step in enumerate(steps, 1)][:3] == [True] * 3
    assert not changes.see(page("9", Click(id=1)))
    calculator = Changes()
    assert all(calculator.see(page(str(number), Click(id=number))) for number in range(9)), "one kind"


def test_what_grows_by_itself_and_an_answer_beside_it(page: Any) -> None:
    changes, click = Changes(), Click(id=1)
    changes.see(page("a", y=5))
    changes.see(page("a b", Wait(ms=600), y=7))
    assert not changes.see(page("a b c d", click, y=9)), "the button is pushed down by it"
    steady = Changes()
    steady.see(page("10:00 End"))
    steady.look(page("10:01 End"))
    assert steady.see(page("10:02 Error: no name End", click))


def test_the_page_without_its_own_parts_is_the_same_again(page: Any) -> None:
    changes, click = Changes(), Click(id=1)
    changes.see(page("10:00 A"))
    changes.look(page("10:01 A"))
    first = changes.page
    changes.see(page("10:02 B", click))
    other = changes.page
    changes.see(page("10:03 A", click))
    assert changes.page == first != other


def test_a_page_that_its_own_news_push_down_stays_the_same_page(observation: Any, element: Any) -> None:
    def page(links: int, y: float, action: Any = None) -> Observation:
        news = [element(10 + at, "link", f"News {at}", bbox=(0.0, at, 9.0, 1.0)) for at in range(links)]
        last = "" if action is None else action.to_json()
        button = element(1, "button", "OK", bbox=(0.0, y, 9.0, 9.0))
        made: Observation = observation("Go.", [*news, button], page_text="", last_action=last)
        return made

    changes = Changes()
    changes.see(page(2, 5.0))
    changes.see(page(3, 5.0, Wait(ms=600)))
    before = changes.page
    assert not changes.see(page(4, 9.0, Click(id=1)))
    assert changes.page == before
