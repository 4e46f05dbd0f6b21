"""A user's own classes by name, `module:Class` or `file.py:Class`, here and in processes on other machines."""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from selfsurf.renames import Renamed, told_of_import

MOST_SOURCE = 100_000_000
"""Maximum bytes of source and page files that are sent to other machines."""

_OFFERED = 10
"""Maximum number of alternatives that the error about a missing class lists."""

_loading = threading.RLock()
_base = ""
"""Base folder of relative file names (`Sources.use`); empty for the current folder."""
_placed: dict[str, str] = {}
"""Local paths of files from another machine, by their paths on that machine."""


def load_class(name: str, folder: str = "", wanted: Callable[[Any], bool] = callable, what: str = "class") -> Any:
    """Return the class or function that `module:Class` or `file.py:Class` names.

    Args:
        name: name of the class.
        folder: base of a relative path; the current folder by default.
        wanted: which objects of the file an error message offers as alternatives.
        what: kind of object in the error message, such as `function`.

    Raises:
        ValueError: there is no such class.
    """
    where, _, attribute = name.partition(":")
    module = load_module(file_path(where, folder) if where.endswith(".py") else where)
    kind = getattr(module, attribute, None)
    if not callable(kind):
        if attribute and (told := told_of_import(f"{where}.{attribute}")):
            raise ValueError(told)
        named = f"{where} has no {what} {attribute!r}" if attribute else f"{name} names no {what} in {where}"
        raise ValueError(named + _offer(module, attribute, wanted))
    return kind


def load_module(where: str) -> ModuleType:
    """Import a file by its path, or a module by its name.

    Raises:
        ValueError: there is no such file or module, or it can't be imported.
    """
    return _file(file_path(where)) if where.endswith(".py") else _module(where)


def is_loaded(where: str) -> bool:
    """Whether a file or module has been imported, so that its classes are available without running code."""
    if not where.endswith(".py"):
        return where in sys.modules or where.partition(".")[0] == __name__.partition(".")[0]
    path = os.path.realpath(file_path(where))
    files = [getattr(module, "__dict__", {}).get("__file__") or "" for module in list(sys.modules.values())]
    alike = [file for file in files if os.path.basename(file) == os.path.basename(path)]
    return any(os.path.realpath(_placed.get(path, path)) == os.path.realpath(file) for file in alike)


def named_in(options: Any) -> list[Any]:
    """Return the classes and functions of a user's own files that are named anywhere in `options`.

    A text counts as a name if it is `file.py:Class` of an existing file, or `module:Class` of an imported module.
    """
    if isinstance(options, Mapping):
        return [kind for value in options.values() for kind in named_in(value)]
    if isinstance(options, list | tuple):
        return [kind for value in options for kind in named_in(value)]
    where, colon, attribute = options.partition(":") if isinstance(options, str) else ("", "", "")
    if not colon or not attribute.isidentifier():
        return []
    there = Path(file_path(where)).is_file() if where.endswith(".py") else where in sys.modules
    return [load_class(options)] if there else []


def classes_beside(kind: Any, wanted: Callable[[Any], bool]) -> str:
    """Return the end of a message that lists the alternatives in a class's file: `; it has Order, Shown.`, or `.`."""
    return _offer(sys.modules[kind.__module__], "", wanted)


def _offer(module: ModuleType, attribute: str, wanted: Callable[[Any], bool]) -> str:
    public = {each: value for each, value in vars(module).items() if callable(value) and not each.startswith("_")}
    own = [each for each, value in public.items() if getattr(value, "__module__", "") == module.__name__]
    right = [each for each in own if wanted(public[each])]
    if near := get_close_matches(attribute, right, 1):
        return f"; did you mean {near[0]}?"
    return f"; it has {', '.join(right[:_OFFERED])}{', ...' * (len(right) > _OFFERED)}." if right else "."


def file_path(where: str, folder: str = "") -> str:
    """Return the absolute path of a file that is named relative to `folder`, or to the current folder."""
    return os.path.abspath(os.path.join(_base, folder, os.path.expanduser(where)))


def class_name(kind: type) -> str:
    """Return the name under which `load_class` finds a class from any folder.

    Raises:
        ValueError: the class was defined in a function or at a prompt.
    """
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if "." in kind.__qualname__ or not file:
        raise ValueError(
            f"{kind.__qualname__} can't be found by other processes: define it at the top level of a file."
        )
    if kind.__module__ in ("__main__", "__mp_main__") or kind.__module__.startswith(_PREFIX):
        there = {here: path for path, here in _placed.items()}
        return f"{there.get(file, os.path.abspath(file))}:{kind.__name__}"
    return f"{kind.__module__}:{kind.__name__}"


