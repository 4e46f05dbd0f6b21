"""Scaling of rollouts with the number of browsers, calculated from figures of one worker of each kind.

With N browser workers of C contexts each and P policy workers, and with figures of a step (one action):

- a context makes a step in `env_seconds + policy_seconds`, so contexts allow `N * C / (env_seconds + policy_seconds)`
  steps per second;
- the CPUs of browser workers allow `N * cpus / cpu_seconds`;
- policy workers allow `P * policy_rows`;
- the process that distributes episodes and receives results allows `1 / driver_seconds` episodes per second.

The lowest of the four limits is the throughput, and its resource is saturated. Queueing is not modelled: near
saturation, real figures are lower. Traffic and memory follow from the throughput.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class WorkerFigures:
    """Performance and resource use of one worker. `selfsurf bench rollouts` measures all figures."""

    steps: float
    """Number of actions in an episode."""
    env_seconds: float
    """Wall-clock seconds of one step in the browser, including its share of resets."""
    cpu_seconds: float
    """CPU seconds of one step: browser, driver and Python of the browser worker."""
    policy_seconds: float
    """Wall-clock seconds from requesting an action to receiving it."""
    policy_rows: float
    """Actions per second of one policy worker with full batches."""
    driver_seconds: float
    """Seconds per episode that the driver process spends distributing episodes and receiving results."""
    worker_mb: float
    """Memory in MB of a browser worker with its browser, without contexts."""
    context_mb: float
    """Memory of one context in MB."""
    policy_mb: float
    """Memory of a policy worker in MB."""
    call_bytes: float
    """Bytes to a policy worker and back for one action."""
    result_bytes: float
    """Bytes of the result of one episode."""
    weight_bytes: float
    """Bytes of one version of the adapter."""


@dataclass(frozen=True)
class Point:
    """Expected throughput and resource use of a number of browser workers."""

    browsers: int
    policies: int
    """Number of policy workers, either given or as many as needed."""
    contexts: int
    steps_per_second: float
    episodes_per_minute: float
    saturated: str
    """Name of the saturated resource."""
    cpus: float
    """Number of CPUs that browser workers keep busy."""
    memory_gb: float
    """Memory of browser and policy workers in GB."""
    call_mb_per_second: float
    """Traffic between browser and policy workers in MB/s."""
    result_mb_per_second: float
    """Traffic of results through the object store in MB/s."""
    weight_mb_per_second: float
    """Traffic of weights from the object store to the nodes of policy workers in MB/s."""


def expected(
    figures: WorkerFigures, browsers: int, *, contexts: int, cpus: float, policies: int | None, version_seconds: float
) -> Point:
    """Calculate the throughput and resource use of a number of browser workers.

    Args:
        figures: figures of one worker.
        browsers: number of browser workers.
        contexts: number of contexts per browser worker.
        cpus: number of CPUs per browser worker.
        policies: number of policy workers, each assumed to be on its own node; None for as many as needed.
        version_seconds: seconds between two versions of the weights.
    """
    by_contexts = browsers * contexts / (figures.env_seconds + figures.policy_seconds)
    by_cpus = browsers * cpus / figures.cpu_seconds
    by_driver = figures.steps / figures.driver_seconds
    others = min(by_contexts, by_cpus, by_driver)
    count = math.ceil(others / figures.policy_rows) if policies is None else policies
    limits = {
        "contexts": by_contexts,
        "processors of browser workers": by_cpus,
        "the process that collects results": by_driver,
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
    """Return the points at 1, 2, 4, ... browser workers up to `most`, with options of `expected`."""
    counts = sorted({min(2**power, most) for power in range(math.ceil(math.log2(most)) + 1)})
    return [expected(figures, count, **options) for count in counts]


def as_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the points as JSON values, rounded to three significant digits."""
    return [
        {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in asdict(point).items()}
        for point in points
    ]
