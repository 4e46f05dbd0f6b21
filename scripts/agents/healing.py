"""Measures the action cache: flows are learned on the scenarios' sites and played again on changed copies of them.

The oracle plays each flow once, on the site as it is; the cache keeps that episode's actions and plays them on the
copies, with no agent behind it, so that a flow either goes on or is refused. The pages say which elements were touched,
by what these were called before the change: whatever was not the oracle's next is a wrong action.
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
from selfsurf.agents.cached import Cache, CachedDecider
from selfsurf.agents.play import Ask, Decider, Environments, Job, Manner, Player, Result, make_decider
from selfsurf.agents.scripted import OracleAgent
from selfsurf.browser_env import Observation, Outcome
from selfsurf.browser_env.record.checked import observation_of
from selfsurf.browser_env.record.episode import Episode, EpisodeWriter, write_atomically
from selfsurf.envs_registry import task_of
from selfsurf.tasks.scenarios import CHANGES

SCENARIOS = (
    "register", "move", "reserve", "reserve-format", "order", "phone", "pages", "scroll", "delete", "cookies", "slow",
    "upload",
)  # fmt: skip
"""Those whose flow is the same on another day: nothing in it is read from a page, and the site does not crash."""

TIMED = 20
"""Pages that a model is asked on, about."""

AWAY = "away"
"""What `change.js` calls a button that puts an added dialog away."""


@dataclass(frozen=True)
class Replayed:
    """A flow, played on a copy."""

    scenario: str
    change: str
    seed: int
    ended: str
    """`solved`, `refused`, `failed`, or `env_error`."""
    wrong: int
    """Actions that went to another element than the oracle's."""
    actions: int
    healed: int
    """Actions whose element was found though something about it had changed."""
    seconds: float
    """Of the episode, without opening the page."""
    deciding: float
    """Seconds in the cache."""
    why: str
    """Why it was refused."""


class _Nobody:
    """Stands where an agent would go on."""

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
    """Play all flows on all copies; return a row a change, all episodes, and the time beside a model's.

    Args:
        scenarios: of `SCENARIOS`.
        changes: of `tasks.scenarios.CHANGES`.
        seeds: of the episodes; each is also the version of its copy.
        folder: where episodes, caches and, in `cache.json`, the figures so far are kept; a new one.
        model: that is asked on the pages of the flows what it would do, to time it; empty for none.
        told: called with a line of what has been done.
    """
    environments = Environments(task_of, 2)
    replayed: list[Replayed] = []
    pages: list[Observation] = []
    figures: dict[str, Any] = {}
    try:
        for seed, scenario in product(seeds, scenarios):
            where = folder / f"{scenario}_{seed}"
            result, shown = _play(Decider(OracleAgent()), environments, scenario, "same", seed, where / "learned")
            if result.masked:
                raise RuntimeError(f"The infrastructure failed in {scenario}, seed {seed}: {result.detail}")
            if not result.solved:
                raise RuntimeError(f"The oracle did not solve {scenario}, seed {seed}: {result.detail}")
            kept = Cache(where / "cache").keep(shown)
            if kept.flow is None or kept.flow.ends:
                raise RuntimeError(f"The flow {scenario}, seed {seed} can't be kept: {kept.why}")
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
) -> Replayed:
    decider = CachedDecider(Cache(where / "cache"), lambda: Decider(_Nobody()))
    result, _ = _play(decider, environments, scenario, change, seed, where / change)
    done, told = result.score.get("touched", ()), decider.did()
    ended = {Outcome.SOLVED: "solved", Outcome.STOPPED: "refused", Outcome.ENV_ERROR: "env_error"}
    return Replayed(
        scenario, change, seed, ended.get(Outcome(result.outcome), "failed"), wrong_actions(done, right),
        told["actions"], told["healed"], result.seconds, result.agent_seconds, told["left"],
    )  # fmt: skip


def wrong_actions(done: Sequence[str], right: Sequence[str]) -> int:
    """Count what was touched and is not what came next when the flow was learned."""
    wrong, at = 0, 0
    for one in done:
        if at < len(right) and one == right[at]:
            at += 1
        elif one != AWAY:
            wrong += 1
    return wrong


def _play(
    decider: Decider, environments: Environments, scenario: str, change: str, seed: int, folder: Path
) -> tuple[Result, Episode]:
    name = f"Scenario/{scenario}-v0?change={change}&version={seed}"
    job = Job(name, seed)
    writer = EpisodeWriter(folder, {"env_id": f"Scenario/{scenario}-v0", "task": name, "seed": seed})
    player = Player(decider, environments, 1, Manner(keep_steps=False), record=lambda ask: writer)
    player.begin(Ask(0, job))
    ended: list[tuple[Ask, Result]] = []
    while not ended:
        ended = player.turn()
    return ended[0][1], Episode(folder)


def _row(change: str, of: Sequence[Replayed]) -> dict[str, Any]:
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
    """Ask a model what it would do on some of these pages, one after the other."""
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


__all__ = ["CHANGES", "SCENARIOS", "Replayed", "measure", "wrong_actions"]
