"""Ctrl-C and SIGTERM in a training: they interrupt at once, except in the middle of an optimizer step."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from transformers import TrainerCallback

from selfsurf.sdft.processes import alone
from selfsurf.sdft.run.checkpoint_files import steps_saved

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DeferredSignals:
    """Deferral of SIGINT and SIGTERM until their previous handlers are restored.

    Signals only interrupt the main thread, so nothing is done in other threads.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self.waiting: int | None = None
        """Number of the deferred signal; None if there is none."""

    def begin(self) -> None:
        """Start deferring signals."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if handler is not None:  # a handler set outside Python can't be restored
                self._before.setdefault(number, handler)
                signal.signal(number, self._wait)

    def end(self) -> None:
        """Restore the handlers and raise a deferred signal."""
        while self._before:  # one by one, because a signal may arrive in between
            number, handler = next(iter(self._before.items()))
            signal.signal(number, handler)
            del self._before[number]
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            signal.raise_signal(waiting)

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self.waiting = number


class InterruptibleSteps(TrainerCallback):
    """Callback that lets a run be interrupted only in states from which it can be resumed.

    Playing episodes and computing gradients change no state: they can be interrupted at any time, and the step is
    dropped. Signals are deferred from the optimizer's step until its last file is written, except during an evaluation,
    which takes long. Several processes finish the step, so that all of them stop after the same one.
    """

    def __init__(self) -> None:
        self._quiet = DeferredSignals()
        self._whole = True
        """Whether the weights are those of the last finished step."""
        self._stopped = False
        """Whether all processes stop after a step because one of them was interrupted."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark the previous step as finished, and let a single process be interrupted."""
        self._whole = True
        if alone():
            self._quiet.end()
        else:
            self._quiet.begin()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Defer signals before the weights change."""
        self._quiet.begin()
        self._whole = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop all processes with a checkpoint if one of them was interrupted."""
        if not alone() and _any(self._quiet.waiting is not None):
            self._stopped = control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark the last step as finished; raise KeyboardInterrupt if an interrupt stopped several processes."""
        self._whole = True
        self._quiet.end()
        if self._stopped:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def breakable(self) -> Iterator[None]:
        """Let signals interrupt this context in the middle of a step, which is then lost."""
        self._quiet.end()
        yield
        self._quiet.begin()

    @contextlib.contextmanager
    def kept(self, trainer: Any) -> Iterator[None]:
        """Write a checkpoint of the last finished step if an interrupt leaves this context."""
        try:
            yield
        except KeyboardInterrupt:
            step, folder = trainer.state.global_step, Path(trainer.args.output_dir)
            if alone() and self._whole and step and step not in steps_saved(folder):
                self._quiet.begin()
                trainer._save_checkpoint(trainer.model, None)
            raise
        finally:
            self._quiet.end()


def _any(one: bool) -> bool:
    """Whether a flag is set in any process. Every process has to call this."""
    import torch
    from accelerate import PartialState
    from accelerate.utils import gather

    mine = torch.tensor([float(one)], device=PartialState().device)
    return bool(gather(mine).any())
