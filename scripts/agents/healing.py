"""Measurement of the action cache: flows are learned on the scenarios' sites and replayed on changed copies.

The oracle plays each flow once on the unchanged site. The cache keeps that episode's actions and replays them on the
copies, without an agent behind it, so that a flow is either continued or refused. The pages report the touched elements
by their names before the change: an element that isn't the oracle's next counts as a wrong action.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from selfsurf.agents.agent import Stop
from selfsurf.agents.cached import Cache, CachedAgentAdapter
from selfsurf.agents.play import (
    AgentAdapter,
    Environments,
    EpisodeRequest,
    Job,
    Player,
    PlayOptions,
    Result,
    make_decider,
)
from selfsurf.agents.scripted import OracleAgent
from selfsurf.browser_env import Observation, Outcome
from selfsurf.browser_env.record.episode import Episode, EpisodeWriter, write_atomically
from selfsurf.browser_env.record.untrusted import observation_of
from selfsurf.envs_registry import task_of
from selfsurf.tasks.scenarios import CHANGES

SCENARIOS = (
    "register", "move", "reserve", "reserve-format", "order", "phone", "pages", "scroll", "delete", "cookies", "slow",
    "upload",
)  # fmt: skip
"""Scenarios whose flow is repeatable: it depends on no text read from a page, and the site doesn't crash."""

TIMED = 20
"""Approximate number of pages on which a model is timed."""

AWAY = "away"
"""Name that `change.js` gives to the button that closes an added dialog."""


@dataclass(frozen=True)
class HealingResult:
    """The result of replaying a flow on a changed copy."""

    scenario: str
    change: str
    seed: int
    ended: str
    """Outcome: `solved`, `refused`, `failed`, or `env_error`."""
    wrong: int
    """Number of actions on a different element than the oracle's."""
    actions: int
    healed: int
    """Number of actions whose element was found although it had changed."""
    seconds: float
    """Seconds of the episode, without opening the page."""
    deciding: float
    """Seconds spent in the cache."""
    why: str
    """Reason why the cache refused to continue."""


class _NoAgent:
    """A placeholder for the agent that would take over; it stops the episode."""

    def act(self, obs: Observation) -> str:
        raise Stop("nobody goes on")


