"""A group of commands of which only the one that is called is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

Commands = Mapping[str, tuple[str, str]]
"""Command -> where it is (`module:attribute`) and what it is for, in the order of the help text.

What it names is a `typer.Typer` with further commands, or a function with typer's annotations or
`scripts.terminal.command`. A number that the function returns is the exit code; an error that it raises ends with 1.
"""


class _Named(TyperCommand):
    """A command known by name and help text only: enough for the group's `--help`."""

    def load(self, where: str) -> Any:
        """Import the command and return its click command."""
        module, attribute = where.split(":")
        target: typer.Typer | Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        if not isinstance(target, typer.Typer):
            single = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
            single.command(name=self.name)(_exit_code(target))
            target = single
        command = typer.main.get_command(target)
        command.name = self.name
        command.help = command.help or self.help
        return command


def _exit_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a returned number the exit code: typer itself drops it."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        code = function(*args, **kwargs)
        if isinstance(code, int) and not isinstance(code, bool) and code:
            raise typer.Exit(code)

    return run


def lazy_group(commands: Commands) -> type[TyperGroup]:
    """Return the class of a group of these commands, for `typer.Typer(cls=...)`."""

    class Lazy(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return _Named(cmd_name, help=commands[cmd_name][1]) if cmd_name in commands else None

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            return name, command.load(commands[str(command.name)][0]) if isinstance(command, _Named) else command, rest

    return Lazy
