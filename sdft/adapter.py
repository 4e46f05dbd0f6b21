"""The adapter that a training leaves on disk: PEFT's format, with what is needed to reproduce and rightly use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.adapters.identity import write_about


def save_adapter(model: Any, folder: Path, about: dict[str, Any]) -> Path:
    """Write the student's adapter in PEFT's format with `about` beside it, and return the folder."""
    from sdft.teacher import STUDENT

    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(str(folder), selected_adapters=[STUDENT])
    write_about(folder, about)
    return folder
