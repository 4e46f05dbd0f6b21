"""`selfsurf bench router`: measure the router's overhead per step of the environment."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, print_table


class Settings(Arguments):
    """Options of `selfsurf bench router`."""

    steps: int = Field(default=1000, ge=20)
    """Number of steps of each kind, taken in turn."""


@command
def main(settings: Settings) -> int:
    """Time steps by the bare environment and by the router, in turn. Exit code 0: all were measured."""
    from selfsurf.scripts.environment.routed import measure
    from selfsurf.scripts.machine.processes import ending_on_signal

    with ending_on_signal():
        figures = measure(settings.steps)
    return finish(figures, show, as_json=settings.as_json)


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    low, high = figures["added_90"]
    rows = [
        ["step of the bare environment", f"{figures['bare']:.2f}", ""],
        ["same step through the router", f"{figures['routed']:.2f}", f"{figures['in_turn']:+.3f}"],
        ["time outside the environment", f"{figures['added']:.3f}", f"90% of steps: {low:.3f} to {high:.3f}"],
        ["through the router, screenshot kept", f"{figures['logged']:.2f}", f"{figures['artifacts']:+.2f}"],
        ["refused step, bare environment", f"{figures['failed_bare']:.2f}", ""],
        [
            "refused step through the router, all artifacts kept",
            f"{figures['failed']:.2f}",
            f"{figures['artifacts_of_failure']:+.2f}",
        ],
    ]
    print_table(("work", "ms", "added"), rows, f"Medians of {figures['steps']} steps", texts=("work", "added"))
    print(f"Target: less than {figures['target']} ms without artifacts: {'met' if figures['met'] else 'missed'}.")
