"""Command groups that import only the command that is called."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from selfsurf.renames import OPTIONS
from selfsurf.scripts.terminal.interrupts import restore_interrupts

Commands = Mapping[str, tuple[str, str]]
"""Mapping of a command's name to its import path (`module:attribute`) and help line, in the order of the help text.

The attribute is a `typer.Typer` with further commands, or a function with Typer annotations or
`scripts.terminal.command`. An integer that the function returns is the exit code; an exception ends the process with 1.
"""


GIVEN = "selfsurf.given"
"""Key in a context's `meta` for the options as given, before they are validated."""

Verbose = Annotated[bool, typer.Option("--verbose", help="Show log messages and full tracebacks.")]


class _Command(TyperCommand):
    """A command that rejects renamed options, and options given twice unless they are repeatable."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        own = {name for parameter in self.params for name in parameter.opts}
        for name in (word.partition("=")[0] for word in args):
            if name in OPTIONS and (new := [one for one in OPTIONS[name] if one in own]):
                raise typer.BadParameter(f"{name} is now {new[0]}.", ctx=ctx)
        parsed: Any = self.make_parser(ctx).parse_args(list(args))
        given, _, order = parsed
        ctx.meta[GIVEN] = given
        for parameter in order:
            once = parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag)
            if once and order.count(parameter) > 1:
                raise typer.BadParameter("given twice; give it once.", ctx=ctx, param=parameter)
        return super().parse_args(ctx, args)


class _LazyCommand(TyperCommand):
    """A command of which only the name and help text are loaded, as the group's `--help` requires."""

    def load(self, where: str) -> Any:
        """Import the command and return its click command."""
        module, attribute = where.split(":")
        target: typer.Typer | Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        if not isinstance(target, typer.Typer):
            single = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
            single.command(name=self.name, cls=_Command)(_with_verbose(target))
            target = single
        command = typer.main.get_command(target)
        command.name = self.name
        command.help = command.help or self.help
        return command


def _with_verbose(function: Callable[..., Any]) -> Callable[..., None]:
    """Add `--verbose` to a command, and use its integer return value as the exit code, which Typer itself ignores."""

    @wraps(function)
    def run(*, verbose: bool, **values: Any) -> None:
        restore_interrupts()
        from selfsurf.scripts.terminal.console import logged

        with logged(verbose=True) if verbose else nullcontext():
            code = function(**values)
        if isinstance(code, int) and not isinstance(code, bool) and code:
            raise typer.Exit(code)

    types = {**get_type_hints(function, include_extras=True), "verbose": Verbose}
    verbose = inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=False)
    parameters = [*inspect.signature(function).parameters.values(), verbose]
    del run.__wrapped__  # type: ignore[attr-defined]  # else its signature is taken for this one's
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=types[each.name]) for each in parameters]
    )
    run.__annotations__ = types
    return run


def lazy_group(commands: Commands) -> type[TyperGroup]:
    """Return a group class for these commands, to be passed to `typer.Typer(cls=...)`."""

    class Lazy(TyperGroup):
        def __init__(self, **options: Any) -> None:
            named = {name: _LazyCommand(name, help=about) for name, (_, about) in commands.items()}
            super().__init__(**{**options, "commands": named})

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            return (
                name,
                command.load(commands[str(command.name)][0]) if isinstance(command, _LazyCommand) else command,
                rest,
            )

    return Lazy


def command_group(commands: Commands, about: str = "") -> typer.Typer:
    """Return a group of commands, each of which is imported when it is called.

    Args:
        commands: Commands of the group.
        about: Help text of the group.
    """
    app = typer.Typer(
        cls=lazy_group(commands),
        help=about or None,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_show_locals=False,
    )
    app.callback()(lambda: None)  # without a callback, Typer turns a group of one command into that command
    return app
