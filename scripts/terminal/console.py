"""What commands show while they work: progress bars on a terminal, a line now and then elsewhere."""

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
"""Progress and remarks go to the error stream; results go to the output."""

VERBOSE = "SELFSURF_VERBOSE"
"""Environment variable that is set where everything is to be shown."""

LAST_LINES = 6
"""Of a traceback, that are shown."""

Update = Callable[..., None]
"""Called with the number done so far, and optionally `note=`, a few words to show beside the bar."""


@contextmanager
def progress(title: str, total: int, *, still: bool = False) -> Iterator[Update]:
    """Show how far a piece of work is, and about how long it still takes at the pace since its first finished unit.

    On a terminal that is a bar; elsewhere, or if it is to keep `still` since somebody is asked at the terminal
    meanwhile, a line every tenth, and one at the end.
    """
    start = time.monotonic()
    marks: list[tuple[int, float]] = []
    """What was done when, at the first call and when the first unit was finished, which ends the start-up."""
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
    """Return about how long the rest takes, as `, about 12 min left`; empty where nothing is left or known.

    Args:
        done: what was done in `seconds`.
        left: what is still to be done.
        seconds: that it took.
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
    """As `progress`, called with the step and what it logs; what is shown besides the loss is the mean of 5 steps."""
    success, right = deque[float](maxlen=5), deque[float](maxlen=5)
    with progress(title, steps, still=still) as update:

        def learned(step: int, logs: Mapping[str, float]) -> None:
            for values, column in ((success, "episodes/success"), (right, "steps/right")):
                values.extend([logs[column]] if column in logs else ())
            notes = []
            if success:
                notes.append(f"success {fmean(success):.2f}")
            elif right:  # nobody judges
                notes.append(f"steps/right {fmean(right):.2f}")
            if logs.get("evaluation/success") is not None:
                notes.append(f"held-out success {logs['evaluation/success']:.2f}")
            if logs.get("evaluation/agreement") is not None:
                notes.append(f"agreement {logs['evaluation/agreement']:.2f}")
            update(step, note=", ".join([*notes, f"loss {logs['loss']:.3f}"]))

        yield learned


class _Shown(logging.Handler):
    """Shows the log on the console; with times, names and tracebacks if it is to be thorough."""

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
    """Within this context, the warnings of `selfsurf`'s loggers are shown, and what is fetched; or all that they say.

    A worker process that is started within it can ask `VERBOSE` of its environment.
    """
    logger = logging.getLogger("selfsurf")
    levels = {logger: logging.DEBUG} if verbose else {logging.getLogger("selfsurf.agents.model_files"): logging.INFO}
    before = {each: each.level for each in levels}
    handlers, logger.handlers = logger.handlers, [_Shown(thorough=verbose)]
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
    """Within this context, a package's loggers also say what is under way."""
    logger = logging.getLogger(package)
    level = logger.level
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)


def show_error(text: str, trace: str = "") -> None:
    """Show what went wrong, and the end of the traceback behind it."""
    console.print(visible_lines(text), style="red", markup=False, highlight=False, soft_wrap=True)
    if trace:
        console.print(visible_lines(tail(trace)), style="dim", markup=False, highlight=False, soft_wrap=True)


def tail(trace: str) -> str:
    """Return the last lines of a traceback, where it happened."""
    lines = trace.rstrip().splitlines()
    return "\n".join(["  ..."] * (len(lines) > LAST_LINES) + lines[-LAST_LINES:])


class _Left(io.FileIO):
    """An output whose reader may leave, as `head` does, or a window that is closed: later text goes nowhere."""

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
    """Let a command come to its own end, with its own exit code, when nobody reads its output any more."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            descriptor = stream.fileno()
            mode = os.fstat(descriptor).st_mode
        except (OSError, ValueError, AttributeError):  # no real file
            continue
        if not (stat.S_ISFIFO(mode) or os.isatty(descriptor)):
            continue
        stream.flush()
        left = io.TextIOWrapper(
            io.BufferedWriter(_Left(descriptor, "w", closefd=False)), stream.encoding, stream.errors,
            line_buffering=stream.line_buffering, write_through=getattr(stream, "write_through", False),
        )  # fmt: skip
        setattr(sys, name, left)


def quiet_libraries() -> None:
    """Keep what model libraries say about themselves off the screen: progress bars, deprecations, experiments."""
    from selfsurf.agents.quiet import quiet

    quiet()
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if importlib.util.find_spec("transformers") is None:
        return
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
