"""Arguments that several commands take, checked before anything is begun."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import typer


def check_address(url: str) -> None:
    """Refuse what no browser can open; `data:`, `file:` and `about:` pages are fine."""
    try:
        parts = urlsplit(url)
        good = bool(parts.hostname) if parts.scheme in ("http", "https") else parts.scheme in ("data", "file", "about")
    except ValueError:  # such as half an IPv6 address
        good = False
    if not good:
        raise typer.BadParameter(f"--url is an address such as https://example.org, not {url!r}.")


def check_new_episode(folder: Path) -> None:
    """Refuse a folder that no episode can be written into."""
    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"--out: {folder} is a file; give a folder.")
    if (folder / "episode.json").exists():
        raise typer.BadParameter(f"--out: {folder} already holds an episode; give another folder.")
