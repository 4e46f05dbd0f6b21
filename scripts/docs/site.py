"""Documentation site: docs/, the pages at the root, and pages for public names and packages from their docstrings.

mkdocs loads this module as a hook (`.mkdocs.yml`), which adds the generated pages.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

from selfsurf.scripts.docs.pages import ROOT
from selfsurf.scripts.docs.rooms import ROOMS

PUBLIC = (
    "selfsurf.browser_env",
    "selfsurf.browser_env.record.episode",
    "selfsurf.browser_env.record.recorder",
    "selfsurf.envs_registry",
    "selfsurf.envs_registry.suites",
    "selfsurf.agents",
    "selfsurf.agents.llm.llm_agent",
    "selfsurf.agents.play",
    "selfsurf.sdft",
    "selfsurf.sdft.rollouts",
    "selfsurf.sdft.measure.evaluate",
)
"""Modules whose names other projects may import."""

_AT_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}


def public_names(module: str) -> list[str]:
    """Return a module's `__all__`, or else the public classes and functions defined in it."""
    found = importlib.import_module(module)
    own = (name for name, value in vars(found).items() if getattr(value, "__module__", "") == module)
    return sorted(getattr(found, "__all__", None) or (name for name in own if not name.startswith("_")))


def site_pages() -> dict[str, str]:
    """Return the generated pages of the site, by path."""
    found = {}
    for name, path in _AT_ROOT.items():
        text = (ROOT / name).read_text(encoding="utf8")
        found[path] = text.replace("](docs/", "](").replace("](README.md", "](index.md")
    rows = []
    for module in PUBLIC:
        names = public_names(module)
        members = "".join(f"        - {name}\n" for name in names)
        found[f"api/{module}.md"] = f"# {module}\n\n::: {module}\n    options:\n      members:\n{members}"
        rows.append(f"| [{module}]({module}.md) | {', '.join(f'`{name}`' for name in names)} |\n")
    opening = "# API reference\n\nThe public names of each module. Everything else may change without notice.\n\n"
    found["api/index.md"] = opening + "| module | names |\n| --- | --- |\n" + "".join(rows)
    return found | module_pages()


def module_pages() -> dict[str, str]:
    """Return a page for every package, by path, with the docstrings of its modules, which aren't imported."""
    found, rows = {}, []
    for file in sorted(file for room in ROOMS for file in (ROOT / room).rglob("__init__.py")):
        folder = file.parent
        name = ".".join(("selfsurf", *folder.relative_to(ROOT).parts))
        own = ast.get_docstring(ast.parse(file.read_text(encoding="utf8"))) or ""
        page = f"# {name}\n\n{own}\n"
        for module in sorted(folder.glob("*.py")):
            said = ast.get_docstring(ast.parse(module.read_text(encoding="utf8")))
            if module != file and said:
                page += f"\n## {module.stem}\n\n{said}\n"
        found[f"modules/{name}.md"] = page
        rows.append(f"- [{name}]({name}.md): {own.partition(chr(10))[0]}\n")
    found["modules/index.md"] = "# Modules\n\nThe docstrings of all modules, package by package.\n\n" + "".join(rows)
    return found


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to the files that mkdocs found."""
    from mkdocs.structure.files import File

    for path, text in site_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def build(out: Path) -> None:
    """Build the site into a folder.

    Raises:
        mkdocs.exceptions.Abort: A link is broken, or a public name has no docstring.
    """
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    config = load_config(str(ROOT / ".mkdocs.yml"), site_dir=str(out), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build_site(config)
    config.plugins.on_shutdown()
