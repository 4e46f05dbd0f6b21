"""The high-level API without `await`, also for notebooks: the browser runs in its own thread."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.policy import Policy
from selfsurf.agents.roles import TaskExecutor
from selfsurf.agents.webtask.element import WebElement
from selfsurf.agents.webtask.manager import Webtask
from selfsurf.agents.webtask.playing import TaskResult
from selfsurf.agents.webtask.web_agent import MAX_STEPS, WebAgent
from selfsurf.browser_env import Observation, runtime

T = TypeVar("T")


def _done(work: Coroutine[Any, Any, T]) -> T:
    return runtime().run(work)


class SyncWebElement:
    """A synchronous wrapper of `WebElement`."""

    def __init__(self, element: WebElement) -> None:
        self._element = element
        self.id, self.role, self.name = element.id, element.role, element.name

    def __repr__(self) -> str:
        return repr(self._element).replace("WebElement", "SyncWebElement", 1)

    def click(self) -> None:
        """Click the element."""
        _done(self._element.click())

    def hover(self) -> None:
        """Move the pointer over the element."""
        _done(self._element.hover())

    def fill(self, text: str) -> None:
        """Replace the text of a field."""
        _done(self._element.fill(text))

    def type(self, text: str) -> None:
        """Type a text into the element, key by key."""
        _done(self._element.type(text))

    def select(self, option: str) -> None:
        """Select an option of a list."""
        _done(self._element.select(option))

    def upload(self, *files: str) -> None:
        """Upload files from the folders allowed by `Safety(upload_from=...)`."""
        _done(self._element.upload(*files))

    def xpath(self) -> str:
        """Return the element's XPath."""
        return _done(self._element.xpath())


class SyncWebAgent:
    """A synchronous wrapper of `WebAgent`."""

    def __init__(self, agent: WebAgent) -> None:
        self._agent = agent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, task: str, *, max_steps: int = MAX_STEPS, schema: Any = None) -> TaskResult:
        """Carry out a task to its end; arguments and errors as in `WebAgent.execute`."""
        return _done(self._agent.execute(task, max_steps=max_steps, schema=schema))

    def begin(self, task: str, *, max_steps: int = MAX_STEPS, schema: Any = None) -> TaskResult:
        """Begin a task, to be continued by `run_step`."""
        return _done(self._agent.begin(task, max_steps=max_steps, schema=schema))

    def run_step(self) -> TaskResult:
        """Take the next step of the running task."""
        return _done(self._agent.run_step())

    def stop(self) -> None:
        """End the running task, if any."""
        _done(self._agent.stop())

    def navigate(self, url: str) -> None:
        """Open an address."""
        _done(self._agent.navigate(url))

    def select(self, description: str) -> SyncWebElement:
        """Return the element that matches a description, such as "the login button"."""
        return SyncWebElement(_done(self._agent.select(description)))

    def observe(self) -> Observation:
        """Return the observation after the last action."""
        return _done(self._agent.observe())

    def do(self, action: Any) -> Observation:
        """Execute an action of the environment and return the next observation."""
        return _done(self._agent.do(action))

    def wait(self, seconds: float) -> None:
        """Wait some seconds, then observe the page again."""
        _done(self._agent.wait(seconds))

    def screenshot(self, path: str | Path | None = None, *, marked: bool = False) -> NDArray[np.uint8]:
        """Return the screenshot of the last observation, as uint8 RGB of shape (height, width, 3)."""
        return _done(self._agent.screenshot(path, marked=marked))

    def close(self) -> None:
        """End the running task, and close the pages."""
        _done(self._agent.close())


class SyncWebtask:
    """A synchronous wrapper of `Webtask`.

    Example:
        with SyncWebtask() as webtask:
            agent = webtask.create_agent("openai", model="gpt-5-mini")
            agent.navigate("https://example.org")
            agent.select("the login button").click()
    """

    def __init__(self, **options: Any) -> None:
        self._webtask = Webtask(**options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_agent(
        self, llm: str | Policy | TaskExecutor = "transformers", *, episodes: str | Path | None = None, **options: Any
    ) -> SyncWebAgent:
        """Make an agent; arguments and errors as in `Webtask.create_agent`."""
        return SyncWebAgent(_done(self._webtask.create_agent(llm, episodes=episodes, **options)))

    def close(self) -> None:
        """Close all agents."""
        _done(self._webtask.close())