@dataclass(frozen=True)
class Sources:
    """Source files of a user's own classes, sent to processes that may lack them."""

    base: str = ""
    """Folder that relative names refer to."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Contents of the files by absolute path."""
    paths: tuple[str, ...] = ()
    """Folders from which modules are imported."""

    @classmethod
    def of(cls, modules: Iterable[str], folders: Iterable[str | Path] = ()) -> Sources:
        """Gather the files that modules need: all loaded modules of their folders, and the files of `folders`.

        Installed packages are left out: the other machine must have them installed.

        Raises:
            ValueError: the files exceed `MOST_SOURCE`, or a module has no file.
        """
        roots = list(dict.fromkeys(root for name in modules if (root := _root(sys.modules[name]))))
        if not roots:
            return cls(os.getcwd())
        roots += [here for here in (os.getcwd(),) if here in sys.path and here not in roots]
        paths = [Path(file) for module in list(sys.modules.values()) if (file := _own_file(module))]
        paths = [path for path in paths if any(path.is_relative_to(root) for root in roots)]
        for folder in map(os.path.abspath, folders):
            if not _installed(folder):
                paths += [path for path in Path(folder).rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in set(paths))
        if size > MOST_SOURCE:
            raise ValueError(
                f"{roots[0]} has {size / 1e6:.0f} MB of code and pages, but at most {MOST_SOURCE / 1e6:.0f} MB are "
                "sent to workers. Serve the pages yourself, at an address that workers can reach."
            )
        return cls(os.getcwd(), {str(path): path.read_bytes() for path in paths}, tuple(roots))

    def use(self) -> None:
        """Make names in this process refer to the same files as in the process that gathered the sources.

        Files that already exist with the same content at the same path are used in place. If any is missing, all are
        written to a temporary folder that is removed when the process ends.
        """
        global _base
        _base = self.base
        root = ""
        if not all(_holds(path, content) for path, content in self.files.items()):
            root = tempfile.mkdtemp(prefix="selfsurf-own-")
            atexit.register(shutil.rmtree, root, ignore_errors=True)
        for path, content in self.files.items() if root else ():
            place = Path(root + path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            _placed[path] = str(place)
        sys.path[:0] = [path for folder in self.paths if (path := root + folder) not in sys.path]
        importlib.invalidate_caches()


_PREFIX = "_file_"


def _file(path: str) -> ModuleType:
    """Return a file's module; the running `__main__` if it is that file, so that the file doesn't run twice."""
    here, main = _placed.get(path, path), sys.modules.get("__main__")
    if os.path.realpath(here) == os.path.realpath(getattr(main, "__file__", None) or os.devnull):
        return sys.modules["__main__"]
    # The name is the same in every process, so that objects pickled by one process can be loaded by another.
    name = f"{_PREFIX}{Path(path).stem}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"
    with _loading:  # keeps other threads from using a half-loaded module
        return sys.modules.get(name) or _load(name, Path(here))


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ValueError(f"There is no file {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(f"{path} can't be loaded: {type(error).__name__}: {error}") from error
    return module


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Renamed as error:
        raise ValueError(str(error)) from None
    except ModuleNotFoundError as error:
        raise ValueError(f"There is no module {error.name!r}.") from None
    except (Exception, SystemExit) as error:
        raise ValueError(f"{name} can't be imported: {type(error).__name__}: {error}") from error


def _own_file(module: ModuleType) -> str:
    """Return the source file of a user's own module; empty for modules of Python, packages and this project."""
    about = getattr(module, "__dict__", {})  # other objects in sys.modules may import more on attribute access
    file = about.get("__file__")
    ours = str(about.get("__name__")).partition(".")[0] == __name__.partition(".")[0]
    return "" if ours or not file or not file.endswith(".py") or _installed(file) else os.path.abspath(file)


def _installed(path: str) -> bool:
    parts = {"site-packages", "dist-packages"}
    return bool(parts & set(Path(path).parts)) or path.startswith(sysconfig.get_path("stdlib") + os.sep)


def _root(module: ModuleType) -> str:
    """Return the folder from which a user's module or its top-level package is imported; empty for other modules."""
    file = _own_file(module)
    if not file:
        if module.__name__ == "__main__" and not getattr(module, "__file__", None):
            raise ValueError("Classes defined at a prompt can't be sent to workers: define them in a file.")
        return ""
    inside = 0 if module.__name__.startswith(_PREFIX) else module.__name__.count(".")
    return str(Path(file).parents[inside + (Path(file).name == "__init__.py")])


def _holds(path: str, content: bytes) -> bool:
    try:
        return Path(path).read_bytes() == content
    except OSError:
        return False
