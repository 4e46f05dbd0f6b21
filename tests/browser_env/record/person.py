"""A person at a page that is recorded: mouse and keyboard of the protocol, which take the way of a person's."""

import asyncio

from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.record.episode import Episode
from tests.browser_env.conftest import ORIGIN


class Person:
    """Uses a page that is recorded. `do` awaits what a function makes of the page; `done` returns what was recorded."""

    def __init__(self, recorder):
        self.recorder = recorder

    @property
    def page(self):
        return self.recorder.core.session.active.page

    def do(self, act, pause=0.05):
        async def work():
            await act(self.page)
            await asyncio.sleep(pause)

        runtime().run(work())

    def click(self, selector, pause=0.05, **options):
        """With the mouse at the middle of an element, without Playwright's checks, which would wait."""

        async def work(page):
            box = await page.locator(selector).bounding_box()
            await page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, **options)

        self.do(work, pause)

    def type(self, text, pause=0.05):
        self.do(lambda page: page.keyboard.type(text), pause)

    def press(self, key, pause=0.05):
        self.do(lambda page: page.keyboard.press(key), pause)

    def until(self, condition, act=None):
        """Wait, and do something again and again, until a condition holds."""

        async def work():
            async with asyncio.timeout(20):
                while not condition():
                    if act is not None:
                        await act(self.page)
                    await asyncio.sleep(0.02)

        runtime().run(work())

    def at(self, path):
        """Wait until the recorder has looked at a page."""
        self.until(lambda: self.recorder._latest["url"] == f"{ORIGIN}{path}")

    def ready(self):
        """Wait until the recorder's script is in the page: earlier input that leaves the page is only an event."""
        self.until(lambda: not self.recorder._preparing)

    def done(self, outcome=None, answer=""):
        self.summary = self.recorder.finish(outcome, answer)
        self.episode = Episode(self.recorder.folder)
        self.steps = list(self.episode.steps())
        return [told(step) for step in self.steps]


def told(step):
    """Return a recorded action with names in the place of ids, which have to be those of the step's own observation."""
    action = dict(step["actions"][0])
    names = {element["id"]: element["name"] for element in step["observation"]["elements"]}
    return {
        key: names[value] if key in ("id", "from", "to") and isinstance(value, int) else value
        for key, value in action.items()
    }
