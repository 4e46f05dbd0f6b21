"""Guards against what real pages do: a search that only Enter sends, a field that is cleared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from selfsurf import browser_env
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.browser_env.actions import Click, Fill, Finish, Press, Type
from selfsurf.browser_env.observation import Observation
from tests.agents.said import saying

ORIGIN = "http://site.test"
FINISH = '{"finish":""}'


class Site(browser_env.Task):
    """Pages from a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(goal="Search for lamps.", start_url=f"{ORIGIN}/index.html")
        self.sites = {ORIGIN: folder}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    (made / "found.html").write_text("<!doctype html><title>found</title><p>3 lamps</p>", "utf8")
    return made


@pytest.fixture(scope="module")
def env(folder: Path) -> Iterator[Any]:
    made = gymnasium.make("Browser-v0", task=Site(folder), screenshot=False, viewport=(800, 600))
    yield made
    made.close()


@pytest.fixture
def opened(env: Any, folder: Path) -> Callable[[str], Observation]:
    def open_it(html: str) -> Observation:
        (folder / "index.html").write_text(f"<!doctype html><title>start</title>{html}", "utf8")
        return env.reset(seed=0)[0]

    return open_it


def play(env: Any, agent: LLMAgent, obs: Observation, steps: int) -> Observation:
    for _ in range(steps):
        obs, *_ = env.step(agent.act(obs))
    return obs


@pytest.mark.parametrize(
    "field",
    [
        "<input type=search name=q placeholder=Products>",
        '<input name=q placeholder="Search the shop"><button type=button>Menu</button>',
        '<input name=q aria-label="Find"></form><form><input aria-label=Mail><button>Submit</button>',
    ],
    ids=["a search field", "another button", "another form's button"],
)
def test_a_search_without_a_button_is_sent_by_enter(policy: Any, env: Any, opened: Any, field: str) -> None:
    obs = opened(f"<form action=found.html>{field}</form>")
    agent = saying(policy, '{"fill":1,"text":"lamp"}', FINISH)
    agent.reset()
    obs = play(env, agent, obs, 2)
    assert (obs["title"], obs["last_error"]) == ("found", "")
    (decision,) = agent.decisions
    assert decision.action == Press(key="Enter", id=1)
    assert decision.guard_note.startswith("What was typed is not submitted yet: pressed Enter in ")
    assert decision.guard_counts == {"submit.overridden": 1}
    assert agent.act(obs) == Finish(), "once"
    assert "pressed Enter" in agent.decisions[0].messages[-1].text


@pytest.mark.parametrize(
    ("page", "done"),
    [
        ("<form action=found.html><input type=search><button>Search</button></form>", Click(id=2)),
        ("<input aria-label=Name>", Finish()),
    ],
    ids=["its button", "no search"],
)
def test_other_fields_are_as_they_were(policy: Any, env: Any, opened: Any, page: str, done: Any) -> None:
    obs = opened(page)
    agent = saying(policy, '{"type":1,"text":"lamp"}', FINISH)
    agent.reset()
    obs = play(env, agent, obs, 1)
    assert agent.act(obs) == done


def test_a_search_that_was_sent_or_is_not_wanted_is_left(policy: Any, env: Any, opened: Any) -> None:
    obs = opened("<input type=search>")
    agent = saying(policy, '{"fill":1,"text":"lamp"}', '{"press":"Enter"}', FINISH)
    agent.reset()
    obs = play(env, agent, obs, 2)
    assert agent.act(obs) == Finish()
    agent = saying(policy, '{"fill":1,"text":"lamp"}', FINISH)
    agent.reset("Enter lamp, but do not search.")
    obs = play(env, agent, obs, 1)
    assert agent.act(obs) == Finish()


def test_an_empty_text_is_not_typed_but_clears_a_field(env: Any, opened: Any) -> None:
    opened("<input aria-label=Name value=Ada>")
    for action in (Type(id=1, text=""), Type(text="")):
        obs, *_ = env.step(action)
        assert obs["last_error"] == "There is no text to type; fill with an empty text clears a field."
        assert obs["elements"][0]["value"] == "Ada"
    obs, *_ = env.step(Fill(id=1, text=""))
    assert (obs["last_error"], obs["elements"][0]["value"]) == ("", "")


def test_an_empty_text_is_taken_from_the_goal_before_it_is_refused(policy: Any, env: Any, opened: Any) -> None:
    obs = opened("<input aria-label=Name>")
    agent = saying(policy, '{"type":1,"text":""}')
    agent.reset('Enter "Ada".')
    assert play(env, agent, obs, 1)["elements"][0]["value"] == "Ada"
