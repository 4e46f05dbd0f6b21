"""Ctrl-C and SIGTERM in a training: they come through at once, but never where a step is half made."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from transformers import TrainerCallback

from selfsurf.sdft.run.checkpoint_files import steps_saved
from selfsurf.sdft.run.processes import alone

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Quiet:
    """A time in which SIGINT and SIGTERM wait; afterwards they reach whatever handlers there were before.

    They only ever interrupt the main thread: in others nothing is done.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self.waiting: int | None = None
        """The signal that waits, if there is one."""

    def begin(self) -> None:
        """From here on signals wait."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if handler is not None:  # one that wasn't set by Python can't be put back
                self._before.setdefault(number, handler)
                signal.signal(number, self._wait)

    def end(self) -> None:
        """Let through what has waited."""
        while self._before:  # one by one: a signal may come through in between
            number, handler = next(iter(self._before.items()))
            signal.signal(number, handler)
            del self._before[number]
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            signal.raise_signal(waiting)

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self.waiting = number


class WholeSteps(TrainerCallback):
    """Has a run interrupted between two states that it can be resumed from, and knows whether it is in one.

    Playing episodes and computing gradients change nothing: they can be broken off at any time, and the step is
    dropped. From the optimizer's step to the last file that is written for it signals wait, but for an evaluation,
    which takes long. Several processes finish the step, so that all of them stop after the same one.
    """

    def __init__(self) -> None:
        self._quiet = Quiet()
        self._whole = True
        """Are the weights those after the last finished step?"""
        self._stopped = False
        """Were the processes stopped after a step, because one of them was interrupted?"""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The step before has been finished."""
        self._whole = True
        if alone():
            self._quiet.end()
        else:
            self._quiet.begin()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The weights are about to change."""
        self._quiet.begin()
        self._whole = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Have all processes stop here, with a checkpoint, if one of them was interrupted."""
        if not alone() and _any(self._quiet.waiting is not None):
            self._stopped = control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The last step has been finished."""
        self._whole = True
        self._quiet.end()
        if self._stopped:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def breakable(self) -> Iterator[None]:
        """Within this context signals come through, in the midst of a step: it is lost, then."""
        self._quiet.end()
        yield
        self._quiet.begin()

    @contextlib.contextmanager
    def kept(self, trainer: Any) -> Iterator[None]:
        """An interrupt that leaves this context has a checkpoint of the last finished step written."""
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
    """Is it so in any process? All of them must ask."""
    import torch
    from accelerate import PartialState
    from accelerate.utils import gather

    mine = torch.tensor([float(one)], device=PartialState().device)
    return bool(gather(mine).any())
