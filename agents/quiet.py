"""Keeps libraries from speaking of themselves: deprecations and experiments that a user can do nothing about."""

from __future__ import annotations

import logging
import os
import warnings


def quiet() -> None:
    """Leave out what model libraries say when they are imported; what is set already stays. Imports none of them."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it misses a package that is of no use with our weights
