"""The command `selfsurf`. To add a subcommand, add a line to `COMMANDS`."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Annotated, Any

import typer

from selfsurf.scripts.terminal.lazy import Verbose, lazy_group

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("selfsurf.scripts.demo:main", "Evaluate a small model, train it on its own episodes, evaluate it again."),
    "run": ("selfsurf.scripts.run:main", "Run an agent on one goal, and save the episode."),
    "shell": ("selfsurf.scripts.shell.main:main", "Give an agent goals, one after another, in one browser session."),
    "answer": ("selfsurf.scripts.answer:main", "Answer a run that waits for a person, and continue the run."),
    "record": (
        "selfsurf.scripts.record:main",
        "Record a person's actions in a browser window as an episode, or replay one.",
    ),
    "judge": ("selfsurf.scripts.judge:main", "Judge finished episodes by a goal's specification, and by a model."),
    "draft": ("selfsurf.scripts.draft:main", "Let a model draft a goal's specification from a sentence."),
    "mark": ("selfsurf.scripts.mark:main", "Say whether a finished episode reached its goal."),
    "train": ("selfsurf.scripts.train:main", "Train an adapter by SDFT on tasks, or on recorded episodes."),
    "deploy": ("selfsurf.scripts.deploy:main", "Train an adapter on a server, from recorded episodes."),
    "status": ("selfsurf.scripts.status:main", "Show what a training service is doing."),
    "serve": ("selfsurf.scripts.serve:main", "Train adapters for clients that upload episodes."),
    "view": ("selfsurf.scripts.view:main", "Print a readable replay of an episode."),
    "cache": ("selfsurf.scripts.cache:main", "List the flows of an action cache, or add those of solved episodes."),
    "sample": ("selfsurf.scripts.sample:main", "Turn real runs into candidate scenarios, and accept some of them."),
    "bench": ("selfsurf.scripts.bench:app", "Run benchmarks, mostly against a raw limit or a peer."),
    "report": (
        "selfsurf.scripts.report.attempts_command:main",
        "Report on logged attempts, and compare them with a baseline.",
    ),
    "mcp": ("selfsurf.scripts.mcp:main", "Offer the browser to any MCP client as tools."),
    "envs": ("selfsurf.scripts.envs:main", "List the environments that gymnasium.make knows."),
    "models": ("selfsurf.scripts.models:app", "List and fetch the models with a short name."),
    "adapters": ("selfsurf.scripts.adapters:app", "Show a LoRA adapter, or convert it to or from MLX."),
    "config": ("selfsurf.scripts.config:app", "Show every option's value and its source."),
    "doctor": ("selfsurf.scripts.doctor:main", "Check what this machine can run, and suggest fixes for the rest."),
}
"""Import path (`module:function`) and help line of each subcommand, by name."""


def _user_errors() -> list[type[Exception]]:
    """Return the exception types whose message tells a user what to do, from the modules imported so far."""
    where = {
        "ModelError": "selfsurf.agents.model_files",
        "EnvError": "selfsurf.browser_env.errors",
        "EpisodeError": "selfsurf.browser_env.record.episode",
        "ResultsError": "selfsurf.scripts.report.reading",
    }
    return [OSError, *(getattr(sys.modules[module], name) for name, module in where.items() if module in sys.modules)]


def _told(error: Exception) -> str:
    """Return the message of an error, without the errno of an `OSError`."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    return str(error)


class _Commands(lazy_group(COMMANDS)):  # type: ignore[misc]
    """The root command group: it prints user errors without a traceback and tolerates a closed output pipe."""

    def main(self, *args: Any, **options: Any) -> Any:
        from selfsurf.scripts.terminal.console import let_readers_leave

        let_readers_leave()
        return super().main(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        from selfsurf.scripts.terminal.console import logged

        try:
            with logged(verbose=ctx.params["verbose"]):
                return super().invoke(ctx)
        except tuple(_user_errors()) as error:
            typer.echo(_told(error), err=True)
            raise typer.Exit(1) from None
        except ModuleNotFoundError as error:
            from selfsurf.extras import how_to_install
            from selfsurf.scripts.machine.requirements import extra_of

            extra = extra_of(str(error.name))
            if not extra:
                raise
            typer.echo(f"This needs {error.name}: {how_to_install(extra)}", err=True)
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
    verbose: Verbose = False,
) -> None:
    # allows module:Class options to import from the current folder
    sys.path += [here for here in (os.getcwd(),) if here not in sys.path and "" not in sys.path]


if __name__ == "__main__":
    app()
