"""Progress display of commands: bars on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import errno
import importlib.util
import io
import logging
import os
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from selfsurf.browser_env.text import visible_lines

console = Console(stderr=True)
"""Console on stderr for progress and remarks; results are printed to stdout."""

VERBOSE = "SELFSURF_VERBOSE"
"""Name of the environment variable that is set while verbose output is on."""

LAST_LINES = 6
"""Number of traceback lines that are shown."""

Update = Callable[..., None]
"""Callback that takes the number of units done, and optionally `note=`, a few words to show beside the bar."""


@contextmanager
def progress(title: str, total: int, *, still: bool = False) -> Iterator[Update]:
    """Show progress and the estimated remaining time, based on the pace since the first finished unit.

    On a terminal, progress is shown as a bar. Elsewhere, or with `still` because the user is prompted at the terminal
    meanwhile, it is a line per tenth of the total.
    """
    start = time.monotonic()
    marks: list[tuple[int, float]] = []
    """Units done and seconds elapsed, at the first call and when the first unit was finished, which ends the start-up.
    """
    if still or not console.is_terminal:
        shown = 0
        print(f"{title} ...", file=sys.stderr, flush=True)

        def line(done: int, note: str = "") -> None:
            nonlocal shown
            seconds = time.monotonic() - start
            if not marks or (len(marks) < 2 and done > marks[0][0]):
                marks.append((done, seconds))
            tenth = 10 * done // max(total, 1)
            if tenth > shown:
                shown = tenth
                left = time_left(done - marks[-1][0], total - done, seconds - marks[-1][1])
                print(f"{title}: {done}/{total}, {seconds:.0f} s{left} {note}".rstrip(), file=sys.stderr)

        yield line
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total, note="")

        def update(done: int, note: str = "") -> None:
            bar.update(task, completed=done, note=note)

        yield update


def time_left(done: int, left: int, seconds: float) -> str:
    """Return the estimated remaining time as `, about 12 min left`; empty if nothing is left or the pace is unknown.

    Args:
        done: Units done within `seconds`.
        left: Units still to be done.
        seconds: Seconds that the done units took.
    """
    if done <= 0 or left <= 0:
        return ""
    rest = left * seconds / done
    text = f"{rest:.0f} s" if rest < 90 else f"{rest / 60:.0f} min" if rest < 5400 else f"{rest / 3600:.1f} h"
    return f", about {text} left"


@contextmanager
def training_progress(
    title: str, steps: int, *, still: bool = False
) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """Show progress of training steps with the loss and, averaged over 5 steps, the success of episodes.

    The yielded callback takes the step and its logged metrics.
    """
    success, right = deque[float](maxlen=5), deque[float](maxlen=5)
    with progress(title, steps, still=still) as update:

        def learned(step: int, logs: Mapping[str, float]) -> None:
            for values, column in ((success, "episodes/success"), (right, "steps/right")):
                values.extend([logs[column]] if column in logs else ())
            notes = []
            if success:
                notes.append(f"success {fmean(success):.2f}")
            elif right:  # no episode is judged
                notes.append(f"steps/right {fmean(right):.2f}")
            if logs.get("evaluation/success") is not None:
                notes.append(f"held-out success {logs['evaluation/success']:.2f}")
            if logs.get("evaluation/agreement") is not None:
                notes.append(f"agreement {logs['evaluation/agreement']:.2f}")
            update(step, note=", ".join([*notes, f"loss {logs['loss']:.3f}"]))

        yield learned


class _ConsoleHandler(logging.Handler):
    """Log handler that prints to the console; if thorough, with times, logger names and tracebacks."""

    def __init__(self, *, thorough: bool) -> None:
        super().__init__()
        if thorough:
            self.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
        self._thorough = thorough

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record) if self._thorough else record.getMessage()
        console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def logged(*, verbose: bool) -> Iterator[None]:
    """Show warnings of `selfsurf`'s loggers and downloads of models within this context; all messages if verbose.

    Worker processes started within it find `VERBOSE` in their environment if verbose output is on.
    """
    logger = logging.getLogger("selfsurf")
    levels = {logger: logging.DEBUG} if verbose else {logging.getLogger("selfsurf.agents.model_files"): logging.INFO}
    before = {each: each.level for each in levels}
    handlers, logger.handlers = logger.handlers, [_ConsoleHandler(thorough=verbose)]
    for each, level in levels.items():
        each.setLevel(level)
    if verbose:
        os.environ[VERBOSE] = "1"
    try:
        yield
    finally:
        logger.handlers = handlers
        for each, level in before.items():
            each.setLevel(level)
        if verbose:
            os.environ.pop(VERBOSE, None)


@contextmanager
def remarks(package: str) -> Iterator[None]:
    """Show a package's log messages of level INFO within this context, too."""
    logger = logging.getLogger(package)
    level = logger.level
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)


def show_error(text: str, trace: str = "") -> None:
    """Show an error message, and the end of its traceback."""
    console.print(visible_lines(text), style="red", markup=False, highlight=False, soft_wrap=True)
    if trace:
        console.print(visible_lines(tail(trace)), style="dim", markup=False, highlight=False, soft_wrap=True)


def tail(trace: str) -> str:
    """Return the last lines of a traceback."""
    lines = trace.rstrip().splitlines()
    return "\n".join(["  ..."] * (len(lines) > LAST_LINES) + lines[-LAST_LINES:])


class _ClosedOutput(io.FileIO):
    """An output file that discards writes once its reader is gone, as with `head` or a closed window."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def let_readers_leave() -> None:
    """Let a command finish with its own exit code after the reader of its output is gone."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            descriptor = stream.fileno()
            mode = os.fstat(descriptor).st_mode
        except (OSError, ValueError, AttributeError):  # the stream has no file descriptor
            continue
        if not (stat.S_ISFIFO(mode) or os.isatty(descriptor)):
            continue
        stream.flush()
        left = io.TextIOWrapper(
            io.BufferedWriter(_ClosedOutput(descriptor, "w", closefd=False)), stream.encoding, stream.errors,
            line_buffering=stream.line_buffering, write_through=getattr(stream, "write_through", False),
        )  # fmt: skip
        setattr(sys, name, left)


def quiet_libraries() -> None:
    """Suppress messages of model libraries: progress bars, deprecations, experimental features."""
    from selfsurf.agents.quiet import quiet

    quiet()
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if importlib.util.find_spec("transformers") is None:
        return
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
