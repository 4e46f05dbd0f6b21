"""The generated pages of docs/ and their text."""

from __future__ import annotations

from pathlib import Path

from selfsurf.scripts.docs.rooms import diagram
from selfsurf.scripts.docs.settings import reference

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

BEGIN, END = "<!-- rooms: written by python -m selfsurf.scripts.docs -->", "<!-- end of rooms -->"
"""What stands before and after the diagram in docs/architecture.md."""


def pages() -> dict[Path, str]:
    """Return what each generated page should say."""
    architecture = ROOT / "docs" / "architecture.md"
    before, _, rest = architecture.read_text(encoding="utf8").partition(BEGIN)
    after = rest.partition(END)[2]
    return {
        ROOT / "docs" / "reference" / "settings.md": reference(),
        architecture: f"{before}{BEGIN}\n\n```mermaid\n{diagram(ROOT)}```\n\n{END}{after}",
    }
