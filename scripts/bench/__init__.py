"""`selfsurf bench`: measurements, mostly against a raw limit or a peer in the same run.

To add a measurement, add a line to `COMMANDS`.
"""

from __future__ import annotations

from selfsurf.scripts.terminal.lazy import command_group

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("selfsurf.scripts.bench.run:main", "Run an agent on a suite."),
    "suites": ("selfsurf.scripts.bench.suites:main", "List the suites that come with the package."),
    "report": ("selfsurf.scripts.bench.report:report", "Report on a results folder, or compare several."),
    "misled": ("selfsurf.scripts.bench.misled:main", "Tabulate what misled the agents."),
    "leaderboard": ("selfsurf.scripts.bench.report:leaderboard", "Rank runs by strict success."),
    "env": ("selfsurf.scripts.bench.env:main", "Time steps, resets and observations."),
    "router": ("selfsurf.scripts.bench.router:main", "Time what the router adds to a step."),
    "providers": ("selfsurf.scripts.bench.providers:main", "Play scenarios through the router's providers."),
    "live": ("selfsurf.scripts.bench.live:main", "Open a live page with a provider, and check the logs."),
    "vector": ("selfsurf.scripts.bench.vector:main", "Measure many environments in one process."),
    "throughput": ("selfsurf.scripts.bench.throughput:main", "Time whole episodes."),
    "observe": ("selfsurf.scripts.bench.observe:main", "Measure how faithful the observation is."),
    "agents": ("selfsurf.scripts.bench.agents:main", "Time the local policy."),
    "rollouts": ("selfsurf.scripts.bench.rollouts:main", "Measure rollouts with workers."),
    "train": ("selfsurf.scripts.bench.train:main", "Time learning steps."),
    "threads": ("selfsurf.scripts.bench.threads:main", "Time torch programs that run side by side."),
    "gpu": ("selfsurf.scripts.bench.gpu:main", "Time learning steps on a GPU."),
    "contexts": ("selfsurf.scripts.bench.contexts:main", "Measure how much each context helps the teacher."),
    "flows": ("selfsurf.scripts.bench.flows:main", "Learn flows from recordings, and try them."),
    "cache": ("selfsurf.scripts.bench.cache:main", "Play cached flows on changed copies of sites."),
    "loop": ("selfsurf.scripts.bench.loop:main", "Learn from failures and later successes, and try again."),
    "service": ("selfsurf.scripts.bench.service:main", "Load the training service."),
    "judge": ("selfsurf.scripts.bench.judge:main", "Compare judges of episodes with tasks' own scores."),
    "verifier": ("selfsurf.scripts.bench.verifier:main", "Compare a verifier's verdicts with outcomes."),
    "learn": ("selfsurf.scripts.bench.learn:main", "Compare ways to learn."),
}
"""Import path (`module:function`) and help line of each subcommand, by name."""

app = command_group(COMMANDS, "Run benchmarks, mostly against a raw limit or a peer.")
