"""`selfsurf bench agents`: actions per second against plain `generate`, on the same prompts of real episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from selfsurf.scripts.terminal.arguments import Adapter, Figures, Model, read_counts
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, met, print_table


class Settings(Arguments):
    """Options of `selfsurf bench agents`."""

    model: Model = "smollm2"
    adapter: Adapter = ""
    """Folder of a LoRA adapter."""
    envs: str = "1,2,4,8,16"
    """Numbers of environments, separated by commas."""
    actions: int = Field(default=48, ge=1)
    """Minimum number of actions timed per number of environments."""
    rounds: int = Field(default=3, ge=1)
    """Rounds per number of environments, in which the contenders take turns."""
    out: Figures = None
    """Folder for agents.json and the plot agents.png; by default no files are written."""


@command
def main(settings: Settings) -> int:
    """Time the local policy against plain generate, on prompts of real episodes. Exit code 0: all were measured."""
    from selfsurf.scripts.agents.speed import measure
    from selfsurf.scripts.terminal.console import quiet_libraries

    counts = read_counts(settings.envs, "--envs")
    quiet_libraries()
    adapter = Path(settings.adapter) if settings.adapter else None
    figures = measure(settings.model, counts, actions=settings.actions, rounds=settings.rounds, adapter=adapter)
    return finish(figures, show, as_json=settings.as_json, out=settings.out, name="agents", draw=draw)


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    print_table(
        (
            "envs", "actions/s: generate", "batched", "policy", "tokens/s", "ms to action", "prompt tokens", "reused",
            "constraint",
        ),
        [
            [
                point["envs"], *(f"{point['speed'][name]:.2f}" for name in ("generate", "batched", "policy")),
                f"{point['tokens_per_second']:.0f}", f"{point['ms_to_action']['policy']:.0f}",
                point["prompt_tokens"], f"{point['reused']:.0%}", f"{point['constraint']:+.1%}",
            ]
            for point in figures["points"]
        ],
        f"{figures['model']}, {figures['dtype']}, {figures['device']}, {figures['threads']} threads",
    )  # fmt: skip
    speed, share = figures["ratios"].values()
    fast, little = figures["targets"].values()
    print(
        f"At {figures['at']} environments: {speed:.2f} times the actions per second of generate ({met(speed, fast)}); "
        f"the constraint adds {share:.1%} to the time of a token ({met(share, little, at_most=True, write='{:.0%}')})"
    )


def draw(figures: dict[str, Any], path: Path) -> None:
    """Plot actions per second and time to action against the number of environments."""
    from selfsurf.scripts.report.plot import against_environments, drawn

    counts = [point["envs"] for point in figures["points"]]
    with drawn(path, rows=2, sharex=True) as (top, bottom):
        for name, style in (("policy", "o-"), ("batched", "s--"), ("generate", "x:")):
            top.plot(counts, [point["speed"][name] for point in figures["points"]], style, label=name)
            bottom.plot(counts, [point["ms_to_action"][name] for point in figures["points"]], style, label=name)
        against_environments(
            (top, bottom), counts, ("actions per second, all environments", "ms until every environment has an action")
        )
