"""Registration of the Gymnasium IDs on import. `gym.make("selfsurf:Browser-v0")` imports this package by itself."""

from __future__ import annotations

from inspect import signature
from typing import Any

import gymnasium as gym

import selfsurf.browser_env as browser_env
from selfsurf.bare import alias
from selfsurf.browser_env.arguments import check_names
from selfsurf.browser_env.environment.env import make_core
from selfsurf.envs_registry.loading import OPEN, arguments_for, is_open, name_of, open_id, short_name, task_of
from selfsurf.envs_registry.suites import Suite, SuiteError, SuiteTask, load_suite, task_names
from selfsurf.tasks.miniwob import FLIGHTS, MiniWobTask, names
from selfsurf.tasks.miniwob.task import MORE_STEPS
from selfsurf.tasks.misled import Misled
from selfsurf.tasks.misled import names as misleading
from selfsurf.tasks.scenarios import Scenario, scenario
from selfsurf.tasks.scenarios import names as scenarios

__all__ = [
    "OPEN", "Suite", "SuiteError", "SuiteTask", "is_open", "load_suite", "name_of", "open_id", "register", "task_names",
    "task_of",
]  # fmt: skip


def make_miniwob(name: str, **options: Any) -> browser_env.BrowserEnv:
    """Create the environment of a MiniWoB++ task, with `options` as for `browser_env.environment.env.make_core`."""
    return browser_env.BrowserEnv(**_options(MiniWobTask(name, **_task_options(options)), options))


def make_scenario(name: str, **options: Any) -> browser_env.BrowserEnv:
    """Create the environment of a scenario, with `options` as for `browser_env.environment.env.make_core`."""
    return browser_env.BrowserEnv(**_options(scenario(name, **_changes(options)), options))


def make_scenario_vector(name: str, num_envs: int = 1, **options: Any) -> browser_env.VectorBrowserEnv:
    """Create the native vector environment of a scenario."""
    return browser_env.VectorBrowserEnv(num_envs, **_options(scenario(name, **_changes(options)), options))


def make_misled(name: str, **options: Any) -> browser_env.BrowserEnv:
    """Create the environment of a misleading page, with `options` as for `browser_env.environment.env.make_core`."""
    return browser_env.BrowserEnv(**_options(Misled(name), options))


def make_misled_vector(name: str, num_envs: int = 1, **options: Any) -> browser_env.VectorBrowserEnv:
    """Create the native vector environment of a misleading page."""
    return browser_env.VectorBrowserEnv(num_envs, **_options(Misled(name), options))


def make_miniwob_vector(name: str, num_envs: int = 1, **options: Any) -> browser_env.VectorBrowserEnv:
    """Create the native vector environment of a MiniWoB++ task."""
    return browser_env.VectorBrowserEnv(num_envs, **_options(MiniWobTask(name, **_task_options(options)), options))


def make_registered(task_name: str, **options: Any) -> browser_env.BrowserEnv:
    """Create the environment of a task registered by `register`, with options of the task and the environment."""
    return browser_env.BrowserEnv(**_registered(task_name, options, "render_mode", "seeds"))


def make_registered_vector(task_name: str, num_envs: int = 1, **options: Any) -> browser_env.VectorBrowserEnv:
    """Create the native vector environment of a task registered by `register`."""
    vector = ("render_mode", "seeds", "max_episode_steps", "autoreset_mode")
    return browser_env.VectorBrowserEnv(num_envs, **_registered(task_name, options, *vector))


for _make in (make_miniwob, make_scenario, make_misled, make_registered):
    vars(_make)["metadata"] = browser_env.BrowserEnv.metadata  # Gymnasium looks the metadata up on the function


def _registered(name: str, options: dict[str, Any], *more: str) -> dict[str, Any]:
    """Return an environment's options, including the named task, which is created with its own options.

    Raises:
        WrongName: an option belongs neither to the task nor to the environment (`make_core` and `more`).
    """
    own = arguments_for(name)
    check_names(short_name(name), options, dict.fromkeys([*own, *more, *signature(make_core).parameters]))
    return _options(task_of(name, **{key: options.pop(key) for key in own if key in options}), options)


def _task_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of a MiniWoB++ task from `options` and return them."""
    return {key: options.pop(key) for key in ("data_mode", "time_limit", "ends") if key in options}


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of a scenario from `options` and return them."""
    return {key: options.pop(key) for key in ("change", "version", "ends") if key in options}


def _options(task: browser_env.Task, options: dict[str, Any]) -> dict[str, Any]:
    """Add the ID's task to the environment's options, which must not contain another task."""
    if "task" in options:
        raise ValueError(f"The id already stands for {task.id}: leave out task=, or use it with {OPEN}.")
    return {"task": task, **options}


browser_env.task.name_tasks_by(task_of)


def register(id: str, task: str | type[browser_env.Task], **options: Any) -> None:
    """Register a Gymnasium ID for a task of your own.

    `gymnasium.make` and (natively) `make_vec` accept the ID, with options of the task and of the environment. Commands
    accept it as `module:Shop/Order-v0` with the module that registers it.

    Args:
        id: ID with a namespace and a version, such as `Shop/Order-v0`.
        task: class of the task, or its name as `file.py:Class` or `module:Class`.
        options: options of the task, for every environment with this ID.

    Raises:
        ValueError: the ID is invalid or belongs to another task, or the task can't be created.
    """
    name = name_of(task, **options)
    limit = (task(**options) if isinstance(task, type) else task_of(name)).max_steps
    if (known := gym.registry.get(id)) is not None:
        if known.kwargs.get("task_name") == name:
            return
        raise ValueError(f"{id} is already registered for {known.kwargs.get('task_name') or known.entry_point}.")
    try:
        space, _, version = gym.envs.registration.parse_env_id(id)
    except gym.error.Error as error:
        raise ValueError(f"{id!r} is not a valid id: {error}") from error
    if space is None or version is None:
        raise ValueError(f"{id!r} needs a namespace and a version, such as Shop/Order-v0.")
    gym.register(
        id=id,
        entry_point="selfsurf.envs_registry:make_registered",
        vector_entry_point="selfsurf.envs_registry:make_registered_vector",
        kwargs={"task_name": name},
        disable_env_checker=True,  # as for Browser-v0
        max_episode_steps=limit,
    )


def _register(space: str, name: str, maker: str, max_steps: int | None) -> None:
    if (id := f"{space}/{name}-v0") not in gym.registry:
        gym.register(
            id=id,
            entry_point=f"selfsurf.envs_registry:{maker}",
            vector_entry_point=f"selfsurf.envs_registry:{maker}_vector",
            kwargs={"name": name},
            disable_env_checker=True,  # as for Browser-v0
            max_episode_steps=max_steps,
        )


for _name in (*names(), *FLIGHTS):
    _register("MiniWoB", _name, "make_miniwob", MORE_STEPS.get(_name, MiniWobTask.max_steps))
for _name in scenarios():
    _register("Scenario", _name, "make_scenario", Scenario.max_steps)
for _name in misleading():
    _register("Misled", _name, "make_misled", Misled.max_steps)

alias(__name__)
