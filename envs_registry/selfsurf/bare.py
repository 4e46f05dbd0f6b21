"""Bare imports in a checkout: `import browser_env` at its root is `import selfsurf.browser_env`.

Only files of this project are affected; another project's own folder `agents` is not. This module is separate from the
package, which imports the parts, so that a thread that imports a part doesn't have to wait for the package.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import CodeType, ModuleType

PARTS = ("agents", "browser_env", "envs_registry", "scripts", "sdft", "tasks")


class _Alias(MetaPathFinder, Loader):
    """A finder that resolves `agents.policy` to `selfsurf.agents.policy` if both are the same file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        part = fullname.partition(".")[0]
        found = PathFinder.find_spec(fullname, path) if part in PARTS else None
        home = find_spec(f"selfsurf.{part}") if found and found.origin else None
        if not found or not found.origin or not home or not home.origin:
            return None
        origin = os.path.realpath(found.origin)
        if not origin.startswith(os.path.dirname(os.path.realpath(home.origin)) + os.sep):
            return None
        spec = ModuleSpec(fullname, self, origin=origin)  # pytest compares the origin with the path of a file
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"selfsurf.{spec.name}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        # restores the spec, which the import has replaced by the alias's
        module.__spec__ = module.__spec__.loader_state

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of a module that is run as a script: `python -m scripts.cli`."""
        real = find_spec(f"selfsurf.{fullname}")
        assert real is not None
        code: CodeType | None = real.loader.get_code(real.name)  # type: ignore[union-attr]
        return code


sys.meta_path.insert(0, _Alias())


def alias(name: str) -> None:
    """Replace a part being imported by its bare name with the module of the full name.

    Needed if the part is imported before anything of `selfsurf`.

    Args:
        name: `__name__` of the part; a name with the prefix `selfsurf.` is ignored.
    """
    if name not in PARTS:
        return
    real = importlib.import_module(f"selfsurf.{name}")
    here, there = sys.modules[name].__file__, real.__file__
    if here and there and not os.path.samefile(here, there):
        warnings.warn(f"{there}, from the installed selfsurf, is used instead of {here}.", ImportWarning, stacklevel=2)
    sys.modules[name] = real
