"""Arguments that several commands share: their options, declared once, and their validation."""

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
    from selfsurf.browser_env.answer_form import AnswerForm

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
    typer.Option("--set", help="Another option, name=value; the value is JSON, or else text. Repeatable."),
]
Seeds: TypeAlias = Annotated[
    str, typer.Option("--seeds", help="A number of seeds (`5` is 0 to 4), or a list: `0-4,7`.")
]
Out: TypeAlias = Annotated[Path | None, typer.Option("--out", help="Folder to write into.")]
Figures: TypeAlias = Annotated[
    Path | None, typer.Option("--out", help="Folder to write into.", file_okay=False)
]  # a file is refused before hours of measuring
Name: TypeAlias = Annotated[str, typer.Option("--name", help="Name of a new folder in runs/, instead of --out.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check_address(url: str) -> None:
    """Refuse addresses that no browser can open; `data:`, `file:` and `about:` are allowed."""
    try:
        parts = urlsplit(url)
        good = bool(parts.hostname) if parts.scheme in ("http", "https") else parts.scheme in ("data", "file", "about")
    except ValueError:  # for example, an incomplete IPv6 address
        good = False
    if not good:
        raise typer.BadParameter(f"--url must be an address such as https://example.org, not {url!r}.")


def check_new_episode(folder: Path) -> None:
    """Refuse a folder that can't hold a new episode, or that contains other files."""
    from selfsurf.browser_env.record.lock import something_else

    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"--out: {folder} is a file; give a folder.")
    if (folder / "episode.json").exists():
        raise typer.BadParameter(f"--out: {folder} already holds an episode; give another folder.")
    if folder.exists() and (other := something_else(folder)):
        raise typer.BadParameter(f"--out: {folder} holds other files ({other}); give another folder.")


def episode_folder(out: Path | None, name: str) -> Path | None:
    """Return the episode folder given by `--out` or `--name`; None for a folder named after the time.

    Raises:
        typer.BadParameter: The folder can't hold a new episode, or both options are given.
    """
    if not name:
        folder = out
    elif out is not None:
        raise typer.BadParameter("Give --out or --name, not both.")
    elif Path(name).name != name:
        raise typer.BadParameter(f"--name {name} must be the name of a folder in runs/; use --out for a path.")
    else:
        folder = Path("runs", name)
    if folder is not None:
        check_new_episode(folder)
    return folder


def check_browser(*, headless: bool, around: Mapping[str, Any] | None = None) -> None:
    """Refuse to continue without a browser, or without a display for a visible one.

    Args:
        headless: Whether the browser has no window.
        around: Options of the environment (`environment_options`), which may name a running browser.
    """
    if around and getattr(around.get("session"), "cdp_url", None):
        return
    if not headless:
        check_window()
        return
    from selfsurf.browser_env.browser.runtime import BrowserSpec, runtime
    from selfsurf.browser_env.errors import BrowserNotFound

    try:
        runtime().run(runtime().executable(BrowserSpec(executable=(around or {}).get("executable"))))
    except BrowserNotFound as error:
        raise typer.BadParameter(str(error)) from None


def browser_starts(around: Mapping[str, Any]) -> bool:
    """Start the shared browser if the episode uses it; return False after showing why it doesn't start.

    Args:
        around: Options of the environment (`environment_options`).
    """
    from selfsurf.browser_env import EnvError
    from selfsurf.browser_env.browser.runtime import BrowserSpec, runtime
    from selfsurf.scripts.terminal.console import show_error

    session = around.get("session")
    if session is not None and (session.profile or session.cdp_url or session.detached):
        return True  # a browser of its own, or one that is already running
    given = {one.name: around[one.name] for one in fields(BrowserSpec) if one.name in around}
    try:
        runtime().run(runtime().browser(BrowserSpec(**given)))
    except EnvError as error:
        show_error(str(error))
        return False
    return True


@contextlib.contextmanager
def refused_together() -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
    """Run several checks, and report all failures in one exception.

    Yields:
        A function that returns a context manager for one check.

    Raises:
        typer.BadParameter: Checks failed; the message has a line for each.
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
    """Refuse to continue where a browser can't show a window."""
    from selfsurf.browser_env.browser.browsers import require_window
    from selfsurf.browser_env.errors import BrowserNotFound

    try:
        require_window()
    except BrowserNotFound as error:
        raise typer.BadParameter(str(error)) from None


def make_folder(folder: Path, option: str = "--out") -> None:
    """Create the folder that an option names.

    Raises:
        typer.BadParameter: The folder can't be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(
            f"{option}: {folder} is not a folder that can be written ({error.strerror})."
        ) from None


def check_tasks(tasks: Iterable[str]) -> tuple[str, ...]:
    """Return the full names of tasks, which other processes can resolve; a suite is expanded into its tasks.

    Raises:
        typer.BadParameter: A task doesn't exist, or can't be constructed.
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
    """Import the modules that the tasks of recorded episodes may come from.

    Raises:
        typer.BadParameter: A module is missing, or can't be imported.
    """
    from selfsurf.browser_env.classes import load_module

    try:
        for each in modules:
            load_module(each)
    except ValueError as error:
        raise typer.BadParameter(f"--trust: {error}") from None


def chosen_task(name: str, url: str, goal: str) -> tuple[str | None, Task]:
    """Return a task with its name; without a name, an open-ended task with a start page and a goal.

    Raises:
        typer.BadParameter: The task doesn't exist, or the name is that of a suite with several tasks.
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
    """Return the form of an answer by its name; None if the name is empty.

    Raises:
        typer.BadParameter: No form has that name.
    """
    from selfsurf.browser_env.answer_form import AnswerForm

    try:
        return AnswerForm.named(name) if name else None
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(f"--schema: {error}") from None


def specified_task(spec: Path, url: str, goal: str) -> tuple[str, Task]:
    """Return the task of a goal's specification, with its name.

    Raises:
        typer.BadParameter: The specification is invalid, or lacks a goal or a start page that isn't given here.
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
    """Refuse tasks that don't exist, or that have no oracle to learn from."""
    from selfsurf.envs_registry import task_of

    for name in check_tasks(tasks):
        if not task_of(name).has_oracle:
            raise typer.BadParameter(f"{name} has no oracle to learn from yet.")


def read_seeds(text: str) -> list[int]:
    """Return the seeds of an option such as `5` (0 to 4) or `0-4,7`."""
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
    """Return the sorted, distinct numbers of a list such as `1,2,8`."""
    try:
        counts = sorted({int(count) for count in text.split(",")})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1,2,8.", param_hint=option)
    return counts


def read_set(items: Iterable[str]) -> dict[str, Any]:
    """Parse `--set name=value` items. A value is JSON, or text if it isn't valid JSON.

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
    """Return the unparsed values of `--set name=value`."""
    return {name: text for name, _, text in (item.partition("=") for item in items)}


def settings_of(kind: type[S], values: Mapping[str, Any], given: Iterable[str] = ()) -> S:
    """Return settings validated strictly from JSON values, as an agent's options are: `"8"` is not a number.

    Args:
        kind: Class of the settings.
        values: Values by name.
        given: The `name=value` items that some values were read from, so that a text setting can get the text `5`.

    Raises:
        ValidationError: A value is invalid.
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
    """Print the names, defaults (`(required)` without one) and descriptions of the options that `--set` takes."""
    for name, default, text in rows:
        print(f"{name} (required)" if default is ... else f"{name} = {json.dumps(default, default=_plain)}")
        print(textwrap.indent(textwrap.fill(" ".join(text.split()), 110), "    "))


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(type(value), "model_fields") else str(value)


def wrong_settings(error: ValidationError, known: Collection[str]) -> str:
    """Return a one-line description of invalid settings, with suggestions for unknown names."""
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
