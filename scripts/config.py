"""`selfsurf config`: show the effective value of every command option, and where it comes from."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.configuration import TABLES, files, resolved
from selfsurf.scripts.terminal.lazy import command_group

COMMANDS: dict[str, tuple[str, str]] = {
    "show": ("selfsurf.scripts.config:show", "Show every option's value and its source."),
}
"""Import path (`module:function`) and help line of each subcommand, by name."""

app = command_group(COMMANDS, "Show the values of the commands' options.")


class Settings(Arguments):
    """Options of `selfsurf config show`."""

    tables: Annotated[tuple[str, ...], typer.Argument()] = ()
    """Tables to show: environment, run, shell, bench (for bench run), record or train; all if not given."""


@command
def show(settings: Settings) -> None:
    """Show the value of every option and its source: a variable, a line of selfsurf.toml, or the default.

    The command line overrides variables, and variables override the file.
    """
    unknown = [name for name in settings.tables if name not in TABLES]
    if unknown:
        raise typer.BadParameter(f"There is no table {unknown[0]}; choose from {', '.join(TABLES)}.")
    found = {name: resolved(name) for name in settings.tables or TABLES}
    if settings.as_json:
        rows = {
            name: {key: {"value": _plain(each.value), "source": each.source} for key, each in table.items()}
            for name, table in found.items()
        }
        print(json.dumps({"files": list(map(str, files())), **rows}, indent=1))
        return
    for path in files():
        print(f"# {path}")
    for name, table in found.items():
        print(f"[{name}]")
        rows_ = [(f"{key} = {json.dumps(_plain(each.value))}", each.source) for key, each in table.items()]
        width = max(len(text) for text, _ in rows_ if len(text) < 60)
        for text, source in rows_:
            print(f"{text:<{width}}  # {source}")


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))
