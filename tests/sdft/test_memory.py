"""Memory that was freed in pieces goes back to the system after a step."""

from __future__ import annotations

import ctypes

import numpy as np
import psutil
import pytest

from selfsurf.sdft.run.memory import ReturnFreed

PIECE, PIECES = 100_000, 4000
"""Bytes of a piece, below what the C library maps by itself; how many there are."""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_what_is_free_between_what_is_used_goes_back() -> None:
    process = psutil.Process()
    pieces = [np.ones(PIECE, np.uint8) for _ in range(PIECES)]
    kept = pieces[:: PIECES // 20]
    full = process.memory_info().rss
    del pieces
    held = process.memory_info().rss
    assert full - held < PIECE * PIECES / 4, "the C library keeps the pages"
    ReturnFreed().on_step_end(None, None, None)
    assert full - process.memory_info().rss > PIECE * PIECES / 2
    assert len(kept) >= 20
