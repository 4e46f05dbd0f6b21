"""Suites: named sets of tasks with splits, groups and seeds, defined in a TOML or Python file.

name = "my-shop"
seeds = 5                       # 0 to 4; or a list
tasks = [
    { id = "MiniWoB/click-test-v0", split = "train" },
    { id = "shop.py:BuyMilk", split = "test", groups = ["buying"], options = { price = 3 } },
]
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import runpy
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from selfsurf.browser_env import Task
from selfsurf.envs_registry.loading import name_of, short_name, task_of
from selfsurf.tasks.goal import GoalTask

MOST_SEEDS = 100_000

FOLDER = Path(__file__).parent

_TASK_FIELDS = ("id", "split", "groups", "options")


class SuiteError(ValueError):
    """A suite doesn't exist, or its file is invalid."""


@dataclass(frozen=True)
class SuiteTask:
    """A task of a suite."""

    id: str
    """Name of the task (`envs_registry.loading`); may be given as a `browser_env.Task` or its class."""
    split: str = ""
    groups: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the task."""
    folder: str = ""
    """Folder of the suite's file, the base of a relative `file.py`."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            name = name_of(self.id)
            object.__setattr__(self, "id", short_name(name))
            object.__setattr__(self, "folder", name.partition("?")[0].rpartition("/")[0] if name != self.id else "")
        groups = (self.groups,) if isinstance(self.groups, str) else tuple(self.groups)
        object.__setattr__(self, "groups", groups)
        for value in (self.id, self.split, *groups):
            if not isinstance(value, str):
                raise SuiteError(f"The task {self.id!r}: its id, split and groups must be strings, not {value!r}.")
        if not isinstance(self.options, dict):
            raise SuiteError(f"The task {self.id!r}: its options must be a table, not {self.options!r}.")

    @property
    def name(self) -> str:
        """Name by which the task is found from any folder, including its options."""
        return name_of(self.id, self.folder, **self.options)

    def make(self) -> Task:
        """Create the task.

        Raises:
            ValueError: the task doesn't exist, or its pages are missing.
        """
        return task_of(self.name)

    def fingerprint(self) -> str:
        """Return the SHA-256 of a user's own task (`fingerprint_of`); empty for other tasks."""
        return fingerprint_of(self.make()) if ":" in self.id else ""


@dataclass(frozen=True)
class Suite:
    """A set of tasks to run together.

    Raises:
        SuiteError: the suite has no tasks or no seeds, or contains a task or seed twice.
    """

    name: str
    tasks: tuple[SuiteTask, ...]
    """Tasks of the suite; each may also be given as an ID, a `browser_env.Task` or its class."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of the episodes; a number n stands for the seeds from 0 to n - 1."""
    max_steps: int | None = None
    """Step limit of every task; None for each task's own limit."""
    description: str = ""

    def __post_init__(self) -> None:
        tasks = tuple(task if isinstance(task, SuiteTask) else SuiteTask(task) for task in self.tasks)
        object.__setattr__(self, "tasks", tasks)
        object.__setattr__(self, "seeds", _seeds(self.seeds, self.name))
        if self.max_steps is not None and not (isinstance(self.max_steps, int) and self.max_steps > 0):
            raise SuiteError(f"The suite {self.name}: max_steps must be an integer of at least 1.")
        seen = [task.id for task in self.tasks]
        if not seen or not self.seeds:
            raise SuiteError(f"The suite {self.name} has no {'seeds' if seen else 'tasks'}.")
        twice = sorted({one for one in seen if seen.count(one) > 1})
        if twice or len(set(self.seeds)) < len(self.seeds):
            raise SuiteError(f"The suite {self.name} has {', '.join(twice) or 'a seed'} twice.")

    def only(
        self, *, splits: Sequence[str] = (), groups: Sequence[str] = (), ids: Sequence[str] = (), **task_options: Any
    ) -> Suite:
        """Return the suite with only the tasks in these splits, in any of these groups, and with these IDs.

        Args:
            splits: splits such as `"test"`; empty for all.
            groups: groups such as `"webgum"`; empty for all.
            ids: IDs, their part between `/` and `-v`, or classes without their files; empty for all.
            task_options: added to every task's options.

        Raises:
            SuiteError: a split, group or ID doesn't exist, or no task is left.
        """
        _known("split", splits, {task.split for task in self.tasks if task.split}, self.name)
        _known("group", groups, {group for task in self.tasks for group in task.groups}, self.name)
        _known("task", ids, {name for task in self.tasks for name in _names(task)}, self.name)
        kept = tuple(
            replace(task, options={**task.options, **task_options})
            for task in self.tasks
            if (not splits or task.split in splits)
            and (not groups or set(groups) & set(task.groups))
            and (not ids or set(ids) & _names(task))
        )
        if not kept:
            raise SuiteError(f"No task of the suite {self.name} matches all the given splits, groups and ids.")
        return replace(self, tasks=kept)

    def part(self, name: str) -> Suite:
        """Return the suite with only the split, group or task of this name; the whole suite for an empty name.

        Raises:
            SuiteError: the suite has no such split, group or task.
        """
        if not name:
            return self
        if any(name == task.split for task in self.tasks):
            return self.only(splits=[name])
        if any(name in task.groups for task in self.tasks):
            return self.only(groups=[name])
        return self.only(ids=[name])

    def about(self) -> list[dict[str, Any]]:
        """Return the tasks as plain data, with their fingerprints as `sha256`."""
        return [{**asdict(task), "sha256": task.fingerprint()} for task in self.tasks]


