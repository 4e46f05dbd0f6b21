"""The façade without `await`. Works in notebooks, too: the browser has a thread of its own."""

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
    """As `WebElement`."""

    def __init__(self, element: WebElement) -> None:
        self._element = element
        self.id, self.role, self.name = element.id, element.role, element.name

    def __repr__(self) -> str:
        return repr(self._element).replace("WebElement", "SyncWebElement", 1)

    def click(self) -> None:
        """As `WebElement.click`."""
        _done(self._element.click())

    def hover(self) -> None:
        """As `WebElement.hover`."""
        _done(self._element.hover())

    def fill(self, text: str) -> None:
        """As `WebElement.fill`."""
        _done(self._element.fill(text))

    def type(self, text: str) -> None:
        """As `WebElement.type`."""
        _done(self._element.type(text))

    def select(self, option: str) -> None:
        """As `WebElement.select`."""
        _done(self._element.select(option))

    def upload(self, *files: str) -> None:
        """As `WebElement.upload`."""
        _done(self._element.upload(*files))

    def xpath(self) -> str:
        """As `WebElement.xpath`."""
        return _done(self._element.xpath())


class SyncWebAgent:
    """As `WebAgent`."""

    def __init__(self, agent: WebAgent) -> None:
        self._agent = agent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, task: str, *, max_steps: int = MAX_STEPS, schema: Any = None) -> TaskResult:
        """As `WebAgent.execute`."""
        return _done(self._agent.execute(task, max_steps=max_steps, schema=schema))

    def begin(self, task: str, *, max_steps: int = MAX_STEPS, schema: Any = None) -> TaskResult:
        """As `WebAgent.begin`."""
        return _done(self._agent.begin(task, max_steps=max_steps, schema=schema))

    def run_step(self) -> TaskResult:
        """As `WebAgent.run_step`."""
        return _done(self._agent.run_step())

    def stop(self) -> None:
        """As `WebAgent.stop`."""
        _done(self._agent.stop())

    def navigate(self, url: str) -> None:
        """As `WebAgent.navigate`."""
        _done(self._agent.navigate(url))

    def select(self, description: str) -> SyncWebElement:
        """As `WebAgent.select`."""
        return SyncWebElement(_done(self._agent.select(description)))

    def observe(self) -> Observation:
        """As `WebAgent.observe`."""
        return _done(self._agent.observe())

    def do(self, action: Any) -> Observation:
        """As `WebAgent.do`."""
        return _done(self._agent.do(action))

    def wait(self, seconds: float) -> None:
        """As `WebAgent.wait`."""
        _done(self._agent.wait(seconds))

    def screenshot(self, path: str | Path | None = None, *, marked: bool = False) -> NDArray[np.uint8]:
        """As `WebAgent.screenshot`."""
        return _done(self._agent.screenshot(path, marked=marked))

    def close(self) -> None:
        """As `WebAgent.close`."""
        _done(self._agent.close())


class SyncWebtask:
    """As `Webtask`.

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
        """As `Webtask.create_agent`."""
        return SyncWebAgent(_done(self._webtask.create_agent(llm, episodes=episodes, **options)))

    def close(self) -> None:
        """As `Webtask.close`."""
        _done(self._webtask.close())
