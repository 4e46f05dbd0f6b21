"""Command-line options of the environment, the same for every command that plays episodes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import typer

from selfsurf.browser_env.environment.env_options import EnvironmentSettings
from selfsurf.scripts.terminal.command import Arguments

T = TypeVar("T", bound="EnvironmentArguments")

DETACHED = "browser"
"""Placeholder for the folder of a browser that outlives the command."""

NEVER = (
    "--confirm never refuses actions that labels, forms or dialogs show to be risky. In shops it recognized 90 of 100 "
    "labels (docs/safety.md); it can't read pictures or scripts."
)


class EnvironmentArguments(EnvironmentSettings, Arguments):
    """Arguments of a command that plays episodes; a configuration file can set them, too."""

    panels: ClassVar[Mapping[str, str]] = dict.fromkeys(EnvironmentSettings.model_fields, "Environment")

    @property
    def environment(self) -> EnvironmentSettings:
        """The environment's settings alone."""
        return EnvironmentSettings(**{name: getattr(self, name) for name in EnvironmentSettings.model_fields})


def environment_options(
    settings: EnvironmentSettings,
    *,
    elsewhere: bool = False,
    later: bool = False,
    wait: bool = False,
    reads: bool = False,
) -> dict[str, Any]:
    """Return the arguments of `browser_env.environment.env.make_core`, validated before work begins.

    Args:
        settings: Settings of the environment.
        elsewhere: Whether episodes are played on machines without this terminal.
        later: Whether the command passes a person's answers to an environment that waits for them (`scripts.waiting`).
        wait: Whether answers may also come from outside the terminal, and the browser outlives the command; the
            caller replaces `SessionOptions.detached`.
        reads: Whether the command reads answers from its own input, of any kind.

    Raises:
        typer.BadParameter: The settings are invalid, or require prompts and there is no terminal.
    """
    from selfsurf.browser_env import SessionOptions, shutdown
    from selfsurf.browser_env.environment.env import make_core
    from selfsurf.browser_env.safety import terminal

    if settings.asks and not wait and not reads:
        what = " and ".join(f"--{name} ask" for name in settings.asks)
        others = {"confirm": "--confirm auto or never", "user": "--user none or a function (file.py:answer)"}
        instead = ", ".join(others[name] for name in settings.asks)
        if elsewhere:
            raise typer.BadParameter(f"{what}: workers on a cluster can't ask at this terminal; give {instead}.")
        if not sys.stdin.isatty():
            instead = "--wait, and answer with `selfsurf answer`; or give " * later + instead
            raise typer.BadParameter(f"{what}: there is no terminal to ask at (stdin is not one); give {instead}.")
    terminal.ended.clear()
    try:
        options = settings.options(later=later)
        if wait:
            options["session"] = replace(options.get("session", SessionOptions()), detached=DETACHED)
        if options:
            make_core(**options)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if settings.device:
        shutdown()  # ends the driver that looked up the device
    return options


def asking(settings: T, *, wait: bool) -> T:
    """Return the settings with unset options changed to `ask` if a person can be asked.

    Args:
        settings: Settings of a command that plays one episode.
        wait: Whether `--wait` was given: then a person confirms risky actions and answers the agent. Otherwise the user
            at the terminal, if there is one, confirms risky actions.
    """
    names = ("confirm", "user") if wait else ("confirm",) if _at_terminal() else ()
    return settings.model_copy(update=dict.fromkeys(set(names) - settings.model_fields_set, "ask"))


def _at_terminal() -> bool:
    """Whether this process reads from a terminal and runs in its foreground."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):  # no terminal, or no input at all
        return False


def tell_confirmation(settings: EnvironmentArguments) -> None:
    """Print a warning to stderr if risky actions aren't confirmed, unless the output is JSON or `auto` was given."""
    if settings.as_json:
        return
    if settings.confirm == "never":
        print(NEVER, file=sys.stderr)
    elif settings.confirm == "auto" and "confirm" not in settings.model_fields_set:
        print(
            "Risky actions, such as purchases, are carried out without asking. Use --confirm ask or never to change "
            "this.",
            file=sys.stderr,
        )
