"""Silences warnings of model libraries that a user can do nothing about."""

from __future__ import annotations

import logging
import os
import warnings


def quiet() -> None:
    """Silence import-time warnings of model libraries; existing settings win. Imports none of the libraries."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # warns about a package our weights don't need
