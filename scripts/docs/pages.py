"""Text of the generated pages of docs/."""

from __future__ import annotations

from pathlib import Path

from selfsurf.agents.graph.wiring import mermaid
from selfsurf.scripts.docs.rooms import diagram
from selfsurf.scripts.docs.settings import reference

ROOT = Path(__file__).resolve().parents[2]
"""Root folder of the checkout."""

BEGIN, END = "<!-- {}: written by python -m selfsurf.scripts.docs -->", "<!-- end of {} -->"
"""Markers before and after a generated diagram in a page."""


def pages() -> dict[Path, str]:
    """Return the up-to-date text of each generated page."""
    docs = ROOT / "docs"
    return {
        docs / "reference" / "settings.md": reference(),
        docs / "architecture.md": _drawn(docs / "architecture.md", "rooms", diagram(ROOT)),
        docs / "graph.md": _drawn(docs / "graph.md", "graph", mermaid()),
    }


def _drawn(page: Path, name: str, drawing: str) -> str:
    """Return a page with a Mermaid diagram between its markers."""
    begin, end = BEGIN.format(name), END.format(name)
    before, _, rest = page.read_text(encoding="utf8").partition(begin)
    return f"{before}{begin}\n\n```mermaid\n{drawing}```\n\n{end}{rest.partition(end)[2]}"
