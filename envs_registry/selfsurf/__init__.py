"""selfsurf: browser environments, web agents, and a trainer that teaches them from their own episodes.

Importing it registers the Gymnasium ids and loads no model library. The parts are `selfsurf.browser_env`,
`selfsurf.tasks`, `selfsurf.envs_registry`, `selfsurf.agents`, `selfsurf.sdft` and `selfsurf.scripts`.

In a checkout they are the folders at its root (`pyproject.toml` maps them), so that there `import browser_env` finds
one, too. It has to be the very same module: two copies would be two browsers and two lists of known secrets.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from types import ModuleType
from typing import Any

__version__ = version("selfsurf")


class _Alias(MetaPathFinder, Loader):
    """Finds `agents.policy` as `selfsurf.agents.policy`, for the parts that were imported by their bare names."""

    def __init__(self) -> None:
        self.parts: set[str] = set()
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        part, _, below = fullname.partition(".")
        return ModuleSpec(fullname, self) if part in self.parts and below else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"selfsurf.{spec.name}")
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = self._specs.pop(module.__spec__.name)  # importing has put the alias's in its place


_alias = _Alias()


def alias(name: str) -> None:
    """Make a part that is being imported as `browser_env` the same module as `selfsurf.browser_env`.

    Args:
        name: the part's `__name__`; one with the prefix is left as it is.
    """
    if "." in name:
        return
    _alias.parts.add(name)
    if _alias not in sys.meta_path:
        sys.meta_path.insert(0, _alias)
    sys.modules[name] = importlib.import_module(f"selfsurf.{name}")


from selfsurf import envs_registry as envs_registry  # noqa: E402  (registers the ids; needs `alias`)
