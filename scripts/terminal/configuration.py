"""Sources of a command's options: the command line, `SELFSURF_...` variables, `selfsurf.toml`, or the default.

A file has a table for each command, and `[environment]` for shared options; a command's own table takes precedence:

    [environment]
    profile = "shop"
    secret = { password = "env:SHOP_PASSWORD" }

    [run]
    agent = "nim"
    set = { temperature = 0.2 }

The variable for `max_steps` in `[run]` is `SELFSURF_RUN_MAX_STEPS`.
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

from selfsurf.renames import OPTIONS, told_of_setting, unknown_setting
from selfsurf.scripts.terminal.arguments import read_set, settings_of, wrong_settings

FILE = "selfsurf.toml"
SHARED = "environment"
TABLES = {
    SHARED: "selfsurf.browser_env.environment.env_options:EnvironmentSettings",
    "run": "selfsurf.scripts.run:Settings",
    "shell": "selfsurf.scripts.shell.main:Settings",
    "bench": "selfsurf.scripts.bench.run:Settings",
    "record": "selfsurf.scripts.record:Settings",
    "train": "selfsurf.scripts.train:Settings",
}
"""Settings class of each table in the file; `bench` is the table of `bench run`."""

_NOT_HERE = ("as_json", "list_settings")
_WANTED = ("task", "goal", "url", "spec")
"""Options that define the goal; if the command line gives any of them, those of the file are ignored."""
_NAMED = ("secret", "env_option", "set")
"""Repeatable `NAME=value` options, which are tables in the file and are merged by name."""


@dataclass(frozen=True)
class Value:
    """The value of an option, with its source."""

    value: Any
    source: str
    """Source of the value: `command line`, `SELFSURF_RUN_AGENT`, `selfsurf.toml:3` or `default`."""


@dataclass(frozen=True)
class _Layer:
    """The options from one source."""

    values: Mapping[str, Any]
    """Values by option name (`set`, not `set_`)."""
    lines: Mapping[str, int]
    place: str
    base: Path | None = None
    """Folder that relative paths are resolved against; None for environment variables."""

    def source(self, key: str) -> str:
        """Return the source of an option: a variable, or a file with its line."""
        if self.base is None:
            return f"{self.place}{key}".upper()
        return f"{self.place}:{self.lines[key]}" if key in self.lines else self.place


def options_of(table: str) -> dict[str, FieldInfo]:
    """Return the fields that a table can hold, by option name."""
    module, _, name = TABLES[table].partition(":")
    kind: type[BaseModel] = getattr(import_module(module), name)
    fields = {key: field for key, field in kind.model_fields.items() if key not in _NOT_HERE}
    return {key.rstrip("_"): field for key, field in fields.items() if not field.is_required()}


def resolved(table: str, given: Mapping[str, Any] | None = None) -> dict[str, Value]:
    """Return the value of every option of a table, with its source.

    Args:
        table: Name of the table.
        given: Values from the command line, by option name.

    Raises:
        typer.BadParameter: A file is not TOML, or has an unknown key or an invalid value; the message gives the place.
    """
    options = options_of(table)
    found = {key: Value(value, "command line") for key, value in (given or {}).items()}
    for layer in _layers(table):
        for key, raw in layer.values.items():
            if key not in options:
                continue  # an option of other commands, in the shared table
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
    """Return the arguments of a command that are set on the command line or elsewhere, without defaults.

    Args:
        table: Name of the command's table.
        values: All arguments, defaults included, by field name.
        given: Names of the fields given on the command line.
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
    """Return a command's options as plain data with absolute paths, independent of the current folder.

    Args:
        settings: The options.
        dumped: Options of `model_dump`.
    """
    fields, here = type(settings).model_fields, Path.cwd()
    kept = settings.model_dump(mode="json", **dumped)
    return {name: _based(value, name.rstrip("_"), fields[name], here) for name, value in kept.items()}


