"""Stretching of time limits while other programs crowd the processor.

A time limit distinguishes hung from slow, and on a crowded machine everything is slow. So limits are counted in seconds
of a machine with a free core: if five threads want two cores, one such second takes two and a half.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

LONGEST = 8.0
"""Maximum factor by which a limit is stretched."""

TICK = 0.5
"""Seconds between two checks of the machine's load."""

NO_PRESSURE = 0.1
"""Share of time with a thread waiting for a core, below which a container counts as having enough cores."""

_LOADAVG = Path("/proc/loadavg")
_CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_share() -> float:
    """Return the share of a core that a thread gets now: 1 while a core is free, at least `1 / LONGEST`.

    Linux reports how many threads want to run at this moment; elsewhere the mean of the last minute is used. Both are
    of the whole machine: a container's own limit of processor time, and whether its threads wait at all, come from its
    cgroup (version 2).
    """
    allowed, pressed = _container.look()
    machine = min(1.0, cores() / max(_wanting(), 1.0)) if pressed else 1.0
    return max(min(machine, allowed), 1 / LONGEST)


def _wanting() -> float:
    try:
        return float(_LOADAVG.read_text().split()[3].partition("/")[0]) - 1  # this thread itself doesn't count
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return 1.0


class _Container:
    """Processor statistics of this process's cgroup, as seen in a container."""

    def __init__(self) -> None:
        self._looked = self._used = self._held = self._waited = 0.0
        self._seen = 1.0, True

    def look(self) -> tuple[float, bool]:
        """Return the statistics, read again after `TICK` seconds at the earliest.

        Returns:
            The share of the wanted processor time that the container's threads were allowed since the last reading, and
            whether any thread waited; 1 and True where that is unknown.
        """
        now = time.monotonic()
        if now - self._looked < TICK:
            return self._seen
        first, passed, self._looked = not self._looked, now - self._looked, now
        about = _numbers(_CGROUP / "cpu.stat")
        used, self._used = about.get("usage_usec", 0.0) - self._used, about.get("usage_usec", 0.0)
        held, self._held = about.get("throttled_usec", 0.0) - self._held, about.get("throttled_usec", 0.0)
        allowed = used / (used + held) if held > 0 and used > 0 else 1.0
        total = _numbers(_CGROUP / "cpu.pressure").get("some")
        pressed = total is None or (total - self._waited) / 1e6 >= NO_PRESSURE * passed
        self._waited = total or 0.0
        if not first:
            self._seen = allowed, pressed
        return self._seen


def _numbers(file: Path) -> dict[str, float]:
    """Return the last number of each line by the line's first word: `name 12` or `name avg10=0.00 total=12`."""
    try:
        lines = [line.replace("=", " ").split() for line in file.read_text().splitlines()]
        return {words[0]: float(words[-1]) for words in lines if words}
    except (OSError, ValueError):
        return {}


_container = _Container()


def stretched(seconds: float) -> float:
    """Return how long a limit lasts, in seconds, if the machine stays as crowded as it is."""
    return seconds / cpu_share()


def lasted(seconds: float, passed: float) -> str:
    """Return a limit for a message: `10 s`, with the seconds that passed if a crowded machine has stretched it."""
    if passed < seconds * 1.1 + TICK:
        return f"{seconds:g} s"
    return f"{seconds:g} s (extended to {passed:.0f} s on a busy machine)"


class Stopwatch:
    """A stopwatch that counts seconds of a machine with a free core.

    Call `look` regularly: the time since the last call is weighted by how crowded the machine is at this call.
    """

    def __init__(self) -> None:
        self._seconds, self._looked = 0.0, time.monotonic()

    def look(self) -> float:
        """Return the seconds counted so far."""
        now = time.monotonic()
        self._seconds += (now - self._looked) * cpu_share()
        self._looked = now
        return self._seconds


@contextlib.asynccontextmanager
async def limited(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Limit the duration of the `async with` body, in seconds of a machine with a free core.

    Yields:
        The timeout, which can be extended.

    Raises:
        TimeoutError: time is up.
    """
    loop = asyncio.get_running_loop()
    stretching: list[asyncio.Task[None]] = []
    async with asyncio.timeout(seconds) as limit:
        begin = loop.call_later(  # most bodies are over by then
            min(TICK, seconds / 2), lambda: stretching.append(loop.create_task(_stretch(limit, seconds)))
        )
        try:
            yield limit
        finally:
            begin.cancel()
            for task in stretching:
                task.cancel()


def put_off(limit: asyncio.Timeout, seconds: float) -> None:
    """Extend a deadline that has not passed."""
    when = limit.when()
    if when is not None and not limit.expired():
        limit.reschedule(when + seconds)


async def _stretch(limit: asyncio.Timeout, seconds: float) -> None:
    """Extend a deadline by the time that the machine spends on other programs."""
    left, tick = (LONGEST - 1) * seconds, min(TICK, seconds / 2)
    while left > 0:
        more = min(tick * (1 - cpu_share()), left)  # share of the last tick
        left -= more
        put_off(limit, more)
        await asyncio.sleep(tick)
