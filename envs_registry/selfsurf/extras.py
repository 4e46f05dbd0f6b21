"""Commands that install missing packages: a script in a checkout, pip elsewhere."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = (Path(__file__).parents[2] / "scripts" / "setup.sh").is_file()
"""Whether this is a checkout rather than an installed package."""


def how_to_install(extra: str = "") -> str:
    """Return the command that installs an extra or, without one, the package itself."""
    if CHECKOUT:
        return f"bash scripts/setup.sh {extra}".rstrip()
    return f"pip install 'selfsurf[{extra}]'" if extra else "pip install selfsurf"


def how_to_repair(extra: str = "") -> str:
    """Return the command that reinstalls the dependencies of an extra, or of the package itself."""
    if CHECKOUT:
        return f"bash scripts/setup.sh --repair {extra or 'train'}"
    return f"{how_to_install(extra)} --upgrade --force-reinstall"
