"""Where a command's options come from: the command line, `SELFSURF_...` variables, `selfsurf.toml`, or the default.

A file has a table for each command, and `[environment]` for what they share; a command's own table counts more:

    [environment]
    profile = "shop"
    secret = { password = "env:SHOP_PASSWORD" }

    [run]
    agent = "nim"
    set = { temperature = 0.2 }

The variable of `max_steps` in `[run]` is `SELFSURF_RUN_MAX_STEPS`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import typer
from pydantic import BaseModel, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from selfsurf.renames import told_of_setting, unknown_setting
from selfsurf.scripts.terminal.arguments import read_set, settings_of, wrong_settings

FILE = "selfsurf.toml"
SHARED = "environment"
TABLES = {
    SHARED: "selfsurf.browser_env.environment:EnvironmentSettings",
    "run": "selfsurf.scripts.run:Settings",
    "shell": "selfsurf.scripts.shell.main:Settings",
    "bench": "selfsurf.scripts.bench.run:Settings",
    "record": "selfsurf.scripts.record:Settings",
    "train": "selfsurf.scripts.train:Settings",
}
"""Tables of the file, and whose options they hold. That of `bench run` is `bench`."""

_NOT_HERE = ("as_json", "list_settings")
_WANTED = ("task", "goal", "url", "spec")
"""What is to be done: the command line says all of it, or nothing."""
_NAMED = ("secret", "env", "set")
"""Options that are `NAME=value`, repeated: a table in the file. They are joined name by name."""


@dataclass(frozen=True)
class Value:
    """An option's value, and where it comes from."""

    value: Any
    source: str
    """`command line`, `SELFSURF_RUN_AGENT`, `selfsurf.toml:3` or `default`."""


@dataclass(frozen=True)
class _Layer:
    """Some options, from one place."""

    values: Mapping[str, Any]
    """By their keys: `set` and not `set_`."""
    lines: Mapping[str, int]
    place: str
    base: Path | None = None
    """Folder that relative paths in it mean."""

    def source(self, key: str) -> str:
        """Say where an option stands."""
        if self.base is None:
            return f"{self.place}{key}".upper()
        return f"{self.place}:{self.lines[key]}" if key in self.lines else self.place


def options_of(table: str) -> dict[str, FieldInfo]:
    """Return what a table can hold, by key."""
    module, _, name = TABLES[table].partition(":")
    kind: type[BaseModel] = getattr(import_module(module), name)
    fields = {key: field for key, field in kind.model_fields.items() if key not in _NOT_HERE}
    return {key.rstrip("_"): field for key, field in fields.items() if not field.is_required()}


def resolved(table: str, given: Mapping[str, Any] | None = None) -> dict[str, Value]:
    """Return the value of every option of a table with its source.

    Args:
        table: which.
        given: what the command line gives, by key.

    Raises:
        typer.BadParameter: a file is no TOML, or has a key or a value that can't be; the message says where.
    """
    options = options_of(table)
    found = {key: Value(value, "command line") for key, value in (given or {}).items()}
    for layer in _layers(table):
        for key, raw in layer.values.items():
            if key not in options:
                continue  # of the shared table: for other commands
            value = _checked(table, key, _based(raw, key, options[key], layer.base), layer)
            if key in _NAMED and key in found:
                names = {_name(item) for item in found[key].value}
                added = [item for item in value if not names & {_name(item), _group(key, item)}]
                if added:
                    sources = f"{found[key].source}, {layer.source(key)}"
                    found[key] = Value([*found[key].value, *added], sources)
            else:
                found.setdefault(key, Value(value, layer.source(key)))
    for key, field in options.items():
        found.setdefault(key, Value(field.get_default(call_default_factory=True), "default"))
    return {key: found[key] for key in options}


def filled(table: str, values: Mapping[str, Any], given: Iterable[str]) -> dict[str, Any]:
    """Return the arguments of a command that are given: on the command line, or elsewhere.

    Args:
        table: the command's.
        values: all arguments, defaults included, by the names of its settings.
        given: names of those that the command line gives.
    """
    if not _anything(table):
        return {name: value for name, value in values.items() if name in given}
    own = {name.rstrip("_"): values[name] for name in given if name in values and name.rstrip("_") in options_of(table)}
    passed_over = _WANTED if own.keys() & set(_WANTED) else ()
    found = {key: each for key, each in resolved(table, own).items() if key in own or key not in passed_over}
    taken = {key: each.value for key, each in found.items() if each.source != "default"}
    here = {name: value for name, value in values.items() if name in given}
    return {**here, **{name: taken[name.rstrip("_")] for name in values if name.rstrip("_") in taken}}


