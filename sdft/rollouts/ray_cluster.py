"""The Ray cluster that rollouts are made on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def connected() -> Iterator[None]:
    """Be connected to a cluster.

    It is the one that this process is connected to already, else that of `RAY_ADDRESS`, else one on this machine that
    is started here and ended afterwards.

    Raises:
        ImportError: Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise ImportError("Rollouts with workers need Ray: pip install 'selfsurf[ray]'.") from None
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        yield
    finally:
        if ours:
            ray.shutdown()


def reason_of(error: BaseException) -> str:
    """The line of Ray's report that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    raised = "  File " in str(error)  # then the exception comes last
    return lines[-1] if raised else lines[0]
