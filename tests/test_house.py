"""The layout: parts import in one direction, files are short, folders small, and nothing goes in circles."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.conftest import QUICK

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "browser_env": {"browser_env"},
    "tasks": {"tasks", "browser_env"},
    "envs_registry": {"envs_registry", "tasks", "browser_env"},
    "agents": {"agents", "browser_env"},
    "sdft": {"sdft", "agents", "envs_registry", "tasks", "browser_env"},
    "scripts": {"scripts", "sdft", "agents", "envs_registry", "tasks", "browser_env"},
}
INSTALLER = Path("scripts/install_browser.py")
"""Asks Playwright where its driver is."""
LONGEST = 500
MOST = 25
MUTUAL = 1

_listed = subprocess.run(
    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *MAY_IMPORT, "tests"],
    cwd=ROOT, capture_output=True, text=True, check=True,
)  # fmt: skip
FILES = [
    Path(name) for name in sorted(set(_listed.stdout.split("\0"))) if name.endswith(".py") and (ROOT / name).exists()
]
OURS = [file for file in FILES if file.parts[0] in MAY_IMPORT and file.parts[1] != "selfsurf"]
MODULES = {".".join(("selfsurf", *file.with_suffix("").parts)).removesuffix(".__init__"): file for file in OURS}


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf8"))


def imports(body: list[ast.stmt]) -> Iterator[tuple[str, list[str]]]:
    """Yield what statements import, as (module, names), those for type checkers left out."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from imports(node.orelse)
        elif isinstance(node, ast.Import):
            yield from ((name.name, []) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: a relative import"
            yield node.module or "", [name.name for name in node.names]
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from imports([child for child in ast.walk(node) if isinstance(child, ast.stmt) and child is not node])


def everywhere(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield what a file imports, within functions and for type checkers, too."""
    yield from imports([node for node in ast.walk(tree_of(file)) if isinstance(node, (ast.Import, ast.ImportFrom))])


def test_a_first_verdict_has_a_test_of_each_folder() -> None:
    quick = [Path(f"{name.removesuffix('.py')}.py") for name in QUICK]
    assert not [file for file in quick if not (ROOT / file).exists()]
    folders = {file.parent for file in FILES if file.parts[0] == "tests" and file.name.startswith("test_")}
    assert folders == {file.parent for file in quick}


def test_no_file_is_long() -> None:
    long = {
        str(file): lines for file in OURS if (lines := (ROOT / file).read_text(encoding="utf8").count("\n")) > LONGEST
    }
    assert not long


def test_no_folder_is_crowded() -> None:
    modules = Counter(str(file.parent) for file in OURS if file.name != "__init__.py")
    assert not {folder: number for folder, number in modules.items() if number > MOST}


def test_modules_do_not_import_in_circles() -> None:
    graph = {}
    for file in OURS:
        named = [
            name
            for module, names in imports(tree_of(file).body)
            for name in (module, *(f"{module}.{inner}" for inner in names))
        ]
        graph[file] = {MODULES[name] for name in named if name in MODULES} - {file}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(map(str, error.args[1]))) from None


def test_every_package_is_part_of_the_wheel() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["tool"]["setuptools"]["packages"]
    there = {".".join(("selfsurf", *file.parent.parts)) for file in OURS if file.name == "__init__.py"}
    assert {name for name in listed if name != "selfsurf"} == there


def test_folders_hardly_import_each_other() -> None:
    """All imports count, also in functions and for type checkers. A package's `__init__` stands above its folders."""
    arrows = {
        (file.parent, MODULES[name].parent)
        for file in OURS
        if file.name != "__init__.py"
        for module, names in everywhere(file)
        for name in (module, *(f"{module}.{inner}" for inner in names))
        if name in MODULES and MODULES[name].name != "__init__.py"
    }
    mutual = sorted(f"{a} <-> {b}" for a, b in arrows if a < b and (b, a) in arrows)
    print(f"{len(mutual)} pairs of folders import each other: {', '.join(mutual)}")
    assert len(mutual) <= MUTUAL


def test_parts_import_in_one_direction_and_only_browser_env_touches_a_browser() -> None:
    wrong = []
    for file in OURS:
        for module, names in everywhere(file):
            top, _, rest = module.partition(".")
            parts = ({rest.split(".")[0]} if rest else set(names)) & MAY_IMPORT.keys() if top == "selfsurf" else set()
            wrong += [f"{file}: {module}" for part in parts - MAY_IMPORT[file.parts[0]]]
            if top == "playwright" and file.parts[0] != "browser_env" and file != INSTALLER:
                wrong.append(f"{file}: {module}")
    assert not wrong


def test_parts_are_imported_by_their_full_names() -> None:
    part = rf"(?:{'|'.join(MAY_IMPORT)})\b[.\w]*"
    some = re.compile(rf"(?:from|import)\s+{part}")
    line = re.compile(rf"^\s*(?:from {part} import|import {part}\s*(?:,|;|as\b|$)).*", re.MULTILINE)
    bare = []
    for file in FILES:
        if not some.search((ROOT / file).read_text(encoding="utf8")):
            continue
        bare += [f"{file}: {module}" for module, _ in everywhere(file) if module.split(".")[0] in MAY_IMPORT]
        if file.parts[:2] == ("tests", "package"):
            continue
        texts = (  # programs within strings
            node.value
            for node in ast.walk(tree_of(file))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        bare += [f"{file}: {found[0].strip()}" for text in texts for found in line.finditer(text)]
    assert not bare