def absolute(settings: BaseModel, **dumped: Any) -> dict[str, Any]:
    """Return a command's options as plain data that means the same in any folder: paths are absolute.

    Args:
        settings: the options.
        dumped: options of `model_dump`.
    """
    fields, here = type(settings).model_fields, Path.cwd()
    kept = settings.model_dump(mode="json", **dumped)
    return {name: _based(value, name.rstrip("_"), fields[name], here) for name, value in kept.items()}


def files() -> list[Path]:
    """Return the configuration files that count here, the nearest first.

    Looked for in the current folder and those above it, up to one that holds `.git` or is the user's home, and in
    `~/.config/selfsurf`.
    """
    found = []
    here = Path.cwd()
    for folder in (here, *here.parents):
        path = folder / FILE
        if path.is_file() and (folder == here or path.stat().st_uid in (os.getuid(), 0)):  # above may be anybody's
            found.append(path)
            break
        if (folder / ".git").exists() or folder == Path.home():
            break
    own = _own()
    return [*found, *([own] if own.is_file() and own not in found else [])]


def _own() -> Path:
    return Path.home() / ".config" / "selfsurf" / FILE


def _prefixes(table: str) -> list[str]:
    return [f"SELFSURF_{each}_".upper() for each in dict.fromkeys((table, SHARED))]


def _anything(table: str) -> bool:
    return bool(files()) or any(name.upper().startswith(tuple(_prefixes(table))) for name in os.environ)


def _layers(table: str) -> Iterator[_Layer]:
    """Yield what can be set elsewhere than on the command line, what counts most first."""
    from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError

    for each, prefix in zip(dict.fromkeys((table, SHARED)), _prefixes(table), strict=True):
        options = options_of(each)
        for name in os.environ:
            if name.upper().startswith(prefix) and name.upper().removeprefix(prefix).lower() not in options:
                near = get_close_matches(name.upper().removeprefix(prefix).lower(), options, 1)
                meant = f"; did you mean {prefix}{near[0].upper()}?" if near else f"; there are {', '.join(options)}."
                raise typer.BadParameter(f"{name}: [{each}] has no such option{meant}")
        fields: Any = {key: (field.annotation, None) for key, field in options.items()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Field name .* shadows")  # an option may be called like a method
            kind = create_model("Variables", __base__=BaseSettings, **fields)
        try:
            yield _Layer(EnvSettingsSource(kind, env_prefix=prefix)(), {}, prefix)
        except SettingsError as error:
            key = str(getattr(error, "field_name", "") or re.findall(r'"(\w+)"', str(error))[0])
            raise typer.BadParameter(f'{prefix}{key.upper()}: a list is written as JSON, such as ["a"].') from None
    for path in files():
        data, lines = _read(path)
        for each in dict.fromkeys((table, SHARED)):
            options = options_of(each)
            for key in data.get(each, {}):
                if key not in options:
                    raise _unknown(path, lines, (each, key), list(options))
            at = {key: line for (name, key), line in lines.items() if name == each and key}
            yield _Layer(data.get(each, {}), at, _short(path), path.parent)


def _read(path: Path) -> tuple[dict[str, Any], dict[tuple[str, str], int]]:
    """Read a file; return its tables and the lines that their keys stand in."""
    try:
        text = path.read_text(encoding="utf8")
        data = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{_short(path)}: {error}") from None
    lines = _lines(text)
    for name, table in data.items():
        if name in TABLES and isinstance(table, dict):
            continue
        if name in TABLES:
            raise typer.BadParameter(f"{_where(path, lines, (name, ''))}: {name} is a table, [{name}].")
        if name in options_of(SHARED):
            raise typer.BadParameter(f"{_where(path, lines, ('', name))}: {name} belongs under [{SHARED}].")
        raise _unknown(path, lines, (name, ""), list(TABLES))
    return data, lines


_TABLE = re.compile(r"\s*\[\s*([\w.\"' -]+?)\s*\]")
_KEY = re.compile(r"\s*([\w.\"' -]+?)\s*=")


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Return the first line of each table and of each key in one."""
    found: dict[tuple[str, str], int] = {}
    above: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if table := _TABLE.match(line):
            path = above = re.split(r"\s*\.\s*", re.sub("[\"']", "", table[1]))
        elif key := _KEY.match(line):
            path = [*above, *re.split(r"\s*\.\s*", re.sub("[\"']", "", key[1]))]
        else:
            continue
        for end in (1, 2):
            first, second = (*path[:end], "")[:2]
            found.setdefault((first, second), number)
        if len(path) == 1 and not above:
            found.setdefault(("", path[0]), number)
    return found


def _where(path: Path, lines: Mapping[tuple[str, str], int], at: tuple[str, str]) -> str:
    return f"{_short(path)}:{lines[at]}" if at in lines else _short(path)


def _short(path: Path) -> str:
    """Return a file's path as a person reads it: from here, or from home."""
    return f"~/.config/selfsurf/{FILE}" if path == _own() else os.path.relpath(path)


def _unknown(path: Path, lines: Mapping[tuple[str, str], int], at: tuple[str, str], known: list[str]) -> Exception:
    name, what = (at[1], f"[{at[0]}] has no option") if at[1] else (at[0], "there is no table")
    near = get_close_matches(name.replace("-", "_"), known, 1)
    meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}."
    if told := told_of_setting(name):
        meant = f": {told} Settings of training belong under set."
    return typer.BadParameter(f"{_where(path, lines, at)}: {what} {name}{meant}")


