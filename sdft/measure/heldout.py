"""Held-out evaluation during training: success on unseen episodes, and general ability.

Success is that of greedy episodes; offline, it is the share of recorded actions reproduced at recorded states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, ConfigDict

from selfsurf.envs_registry import task_of
from selfsurf.sdft.measure.agreement import missed_at
from selfsurf.sdft.measure.retention import drift, perplexity
from selfsurf.sdft.rollouts import Job
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.recording import load_recordings

if TYPE_CHECKING:
    from selfsurf.agents.llm.llm_agent import LLMAgent
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.rollouts import Rollouts
    from selfsurf.sdft.rows.stored import State

MOST_JUDGED = 0.9
"""Minimum share of the best state's episodes that must be judged for another state, too, before it can become the best.
"""

FEWEST_STATES, FEWEST_EPISODES = 20, 3
"""Minimum numbers of held-out states, and of the episodes that they come from, for meaningful agreement."""

MOST_KNOWN = 40
"""Number of states per task in an evaluation without held-out states; with fewer, all would soon be correct."""

Solved = Mapping[str, Mapping[int, bool]]


class Evaluation(BaseModel):
    """Measurements of a model after a step of its training."""

    model_config = ConfigDict(frozen=True)

    step: int
    """Number of optimizer steps so far; 0 for the base model."""
    measure: Literal["success", "agreement"] = "success"
    """Meaning of `solved`: episodes solved, or recorded actions reproduced (`sdft.measure.agreement`)."""
    held_out: bool = True
    """Whether the episodes or states are held out of training. Otherwise they can show a drop but no gain."""
    solved: dict[str, dict[int, bool]]
    """Success by task and by seed or state. Episodes that the infrastructure failed are left out."""
    env_errors: int
    """Number of episodes that the infrastructure failed."""
    episodes: int = 0
    """Number of different recorded episodes from which the states are taken."""
    perplexity: float
    """Perplexity on the general text; infinite for a broken model."""
    drift: float
    """KL(base || student) in nats per token on the beginning of the general text."""

    @property
    def success(self) -> float | None:
        """Mean over tasks of the share solved; None if no episode could be judged."""
        return success(self.solved)

    def figures(self) -> dict[str, float]:
        """Return the evaluation's columns of `metrics.jsonl`."""
        rates = {task: sum(seeds.values()) / len(seeds) for task, seeds in self.solved.items() if seeds}
        found = {
            "evaluation/perplexity": self.perplexity,
            "evaluation/drift": self.drift,
            "evaluation/env_errors": float(self.env_errors),
            **{f"evaluation/tasks/{task}": rate for task, rate in rates.items()},
        }
        if self.measure == "agreement":
            found["evaluation/held_out"] = float(self.held_out)
        return found if self.success is None else {**found, f"evaluation/{self.measure}": self.success}


def success(solved: Solved) -> float | None:
    """Return the mean over tasks of the share solved; None without episodes."""
    rates = [sum(seeds.values()) / len(seeds) for seeds in solved.values() if seeds]
    return sum(rates) / len(rates) if rates else None


def heldout_tasks(settings: TrainSettings) -> list[str]:
    """Return the tasks on which a run is evaluated: its own and `evaluate_tasks`, except those without a verdict."""
    trained = settings.tasks or [recording.env_id for recording in load_recordings(settings.demonstrations)]
    return [task for task in dict.fromkeys((*trained, *settings.evaluate_tasks)) if task_of(task).judges]


def heldout_seeds(settings: TrainSettings) -> range:
    """Return the seeds of the held-out episodes of each task."""
    return range(settings.first_evaluation_seed, settings.first_evaluation_seed + settings.evaluate_seeds)


def check_heldout(settings: TrainSettings, jobs: Collection[Job]) -> None:
    """Check that a run can be evaluated and that its held-out episodes are not trained on.

    Raises:
        ValueError: no task can be judged, a held-out episode is trained on, or a task doesn't exist.
    """
    if not settings.evaluate_every or settings.offline:
        return
    tasks, seeds = heldout_tasks(settings), heldout_seeds(settings)
    if not tasks:
        raise ValueError(
            "evaluate_every measures success, but open-ended tasks have no judge: leave it out, or name judged tasks "
            "with --set 'evaluate_tasks=[\"MiniWoB/click-link-v0\"]'."
        )
    shown = load_recordings((*settings.demonstrations, *settings.hindsight_episodes))
    learned = [*((job.env_id, job.seed) for job in jobs), *((one.env_id, one.seed) for one in shown)]
    if both := sorted({seed for env_id, seed in learned if env_id in tasks and seed in seeds}):
        raise ValueError(
            f"The evaluation seeds ({seeds.start} to {seeds.stop - 1}) include training seeds "
            f"({', '.join(map(str, both[:5]))}): choose another first_evaluation_seed."
        )


