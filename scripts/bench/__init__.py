"""`selfsurf bench`: measurements against a raw limit or a peer, in one run. To add one, add a line to `COMMANDS`."""

from __future__ import annotations

import typer

from selfsurf.scripts.terminal.lazy import lazy_group

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("selfsurf.scripts.bench.run:main", "Run an agent on a suite."),
    "suites": ("selfsurf.scripts.bench.suites:main", "List the suites that come with the package."),
    "report": ("selfsurf.scripts.bench.report:report", "Report a results folder, or compare several."),
    "leaderboard": ("selfsurf.scripts.bench.report:leaderboard", "Rank runs by strict success."),
    "env": ("selfsurf.scripts.bench.env:main", "Time steps, resets and observations."),
    "vector": ("selfsurf.scripts.bench.vector:main", "Measure many environments in one process."),
    "throughput": ("selfsurf.scripts.bench.throughput:main", "Time whole episodes."),
    "observe": ("selfsurf.scripts.bench.observe:main", "Measure how faithful the observation is."),
    "agents": ("selfsurf.scripts.bench.agents:main", "Time the local policy."),
    "rollouts": ("selfsurf.scripts.bench.rollouts:main", "Measure rollouts with workers."),
    "train": ("selfsurf.scripts.bench.train:main", "Time learning steps."),
    "contexts": ("selfsurf.scripts.bench.contexts:main", "Measure how much each context helps the teacher."),
    "learn": ("selfsurf.scripts.bench.learn:main", "Compare ways to learn."),
}
"""As `scripts.terminal.lazy.Commands`."""

app = typer.Typer(
    cls=lazy_group(COMMANDS),
    help="Measure against a raw limit or a peer, in one run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


@app.callback()
def _group() -> None:
    pass
