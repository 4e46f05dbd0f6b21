"""Gymnasium's step limit and wrappers, which an environment can only find on the call stack."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, TypeVar

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

T = TypeVar("T")


def step_limit(default: int | None, spec: EnvSpec | None) -> int | None:
    """Return the step limit of the environment whose `reset` was called.

    The limit is that of the `TimeLimit` wrapper on the call stack. Gymnasium keeps `max_episode_steps` in that wrapper
    and doesn't pass it to the environment, nor can a wrapper of ours enclose it (Gymnasium rejects additional wrappers
    for environments with a native vector entry point). `info["outcome"]` needs the limit to distinguish a timeout from
    a running episode.

    Args:
        default: the task's limit, used if there is no such wrapper.
        spec: spec of the environment. If its id is registered with a limit and `gymnasium.make` added no such wrapper,
            it was made with `max_episode_steps=-1`. (If only the task has a limit, this can't be detected.)
    """
    limits = [int(one._max_episode_steps) for one in _callers(gym.wrappers.TimeLimit)]
    registered = gym.registry.get(spec.id) if spec is not None else None
    limited = registered is not None and registered.max_episode_steps is not None
    made = bool(_callers(gym.wrappers.OrderEnforcing))
    return min(limits, default=None if limited and made else default)


def discount_step() -> None:
    """Keep the `TimeLimit` wrapper on the call stack from counting the current step, which is not complete yet."""
    for limit in _callers(gym.wrappers.TimeLimit):
        counted: Any = limit  # Gymnasium declares the attribute as None, its value before a reset
        counted._elapsed_steps -= 1


def warn_of_turns() -> None:
    """Warn if Gymnasium is creating environments that it will step one after the other."""
    if _callers(gym.vector.SyncVectorEnv):
        warnings.warn(
            "These environments are stepped one after the other. To step them together, pass an id from "
            "selfsurf.register(id, Task) to gymnasium.make_vec.",
            stacklevel=2,
        )


def _callers(kind: type[T]) -> list[T]:
    """Return the instances of a class whose methods are on the call stack."""
    frame, found = inspect.currentframe(), dict[T, None]()
    while frame is not None:
        if isinstance(caller := frame.f_locals.get("self"), kind):
            found[caller] = None
        frame = frame.f_back
    return [*found]


def checked_limit(max_episode_steps: int | None, default: int | None) -> int | None:
    """Return a step limit given in Gymnasium's form: None for the default, -1 for no limit.

    Raises:
        ValueError: the limit is less than 1 and not -1.
    """
    if max_episode_steps is not None and max_episode_steps != -1 and max_episode_steps < 1:
        raise ValueError(f"max_episode_steps must be at least 1, or -1 for no limit, not {max_episode_steps}.")
    return default if max_episode_steps is None else None if max_episode_steps == -1 else max_episode_steps
