"""The Gymnasium ids. Importing it registers them; `gym.make("selfsurf:Browser-v0")` does both in one line."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

import gymnasium as gym

import selfsurf.browser_env as browser_env
from selfsurf.bare import alias
from selfsurf.tasks.miniwob import FLIGHTS, MiniWobTask, names
from selfsurf.tasks.miniwob.task import MORE_STEPS

OPEN = "Browser-v0"
"""The id of the open-ended environment."""


def make_miniwob(name: str, **options: Any) -> browser_env.BrowserEnv:
    """Make the environment of a MiniWoB++ task; `options` as for `browser_env.env.make_core`."""
    return browser_env.BrowserEnv(task=MiniWobTask(name, **_task_options(options)), **options)


def make_miniwob_vector(name: str, num_envs: int = 1, **options: Any) -> browser_env.VectorBrowserEnv:
    """Make the native vector environment of a MiniWoB++ task."""
    return browser_env.VectorBrowserEnv(num_envs, task=MiniWobTask(name, **_task_options(options)), **options)


def task_of(env_id: str, **options: Any) -> browser_env.Task:
    """Make the Task of an id, for use without Gymnasium, e.g. with `AsyncBrowserEnv(task=...)`.

    Args:
        env_id: a registered id, or an open-ended task's (`open_id`).
        options: of the task.

    Raises:
        ValueError: the id is not that of a task.
    """
    if is_open(env_id):
        fields = dict(parse_qsl(env_id.removeprefix(f"{OPEN}?"), keep_blank_values=True))
        if fields.keys() != {"start_url", "goal"}:
            raise ValueError(f"{env_id!r} needs both: {OPEN}?start_url=...&goal=..., written as in a URL.")
        return browser_env.Task(**fields, **options)
    space, _, rest = env_id.partition("/")
    if space == "MiniWoB" and rest.endswith("-v0"):
        return MiniWobTask(rest.removesuffix("-v0"), **options)
    raise ValueError(f"{env_id!r} is not the id of a task; `selfsurf envs` lists them.")


def is_open(env_id: str) -> bool:
    """Is a task open-ended, given only by its start page and goal, without a verdict?"""
    return env_id.startswith(f"{OPEN}?")


def open_id(start_url: str, goal: str) -> str:
    """Return an open-ended task's id, as `task_of` takes it: `Browser-v0?start_url=...&goal=...`."""
    return f"{OPEN}?{urlencode({'start_url': start_url, 'goal': goal})}"


def _task_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the task's own options from `options` and return them."""
    return {key: options.pop(key) for key in ("data_mode", "time_limit") if key in options}


for _name in (*names(), *FLIGHTS):
    if f"MiniWoB/{_name}-v0" not in gym.registry:
        gym.register(
            id=f"MiniWoB/{_name}-v0",
            entry_point="selfsurf.envs_registry:make_miniwob",
            vector_entry_point="selfsurf.envs_registry:make_miniwob_vector",
            kwargs={"name": _name},
            max_episode_steps=MORE_STEPS.get(_name, MiniWobTask.max_steps),
        )

alias(__name__)
