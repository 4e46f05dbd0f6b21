"""What commands show while they work: progress bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

console = Console(stderr=True)
"""Progress and remarks go to the error stream; results go to the output."""

Update = Callable[..., None]
"""Called with the number done so far, and optionally `note=`, a few words to show beside the bar."""


@contextmanager
def progress(title: str, total: int) -> Iterator[Update]:
    """Show how far a piece of work is: a bar on a terminal; elsewhere a line every tenth, and one at the end."""
    start = time.monotonic()
    if not console.is_terminal:
        shown = 0
        print(f"{title} ...", file=sys.stderr, flush=True)

        def line(done: int, note: str = "") -> None:
            nonlocal shown
            tenth = 10 * done // max(total, 1)
            if tenth > shown:
                shown = tenth
                print(f"{title}: {done}/{total}, {time.monotonic() - start:.0f} s {note}".rstrip(), file=sys.stderr)

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


@contextmanager
def training_progress(title: str, steps: int) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """As `progress`, called with the step and what it logs."""
    with progress(title, steps) as update:

        def learned(step: int, logs: Mapping[str, float]) -> None:
            rate = logs.get("evaluation/success")
            update(step, note=f"loss {logs['loss']:.3f}" + ("" if rate is None else f", held-out success {rate:.2f}"))

        yield learned


@contextmanager
def remarks(package: str) -> Iterator[None]:
    """Within this context, what a package's loggers have to say is shown, warnings and what is under way."""

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            console.print(record.getMessage(), highlight=False, markup=False, soft_wrap=True)

    logger, handler = logging.getLogger(package), Shown(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def quiet_libraries() -> None:
    """Keep what model libraries say about themselves off the screen: progress bars, deprecations, experiments."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it misses a package that is of no use with our weights
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