def measure(
    scenarios: Sequence[str],
    changes: Sequence[str],
    seeds: Iterable[int],
    folder: Path,
    *,
    model: str = "",
    told: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Replay all flows on all copies; return a row per change, all episodes, and the time beside a model's.

    Args:
        scenarios: Names from `SCENARIOS`.
        changes: Names from `tasks.scenarios.CHANGES`.
        seeds: Seeds of the episodes; each is also the version of its copy.
        folder: New folder for episodes, caches and, in `cache.json`, the figures so far.
        model: Model to time on the pages of the flows; empty for none.
        told: Callback for a line on the progress.
    """
    environments = Environments(task_of, 2)
    replayed: list[HealingResult] = []
    pages: list[Observation] = []
    figures: dict[str, Any] = {}
    try:
        for seed, scenario in product(seeds, scenarios):
            where = folder / f"{scenario}_{seed}"
            result, shown = _play(AgentAdapter(OracleAgent()), environments, scenario, "same", seed, where / "learned")
            if result.masked:
                raise RuntimeError(f"The infrastructure failed in {scenario}, seed {seed}: {result.detail}")
            if not result.solved:
                raise RuntimeError(f"The oracle did not solve {scenario}, seed {seed}: {result.detail}")
            kept = Cache(where / "cache").keep(shown)
            if kept.flow is None or kept.flow.ends:
                raise RuntimeError(f"The flow {scenario}, seed {seed} can't be cached: {kept.why}")
            pages += [observation_of(step["observation"]) for step in shown.steps()] if model and not seed else []
            right = result.score["touched"]
            new = [_replay(environments, scenario, each, seed, where, right) for each in changes]
            replayed += new
            told(f"{scenario}, seed {seed}: " + ", ".join(f"{one.change} {one.ended}" for one in new))
            rows = [_row(change, [one for one in replayed if one.change == change]) for change in changes]
            figures = {"rows": rows, "model": None, "episodes": [asdict(one) for one in replayed]}
            write_atomically(folder / "cache.json", json.dumps(figures, indent=1) + "\n")
    finally:
        environments.close()
    if model:
        figures["model"] = _time(model, pages)
        write_atomically(folder / "cache.json", json.dumps(figures, indent=1) + "\n")
    return figures


def _replay(
    environments: Environments, scenario: str, change: str, seed: int, where: Path, right: Sequence[str]
) -> HealingResult:
    decider = CachedAgentAdapter(Cache(where / "cache"), lambda: AgentAdapter(_NoAgent()))
    result, _ = _play(decider, environments, scenario, change, seed, where / change)
    done, told = result.score.get("touched", ()), decider.did()
    ended = {Outcome.SOLVED: "solved", Outcome.STOPPED: "refused", Outcome.ENV_ERROR: "env_error"}
    return HealingResult(
        scenario, change, seed, ended.get(Outcome(result.outcome), "failed"), wrong_actions(done, right),
        told["actions"], told["healed"], result.seconds, result.agent_seconds, told["left"],
    )  # fmt: skip


def wrong_actions(done: Sequence[str], right: Sequence[str]) -> int:
    """Return how many touched elements deviate from the order in which the flow was learned."""
    wrong, at = 0, 0
    for one in done:
        if at < len(right) and one == right[at]:
            at += 1
        elif one != AWAY:
            wrong += 1
    return wrong


def _play(
    decider: AgentAdapter, environments: Environments, scenario: str, change: str, seed: int, folder: Path
) -> tuple[Result, Episode]:
    name = f"Scenario/{scenario}-v0?change={change}&version={seed}"
    job = Job(name, seed)
    writer = EpisodeWriter(folder, {"env_id": f"Scenario/{scenario}-v0", "task": name, "seed": seed})
    player = Player(decider, environments, 1, PlayOptions(keep_steps=False), record=lambda ask: writer)
    player.begin(EpisodeRequest(0, job))
    ended: list[tuple[EpisodeRequest, Result]] = []
    while not ended:
        ended = player.turn()
    return ended[0][1], Episode(folder)


def _row(change: str, of: Sequence[HealingResult]) -> dict[str, Any]:
    count = {ended: sum(one.ended == ended for one in of) for ended in ("solved", "refused", "failed", "env_error")}
    solved = [one for one in of if one.ended == "solved"]
    return {
        "change": change, "episodes": len(of), **count, "wrong": sum(one.wrong for one in of),
        "healed": sum(one.healed > 0 for one in solved),
        "actions": sum(one.actions for one in of),
        "decision_ms": 1000 * sum(one.deciding for one in of) / max(1, sum(one.actions for one in of)),
        "seconds": mean(one.seconds for one in solved) if solved else None,
    }  # fmt: skip


def _time(model: str, pages: Sequence[Observation]) -> dict[str, Any]:
    """Time a model's decisions on a sample of the pages, one after the other."""
    pages = pages[:: max(1, len(pages) // TIMED)]
    decider = make_decider("transformers", {"model": model})
    decider.begin(0, Job("Browser-v0", 0), pages[0]["goal"])
    decider.decide([0], [pages[0]])
    took = []
    for page in pages:
        decider.begin(0, Job("Browser-v0", 0), page["goal"])
        began = time.perf_counter()
        decider.decide([0], [page])
        took.append(time.perf_counter() - began)
    decider.close()
    return {"model": model, "pages": len(pages), "decision_ms": 1000 * mean(took)}


__all__ = ["CHANGES", "SCENARIOS", "HealingResult", "measure", "wrong_actions"]
