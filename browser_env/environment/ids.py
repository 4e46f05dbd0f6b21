"""Environment cores by Gymnasium id, for environments that `gymnasium.make` doesn't create."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym

from selfsurf.browser_env.environment.core import EnvCore

_ID = re.compile(r"([A-Za-z_][\w.]*:)?([A-Za-z_][\w.-]*/)?[\w.-]+-v\d+")


def is_id(text: object) -> bool:
    """Whether a text has the form of an environment id, such as `MiniWoB/click-test-v0` or `module:Shop/Order-v0`."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def core_of(env_id: str, **options: Any) -> EnvCore:
    """Create the core of the environment that is registered under an id, with its step limit.

    Args:
        env_id: the id, as `gymnasium.make` takes it.
        options: as for `gymnasium.make`.

    Raises:
        gymnasium.error.Error: there is no such id.
        ValueError: the id belongs to an environment without a browser.
    """
    env = gym.make(env_id, disable_env_checker=True, **options)
    core = getattr(env.unwrapped, "core", None)
    if not isinstance(core, EnvCore):
        raise ValueError(f"{env_id} is not a browser environment.")
    core.max_steps = (env.spec.max_episode_steps if env.spec else None) or core.task.max_steps
    return core
