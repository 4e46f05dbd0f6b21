"""A Gymnasium environment over real Chromium. The only package of this project that touches a browser.

Importing it registers `Browser-v0` and starts nothing.
"""

from __future__ import annotations

import gymnasium as gym

from browser_env.actions import Action, parse_action
from browser_env.env import AsyncBrowserEnv, BrowserEnv
from browser_env.errors import ActionError, BrowserNotFound, EnvError
from browser_env.observation import Element, Observation
from browser_env.outcome import Outcome
from browser_env.runtime import shutdown
from browser_env.safety import Risk, Safety, Secret
from browser_env.session_options import SessionOptions
from browser_env.settle import Bounds
from browser_env.task import EpisodeState, Score, Task
from browser_env.vector import VectorBrowserEnv

__all__ = [
    "Action", "ActionError", "AsyncBrowserEnv", "Bounds", "BrowserEnv", "BrowserNotFound", "Element", "EnvError",
    "EpisodeState", "Observation", "Outcome", "Risk", "Safety", "Score", "Secret", "SessionOptions", "Task",
    "VectorBrowserEnv", "parse_action", "shutdown",
]  # fmt: skip

if "Browser-v0" not in gym.registry:
    gym.register(
        id="Browser-v0",
        entry_point="browser_env.env:BrowserEnv",
        vector_entry_point="browser_env.vector:VectorBrowserEnv",
    )
