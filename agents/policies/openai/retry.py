"""When a request to a server is worth repeating, how long to wait, and what to say when it is not."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar

from selfsurf.agents.policy import PolicyError

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds of the first wait, doubled each time, and of the longest."""

_Reply = TypeVar("_Reply")


class ReplyError(Exception):
    """The server answered with something that is not a reply."""


@dataclass(frozen=True)
class Problem:
    """What went wrong with one request."""

    text: str
    """One sentence that says what to do, if anything can be done."""
    again: bool = False
    """Whether another attempt may succeed."""
    wrong: bool = False
    """Whether the request itself was at fault."""
    wait: float | None = None
    """Seconds that the server asked for."""


@dataclass(frozen=True)
class Limits:
    """How long to keep trying."""

    retries: int
    """Most attempts after the first."""
    timeout: float
    """Seconds that one attempt may take."""
    patience: float
    """Seconds for one reply, all attempts and waits together."""


async def persist(
    send: Callable[[], Awaitable[_Reply]], limits: Limits, explain: Callable[[Exception], Problem | None]
) -> tuple[_Reply, int]:
    """Send a request until it succeeds, and return the reply and the number of attempts.

    Args:
        send: makes one attempt.
        limits: when to give up.
        explain: what an exception of `send` means; None for one that is not the server's, which is raised.

    Raises:
        ValueError: the request was wrong.
        PolicyError: no reply within the limits, or none that another attempt could bring.
    """
    start = time.monotonic()
    attempts = 0
    while True:
        attempts += 1
        left = limits.patience - (time.monotonic() - start)
        try:
            async with asyncio.timeout(min(limits.timeout, left)):
                return await send(), attempts
        except Exception as error:
            problem = explain(error)
            if problem is None:
                raise
        # Raised out here, so that the client's exception, which may hold the key, is no context of ours.
        if problem.wrong:
            raise ValueError(problem.text)
        if not problem.again:
            raise PolicyError(problem.text)
        spent = time.monotonic() - start
        wait = backoff(attempts) if problem.wait is None else problem.wait + random.uniform(0, 0.1)
        if attempts > limits.retries:
            raise PolicyError(f"{problem.text} Given up after {attempts} attempts.")
        if spent + wait >= limits.patience:
            asked = "" if problem.wait is None else f"; the server asks to wait {problem.wait:.0f} s"
            raise PolicyError(
                f"{problem.text} Given up after {attempts} attempts, since patience is {limits.patience:g} s{asked}."
            )
        await asyncio.sleep(wait)


def backoff(attempts: int) -> float:
    """Seconds to wait after so many attempts: doubling, at least half of it, the rest at random.

    The random part keeps clients that failed together from coming back together.
    """
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempts - 1, 16))
    return longest * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a `Retry-After` header asks for, or None if there is none that can be read.

    Args:
        headers: of the response, names in any case.
        now: seconds since the epoch, for a header that names a time.
    """
    value = next((value.strip() for name, value in headers.items() if name.lower() == "retry-after"), "")
    if value.replace(".", "", 1).isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None
