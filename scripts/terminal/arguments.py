"""The arguments that several commands share: their options, declared once, and how their values are checked."""

from __future__ import annotations

import contextlib
import json
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import typer

from selfsurf.renames import unknown_setting

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from selfsurf.browser_env import Task
    from selfsurf.browser_env.goal.answer_form import AnswerForm

S = TypeVar("S", bound="BaseModel")

Agent: TypeAlias = Annotated[
    str,
    typer.Option(
        "--agent",
        "--backend",
        help="A backend (transformers, openai, nim, mlx, tensorrt), roles, graph, oracle, random, or module:Class "
        "or file.py:Class of an agent or policy.",
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
Figures: TypeAlias = Annotated[
    Path | None, typer.Option("--out", help="Folder to write into.", file_okay=False)
]  # refused before hours of measuring
Name: TypeAlias = Annotated[str, typer.Option("--name", help="Name of a new folder in runs/, instead of --out.")]
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
    """Refuse a folder that no episode can be written into, or that holds something else."""
    from selfsurf.browser_env.record.lock import something_else

    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"--out: {folder} is a file; give a folder.")
    if (folder / "episode.json").exists():
        raise typer.BadParameter(f"--out: {folder} already holds an episode; give another folder.")
    if folder.exists() and (other := something_else(folder)):
        raise typer.BadParameter(f"--out: {folder} holds something else ({other}); give another folder.")


def episode_folder(out: Path | None, name: str) -> Path | None:
    """Return the folder that `--out` or `--name` gives an episode, or None: then it is named after the time.

    Raises:
        typer.BadParameter: it can't be one.
    """
    if not name:
        folder = out
    elif out is not None:
        raise typer.BadParameter("--out and --name both say where it is; give one of them.")
    elif Path(name).name != name:
        raise typer.BadParameter(f"--name {name}: it is the name of a folder in runs/; --out takes a path.")
    else:
        folder = Path("runs", name)
    if folder is not None:
        check_new_episode(folder)
    return folder


def check_browser(*, headless: bool, around: Mapping[str, Any] | None = None) -> None:
    """Refuse to go on without a browser, or without a window for it if it is to have one.

    Args:
        headless: it has no window.
        around: options of the environment (`environment_options`), which may name a browser that runs already.
    """
    if around and getattr(around.get("session"), "cdp_url", None):
        return
    if not headless:
        check_window()
        return
    from selfsurf.browser_env.errors import BrowserNotFound
    from selfsurf.browser_env.session.runtime import BrowserSpec, runtime

    try:
        runtime().run(runtime().executable(BrowserSpec(executable=(around or {}).get("executable"))))
    except BrowserNotFound as error:
        raise typer.BadParameter(str(error)) from None


def browser_starts(around: Mapping[str, Any]) -> bool:
    """Start the shared browser if the episode will take place in it, or say why it does not start.

    Args:
        around: as for `check_browser`.
    """
    from selfsurf.browser_env import EnvError
    from selfsurf.browser_env.session.runtime import BrowserSpec, runtime
    from selfsurf.scripts.terminal.console import show_error

    session = around.get("session")
    if session is not None and (session.profile or session.cdp_url or session.detached):
        return True  # a browser of its own, or one that runs already
    given = {one.name: around[one.name] for one in fields(BrowserSpec) if one.name in around}
    try:
        runtime().run(runtime().browser(BrowserSpec(**given)))
    except EnvError as error:
        show_error(str(error))
        return False
    return True


@contextlib.contextmanager
def refused_together() -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
    """Go on with further checks after one that refuses something, and at the end refuse all of it at once.

    Yields:
        What makes the context of a check.

    Raises:
        typer.BadParameter: with a line for each.
    """
    found: list[str] = []

    @contextlib.contextmanager
    def checking() -> Iterator[None]:
        try:
            yield
        except typer.BadParameter as error:
            found.append(error.message)

    yield checking
    if found:
        raise typer.BadParameter("\n".join(found))


def check_window() -> None:
    """Refuse to go on where a browser can't show its window."""
    from selfsurf.browser_env.errors import BrowserNotFound
    from selfsurf.browser_env.session.browsers import require_window

    try:
        require_window()
    except BrowserNotFound as error:
        raise typer.BadParameter(str(error)) from None


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make the folder that an option names, or say why it can't be one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"{option}: {folder} can't be a folder to write into ({error.strerror}).") from None


def check_tasks(tasks: Iterable[str]) -> tuple[str, ...]:
    """Return the names of tasks, by which other processes find them, too; a suite stands for its tasks.

    Raises:
        typer.BadParameter: one is not there, or can't be made.
    """
    from selfsurf.envs_registry import task_names, task_of

    try:
        names = task_names(*tasks)
        for name in names:
            task_of(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return names


def import_trusted(modules: Iterable[str]) -> None:
    """Import what recorded episodes may have their tasks from.

    Raises:
        typer.BadParameter: it is not there, or can't be imported.
    """
    from selfsurf.browser_env.classes import load_module

    try:
        for each in modules:
            load_module(each)
    except ValueError as error:
        raise typer.BadParameter(f"--trust: {error}") from None


def chosen_task(name: str, url: str, goal: str) -> tuple[str | None, Task]:
    """Return a task with its name; without one, the open-ended task of a start page and a goal.

    Raises:
        typer.BadParameter: there is none, or the name is that of a suite with several.
    """
    from selfsurf.browser_env import Task
    from selfsurf.envs_registry import task_of

    if not name:
        return None, Task(start_url=url, goal=goal)
    names = check_tasks([name])
    if len(names) > 1:
        from selfsurf.envs_registry import load_suite

        ids = [task.id for task in load_suite(name).tasks]
        some = ", ".join(ids[:5]) + ", ..." * (len(ids) > 5)
        raise typer.BadParameter(f"{name} has {len(ids)} tasks ({some}): name one, {name.partition('#')[0]}#ID.")
    return names[0], task_of(names[0])


def answer_form(name: str) -> AnswerForm | None:
    """Return the form of an answer by its name; None without one.

    Raises:
        typer.BadParameter: there is none of that name.
    """
    from selfsurf.browser_env.goal.answer_form import AnswerForm

    try:
        return AnswerForm.named(name) if name else None
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(f"--schema: {error}") from None


def specified_task(spec: Path, url: str, goal: str) -> tuple[str, Task]:
    """Return the task of a goal's specification, with its name.

    Raises:
        typer.BadParameter: the specification can't be, or lacks a goal or a start that is not given here.
    """
    from selfsurf.browser_env.goal.spec import SpecError
    from selfsurf.envs_registry import name_of
    from selfsurf.tasks.goal import GoalTask

    options = {name: text for name, text in (("goal", goal), ("start_url", url)) if text}
    try:
        task = GoalTask(str(spec.resolve()), **options)
    except SpecError as error:
        raise typer.BadParameter(f"--spec: {error}") from None
    return name_of(task), task


def check_learnable(tasks: Sequence[str]) -> None:
    """Refuse environments that are not there, or that have no oracle to learn from."""
    from selfsurf.envs_registry import task_of

    for name in check_tasks(tasks):
        if not task_of(name).has_oracle:
            raise typer.BadParameter(f"{name} has no oracle to learn from yet.")


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
    given: set[str] = set()
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--set {item}: give name=value.")
        if name in given or name in found:
            raise typer.BadParameter(f"--set {item}: {name} is given twice.")
        given.add(name)
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


def read_texts(items: Iterable[str]) -> dict[str, str]:
    """Return the values of `--set name=value` as they were written."""
    return {name: text for name, _, text in (item.partition("=") for item in items)}


def settings_of(kind: type[S], values: Mapping[str, Any], given: Iterable[str] = ()) -> S:
    """Return settings of these values, which are read as an agent's options are: as JSON has them, `"8"` is no number.

    Args:
        kind: of the settings.
        values: theirs.
        given: the `name=value` that some were read from: where only a text can be, `name=5` is one.

    Raises:
        ValidationError: a value can't be.
    """
    from pydantic import ValidationError

    try:
        return kind.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        wrong = {
            str(each["loc"][0]) for each in error.errors() if each["type"] == "string_type" and len(each["loc"]) == 1
        }
        texts = {name: text for name, text in read_texts(given).items() if name in wrong}
        if not texts:
            raise
    return settings_of(kind, {**values, **texts})


def print_settings(rows: Iterable[tuple[str, Any, str]]) -> None:
    """Print what `--set` can change: names, defaults (`...` where there is none), and what they mean."""
    for name, default, text in rows:
        print(f"{name} (required)" if default is ... else f"{name} = {json.dumps(default, default=_plain)}")
        print(textwrap.indent(textwrap.fill(" ".join(text.split()), 110), "    "))


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(type(value), "model_fields") else str(value)


def wrong_settings(error: ValidationError, known: Collection[str]) -> str:
    """Say in one line what is wrong with settings, and what an unknown one may have been meant to be."""
    found = []
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"] if part != "training")
        group = [each for each in known if each.startswith(f"{name}.")]
        if item["type"] == "extra_forbidden":
            found.append(unknown_setting(name, known))
        elif group and item["type"] in ("model_type", "model_attributes_type"):
            found.append(f"{name} is a group of settings: give {group[0]}=..., {group[1]}=... and so on.")
        else:
            found.append(f"{name}: " * bool(name) + item["msg"].removeprefix("Value error, "))
    told = "; ".join(one.removesuffix(".") for one in found)
    return told if told.endswith("?") else f"{told}."
