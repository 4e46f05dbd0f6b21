"""Loads the class that `module:Class` or `file.py:Class` names."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

_loading = threading.Lock()


def load_class(name: str, folder: str = "") -> Any:
    """Return the class of `module:Class` or of `file.py:Class`.

    Args:
        name: which class.
        folder: base of a relative path; the current folder by default.

    Raises:
        ValueError: there is no such class.
    """
    where, _, attribute = name.partition(":")
    module = _file(Path(folder or ".") / where) if where.endswith(".py") else _module(where)
    kind = getattr(module, attribute, None)
    if not callable(kind):
        raise ValueError(f"{where} has no class {attribute!r}.")
    return kind


def _file(path: Path) -> ModuleType:
    path = path.resolve()
    name = f"_file_{path.stem}_{abs(hash(path))}"
    with _loading:  # or another thread finds it half loaded
        return sys.modules.get(name) or _load(name, path)


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ValueError(f"There is no file {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(f"{path} can't be loaded: {type(error).__name__}: {error}") from error
    return module


def _module(name: str) -> ModuleType:
    if os.getcwd() not in sys.path and "" not in sys.path:  # a command's path lacks it
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(f"There is no module {error.name!r} to take a class from.") from None
