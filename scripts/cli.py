"""The command `selfsurf`. Knows where each subcommand lives and imports only the one that is called.

To add a subcommand, add a line to `COMMANDS`. What it names is either a function with typer's annotations or a
`typer.Typer` of its own with further subcommands. A function that returns a number sets the exit code with it; an
error that is raised ends with code 1.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("selfsurf.scripts.demo:main", "Evaluate a small model, train it on its own episodes, evaluate it again."),
    "run": ("selfsurf.scripts.run:main", "Run an agent for one goal, with the episode on disk."),
    "record": (
        "selfsurf.scripts.record:main",
        "Record what a person does in a browser's window as an episode, or replay one.",
    ),
    "train": ("selfsurf.scripts.train:main", "Train an adapter by SDFT on tasks, or on recorded episodes."),
    "view": ("selfsurf.scripts.view:main", "Print a readable replay of an episode."),
    "bench": ("selfsurf.scripts.bench:app", "Measure against a raw limit or a peer."),
    "envs": ("selfsurf.scripts.envs:main", "List the environments that gymnasium.make knows."),
    "models": ("selfsurf.scripts.models:app", "List and fetch the models with a short name."),
    "adapters": ("selfsurf.scripts.adapters:app", "Show a LoRA adapter, and convert it for MLX or back."),
    "doctor": ("selfsurf.scripts.doctor:main", "Check what this machine can run, and say how to mend what it can't."),
}
"""Subcommand -> where it is (`module:attribute`) and what it is for, in the order of the help text."""


class _Named(TyperCommand):
    """A subcommand known by name and help text only: enough for `selfsurf --help`."""

    def load(self) -> Any:
        """Import the subcommand and return its click command."""
        module, attribute = COMMANDS[str(self.name)][0].split(":")
        target: typer.Typer | Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        if not isinstance(target, typer.Typer):
            single = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
            single.command(name=self.name, help=COMMANDS[str(self.name)][1])(_exit_code(target))
            target = single
        command = typer.main.get_command(target)
        command.name = self.name
        command.help = command.help or COMMANDS[str(self.name)][1]
        return command


def _exit_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a returned number the exit code: typer itself drops it."""
    from functools import wraps

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        code = function(*args, **kwargs)
        if isinstance(code, int) and not isinstance(code, bool) and code:
            raise typer.Exit(code)

    return run


def _user_errors() -> list[type[Exception]]:
    """The errors whose message tells a user what to do, of the modules that a command has imported."""
    kinds: list[type[Exception]] = [OSError]
    for module, name in (
        ("selfsurf.agents.models", "ModelError"),
        ("selfsurf.browser_env.errors", "EnvError"),
        ("selfsurf.browser_env.record.episode", "EpisodeError"),
        ("selfsurf.scripts.report.reading", "ResultsError"),
    ):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return kinds


class _Lazy(TyperGroup):
    """The group of `COMMANDS`, each imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _Named(cmd_name, help=COMMANDS[cmd_name][1]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, _Named) else command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except tuple(_user_errors()) as error:
            typer.echo(f"{error}", err=True)
            raise typer.Exit(1) from None
        except ModuleNotFoundError as error:
            from selfsurf.scripts.machine.requirements import extra_of

            extra = extra_of(str(error.name))
            if not extra:
                raise
            typer.echo(
                f"This needs {error.name}, of the extra {extra}: bash scripts/setup.sh {extra}, "
                f"or in an environment of your own: pip install -e '.[{extra}]'",
                err=True,
            )
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=_Lazy,
    help="Web agents that learn from themselves: a browser environment, agents, and self-distillation.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(importlib.metadata.version("selfsurf"))
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


if __name__ == "__main__":
    app()
