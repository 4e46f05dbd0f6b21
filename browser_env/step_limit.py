"""How many steps an episode may have, as Gymnasium says it."""

from __future__ import annotations

import inspect

import gymnasium as gym


def step_limit() -> int | None:
    """Return the limit of the `TimeLimit` wrapper through which `reset` was called, if any.

    Gymnasium keeps `max_episode_steps` in that wrapper and doesn't pass it to the environment, nor can a wrapper of
    ours enclose it (Gymnasium rejects additional wrappers for environments with a native vector entry point). The
    wrapper is on the call stack, however, and `info["outcome"]` must tell a timeout from a running episode.
    """
    frame, limits = inspect.currentframe(), []
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, gym.wrappers.TimeLimit):
            limits.append(int(caller._max_episode_steps))
        frame = frame.f_back
    return min(limits, default=None)


def checked_limit(max_episode_steps: int | None, default: int | None) -> int | None:
    """Return a step limit as Gymnasium has it: None for the default, -1 for none.

    Raises:
        ValueError: it is neither, nor a number of steps.
    """
    if max_episode_steps is not None and max_episode_steps != -1 and max_episode_steps < 1:
        raise ValueError(f"max_episode_steps is at least 1, or -1 for no limit, not {max_episode_steps}.")
    return default if max_episode_steps is None else None if max_episode_steps == -1 else max_episode_steps
