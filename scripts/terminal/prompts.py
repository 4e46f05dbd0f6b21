"""Questions to the person at the terminal after an episode."""

from __future__ import annotations

from typing import Literal

import typer


def goal_reached() -> Literal["solved", "failed"] | None:
    """Ask whether the goal was reached; return None without an answer."""
    said = typer.prompt("Was the goal reached? yes, no, or Enter to skip", default="", show_default=False, err=True)
    return {"y": "solved", "n": "failed"}.get(said.strip().lower()[:1])  # type: ignore[return-value]
