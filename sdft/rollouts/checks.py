"""Checks of requested episodes. Without them, invalid requests would look like infrastructure failures."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from selfsurf.agents.play.job import Job
from selfsurf.browser_env.arguments import OptionError, WrongName, check_names
from selfsurf.browser_env.environment.env import make_core
from selfsurf.envs_registry import task_of

_BY_JOBS = {"task", "start_url", "goal", "seeds"}


def check_environment(options: Mapping[str, Any]) -> None:
    """Refuse options that no environment has (`browser_env.environment.env.make_core`, and `max_episode_steps`).

    Raises:
        WrongName: an option doesn't exist, or is determined by the jobs; a TypeError.
        ValueError: a value is invalid.
    """
    names = {*inspect.signature(make_core).parameters, "max_episode_steps"} - _BY_JOBS
    for name in options:
        if name in _BY_JOBS:
            raise WrongName(f"environment has no option {name}: each job names its task and seed, Job(task, seed).")
    check_names("environment", options, sorted(names))
    limit = options.get("max_episode_steps")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise OptionError(f"max_episode_steps must be a whole number of at least 1, not {limit!r}.")
    make_core(**{name: value for name, value in options.items() if name != "max_episode_steps"})


def check_jobs(jobs: Sequence[Job], known: set[str]) -> None:
    """Refuse jobs that can't be played.

    Args:
        jobs: requested jobs.
        known: names of tasks that can be made; tasks that pass are added.

    Raises:
        TypeError: an element isn't a `Job`.
        ValueError: a task doesn't exist or can't be made, or a seed is invalid.
    """
    if not isinstance(jobs, Sequence):
        raise TypeError(f"request takes a list of Job(task, seed), not {jobs!r}.")
    for job in jobs:
        if not isinstance(job, Job) or not isinstance(job.env_id, str):
            raise TypeError(f'A job must be a Job(task, seed), such as Job("MiniWoB/click-test-v0", 0), not {job!r}.')
        if not isinstance(job.seed, (int, np.integer)) or isinstance(job.seed, bool) or job.seed < 0:
            raise ValueError(f"{job!r}: the seed must be a whole number of at least 0.")
        if job.env_id not in known:
            task_of(job.env_id)
            known.add(job.env_id)
