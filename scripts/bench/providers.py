"""`selfsurf bench providers`: run the scenarios with each provider of the router, and log them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import make_folder
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import print_table


class Settings(Arguments):
    """Options of `selfsurf bench providers`."""

    provider: tuple[str, ...] = ("playwright",)
    """Provider: playwright, stagehand, webview, or module:Class; repeatable. Each is measured without fallback."""
    webview: str = ""
    """DevTools address of the application whose page the provider webview takes over."""
    scenario: tuple[str, ...] = ()
    """Scenario, such as register; repeatable. All twelve if not given."""
    seeds: int = Field(default=2, ge=1)
    """Number of seeds per scenario, from 0 on."""
    attempt_log: Path = Path("runs")
    """Root of the attempt logs, which `selfsurf report` reads."""


@command
def main(settings: Settings) -> int:
    """Repeat the actions of each scenario's oracle with each provider. Exit code 0: all were solved; 1: otherwise."""
    from selfsurf.browser_env import Safety
    from selfsurf.browser_env.router.providers import make
    from selfsurf.scripts.suite.provider_runs import SCENARIOS, run
    from selfsurf.scripts.terminal.console import quiet_libraries

    if unknown := [name for name in settings.scenario if name not in SCENARIOS]:
        raise typer.BadParameter(f"--scenario {unknown[0]} is unknown; choose from {', '.join(SCENARIOS)}.")
    if "webview" in settings.provider and not settings.webview:
        raise typer.BadParameter("The provider webview needs --webview, such as http://127.0.0.1:9222.")
    here = {"safety": Safety(allowed=("127.0.0.1",))}
    options: dict[str, dict[str, Any]] = {
        "playwright": here,
        "stagehand": here,
        "webview": {"address": settings.webview},
    }
    try:
        providers = [make(name, options.get(name, {})) for name in settings.provider]
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None
    make_folder(settings.attempt_log)
    quiet_libraries()
    figures = run(
        providers, settings.scenario or SCENARIOS, range(settings.seeds), settings.attempt_log.resolve(),
        lambda text: typer.echo(text, err=True),
    )  # fmt: skip
    print(json.dumps(figures, indent=1)) if settings.as_json else show(figures)
    return int(any(row["failed"] for row in figures["rows"]))


def show(figures: dict[str, Any]) -> None:
    """Print the table, and why runs failed."""
    rows = [
        [row["provider"], f"{row['solved']} of {row['runs']}", f"{row['low']:.2f} to {row['high']:.2f}"]
        for row in figures["rows"]
    ]
    print_table(("provider", "solved", "95% interval"), rows, "Scenarios played through the router's providers")
    for row in figures["rows"]:
        for one in row["failed"]:
            print(f"{row['provider']}, {one['scenario']}, seed {one['seed']}: {one['why']} ({one['traceId']})")
    print(f"Logs: {figures['logs']} (selfsurf report {figures['logs']})")
