"""Return of a training run's freed memory to the operating system.

A step frees tensors of many sizes. The C library keeps their pages, although tensors of other sizes do not fit into the
gaps: after eight steps with SmolLM2-135M on a CPU a process held 3.1 GB, and 1.4 GB once freed memory was returned.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from transformers import TrainerCallback


class ReturnFreed(TrainerCallback):
    """Callback that returns freed memory to the system after every optimizer step. Does nothing without glibc."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Return freed memory to the system."""
        if trim := _trim():
            trim(0)


@cache
def _trim() -> Any:
    """Return the C library's `malloc_trim`, or None if it has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
