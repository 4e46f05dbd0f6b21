"""Arguments that several commands take, checked before anything is begun."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from pydantic import ValidationError


def check_address(url: str) -> None:
    """Refuse what no browser can open; `data:`, `file:` and `about:` pages are fine."""
    try:
        parts = urlsplit(url)
        good = bool(parts.hostname) if parts.scheme in ("http", "https") else parts.scheme in ("data", "file", "about")
    except ValueError:  # such as half an IPv6 address
        good = False
    if not good:
        raise typer.BadParameter(f"--url is an address such as https://example.org, not {url!r}.")


def check_new_episode(folder: Path) -> None:
    """Refuse a folder that no episode can be written into."""
    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"--out: {folder} is a file; give a folder.")
    if (folder / "episode.json").exists():
        raise typer.BadParameter(f"--out: {folder} already holds an episode; give another folder.")


def make_folder(folder: Path) -> None:
    """Make the folder of a run, or say why it can't be one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"--out: {folder} can't be a folder to write into ({error.strerror}).") from None


def check_tasks(tasks: Iterable[str]) -> None:
    """Refuse environments that are not there; an open-ended one needs its start page and goal."""
    import gymnasium

    from selfsurf import envs_registry

    for task in tasks:
        if task.partition("?")[0] not in gymnasium.registry:
            raise typer.BadParameter(f"There is no environment {task!r}; `selfsurf envs` lists them.")
        try:
            envs_registry.task_of(task)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None


def check_learnable(tasks: Sequence[str]) -> None:
    """Refuse environments that are not there, or that have no oracle to learn from."""
    from selfsurf import envs_registry

    check_tasks(tasks)
    for task in tasks:
        if not envs_registry.task_of(task).has_oracle:
            raise typer.BadParameter(f"{task} has no oracle to learn from yet.")


def more_settings(items: Iterable[str]) -> dict[str, Any]:
    """Read `--set name=JSON value`; `group.name` is a setting in a group, as in `rollouts.workers=2`."""
    found: dict[str, Any] = {}
    for item in items:
        name, _, value = item.partition("=")
        group, dot, own = name.partition(".")
        try:
            read = json.loads(value)
        except ValueError:
            raise typer.BadParameter(f"--set {item}: {value!r} is not a JSON value, e.g. 0.001 or '\"ema\"'.") from None
        if not dot:
            found[name] = read
        elif isinstance(found.setdefault(group, {}), dict):
            found[group] = {**found[group], own: read}
        else:
            raise typer.BadParameter(f"--set {item}: {group} is {found[group]!r} already.")
    return found


def wrong_settings(error: ValidationError, known: Collection[str]) -> str:
    """Say in one line what is wrong with settings, and what an unknown one may have been meant to be."""
    found = []
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"] if part != "training")
        if item["type"] == "extra_forbidden":
            close = get_close_matches(name, known, 1)
            meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}."
            found.append(f"there is no setting {name}; {meant}")
        else:
            found.append(f"{name}: " * bool(name) + item["msg"].removeprefix("Value error, "))
    return "; ".join(found)
