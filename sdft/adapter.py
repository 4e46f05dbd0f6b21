"""The adapter that a training leaves on disk: PEFT's format, with what is needed to reproduce and rightly use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.adapters.identity import write_about
from sdft.checkpoint_files import UNFINISHED, discard, publish


def save_adapter(model: Any, folder: Path, about: dict[str, Any]) -> Path:
    """Write the student's adapter in PEFT's format with `about` beside it, and return the folder.

    A kill leaves no half of it. One that was there before is replaced.
    """
    from sdft.teacher import STUDENT

    made = folder.with_name(f"{folder.name}.{UNFINISHED}")
    discard(made)
    made.mkdir(parents=True)
    model.save_pretrained(str(made), selected_adapters=[STUDENT])
    write_about(made, about)
    publish(made, folder)
    return folder