def files() -> list[Path]:
    """Return the configuration files in effect, the nearest first.

    The current folder and its parents are searched, up to a folder that holds `.git` or is the user's home, then
    `~/.config/selfsurf`.
    """
    found = []
    here = Path.cwd()
    for folder in (here, *here.parents):
        path = folder / FILE
        # another user may own a parent folder
        if path.is_file() and (folder == here or path.stat().st_uid in (os.getuid(), 0)):
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
    """Yield the options set in variables and files, in order of precedence."""
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
            warnings.filterwarnings("ignore", "Field name .* shadows")  # an option may share its name with a method
            kind = create_model("Variables", __base__=BaseSettings, **fields)
        try:
            yield _Layer(EnvSettingsSource(kind, env_prefix=prefix)(), {}, prefix)
        except SettingsError as error:
            key = str(getattr(error, "field_name", "") or re.findall(r'"(\w+)"', str(error))[0])
            raise typer.BadParameter(f'{prefix}{key.upper()}: write a list as JSON, such as ["a"].') from None
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
    """Read a configuration file; return its tables, and the line of each key."""
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
            raise typer.BadParameter(f"{_where(path, lines, (name, ''))}: write {name} as a table, [{name}].")
        if name in options_of(SHARED):
            raise typer.BadParameter(f"{_where(path, lines, ('', name))}: {name} belongs under [{SHARED}].")
        raise _unknown(path, lines, (name, ""), list(TABLES))
    return data, lines


_TABLE = re.compile(r"\s*\[\s*([\w.\"' -]+?)\s*\]")
_KEY = re.compile(r"\s*([\w.\"' -]+?)\s*=")


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Return the first line number of each table, and of each key within a table."""
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
    """Return the path of a file for display, relative to the current folder or to home."""
    return f"~/.config/selfsurf/{FILE}" if path == _own() else os.path.relpath(path)


def _unknown(path: Path, lines: Mapping[tuple[str, str], int], at: tuple[str, str], known: list[str]) -> Exception:
    name, what = (at[1], f"[{at[0]}] has no option") if at[1] else (at[0], "there is no table")
    near = get_close_matches(name.replace("-", "_"), known, 1)
    meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}."
    if told := told_of_setting(name):
        meant = f": {told} Put training settings under set."
    new = (option.removeprefix("--").replace("-", "_") for option in OPTIONS.get(f"--{name}", ()))
    if renamed := [option for option in new if option in known]:
        meant = f"; it is now {renamed[0]}."
    return typer.BadParameter(f"{_where(path, lines, at)}: {what} {name}{meant}")


def _checked(table: str, key: str, value: Any, layer: _Layer) -> Any:
    """Return a validated value of an option.

    Raises:
        typer.BadParameter: The value is invalid. The message omits the value.
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
    """Refuse unknown or invalid training settings.

    Conflicts between settings are reported when a command is run, because the command line may add further settings.
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
    """Return a value in command-line form: tables as `NAME=value`, paths resolved against the file's folder."""
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
"""Options that may name a file, and the pattern of such a value: `file.py:Class`, a suite, or a JSON schema."""


def _items(key: str, name: str, value: Any) -> list[str]:
    """Return the `NAME=value` items for an entry of a table; a group of settings gives an item per setting."""
    if key == "set" and isinstance(value, Mapping) and value:
        return [f"{name}.{own}={json.dumps(each)}" for own, each in value.items()]
    return [f"{name}={value if isinstance(value, str) else json.dumps(value)}"]


def _is_path(value: Any, key: str, field: FieldInfo, base: Path) -> bool:
    if not isinstance(value, str) or not value:
        return False
    if key in ("model", "adapter"):  # or the name of a model or adapter
        return Path(_below(base, value)).is_dir()
    return bool(_SOURCE.match(value)) if key in _SOURCES else Path in _parts(field.annotation)


def _below(base: Path, path: str) -> str:
    """Return a path from a configuration file, resolved against the file's folder."""
    return str(base / Path(path).expanduser())


def _parts(annotation: Any) -> set[Any]:
    inner = [part for each in get_args(annotation) for part in _parts(each)]
    return {annotation, *inner} if isinstance(annotation, type) else set(inner)


def _name(item: str) -> str:
    return item.partition("=")[0].partition("@")[0]


def _group(key: str, item: str) -> str:
    return _name(item).partition(".")[0] if key == "set" else ""
