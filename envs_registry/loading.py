"""Tasks by name: one syntax for all tasks, and one function that creates them, for every command and worker.

    MiniWoB/click-test-v0, click-test         an ID of this package, and its short name
    Browser-v0?start_url=...&goal=...         an open-ended task, encoded as in a URL
    Shop/Order-v0, shopenv:Shop/Order-v0      an ID registered with Gymnasium, in a module that is imported first
    shop.py:Order, shop:Order                 a class in a file or in a module
    shop.py:Order?price=3                     any of these with options of the task, as JSON or else text

`name_of` returns a name that is valid in every folder; a suite (`envs_registry.suites.task_names`) names many tasks.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import gymnasium as gym

from selfsurf.browser_env import BrowserEnv, Task
from selfsurf.browser_env.arguments import checked
from selfsurf.browser_env.classes import Sources, class_name, classes_beside, file_path, is_loaded, load_class
from selfsurf.tasks.miniwob import MiniWobTask

OPEN = "Browser-v0"
"""Gymnasium ID of the open-ended environment."""


def task_of(name: str | Task | type[Task], folder: str = "", **options: Any) -> Task:
    """Create a task, for example for `AsyncBrowserEnv(task=...)`.

    Args:
        name: a name (see above), a class, or a task, which is created anew.
        folder: base of a relative file; the current folder by default.
        options: options of the task, besides those in the name.

    Raises:
        ValueError: the task doesn't exist, doesn't accept these options, or its pages are missing.
    """
    full = name_of(name, folder, **options)
    if full.partition("?")[0] == OPEN:
        fields = dict(parse_qsl(full.removeprefix(OPEN).lstrip("?"), keep_blank_values=True))
        if fields.keys() != {"start_url", "goal"}:
            raise ValueError(
                f"{full!r} needs a start page and a goal: {OPEN}?start_url=...&goal=..., encoded as in a URL."
            )
        return Task(**fields)
    where, given = _split(full)
    if _names_class(where):
        return _with_pages(_made(where, load_class(where, wanted=_is_task), given, _texts(full)), full)
    module, colon, env_id = where.rpartition(":")
    if colon:
        _import(module)
    spec = gym.registry.get(env_id)
    if spec is None:
        raise ValueError(f"There is no task {where!r}{_meant(where, env_id)}")
    if spec.namespace == "MiniWoB":
        return _made(where, MiniWobTask, {"name": str(spec.name), **given}, _texts(full))
    return _with_pages(_registered(where, spec, given), full)


def _with_pages(task: Task, name: str) -> Task:
    """Return the task after checking that the folders with its pages exist."""
    for origin, folder in task.sites.items():
        if not Path(folder).is_dir():
            raise ValueError(f"{short_name(name)} serves {origin} from {folder}, which is not a folder.")
    return task


def name_of(task: str | Task | type[Task], folder: str = "", **options: Any) -> str:
    """Return the name by which a task is found from any folder of this machine, with absolute paths of files.

    Args:
        task: a name, which need not belong to a task, a class, or a task, which is named by its class and arguments.
        folder: base of a relative file; the current folder by default.
        options: options of the task, besides those in the name.

    Raises:
        ValueError: the class is not at the top level of a file, or arguments are not plain data.
    """
    if isinstance(task, str):
        if is_open(task):  # its goal is text, whatever it looks like
            return f"{task}&{urlencode(options)}" if options else task
        where, given = _split(task)
        if _names_class(where) and _is_file(where):
            path, _, kind = where.rpartition(":")
            where = f"{file_path(path, folder)}:{kind}"
        return _joined(_whole(where), {**given, **options})
    if not (_is_task(task) or isinstance(task, Task)):
        raise ValueError(f"A task must be a browser_env.Task, its class or a name such as file.py:Class, not {task!r}.")
    if isinstance(task, type):
        return _joined(class_name(task), options)
    if type(task) is Task:
        return open_id(task.start_url or "", task.goal or "")
    given = {**arguments_of(task), **options}
    if isinstance(task, MiniWobTask):
        return _joined(task.id, {key: value for key, value in given.items() if key != "name"})
    return _joined(class_name(type(task)), given)


def arguments_of(task: Task) -> dict[str, Any]:
    """Return the arguments with which a task was created, by name."""
    positional, named = task.made_with
    bound = inspect.signature(type(task).__init__).bind(task, *positional, **named).arguments
    return dict(list(bound.items())[1:])


def arguments_for(name: str) -> list[str]:
    """Return the names of the arguments of a named task's class."""
    taken = inspect.signature(load_class(_split(name)[0], wanted=_is_task)).parameters.values()
    return [one.name for one in taken if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def recorded_name(meta: Mapping[str, Any], url: str = "") -> str:
    """Return the name of a recorded episode's task, valid in any folder.

    Args:
        meta: content of `episode.json`.
        url: start address of the episode, used if `meta` doesn't contain it.
    """
    env_id, name = str(meta["env_id"]), meta.get("task")
    if env_id == OPEN:
        return open_id(meta["url"] or url, meta["goal"])
    if name and not (_is_file(name) and not Path(_split(name)[0].rpartition(":")[0]).exists()):
        return str(name)
    return name_of(env_id)


def unloaded(name: str) -> str:
    """Return the file or module that creating a task would import, and so run; empty if none or already loaded.

    An episode may name any task. Its code is imported only if the user has named the task (`--trust`) or imported it.
    """
    where = "" if is_open(name) else _split(name)[0].rpartition(":")[0]
    return "" if not where or is_loaded(where) else where


def sources_of(names: Iterable[str], *kinds: type) -> Sources:
    """Return the user's own source files and pages of these tasks and classes, for use on other machines.

    Raises:
        ValueError: a task doesn't exist, or the files are too large.
    """
    names = list(names)
    tasks = [task_of(name) for name in names]
    modules = [kind.__module__ for kind in (*map(type, tasks), *kinds)]
    modules += [module for name in names if (module := name.partition("?")[0].rpartition(":")[0]) in sys.modules]
    return Sources.of(modules, [folder for task in tasks for folder in (*task.sites.values(), *task.uploads)])


def is_open(name: str) -> bool:
    """Whether a task is open-ended: given only by its start page and goal, without a verdict."""
    return name.startswith(f"{OPEN}?")


def open_id(start_url: str, goal: str) -> str:
    """Return an open-ended task's name: `Browser-v0?start_url=...&goal=...`."""
    return f"{OPEN}?{urlencode({'start_url': start_url, 'goal': goal})}"


def short_name(name: str) -> str:
    """Return a task's name without the folder of its file, for display."""
    where, mark, options = name.partition("?")
    return f"{where.rpartition('/')[2]}{mark}{options}" if _is_file(where) else name


def _split(name: str) -> tuple[str, dict[str, Any]]:
    return name.partition("?")[0], {key: _value(text) for key, text in _texts(name).items()}


def _texts(name: str) -> dict[str, str]:
    return dict(parse_qsl(name.partition("?")[2], keep_blank_values=True))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _joined(where: str, options: Mapping[str, Any]) -> str:
    if not options:
        return where
    texts = {}
    for key, value in sorted(options.items()):
        try:
            plain = isinstance(value, str) and _value(value) == value
            texts[key] = value if plain else json.dumps(value)
        except TypeError:
            raise ValueError(
                f"{where}: the option {key} is {value!r}, but the options of a named task must be JSON data."
            ) from None
    return f"{where}?{urlencode(texts, quote_via=quote)}"


def _whole(where: str) -> str:
    """Return the full ID of a task of this package that is given by its short name; other names unchanged."""
    if set("/:") & set(where) or where in gym.registry:
        return where
    ours = (spec for spec in gym.registry.values() if str(spec.entry_point).startswith("selfsurf."))
    return next((spec.id for spec in ours if spec.namespace and spec.name == where), where)


def _is_file(name: str) -> bool:
    return name.partition("?")[0].rpartition(":")[0].endswith(".py")


def _names_class(where: str) -> bool:
    """Whether a name is `module:Class` or `file.py:Class`, rather than an ID with or without a module."""
    module, _, kind = where.rpartition(":")
    return bool(module) and kind.isidentifier()


def _is_task(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Task)


def _made(name: str, kind: Any, options: dict[str, Any], written: Mapping[str, str]) -> Task:
    if not _is_task(kind):
        raise ValueError(f"{name} is not a browser_env.Task{classes_beside(kind, _is_task)}")
    right = checked(f"The task {name}", (kind,), options, written)
    try:
        task: Task = kind(**right)
        task.made_with = (), options  # plain data, by which the task is named
        return task
    except ValueError:
        raise
    except (TypeError, LookupError, AttributeError, SystemExit) as error:
        raise ValueError(f"{name} can't be created: {type(error).__name__}: {error}") from error


def _registered(name: str, spec: Any, options: dict[str, Any]) -> Task:
    """Return the task of a registered environment, with the environment's step limit and viewport."""
    try:
        env = gym.make(spec, disable_env_checker=True, **options).unwrapped
    except Exception as error:
        raise ValueError(f"{name} can't be created: {type(error).__name__}: {error}") from error
    if not isinstance(env, BrowserEnv):
        env.close()
        raise ValueError(f"{name} is registered, but not as an environment with a browser (browser_env.BrowserEnv).")
    task = copy.deepcopy(env.task)  # the entry point may give the same task to all environments
    task.max_steps = spec.max_episode_steps or task.max_steps
    task.viewport = env.core.viewport
    return task


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{module} can't be imported: {type(error).__name__}: {error}") from error


def _meant(name: str, env_id: str) -> str:
    """Return a hint on what an unknown name may have meant."""
    if name.partition("#")[0].endswith((".toml", ".py")):
        return "; `envs_registry.task_names` lists the tasks of a suite, and a class in a file is named file.py:Class."
    near = get_close_matches(env_id, gym.registry, 1, 0.7)
    if not near and "/" not in env_id:
        ours_last = sorted(gym.registry.values(), key=lambda spec: str(spec.entry_point).startswith("selfsurf."))
        ids = {spec.name: spec.id for spec in ours_last}  # other packages register MiniWoB++ names, too
        near = [ids[each] for each in get_close_matches(env_id.partition("-v")[0], ids, 1, 0.7)]
    if near:
        return f"; did you mean {near[0]}?"
    return "; `selfsurf envs` lists the ids. Name your own task file.py:Class, or module:ID if a module registers it."
