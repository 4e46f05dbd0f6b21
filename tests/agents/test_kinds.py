"""Kinds of actions: each can be offered, said, and carried out on a real page; what a page or a user lacks can't."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from selfsurf import browser_env
from selfsurf.agents.kinds import DEFAULT_KINDS, KINDS, OPEN_KINDS, check_kinds, forms
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play import AgentAdapter, Environments, EpisodeRequest, Job, Player, PlayOptions
from selfsurf.agents.prompt.chat import ACTIONS, Chat
from selfsurf.agents.prompt.compact import INSTRUCTIONS
from selfsurf.agents.prompt.prompt import Turn
from selfsurf.agents.reply.constraint import grammar
from selfsurf.agents.reply.parse import parse
from selfsurf.agents.reply.schema import action_schema
from selfsurf.browser_env.actions import ACTION_TYPES
from selfsurf.browser_env.observation import Element, Observation
from tests.agents.policy_server import schema_grammar
from tests.agents.said import Noting, Saying, saying
from tests.agents.test_schema import allows
from tests.few import few

ORIGIN = "http://site.test"
PAGE = """<!doctype html><title>first</title>
<input aria-label=Name value=x> <select aria-label=Colour><option>Red<option>Blue</select>
<button onclick="this.textContent='pressed'" onmouseover="document.title='pointed'">Press</button>
<a href=second.html>Second</a> <a href=second.html target=_blank>Apart</a>
<label>Card <input type=file onchange="document.title=this.files[0].name"></label>
<div draggable=true ondragstart="event.dataTransfer.setData('text','card')">Piece</div>
<button ondragover="event.preventDefault()" ondrop="this.textContent='got '+event.dataTransfer.getData('text')">Place</button>
<div style="height:3000px"></div>"""


class Site(browser_env.Task):
    """Two pages, and nothing to judge."""

    def __init__(self, folder: Path) -> None:
        super().__init__(start_url=f"{ORIGIN}/index.html", goal="Look around.")
        self.sites = {ORIGIN: folder}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    (made / "index.html").write_text(PAGE, encoding="utf8")
    (made / "second.html").write_text("<!doctype html><title>second</title><a href=index.html>Back</a>", "utf8")
    (made / "files").mkdir()
    for name in ("cv.pdf", "photo.png", ".hidden"):
        (made / "files" / name).write_text("x")
    return made


@pytest.fixture(scope="module")
def env(folder: Path) -> Iterator[Any]:
    made = gymnasium.make(
        "Browser-v0", task=Site(folder), screenshot=False, viewport=(800, 600), user=lambda question: "blue",
        safety=browser_env.Safety(upload_from=(folder / "files",)),
    )  # fmt: skip
    yield made
    made.close()


def number(obs: Observation, name: str) -> int:
    return next(element["id"] for element in obs["elements"] if element["name"] == name)


Before = tuple[dict[str, Any], ...]
SECOND = {"action": "navigate", "url": f"{ORIGIN}/second.html"}
# What is said, with names of elements in it; what is done before; what then is to be seen.
SAID: dict[str, tuple[str, Before, Callable[[Observation], Any]]] = {
    "click": ('{"click":<Press>}', (), lambda obs: number(obs, "pressed")),
    "fill": ('{"fill":<Name>,"text":"Ada"}', (), lambda obs: obs["elements"][0]["value"] == "Ada"),
    "type": ('{"type":<Name>,"text":"yz"}', (), lambda obs: obs["elements"][0]["value"] == "xyz"),
    "select": ('{"select":<Colour>,"option":"Blue"}', (), lambda obs: obs["elements"][1]["value"] == "Blue"),
    "hover": ('{"hover":<Press>}', (), lambda obs: obs["title"] == "pointed"),
    "press": ('{"press":"Tab"}', (), lambda obs: "focused" in obs["elements"][0]["states"]),
    "scroll": ('{"scroll":"down"}', (), lambda obs: not obs["elements"][0]["in_viewport"]),
    "drag": ('{"drag":<Piece>,"to":<Place>}', (), lambda obs: number(obs, "got card")),
    "upload": ('{"upload":<Card>,"file":"cv.pdf"}', (), lambda obs: obs["title"] == "cv.pdf"),
    "navigate": (f'{{"navigate":"{ORIGIN}/second.html"}}', (), lambda obs: obs["title"] == "second"),
    "back": ('{"back":true}', (SECOND,), lambda obs: obs["title"] == "first"),
    "forward": ('{"forward":true}', (SECOND, {"action": "back"}), lambda obs: obs["title"] == "second"),
    "reload": ('{"reload":true}', ({"action": "click", "selector": "text=Press"},), lambda obs: number(obs, "Press")),
    "new_tab": (f'{{"new_tab":"{ORIGIN}/second.html"}}', (), lambda obs: len(obs["tabs"]) == 2),
    "focus_tab": ('{"focus_tab":0}', ({"action": "new_tab"},), lambda obs: obs["tabs"][0]["active"]),
    "close_tab": ('{"close_tab":true}', ({"action": "new_tab"},), lambda obs: len(obs["tabs"]) == 1),
    "wait": ('{"wait":200}', (), lambda obs: obs["last_action"] == '{"action": "wait", "ms": 200.0}'),
    "message": ('{"message":"hello"}', (), lambda obs: obs["messages"][-1]["text"] == "hello"),
    "ask_user": ('{"ask_user":"which?"}', (), lambda obs: obs["messages"][-1]["text"] == "blue"),
    "finish": ('{"finish":"done"}', (), lambda obs: obs["messages"][-1]["text"] == "done"),
    "infeasible": ('{"infeasible":"no"}', (), lambda obs: obs["messages"][-1]["text"] == "no"),
}


def test_every_kind_of_the_environment_can_be_offered() -> None:
    assert set(KINDS) == set(ACTION_TYPES) == set(ACTIONS) == set(INSTRUCTIONS) == set(SAID)


@pytest.mark.parametrize("kind", few(8, KINDS))
def test_a_kind_is_told_can_be_written_and_does_what_it_says(policy: Any, tokenizer: Any, env: Any, kind: str) -> None:
    reply, before, seen = SAID[kind]
    obs, _ = env.reset(seed=0)
    for action in before:
        obs, *_ = env.step(action)
    for element in obs["elements"]:
        reply = reply.replace(f"<{element['name']}>", str(element["id"]))
    page: dict[str, Any] = {"tabs": obs["tabs"], "files": ("cv.pdf", "photo.png")}
    assert allows(tokenizer, grammar(obs["elements"], [kind], **page), reply)
    assert allows(tokenizer, schema_grammar(action_schema(obs["elements"], [kind], **page)), reply)
    for prompt in ("compact", "chat"):
        agent = saying(policy, reply, prompt=prompt, actions=[kind], max_prompt_tokens=None)
        agent.reset("Do it.", files=page["files"])
        action = agent.act(obs)
        told = "\n".join(message.text for message in agent.decisions[0].messages)
        assert f'{{"{kind}":' in told.replace("{{", "{")
    assert not isinstance(action, str), agent.decisions[0].error
    after, *_ = env.step(action)
    assert after["last_error"] == ""
    assert seen(after), after["dom"]


def test_only_open_tabs_and_allowed_files_can_be_written(
    tokenizer: Any, element: Callable[..., Element], form: Observation
) -> None:
    tabs: Any = [{"url": "", "title": "", "active": number == 1} for number in range(3)]
    chooser = element(9, "button", "CV", tag="input", states=("file",))
    text = grammar([*form["elements"], chooser], KINDS, tabs=tabs, files=("a.pdf",))
    said = {'{"focus_tab":0}': True, '{"focus_tab":2}': True, '{"focus_tab":1}': False, '{"focus_tab":3}': False,
            '{"upload":9,"file":"a.pdf"}': True, '{"upload":9,"file":"b.pdf"}': False,
            '{"upload":3,"file":"a.pdf"}': False, '{"drag":3,"to":9}': True, '{"drag":3,"to":4}': False,
            '{"type":3,"text":""}': False, '{"fill":3,"text":""}': True, '{"navigate":""}': False}  # fmt: skip
    schema = schema_grammar(action_schema([*form["elements"], chooser], KINDS, tabs=tabs, files=("a.pdf",)))
    for reply, allowed in said.items():
        assert (allows(tokenizer, text, reply), allows(tokenizer, schema, reply)) == (allowed, allowed), reply
    assert forms(("upload", "focus_tab"), [chooser]) == [{"wait": (200, 1000)}], "nothing to upload, one tab"


def test_kinds_by_the_names_of_their_groups() -> None:
    assert check_kinds(["open", "drag", "click"]) == (*OPEN_KINDS, "drag")
    assert check_kinds(["all"]) == KINDS
    with pytest.raises(ValueError, match=r"Unknown actions \['al'\].*or the groups default, open, all"):
        check_kinds(["al"])


def play(agent: LLMAgent, task: browser_env.Task, steps: int = 1, **options: Any) -> Any:
    """Play an episode."""
    environments = Environments(lambda name: task, 1, max_episode_steps=steps, **options)
    player = Player(AgentAdapter(agent), environments, 1, PlayOptions())
    try:
        return player.play(EpisodeRequest(0, Job("a task", 0)))
    finally:
        player.close()
        environments.close()


class Judged(Site):
    """The same pages, with a verdict."""

    async def score(self, page: Any, episode: Any) -> browser_env.Score:
        return browser_env.Score(done=episode.finished)


def test_an_open_goal_has_more_kinds_and_the_files_that_the_user_allows(policy: Any, folder: Path) -> None:
    """And a judged task those of always, and a choice that was made stays."""
    safety = browser_env.Safety(upload_from=(folder / "files",))

    def prompt(task: browser_env.Task, **options: Any) -> str:
        agent = Noting(Saying(policy, '{"wait":200}'), **options)
        play(agent, task, safety=safety)
        return agent.decisions[0].messages[-1].text

    words = prompt(Site(folder))
    assert "navigate to a URL, go back, " in words
    assert "upload a file for an element by its id (there are cv.pdf; photo.png), " in words
    assert 'button "Card" file {"upload":' in words
    usual = "You can click an element by its id, fill a field by its id with a text, select an option of a list by its"
    assert f"{usual} id, press a key, scroll down or up, finish when the goal is reached. Reply" in prompt(
        Judged(folder)
    )
    assert "You can click an element by its id. Reply" in prompt(Site(folder), actions=["click"])
    assert '{"upload":6,"file":"abc"}' in Chat().system(Turn("", actions=KINDS, files=("a",)))


def test_what_more_kinds_cost(policy: Any, form: Observation, capsys: pytest.CaptureFixture[str]) -> None:
    """In tokens of a prompt, for docs/agents.md."""
    tokens = {}
    for prompt, open_ended, kinds in (
        ("compact", False, None), ("compact", True, None), ("compact", False, ["all"]),
        ("chat", False, None), ("chat", False, ["all"]),
    ):  # fmt: skip
        agent = saying(policy, '{"click":7}', prompt=prompt, actions=kinds, max_prompt_tokens=None)
        agent.constrained = True
        agent._guide = lambda *_: None  # type: ignore[method-assign]
        agent.reset(open_ended=open_ended)
        agent.act(form)
        name = f"{prompt} {'open' if open_ended else kinds or 'default'}"
        tokens[name] = policy.count_prompt_tokens(agent.decisions[0].messages, '{"')
    with capsys.disabled():
        print(tokens)
    assert tokens["compact default"] < tokens["compact open"] < tokens["compact default"] + 60
    assert set(DEFAULT_KINDS) < set(OPEN_KINDS)


@pytest.mark.slow
def test_a_small_model_says_only_what_a_page_allows(policy: Any, env: Any) -> None:
    """Whatever it says under the grammar of all kinds is read, and carried out or refused by the page."""
    obs, _ = env.reset(seed=0)
    agent = Noting(policy, actions=["all"], temperature=3.0, max_new_tokens=16, guards=False, seed=5)
    agent.reset(files=("cv.pdf",))
    for _ in range(2):
        action = agent.act(obs)
        (decision,) = agent.decisions
        if decision.completion.finish_reason != "length":
            assert parse(decision.completion.text, {one["id"] for one in obs["elements"]}).action == action
        obs, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
