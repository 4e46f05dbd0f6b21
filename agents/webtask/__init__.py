"""The façade: a browser that is given tasks in words, step by step or as a whole, from scripts and notebooks.

It stands on `AsyncBrowserEnv`, the player and the agent of roles; it never touches a page itself.
"""

from selfsurf.agents.webtask.element import WebElement
from selfsurf.agents.webtask.manager import Webtask
from selfsurf.agents.webtask.playing import TaskResult
from selfsurf.agents.webtask.sync import SyncWebAgent, SyncWebElement, SyncWebtask
from selfsurf.agents.webtask.web_agent import WebAgent

__all__ = [
    "SyncWebAgent", "SyncWebElement", "SyncWebtask", "TaskResult", "WebAgent", "WebElement", "Webtask",
]  # fmt: skip
