"""A Gymnasium environment over real Chromium. The only package of this project that touches a browser.

Importing the package registers `Browser-v0` and starts no browser.
"""

from __future__ import annotations

import gymnasium as gym

from selfsurf.bare import alias
from selfsurf.browser_env.act.settle import Bounds
from selfsurf.browser_env.actions import (
    Action,
    Click,
    Drag,
    Fill,
    Finish,
    Hover,
    Infeasible,
    Message,
    Press,
    Scroll,
    Select,
    Type,
    Upload,
    Wait,
    parse_action,
)  # fmt: skip
from selfsurf.browser_env.browser.runtime import runtime, shutdown
from selfsurf.browser_env.environment.env import AsyncBrowserEnv, BrowserEnv
from selfsurf.browser_env.environment.vector import VectorBrowserEnv
from selfsurf.browser_env.errors import ActionError, BrowserNotFound, EnvError
from selfsurf.browser_env.human_input import Answer
from selfsurf.browser_env.limits import Limits
from selfsurf.browser_env.observation import Element, Info, Observation
from selfsurf.browser_env.observe.context import Context, ContextConfig, build_context
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.safety import Risk, Safety, Secret
from selfsurf.browser_env.session.options import SessionOptions
from selfsurf.browser_env.task import EpisodeState, Score, Task

__all__ = [
    "Action", "ActionError", "Answer", "AsyncBrowserEnv", "Bounds", "BrowserEnv", "BrowserNotFound", "Click", "Context",
    "ContextConfig", "Drag", "Element", "EnvError", "EpisodeState", "Fill", "Finish", "Hover", "Infeasible", "Info",
    "Limits", "Message", "Observation", "Outcome", "Press", "Risk", "Safety", "Score", "Scroll", "Secret", "Select",
    "SessionOptions", "Task", "Type", "Upload", "VectorBrowserEnv", "Wait", "build_context", "parse_action", "runtime",
    "shutdown",
]  # fmt: skip

if "Browser-v0" not in gym.registry:
    gym.register(
        id="Browser-v0",
        disable_env_checker=True,  # the checker fails the step after a failed reset
        entry_point="selfsurf.browser_env.environment.env:BrowserEnv",
        vector_entry_point="selfsurf.browser_env.environment.vector:VectorBrowserEnv",
    )

alias(__name__)
