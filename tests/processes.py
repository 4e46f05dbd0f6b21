"""What a process has left behind: its descendants, their memory, the contexts of its browsers."""

import asyncio
import os
import subprocess
import time

import psutil

from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.patience import cores


def descendants(pid=None):
    """Return all living processes that stem from this one, or from `pid`."""
    alive = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
        except psutil.NoSuchProcess:
            continue
    return alive


def browsers(processes=None):
    """Return those of the processes that are a browser's main process (not its renderers and helpers)."""
    found = []
    for process in descendants() if processes is None else processes:
        try:
            line = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if line and "chrom" in line[0] and not any(part.startswith("--type=") for part in line):
            found.append(process)
    return found


def drivers():
    """Return Playwright's driver processes."""
    return [process for process in descendants() if process.name().startswith("node")]


def gone(processes, seconds=10):
    """Do all of these end within so many seconds? A process group that is killed takes a moment."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return not [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def memory():
    """Return MB (proportional set size) of this process and everything under it."""
    total = 0
    for process in [psutil.Process(), *descendants()]:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20


def counts():
    """Return what is open: contexts and pages of all browsers, and unfinished tasks of the loop."""

    async def count():
        living = [slot.browser for slot in runtime()._slots.values() if slot.browser and slot.browser.is_connected()]
        contexts = [context for browser in living for context in browser.contexts]
        return {
            "contexts": len(contexts),
            "pages": sum(len(context.pages) for context in contexts),
            "tasks": len(asyncio.all_tasks()),
        }

    return runtime().run(count())


def crowd():
    """How many times as long as alone a thread takes now: what a bound in seconds is to be multiplied by."""
    return max(1.0, os.getloadavg()[0] / cores())


def until(condition, seconds=10):
    """Wait until a condition holds, and say whether it does."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(condition())


def ended(pid):
    """Does a process end within five seconds? One that nobody has waited for yet has."""
    for _ in range(50):
        listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        if not listed.stdout.strip() or listed.stdout.strip().startswith("Z"):
            return True
        time.sleep(0.1)
    return False
