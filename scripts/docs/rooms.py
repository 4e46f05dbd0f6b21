"""Map of the rooms (the folders at the root), with their subfolders and the imports between them. Imports no room."""

from __future__ import annotations

import ast
from pathlib import Path

ROOMS = ("browser_env", "tasks", "envs_registry", "agents", "sdft", "scripts")


def diagram(root: Path) -> str:
    """Return the map as a Mermaid graph: a box for each room with its folders, and an arrow to each room it imports."""
    lines = ["graph TD"]
    for room in ROOMS:
        folders = sorted(path.parent.name for path in (root / room).glob("*/__init__.py"))
        rows = [", ".join(folders[i : i + 4]) for i in range(0, len(folders), 4)]
        lines.append(f'    {room}["<b>{room}</b>{"".join(f"<br>{row}" for row in rows)}"]')
    lines += [f"    {room} --> {other}" for room in ROOMS for other in sorted(_imports(root, room) - {room})]
    return "\n".join(lines) + "\n"


def _imports(root: Path, room: str) -> set[str]:
    """Return the rooms that a room imports in any of its files."""
    found = set()
    for path in (root / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            found |= {name.removeprefix("selfsurf.").split(".")[0] for name in names}
    return found & set(ROOMS)
