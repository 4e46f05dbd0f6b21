"""Connection to the Ray cluster on which rollouts run."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

from selfsurf.browser_env.patience import TICK, Stopwatch
from selfsurf.extras import how_to_install

ANSWER = 2.0
"""Timeout of a connection to a head node, in seconds."""


@contextlib.contextmanager
def connected() -> Iterator[None]:
    """Connect to a cluster within this context (`connect`). A cluster that was started here is shut down afterwards.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: the cluster can't be connected to.
    """
    try:
        import ray
    except ImportError:
        raise ImportError(f"Rollouts with workers need Ray: {how_to_install('ray')}.") from None
    ours = connect()
    try:
        yield
    finally:
        if ours:
            ray.shutdown()


def connect() -> bool:
    """Connect to the cluster of `RAY_ADDRESS`, or start one on this machine; return whether this call connected.

    A process that is already connected stays so. Other clusters on this machine, running or left behind, are not used.

    Raises:
        ConnectionError: no head node answers at the address, or it refuses the connection.
    """
    import ray

    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS") or "local"
    _check_head(address)
    try:
        with _own_sigterm():
            ray.init(address=address, include_dashboard=False, logging_level="ERROR", log_to_driver=verbose())
    except ConnectionError as error:
        if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
            raise
        raise ConnectionError(f"{error}. If the Ray head requires a token, set RAY_AUTH_MODE=token.") from error
    return True


def _check_head(address: str) -> None:
    """Raise ConnectionError if nothing listens at an address; Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):  # such as `auto` or `local`
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
    except (OSError, OverflowError):
        raise ConnectionError(f"No Ray head answers at {address}; unset RAY_ADDRESS to start one.") from None


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep the process's SIGTERM handler, if it has one: Ray's would end the process with exit code 15.

    A signal that arrives within this context is raised again at its end.
    """
    own = signal.getsignal(signal.SIGTERM)
    if not callable(own) or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        yield
    except SystemExit as error:
        if error.code == signal.SIGTERM:
            signal.signal(signal.SIGTERM, own)
            signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, own)


def get_patiently(references: list[Any], seconds: float) -> list[Any]:
    """Return the values of Ray references (`ray.get`), with a timeout that is extended on a busy CPU.

    Raises:
        GetTimeoutError: Ray's own; the time is up.
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
    """Whether all messages of `selfsurf`'s loggers are shown, as with `--verbose`."""
    return logging.getLogger("selfsurf").isEnabledFor(logging.DEBUG)


def speak(*, everything: bool) -> None:
    """Write an actor's `selfsurf` log messages to its error stream, which Ray forwards to the run."""
    logger = logging.getLogger("selfsurf")
    if everything and not logger.isEnabledFor(logging.DEBUG):
        logger.setLevel(logging.DEBUG)
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)


def reason_of(error: BaseException) -> str:
    """Return the line of Ray's report that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    raised = "  File " in str(error)  # a traceback ends with the exception
    return lines[-1] if raised else lines[0]
