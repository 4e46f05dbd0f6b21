"""Recording with real, trusted input: mouse and keyboard of the protocol, which take the way of a person's."""

import asyncio
import json

import pytest

import browser_env
from browser_env.episode import Episode
from browser_env.record import Recorder
from browser_env.runtime import runtime
from tests.browser_env.conftest import ORIGIN, Site


class Person:
    """Uses a page that is recorded. `do` awaits what a function makes of the page; `done` returns what was recorded."""

    def __init__(self, recorder):
        self.recorder = recorder

    @property
    def page(self):
        return self.recorder.core.session.active.page

    def do(self, act, pause=0.4):
        async def work():
            await act(self.page)
            await asyncio.sleep(pause)

        runtime().run(work())

    def click(self, selector, pause=0.4, **options):
        """With the mouse at the middle of an element, without Playwright's checks, which would wait."""

        async def work(page):
            box = await page.locator(selector).bounding_box()
            await page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, **options)

        self.do(work, pause)

    def type(self, text, pause=0.4):
        self.do(lambda page: page.keyboard.type(text), pause)

    def press(self, key, pause=0.4):
        self.do(lambda page: page.keyboard.press(key), pause)

    def done(self, outcome=None, answer=""):
        self.summary = self.recorder.finish(outcome, answer)
        self.episode = Episode(self.recorder.folder)
        self.steps = list(self.episode.steps())
        return [told(step) for step in self.steps]


def told(step):
    """Return a recorded action with names in the place of ids, which have to be those of the step's own observation."""
    action = json.loads(step["action"])
    names = {element["id"]: element["name"] for element in step["observation"]["elements"]}
    return {key: names[value] if key in ("id", "from", "to") and isinstance(value, int) else value for key, value in action.items()}


@pytest.fixture
def recorded(tmp_path):
    """Return a function that opens HTML, recorded, in an environment: `person = recorded("<p>...", other="...")`."""
    made = []

    def open_it(html, *, options=None, **pages):
        (tmp_path / "site").mkdir(exist_ok=True)
        for name, text in {"index": html, **pages}.items():
            (tmp_path / "site" / f"{name}.html").write_text(f"<!doctype html><title>{name}</title>{text}", encoding="utf8")
        env = browser_env.AsyncBrowserEnv(
            task=Site(tmp_path / "site"), **{"viewport": (800, 600), "screenshot": False, **(options or {})}
        )
        person = Person(Recorder(env, tmp_path / f"episode{len(made)}"))
        person.recorder.start(0)
        made.append(env)
        return person

    yield open_it
    for env in made:
        runtime().run(env.core.close())


def test_clicks_with_button_count_and_modifiers(recorded):
    person = recorded("<button><b>Go</b></button> <button ondblclick='x.append(1)'>Twice</button><div id=x></div>")
    person.click("b")
    person.click("text=Twice", click_count=2, delay=20)
    person.click("text=Go", button="right")
    person.do(lambda page: page.keyboard.down("Control"), 0)
    person.click("text=Go")
    person.do(lambda page: page.keyboard.up("Control"), 0)
    assert person.done() == [
        {"action": "click", "id": "Go"},
        {"action": "click", "id": "Twice", "count": 2},
        {"action": "click", "id": "Go", "button": "right"},
        {"action": "click", "id": "Go", "modifiers": ["Control"]},
    ]


def test_typing_is_one_fill_until_the_field_is_left(recorded):
    person = recorded("<label>Name <input></label><label>Text <textarea></textarea></label><form action=/other.html><input name=q aria-label=Query></form>", other="<p>found</p>")
    person.click("input >> nth=0", 0)
    person.type("Adam", 0.1)
    person.press("Backspace", 0)
    person.press("Tab")
    person.type("one", 0)
    person.press("Enter", 0)
    person.type("two")
    person.click("[name=q]", 0)
    person.type("cats", 0)
    person.press("Enter", 1)
    assert person.done() == [
        {"action": "fill", "id": "Name", "text": "Ada"},
        {"action": "fill", "id": "Text", "text": "one\ntwo"},
        {"action": "fill", "id": "Query", "text": "cats"},
        {"action": "press", "id": "Query", "key": "Enter"},
    ]
    first, _, third, last = person.steps
    assert [e["value"] for e in first["observation"]["elements"]] == ["", "", ""]
    assert [e["value"] for e in third["observation"]["elements"]] == ["Ada", "one\ntwo", ""]
    assert [e["value"] for e in last["observation"]["elements"]] == ["Ada", "one\ntwo", "cats"]
    assert person.episode.meta["final"]["url"] == f"{ORIGIN}/other.html?q=cats"
