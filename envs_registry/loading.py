"""Loads a Task by name: a registered id, or a class in a module or a file."""

from __future__ import annotations

import inspect
from typing import Any

from selfsurf.browser_env import Task
from selfsurf.browser_env.classes import load_class


def load_task(name: str, folder: str = "", **options: Any) -> Task:
    """Make the Task of `MiniWoB/click-test-v0`, of `module:Class` or of `file.py:Class`.

    Args:
        name: which task.
        folder: base of a relative file; the current folder by default.
        options: passed to the task.

    Raises:
        ValueError: there is no such task, or it doesn't take these options.
    """
    if ":" not in name:
        from selfsurf.envs_registry import task_of

        return task_of(name, **options)
    kind = load_class(name, folder)
    try:
        inspect.signature(kind).bind(**options)
    except TypeError as error:
        raise ValueError(f"{name} does not take these options: {error}.") from None
    task = kind(**options)
    if not isinstance(task, Task):
        raise ValueError(f"{name} is not a browser_env.Task.")
    return task
