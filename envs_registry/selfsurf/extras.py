"""How to install what is missing: in a checkout by its script, elsewhere by pip."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = (Path(__file__).parents[2] / "scripts" / "setup.sh").is_file()
"""Is this a checkout, and no installed package?"""


def how_to_install(extra: str = "") -> str:
    """Return the command that installs an extra, or without one the package itself."""
    if CHECKOUT:
        return f"bash scripts/setup.sh {extra}".rstrip()
    return f"pip install 'selfsurf[{extra}]'" if extra else "pip install selfsurf"


def how_to_repair(extra: str = "") -> str:
    """Return the command that installs again what an extra, or the package itself, needs."""
    if CHECKOUT:
        return f"bash scripts/setup.sh --repair {extra or 'train'}"
    return f"{how_to_install(extra)} --upgrade --force-reinstall"
