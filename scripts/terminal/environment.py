"""The environment's options on the command line, the same for every command that plays episodes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import typer

from selfsurf.browser_env.environment import EnvironmentSettings
from selfsurf.scripts.terminal.command import Arguments

DETACHED = "browser"
"""Stands for the folder of a browser that outlives the command, before there is one."""


class EnvironmentArguments(EnvironmentSettings, Arguments):
    """The arguments of a command that plays episodes; a configuration file can hold them, too."""

    panels: ClassVar[Mapping[str, str]] = dict.fromkeys(EnvironmentSettings.model_fields, "Environment")

    @property
    def environment(self) -> EnvironmentSettings:
        """Those of the environment alone."""
        return EnvironmentSettings(**{name: getattr(self, name) for name in EnvironmentSettings.model_fields})


def environment_options(
    settings: EnvironmentSettings,
    *,
    elsewhere: bool = False,
    later: bool = False,
    wait: bool = False,
    reads: bool = False,
) -> dict[str, Any]:
    """Return the arguments of `browser_env.env.make_core`, checked before anything begins.

    Args:
        settings: what was asked for.
        elsewhere: episodes are played on machines that don't have this terminal.
        later: the command brings a person's answers to an environment that waits for them (`scripts.waiting`).
        wait: also from elsewhere than the terminal, and the browser outlives the command: `SessionOptions.detached` is
            to be put in its place.
        reads: the command reads answers from its own input, whatever that is.

    Raises:
        typer.BadParameter: they can't be; or someone is to be asked at a terminal, and there is none.
    """
    from selfsurf.browser_env import SessionOptions, shutdown
    from selfsurf.browser_env.env import make_core
    from selfsurf.browser_env.safety import terminal

    if settings.asks and not wait and not reads:
        what = " and ".join(f"--{name} ask" for name in settings.asks)
        others = {"confirm": "--confirm auto or never", "user": "--user none or a function (file.py:answer)"}
        instead = ", ".join(others[name] for name in settings.asks)
        if elsewhere:
            raise typer.BadParameter(f"{what}: workers on a cluster can't ask at this terminal; give {instead}.")
        if not sys.stdin.isatty():
            instead = "--wait, and answer with `selfsurf answer`; or give " * later + instead
            raise typer.BadParameter(f"{what}: there is no terminal to ask at (the input is none); give {instead}.")
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
        shutdown()  # of the driver that knew the device
    return options