def evaluate_heldout(step: int, agent: LLMAgent, rollouts: Rollouts, settings: TrainSettings) -> Evaluation:
    """Measure the current model on held-out episodes.

    Args:
        step: optimizer steps so far.
        agent: an agent that acts greedily with a PEFT model whose active adapter is the student's.
        rollouts: environments of the episodes.
        settings: settings with the tasks and seeds.
    """
    tasks = heldout_tasks(settings)
    jobs = [Job(task, seed) for task in tasks for seed in heldout_seeds(settings)]

    def play() -> dict[str, dict[int, bool]]:
        solved: dict[str, dict[int, bool]] = {task: {} for task in tasks}
        for result in rollouts.run(agent, jobs):
            if not result.masked:
                solved[result.job.env_id][result.job.seed] = result.solved
        return solved

    return _evaluation(step, agent, len(jobs), play)


def evaluate_states(
    step: int, agent: LLMAgent, states: Sequence[State], most: int, *, held_out: bool = True
) -> Evaluation:
    """Measure the current model at recorded states, without playing.

    Args:
        step: optimizer steps so far.
        agent: an agent that acts greedily with the model, as in `evaluate_heldout`.
        states: recorded states.
        most: maximum number of states per task.
        held_out: whether the states are held out of training.
    """
    by_task: dict[str, list[State]] = {}
    for state in states:
        by_task.setdefault(state.episode.env_id, []).append(state)
    some = {task: spread(found, most) for task, found in by_task.items()}

    def act() -> dict[str, dict[int, bool]]:
        right = iter(not missed for missed in missed_at(agent, [state for found in some.values() for state in found]))
        return {task: {number: next(right) for number in range(len(found))} for task, found in some.items()}

    asked = sum(map(len, some.values()))
    episodes = len({state.episode.what for found in some.values() for state in found})
    return _evaluation(step, agent, asked, act, measure="agreement", held_out=held_out, episodes=episodes)


def extent(summary: Mapping[str, Any]) -> str:
    """Describe the extent of an evaluation at recorded states (`CheckpointManager.summary`); empty if unknown."""
    states, episodes = summary.get("states", 0), summary.get("episodes", 0)
    if summary.get("measure") != "agreement" or not episodes:
        return ""
    few = summary["held_out"] and (states < FEWEST_STATES or episodes < FEWEST_EPISODES)
    counted = f"{states} state{'s' * (states != 1)} of {episodes} episode{'s' * (episodes != 1)}"
    return counted + ", too few to show much" * few


def spread(states: Sequence[State], most: int) -> list[State]:
    """Return at most `most` states, spread evenly over all."""
    count = min(most, len(states))
    return [states[place * len(states) // count] for place in range(count)]


def _evaluation(
    step: int, agent: LLMAgent, asked: int, measured: Callable[[], dict[str, dict[int, bool]]], **more: Any
) -> Evaluation:
    policy = cast("TransformersPolicy", agent.policy)
    general = perplexity(policy)["perplexity"]
    if not math.isfinite(general):  # a model whose logits are NaN can't be sampled
        return Evaluation(step=step, solved={}, env_errors=0, perplexity=math.inf, drift=math.inf, **more)
    solved = measured()
    failed = asked - sum(map(len, solved.values()))
    return Evaluation(step=step, solved=solved, env_errors=failed, perplexity=general, drift=drift(policy), **more)


def fault(now: Evaluation, best: Evaluation, base: Evaluation, settings: TrainSettings) -> str:
    """Return the reason why training must not continue from a state; empty if it may.

    Success is compared over the episodes judged in both evaluations, so that an infrastructure failure never counts as
    a drop.
    """
    limit = base.perplexity * (1 + settings.max_perplexity_rise)
    if not now.perplexity <= limit:
        return f"perplexity rose from {base.perplexity:.2f} to {now.perplexity:.2f}, over {limit:.2f}"
    before, after = success(_shared(best.solved, now.solved)), success(_shared(now.solved, best.solved))
    if before is not None and after is not None and before - after > settings.max_success_fall + 1e-9:
        where = "held-out " if now.held_out else ""
        return f"{where}{now.measure} fell from {before:.2f} (step {best.step}) to {after:.2f}"
    return ""


def better(now: Evaluation, best: Evaluation) -> bool:
    """Whether a state is better than the best: it solves more, or as many with lower perplexity.

    If nothing is held out, a later state with equal success is better: it was trained longer, which such an evaluation
    can't show, and `fault` has found no loss.

    States are compared over the episodes judged in both. A state can only become the best if these are most of the best
    state's episodes (`MOST_JUDGED`).
    """
    if now.success is None or not comparable(now, best):
        return False
    before, after = success(_shared(best.solved, now.solved)), success(_shared(now.solved, best.solved))
    if before is None or after is None:
        return True
    if not now.held_out:
        return after >= before
    return (after, -now.perplexity) > (before, -best.perplexity)


def comparable(now: Evaluation, best: Evaluation) -> bool:
    """Whether most of the best state's episodes were also judged for this state."""
    shared = sum(map(len, _shared(best.solved, now.solved).values()))
    return shared >= MOST_JUDGED * sum(map(len, best.solved.values()))


def _shared(solved: Solved, other: Solved) -> dict[str, dict[int, bool]]:
    """Return the part of `solved` whose episodes are also in `other`."""
    return {
        task: {seed: seeds[seed] for seed in seeds if seed in other.get(task, {})} for task, seeds in solved.items()
    }
