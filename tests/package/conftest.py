"""The checkout's files, its wheel, and processes that import it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("agents", "browser_env", "envs_registry", "scripts", "sdft", "tasks")
LEFT_OUT = {".sh"}
"""Kinds of files that only a checkout has."""

Process = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def parts() -> list[Path]:
    """All files of the six parts, relative to the root, that git knows or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *PARTS],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [Path(name) for name in sorted(set(listed.stdout.split("\0"))) if name and (ROOT / name).is_file()]


@pytest.fixture(scope="session")
def wheel(parts: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as a package index gives it."""
    folder = tmp_path_factory.mktemp("wheel")
    for file in [*parts, *map(Path, ("pyproject.toml", "README.md", "LICENSE"))]:
        (folder / "tree" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / "tree" / file)
    [archive] = _build("sdist", folder / "tree", folder / "sdist")
    shutil.unpack_archive(archive, folder / "unpacked")
    [unpacked] = (folder / "unpacked").iterdir()
    [built] = _build("wheel", unpacked, folder / "dist")
    return built


def _build(kind: str, source: Path, out: Path) -> list[Path]:
    hook = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
    out.mkdir()
    done = subprocess.run([sys.executable, "-c", hook], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(out.iterdir())


@pytest.fixture(scope="session")
def in_checkout() -> Callable[..., Process]:
    """Run Python at the root of the checkout: `in_checkout("-c", "import agents")`; it has to succeed."""

    def run(*words: str, **environment: str) -> Process:
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done

    return run