def _checked(table: str, key: str, value: Any, layer: _Layer) -> Any:
    """Return a value if the option can have it.

    Raises:
        typer.BadParameter: it can't. The message doesn't hold the value.
    """
    module, _, name = TABLES[table].partition(":")
    kind: type[BaseModel] = getattr(import_module(module), name)
    field = key if key in kind.model_fields else f"{key}_"
    try:
        kind(**{field: value})
    except ValidationError as error:
        wrong = [each for each in error.errors(include_input=False) if each["loc"][:1] == (field,)]
        if wrong:
            why = wrong[0]["msg"].removeprefix("Value error, ").replace("Input should", "it should")
            raise typer.BadParameter(f"{layer.source(key)}: {key}: {why}") from None
    if (table, key) == ("train", "set"):
        _check_training(value, layer.source(key))
    wanted: Any = kind.model_fields[field].annotation
    return TypeAdapter(wanted).validate_python(value)


def _check_training(items: Sequence[str], source: str) -> None:
    """Refuse settings of training that there are not, and values that they can't have.

    What several settings together can't be is seen when a command is run: it may give others.
    """
    from selfsurf.sdft.settings import TrainSettings, fields

    known = list(fields())
    groups = {one.partition(".")[0] for one in known if "." in one}
    for name in (item.partition("=")[0] for item in items):
        if name not in known and name not in groups:
            raise typer.BadParameter(f"{source}: set: {unknown_setting(name, known)}")
    try:
        settings_of(TrainSettings, read_set(items), items)
    except ValidationError as error:
        together = [{*each["loc"]} <= groups and each["type"] == "value_error" for each in error.errors()]
        if not all(together):
            raise typer.BadParameter(f"{source}: set: {wrong_settings(error, known)}") from None


def _based(value: Any, key: str, field: FieldInfo, base: Path | None) -> Any:
    """Return a value as the command line would give it: tables as `NAME=value`, paths from the file's folder."""
    if key in _NAMED and isinstance(value, Mapping):
        value = [item for name, each in value.items() for item in _items(key, name, each)]
    if base is None:
        return value
    if key in _NAMED and isinstance(value, list):
        return [re.sub(r"(?<==)file:(?=.)(.*)", lambda found: f"file:{_below(base, found[1])}", str(v)) for v in value]
    if key == "proxy" and str(value).startswith("file:"):
        return f"file:{_below(base, str(value).removeprefix('file:'))}"
    if isinstance(value, list):
        return [_below(base, each) if _is_path(each, key, field, base) else each for each in value]
    return _below(base, value) if _is_path(value, key, field, base) else value


_SOURCES, _SOURCE = ("agent", "task", "tasks", "user", "schema"), re.compile(r"[^:=?]+\.(py:|toml|json$)")
"""Options that can be a file of the user's own, and how that is written: `file.py:Class`, a suite, or a JSON schema."""


def _items(key: str, name: str, value: Any) -> list[str]:
    """Return an entry of a table as `NAME=value`: one each for a group of settings, by which they are joined, too."""
    if key == "set" and isinstance(value, Mapping) and value:
        return [f"{name}.{own}={json.dumps(each)}" for own, each in value.items()]
    return [f"{name}={value if isinstance(value, str) else json.dumps(value)}"]


def _is_path(value: Any, key: str, field: FieldInfo, base: Path) -> bool:
    if not isinstance(value, str) or not value:
        return False
    if key in ("model", "adapter"):  # or a name
        return Path(_below(base, value)).is_dir()
    return bool(_SOURCE.match(value)) if key in _SOURCES else Path in _parts(field.annotation)


def _below(base: Path, path: str) -> str:
    """Return a path in a file as it is from the current folder."""
    return str(base / Path(path).expanduser())


def _parts(annotation: Any) -> set[Any]:
    inner = [part for each in get_args(annotation) for part in _parts(each)]
    return {annotation, *inner} if isinstance(annotation, type) else set(inner)


def _name(item: str) -> str:
    return item.partition("=")[0].partition("@")[0]


def _group(key: str, item: str) -> str:
    return _name(item).partition(".")[0] if key == "set" else ""
