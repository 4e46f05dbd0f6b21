"""How rollouts grow with the number of browsers: a calculation from figures of one worker of each kind.

With N browser workers of C contexts each and P policy workers, and with figures of a step (one action):

- a context makes a step in `env_seconds + policy_seconds`, so contexts alone allow `N * C / that` steps a second;
- the processors of browser workers allow `N * cpus / cpu_seconds`;
- policy workers allow `P * policy_rows`;
- the process that hands out and takes in allows `1 / driver_seconds` episodes a second.

The least of the four is the throughput, and what it belongs to is saturated. No queueing is modelled: near
saturation, real figures are lower. Traffic and memory follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class WorkerFigures:
    """What one worker does and takes. Every one can be measured by `selfsurf bench rollouts`."""

    steps: float
    """Actions of an episode."""
    env_seconds: float
    """Wall-clock of one step in the browser, resets shared out."""
    cpu_seconds: float
    """Processor time of one step: browser, driver and Python of the browser worker."""
    policy_seconds: float
    """Wall-clock from asking for an action to having it."""
    policy_rows: float
    """Actions that one policy worker samples in a second, with full batches."""
    driver_seconds: float
    """Of the process that hands out and takes in, for one episode."""
    worker_mb: float
    """Memory of a browser worker with its browser, contexts not counted."""
    context_mb: float
    """Memory of one context."""
    policy_mb: float
    """Memory of a policy worker."""
    call_bytes: float
    """That travel to a policy worker and back for one action."""
    result_bytes: float
    """That travel back for one episode."""
    weight_bytes: float
    """Of one version of the adapter."""


@dataclass(frozen=True)
class Point:
    """What is to be expected of so many browser workers."""

    browsers: int
    policies: int
    """Policy workers: as many as are needed, or as many as there are."""
    contexts: int
    steps_per_second: float
    episodes_per_minute: float
    saturated: str
    """What allows no more."""
    cpus: float
    """Processors that browser workers keep busy."""
    memory_gb: float
    """Of browser and policy workers."""
    call_mb_per_second: float
    """Between browser and policy workers."""
    result_mb_per_second: float
    """Into the process that hands out and takes in, through the object store."""
    weight_mb_per_second: float
    """Out of that process's object store, to the nodes of policy workers."""


def expected(
    figures: WorkerFigures, browsers: int, *, contexts: int, cpus: float, policies: int | None, version_seconds: float
) -> Point:
    """Calculate one point.

    Args:
        figures: of one worker.
        browsers: browser workers.
        contexts: in each of them.
        cpus: processors of each of them.
        policies: policy workers, each taken to be on a node of its own; None takes as many as saturate nothing.
        version_seconds: between two versions of the weights.
    """
    by_contexts = browsers * contexts / (figures.env_seconds + figures.policy_seconds)
    by_cpus = browsers * cpus / figures.cpu_seconds
    by_driver = figures.steps / figures.driver_seconds
    others = min(by_contexts, by_cpus, by_driver)
    count = math.ceil(others / figures.policy_rows) if policies is None else policies
    limits = {
        "contexts": by_contexts,
        "processors of browser workers": by_cpus,
        "the process that takes results in": by_driver,
        "policy workers": count * figures.policy_rows,
    }
    saturated = min(limits, key=lambda name: limits[name])
    steps = limits[saturated]
    episodes = steps / figures.steps
    memory = browsers * (figures.worker_mb + contexts * figures.context_mb) + count * figures.policy_mb
    return Point(
        browsers=browsers,
        policies=count,
        contexts=browsers * contexts,
        steps_per_second=steps,
        episodes_per_minute=60 * episodes,
        saturated=saturated,
        cpus=steps * figures.cpu_seconds,
        memory_gb=memory / 1024,
        call_mb_per_second=steps * figures.call_bytes / 1e6,
        result_mb_per_second=episodes * figures.result_bytes / 1e6,
        weight_mb_per_second=count * figures.weight_bytes / version_seconds / 1e6,
    )


def growth(figures: WorkerFigures, most: int, **options: Any) -> list[Point]:
    """Points at 1, 2, 4, ... browser workers up to `most`, options as of `expected`."""
    counts = sorted({min(2**power, most) for power in range(math.ceil(math.log2(most)) + 1)})
    return [expected(figures, count, **options) for count in counts]


def as_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    """The points as JSON values, figures rounded to what they are worth."""
    return [
        {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in asdict(point).items()}
        for point in points
    ]
