"""`selfsurf bench live`: open a live page with a provider of the router, and check the logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from selfsurf.scripts.terminal.arguments import check_address, make_folder
from selfsurf.scripts.terminal.command import Arguments, command


class Settings(Arguments):
    """Options of `selfsurf bench live`: the page and the provider."""

    url: Annotated[str, typer.Argument(help="Address of a live page. Nothing on it is pressed or filled in.")]
    provider: str = "playwright"
    """Provider: playwright, stagehand, or module:Class."""
    allow_domain: tuple[str, ...] = ()
    """Host that may be reached, such as one in a private network; by default all public hosts. Repeatable."""
    attempt_log: Path = Path("runs/live")
    """Root of the attempt logs."""


@command
def main(settings: Settings) -> int:
    """Open a page, observe it, take a screenshot, fail once, and check the logs. Exit code 0: all checks hold."""
    from selfsurf.browser_env import Safety
    from selfsurf.browser_env.router.providers import make
    from selfsurf.scripts.suite.live_check import look
    from selfsurf.scripts.terminal.console import quiet_libraries

    check_address(settings.url)
    try:
        provider = make(settings.provider, {"safety": Safety(allowed=settings.allow_domain)})
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None
    make_folder(settings.attempt_log)
    quiet_libraries()
    checks = look(provider, settings.url, settings.attempt_log.resolve())
    if settings.as_json:
        print(json.dumps([{"check": one.what, "holds": not one.found, "found": one.found} for one in checks], indent=1))
    else:
        for one in checks:
            print(f"[{' ' if one.found else 'x'}] {one.what}{': ' + one.found if one.found else ''}")
        print(f"Logs: {settings.attempt_log} (selfsurf report {settings.attempt_log})")
    return int(any(one.found for one in checks))
