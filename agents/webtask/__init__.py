"""High-level API: a browser that carries out tasks in natural language, step by step or as a whole.

For scripts and notebooks; built on `AsyncBrowserEnv`, the player and the agent of roles.
"""

from selfsurf.agents.webtask.element import WebElement
from selfsurf.agents.webtask.manager import Webtask
from selfsurf.agents.webtask.playing import TaskResult
from selfsurf.agents.webtask.sync import SyncWebAgent, SyncWebElement, SyncWebtask
from selfsurf.agents.webtask.web_agent import WebAgent

__all__ = [
    "SyncWebAgent", "SyncWebElement", "SyncWebtask", "TaskResult", "WebAgent", "WebElement", "Webtask",
]  # fmt: skip
