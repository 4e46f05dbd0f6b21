"""The command `selfsurf`. To add a subcommand, add a line to `COMMANDS`."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Annotated, Any

import typer

from selfsurf.scripts.terminal.lazy import lazy_group

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
    "doctor": ("selfsurf.scripts.doctor:main", "Check what this machine can run, and say how to fix what it can't."),
}
"""As `scripts.terminal.lazy.Commands`."""


def _user_errors() -> list[type[Exception]]:
    """The errors whose message tells a user what to do, of the modules that a command has imported."""
    where = {
        "ModelError": "selfsurf.agents.models",
        "EnvError": "selfsurf.browser_env.errors",
        "EpisodeError": "selfsurf.browser_env.record.episode",
        "ResultsError": "selfsurf.scripts.report.reading",
    }
    return [OSError, *(getattr(sys.modules[module], name) for name, module in where.items() if module in sys.modules)]


class _Commands(lazy_group(COMMANDS)):  # type: ignore[misc]
    """Reports errors that the user can fix in one line, without a traceback."""

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
    cls=_Commands,
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
