"""What is refused when episodes are asked for: else it would look like a failure of the infrastructure."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from selfsurf.agents.play.job import Job
from selfsurf.browser_env.arguments import OptionError, WrongName, check_names
from selfsurf.browser_env.env import make_core
from selfsurf.envs_registry import task_of

_BY_JOBS = {"task", "start_url", "goal", "seeds"}


def check_environment(options: Mapping[str, Any]) -> None:
    """Refuse options that no environment takes (`browser_env.env.make_core`, and `max_episode_steps`).

    Raises:
        WrongName: there is no such option, or jobs say it; a TypeError.
        ValueError: a value can't be.
    """
    names = {*inspect.signature(make_core).parameters, "max_episode_steps"} - _BY_JOBS
    for name in options:
        if name in _BY_JOBS:
            raise WrongName(f"environment has no option {name}; jobs say what is played, Job(task, seed).")
    check_names("environment", options, sorted(names))
    limit = options.get("max_episode_steps")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise OptionError(f"max_episode_steps is a whole number from 1 on, not {limit!r}.")
    make_core(**{name: value for name, value in options.items() if name != "max_episode_steps"})


def check_jobs(jobs: Sequence[Job], known: set[str]) -> None:
    """Refuse jobs that can't be played.

    Args:
        jobs: what is asked for.
        known: tasks that can be made; those found here are added.

    Raises:
        TypeError: what is no `Job` is among them.
        ValueError: a task is not there or can't be made, or a seed can't be.
    """
    if not isinstance(jobs, Sequence):
        raise TypeError(f"request takes a list of Job(task, seed), not {jobs!r}.")
    for job in jobs:
        if not isinstance(job, Job) or not isinstance(job.env_id, str):
            raise TypeError(f'A job is Job(task, seed), such as Job("MiniWoB/click-test-v0", 0), not {job!r}.')
        if not isinstance(job.seed, (int, np.integer)) or isinstance(job.seed, bool) or job.seed < 0:
            raise ValueError(f"{job!r}: a seed is a whole number from 0 on.")
        if job.env_id not in known:
            task_of(job.env_id)
            known.add(job.env_id)
