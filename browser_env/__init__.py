"""A Gymnasium environment over real Chromium. The only package of this project that touches a browser.

Importing it registers `Browser-v0` and starts nothing.
"""

from __future__ import annotations

import gymnasium as gym

from selfsurf.bare import alias
from selfsurf.browser_env.act.settle import Bounds
from selfsurf.browser_env.actions import Action, parse_action
from selfsurf.browser_env.env import AsyncBrowserEnv, BrowserEnv
from selfsurf.browser_env.errors import ActionError, BrowserNotFound, EnvError
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.safety import Risk, Safety, Secret
from selfsurf.browser_env.session.options import SessionOptions
from selfsurf.browser_env.session.runtime import shutdown
from selfsurf.browser_env.task import EpisodeState, Score, Task
from selfsurf.browser_env.vector import VectorBrowserEnv

__all__ = [
    "Action", "ActionError", "AsyncBrowserEnv", "Bounds", "BrowserEnv", "BrowserNotFound", "Element", "EnvError",
    "EpisodeState", "Observation", "Outcome", "Risk", "Safety", "Score", "Secret", "SessionOptions", "Task",
    "VectorBrowserEnv", "parse_action", "shutdown",
]  # fmt: skip

if "Browser-v0" not in gym.registry:
    gym.register(
        id="Browser-v0",
        entry_point="selfsurf.browser_env.env:BrowserEnv",
        vector_entry_point="selfsurf.browser_env.vector:VectorBrowserEnv",
    )

alias(__name__)
