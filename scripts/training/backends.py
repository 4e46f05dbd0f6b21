"""`selfsurf train`: choice of the training library, and the adapter in MLX's format."""

from __future__ import annotations

import platform
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from selfsurf.extras import how_to_install

if TYPE_CHECKING:
    from selfsurf.sdft.run.library import Backend

LOCAL = Path("adapters/local")
"""Default folder for an MLX-trained adapter in MLX's format."""


def is_apple_silicon() -> bool:
    """Whether this is a Mac with Apple silicon, which MLX is made for."""
    return sys.platform == "darwin" and platform.machine() == "arm64"


def chosen_backend(wanted: str, resumed: Path | None = None) -> tuple[Backend, str]:
    """Return the training library, and the reason for the choice.

    Args:
        wanted: `torch`, `mlx`, or `auto`.
        resumed: Folder of the run to resume; None for a new run.
    """
    if wanted in ("torch", "mlx"):
        return cast("Backend", wanted), "as --backend says"
    if resumed is not None:
        from selfsurf.sdft.run.checkpoint_files import last_step
        from selfsurf.sdft.run.folder import library_of

        if (last := last_step(resumed)) is not None:
            return library_of(resumed, last), "the run began with it"
    mlx, torch = find_spec("mlx_lm") is not None, find_spec("torch") is not None
    if is_apple_silicon() and mlx:
        return "mlx", "this is Apple silicon (--backend torch overrides this)"
    if not torch and mlx:
        return "mlx", "torch is not installed"
    if is_apple_silicon():
        return "torch", f"MLX is not installed ({how_to_install('mlx')})"
    return "torch", "MLX is the default on Apple silicon only"


def check_replaceable(folder: Path | None) -> None:
    """Refuse an adapter folder that contains other files than an adapter.

    Raises:
        ValueError: It does.
    """
    from selfsurf.agents.adapters.identity import CONFIG

    if folder is None or not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / CONFIG).is_file()):
        raise ValueError(f"--adapter-path: {folder} holds something other than an adapter: choose another folder.")


def write_mlx_form(adapter: Path, folder: Path, model: str) -> Path:
    """Write a PEFT adapter in MLX's format, replacing an existing one, and return its folder."""
    from selfsurf.agents.adapters.convert import peft_to_mlx
    from selfsurf.sdft.run.checkpoint_files import UNFINISHED, discard, publish

    made = folder.with_name(f"{folder.name}.{UNFINISHED}")
    discard(made)
    peft_to_mlx(adapter, made, base=model)
    publish(made, folder)
    return folder