def fingerprint_of(task: Task) -> str:
    """Return the SHA-256 of a task over its source file (if any), specification, pages and uploads."""
    digest = hashlib.sha256()
    with contextlib.suppress(OSError, TypeError):  # the class was defined interactively
        digest.update(Path(inspect.getfile(type(task))).read_bytes())
    if isinstance(task, GoalTask):
        digest.update(task.spec.model_dump_json(exclude_defaults=True).encode())
    for folder in (*(folder for _, folder in sorted(task.sites.items())), *task.uploads):
        for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def suite_names() -> tuple[str, ...]:
    """Return the names of the built-in suites."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def task_names(*tasks: str | Task | type[Task]) -> tuple[str, ...]:
    """Return names valid in every folder (`name_of`) for the given tasks and for each task of given suites.

    A suite is named as for `load_suite`.

    Raises:
        SuiteError: a suite, or the given part of it, doesn't exist.
        ValueError: a class can't be named.
    """
    found: list[str] = []
    for task in tasks:
        if isinstance(task, str) and _is_suite(task):
            found += [one.name for one in load_suite(task).tasks]
        else:
            found.append(name_of(task))
    return tuple(found)


def load_suite(name: str | Path) -> Suite:
    """Load a suite by its name or from a TOML or Python file (which defines `SUITE`), or a task as a suite.

    `shop.toml#test` is the suite with only its split, group or task `test`.

    Raises:
        SuiteError: the suite doesn't exist, or its file is invalid.
    """
    if isinstance(name, str) and not _is_suite(name) and not set(":/?#") & set(name):
        name = name_of(name)  # resolves a task's short name to its ID
    if isinstance(name, str) and not _is_suite(name) and set(":/?") & set(name):
        return Suite(name, (_at(SuiteTask(name), Path()),))
    where, _, part = str(name).partition("#")
    if part:
        return load_suite(where).part(part)
    path = Path(name)
    if path.suffix not in (".toml", ".py"):
        path = FOLDER / f"{str(name).lower()}.toml"
        if not path.exists():
            raise SuiteError(
                f"There is no suite {str(name)!r}: give {', '.join(suite_names())}, or a .toml or .py file."
            )
    try:
        if path.suffix == ".py":
            found = _run(path).get("SUITE")
            if not isinstance(found, Suite):
                raise SuiteError(
                    f"{path} defines no SUITE = Suite(...) (envs_registry.suites); name a task in it {path}:Class."
                )
            return replace(found, tasks=tuple(_at(task, path.parent) for task in found.tasks))
        return _read(tomllib.loads(path.read_text(encoding="utf8")), path)
    except OSError as error:
        raise SuiteError(f"{path} can't be read: {error.strerror}.") from None
    except tomllib.TOMLDecodeError as error:
        raise SuiteError(f"{path} is not valid TOML: {error}.") from None


def _is_suite(name: str) -> bool:
    where = name.partition("#")[0]
    return (where.endswith((".toml", ".py")) and "?" not in where) or where.lower() in suite_names()


def _run(path: Path) -> dict[str, Any]:
    path.read_bytes()  # fails early, so that a later OSError comes from the suite's own code
    try:
        return runpy.run_path(str(path))
    except (Exception, SystemExit) as error:
        raise SuiteError(f"{path} can't be run: {type(error).__name__}: {error}") from error


def _read(data: dict[str, Any], path: Path) -> Suite:
    _fields(data, ("name", "description", "seeds", "max_steps", "tasks"), ("tasks",), str(path))
    if not isinstance(data["tasks"], list):
        raise SuiteError(f"{path}: tasks must be a list of ids, or of tables with {', '.join(_TASK_FIELDS)}.")
    tasks = []
    for number, entry in enumerate(data["tasks"], 1):
        where = f"{path}, task {number}"
        entry = {"id": entry} if isinstance(entry, str) else entry
        _fields(entry, _TASK_FIELDS, ("id",), where)
        tasks.append(_at(SuiteTask(**entry), path.parent))
    more = {name: data[name] for name in ("seeds", "max_steps", "description") if name in data}
    return Suite(data.get("name", path.stem), tuple(tasks), **more)


def _fields(data: Any, known: tuple[str, ...], needed: tuple[str, ...], where: str) -> None:
    if not isinstance(data, dict):
        raise SuiteError(f"{where}: expected a table with {', '.join(known)}.")
    wrong = sorted(set(data) - set(known))
    lacking = [name for name in needed if name not in data]
    if wrong or lacking:
        raise SuiteError(
            f"{where}: " + (f"{', '.join(lacking)} is missing." if lacking else f"{wrong[0]} is not one of {known}.")
        )


def _at(task: SuiteTask, folder: Path) -> SuiteTask:
    in_file = task.id.partition(":")[0].endswith(".py")
    return replace(task, folder=str(folder.resolve())) if in_file and not task.folder else task


def _names(task: SuiteTask) -> set[str]:
    where = task.id.partition("?")[0]
    in_class = where.rpartition(":")[2] if "/" not in where.rpartition(":")[2] else ""
    return {task.id, in_class or where.partition("/")[2].rpartition("-v")[0] or task.id}


def _seeds(given: Any, name: str) -> tuple[int, ...]:
    if isinstance(given, int) and not isinstance(given, bool):
        given = range(min(given, MOST_SEEDS + 1))
    seeds = tuple(given) if isinstance(given, (list, tuple, range)) else (None,)
    if len(seeds) > MOST_SEEDS or not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
        raise SuiteError(f"The suite {name}: seeds must be a number of seeds up to {MOST_SEEDS}, or a list of seeds.")
    return seeds


def _known(kind: str, asked: Sequence[str], known: set[str], suite: str) -> None:
    for one in asked:
        if one not in known:
            listed = f": it has {', '.join(sorted(known))}." if 0 < len(known) < 20 else "."
            raise SuiteError(f"The suite {suite} has no {kind} {one!r}{listed}")
