"""The arguments that several commands share: their options, declared once, and how their values are checked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from pydantic import ValidationError

    from selfsurf.browser_env import Task

Agent: TypeAlias = Annotated[
    str,
    typer.Option(
        "--agent",
        "--backend",
        help="A backend (transformers, openai, mlx, tensorrt), oracle, random, or module:Class or file.py:Class of an "
        "agent or policy.",
    ),
]
Model: TypeAlias = Annotated[
    str, typer.Option("--model", "--model-id", help="Short name, hub id or folder of the model.")
]
Adapter: TypeAlias = Annotated[
    str, typer.Option("--adapter", "--adapter-path", help="Folder of a LoRA adapter, or its name on a server.")
]
Set: TypeAlias = Annotated[
    list[str],
    typer.Option("--set", help="Another option, name=value; the value is JSON, or text if it is none. Repeatable."),
]
Seeds: TypeAlias = Annotated[str, typer.Option("--seeds", help="How many (`5` is 0 to 4), or which: `0-4,7`.")]
Out: TypeAlias = Annotated[Path | None, typer.Option("--out", help="Folder to write into.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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


def chosen_task(name: str, url: str, goal: str) -> Task:
    """Return the task of this id, or without one the open-ended task of a start page and a goal."""
    from selfsurf.browser_env import Task
    from selfsurf.envs_registry import task_of

    if not name:
        return Task(start_url=url, goal=goal)
    check_tasks([name])
    return task_of(name)


def check_learnable(tasks: Sequence[str]) -> None:
    """Refuse environments that are not there, or that have no oracle to learn from."""
    from selfsurf import envs_registry

    check_tasks(tasks)
    for task in tasks:
        if not envs_registry.task_of(task).has_oracle:
            raise typer.BadParameter(f"{task} has no oracle to learn from yet.")


def read_seeds(text: str) -> list[int]:
    """Return the seeds that `5` (0 to 4) or `0-4,7` means."""
    from selfsurf.envs_registry.suites import MOST_SEEDS

    found: list[int] = []
    with contextlib.suppress(ValueError):
        if text.strip().isdigit():
            found = list(range(min(int(text), MOST_SEEDS + 1)))
        else:
            for part in filter(None, text.split(",")):
                first, dash, last = part.partition("-")
                found += range(int(first), min(int(last if dash else first), int(first) + MOST_SEEDS) + 1)
    if not found or len(set(found)) < len(found) or len(found) > MOST_SEEDS:
        raise typer.BadParameter(f"--seeds {text}: give a number of seeds, or a list such as 0-4,7.")
    return found


def read_counts(text: str, option: str) -> list[int]:
    """Return the numbers of `1,2,8`, each once and in order."""
    try:
        counts = sorted({int(count) for count in text.split(",")})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1,2,8.", param_hint=option)
    return counts


def read_set(items: Iterable[str]) -> dict[str, Any]:
    """Read `--set name=value`: a value is JSON, or text if it is none.

    `group.name` is a setting in a group, as in `rollouts.workers=2`.
    """
    found: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--set {item}: give name=value.")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        group, dot, own = name.partition(".")
        if not dot:
            found[name] = value
        elif isinstance(found.setdefault(group, {}), dict):
            found[group] = {**found[group], own: value}
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
