"""The Ray cluster that rollouts are made on."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from selfsurf.browser_env.session.patience import TICK, Stopwatch
from selfsurf.extras import how_to_install


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
        raise ImportError(f"Rollouts with workers need Ray: {how_to_install('ray')}.") from None
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, logging_level="ERROR", log_to_driver=verbose())
    try:
        yield
    finally:
        if ours:
            ray.shutdown()


def get_patiently(references: list[Any], seconds: float) -> list[Any]:
    """As `ray.get`, within seconds of a machine with a free core.

    Raises:
        GetTimeoutError: Ray's own; time is up.
    """
    import ray

    waits = Stopwatch()
    while True:
        try:
            return list(ray.get(references, timeout=TICK))
        except ray.exceptions.GetTimeoutError:
            if waits.look() >= seconds:
                raise


def verbose() -> bool:
    """Is all to be shown that `selfsurf`'s loggers say, as with `--verbose`?"""
    return logging.getLogger("selfsurf").isEnabledFor(logging.DEBUG)


def speak(*, everything: bool) -> None:
    """In an actor: write on its error stream, which Ray shows where the run is, what `selfsurf`'s loggers say."""
    logger = logging.getLogger("selfsurf")
    if everything and not logger.isEnabledFor(logging.DEBUG):
        logger.setLevel(logging.DEBUG)
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)


def reason_of(error: BaseException) -> str:
    """The line of Ray's report that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    raised = "  File " in str(error)  # then the exception comes last
    return lines[-1] if raised else lines[0]
