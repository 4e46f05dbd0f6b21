"""`selfsurf bench`: measurements against a raw limit or a peer, in one run. To add one, add a line to `COMMANDS`."""

from __future__ import annotations

import typer

from selfsurf.scripts.terminal.lazy import lazy_group

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("selfsurf.scripts.bench_run:main", "Run an agent on a suite."),
    "suites": ("selfsurf.scripts.bench_suites:main", "List the suites that come with the package."),
    "report": ("selfsurf.scripts.bench_report:report", "Report a results folder, or compare several."),
    "leaderboard": ("selfsurf.scripts.bench_report:leaderboard", "Rank runs by strict success."),
    "env": ("selfsurf.scripts.bench_env:main", "Time steps, resets and observations."),
    "vector": ("selfsurf.scripts.bench_vector:main", "Measure many environments in one process."),
    "throughput": ("selfsurf.scripts.bench_throughput:main", "Time whole episodes."),
    "observe": ("selfsurf.scripts.bench_observe:main", "Measure how faithful the observation is."),
    "agents": ("selfsurf.scripts.bench_agents:main", "Time the local policy."),
    "rollouts": ("selfsurf.scripts.bench_rollouts:main", "Measure rollouts with workers."),
    "train": ("selfsurf.scripts.bench_train:main", "Time learning steps."),
    "contexts": ("selfsurf.scripts.bench_contexts:main", "Measure how much each context helps the teacher."),
    "learn": ("selfsurf.scripts.bench_learn:main", "Compare ways to learn."),
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
