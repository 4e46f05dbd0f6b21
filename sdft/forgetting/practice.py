"""Practice: a run that starts from an adapter keeps what the adapter learned before.

First the adapter plays episodes of the tasks that it has learned, including those that the run trains. During training
the student is kept close to the adapter on the adapter's own steps in the solved episodes. This is rehearsal
(`sdft.forgetting.rehearsal`) for learned tasks, and needs no data of the earlier runs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from selfsurf.agents.adapters.identity import read_about
from selfsurf.agents.adapters.prompt import read_prompt
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.envs_registry import task_of
from selfsurf.envs_registry.loading import unloaded
from selfsurf.sdft.agent import prompt_of
from selfsurf.sdft.forgetting.rehearsal import drawn
from selfsurf.sdft.processes import alone, check_alone, is_first
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rollouts.generator import RolloutError
from selfsurf.sdft.rows.images import shows_images
from selfsurf.sdft.rows.jobs import trained_tasks
from selfsurf.sdft.rows.samples import choose, rows_of
from selfsurf.sdft.settings import TrainSettings

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

EPISODES = 64
"""Number of practice episodes played before the first optimizer step."""

ROWS = 64
"""Maximum number of steps kept from the practice episodes."""

Row = tuple[list[int], list[int]]
"""Prompt and reply of a step, as token ids."""


class Practice:
    """Steps of an earlier adapter, and the student's divergence from that adapter on them.

    Args:
        model: a PEFT model whose active adapter is the one that the run starts from, still unchanged.
        rows: the steps.
        most: number of steps used in one optimizer step.
        seed: seed of the choice of steps.
        weight: weight of the divergence in the loss.
    """

    def __init__(self, model: Any, rows: Sequence[Row], most: int, seed: int, weight: float = 1.0) -> None:
        self.weight = weight
        self._rows = list(rows)
        self._most = most
        self._seed = seed
        import torch

        with torch.no_grad():
            self._before = [_logprobs(model, row).cpu() for row in self._rows]

    def divergence(self, model: Any, step: int) -> torch.Tensor:
        """Return KL(earlier adapter || student) in nats per token of the replies, with the student's gradient.

        Args:
            model: a PEFT model whose active adapter is the student.
            step: optimizer steps so far.
        """
        import torch

        from selfsurf.sdft.loss.distillation import divergence

        apart = []
        for index in drawn(self._seed, step, len(self._rows), self._most):
            now = _logprobs(model, self._rows[index])
            before = self._before[index].to(now.device)
            apart.append(divergence(now, before).mean())
        return torch.stack(apart).mean()


def _logprobs(model: Any, row: Row) -> torch.Tensor:
    """Return the log-probabilities (K, V) at a reply's tokens."""
    import torch

    from selfsurf.sdft.loss.logits import plain_logits

    prompt, reply = row
    ids = torch.tensor([prompt + reply], device=model.get_input_embeddings().weight.device)
    at = torch.arange(len(prompt) - 1, ids.size(1) - 1, device=ids.device)[None]
    logits = plain_logits(model, ids, torch.ones_like(ids), at)[0]
    return torch.log_softmax(logits.float(), -1)


class NothingToPractise(ValueError):
    """An adapter has learned no tasks, or can solve none of them. The message names them and the remedy."""


def practice_of(
    settings: TrainSettings, policy: TransformersPolicy, model: Any, folder: Path, *, begun: bool
) -> Practice | None:
    """Return the practice of a run, or None if it has none.

    Args:
        settings: settings of the run.
        policy: policy of the base model.
        model: a PEFT model whose active adapter is the one that the run starts from.
        folder: folder of the run, in which the practice steps are stored.
        begun: whether the run is resumed.

    Raises:
        NothingToPractise: the settings ask for practice, but the adapter offers none.
        ValueError: the settings ask for practice, but the student sees screenshots or several processes train.
        RolloutError: the infrastructure failed most of the episodes.
    """
    player = policy.tokenizer if policy.processor is None else policy.processor
    rows = practice_rows(settings, policy, lambda: TransformersPolicy(model, player), folder, begun=begun)
    return Practice(model, rows, settings.practice_rows, settings.seed, weight_of(settings)) if rows else None


def weight_of(settings: TrainSettings) -> float:
    """Return the weight of practice in a run's loss, if the run has any."""
    return 1.0 if settings.practice is None else settings.practice


def practice_rows(
    settings: TrainSettings, policy: LocalPolicy, acting: Callable[[], LocalPolicy], folder: Path, *, begun: bool
) -> list[Row]:
    """Return the practice steps of a run; empty if it has none. Errors are those of `practice_of`.

    Args:
        settings: settings of the run.
        policy: policy of the base model.
        acting: returns the policy of the adapter that the run starts from.
        folder: folder of the run, in which the practice steps are stored.
        begun: whether the run is resumed.
    """
    if settings.start_from is None or settings.practice == 0:
        return []
    if settings.offline:
        log.warning(
            "Practice is skipped offline. The student may forget tasks that %s has learned.", settings.start_from
        )
        return []
    asked = settings.practice is not None
    if asked:
        check_alone("practice")
    if asked and shows_images(policy, settings):
        raise ValueError('practice supports only text: leave practice out, or set vision="none".')
    path = folder / "practice.jsonl"
    if begun and path.exists():
        return [tuple(json.loads(line)) for line in path.read_text(encoding="utf8").splitlines()]
    try:
        if not alone() or shows_images(policy, settings):
            raise NothingToPractise("Practice is skipped: it supports neither several processes nor screenshots.")
        rows = played(settings, acting())
    except NothingToPractise as error:
        if asked:
            raise
        log.warning("%s The student may forget what the earlier adapter has learned.", error)
        rows = []
    if is_first():
        write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows))
    return rows


def _told(ended: int) -> None:
    """Log the number of finished episodes after every quarter of them."""
    if ended % (EPISODES // 4) == 0:
        log.info("Practice: %d of %d episodes.", ended, EPISODES)


def learned_tasks(adapter: Path) -> list[str]:
    """Return the tasks that an adapter was trained on in all of its runs; empty if it records none."""
    about = read_about(adapter)
    return list(about.get("learned", about.get("settings", {}).get("tasks", ())))


def tasks_before(settings: TrainSettings) -> list[str]:
    """Return the tasks learned by the adapter that a run starts from, without those that the run trains."""
    if settings.start_from is None:
        return []
    now = trained_tasks(settings)
    return [task for task in learned_tasks(settings.start_from) if task not in now]


def _can_be_judged(task: str) -> bool:
    try:
        return task_of(task).judges
    except ValueError:  # unknown task
        return False


def played(settings: TrainSettings, policy: LocalPolicy) -> list[Row]:
    """Play the tasks that an adapter has learned; return its steps in the episodes that it solved.

    Raises:
        NothingToPractise: the adapter names no tasks, none that can be played and judged, or it solved no episode.
        AdapterError: the adapter names a prompt in a file that has not been imported.
        RolloutError: the infrastructure failed most of the episodes.
    """
    of = cast(Path, settings.start_from)
    known_tasks = learned_tasks(of)
    if not known_tasks:
        raise NothingToPractise(f"{of} doesn't record the tasks that it was trained on: leave out practice.")
    foreign = sorted({where for task in known_tasks if (where := unloaded(task))})
    tasks = [task for task in known_tasks if not unloaded(task) and _can_be_judged(task)]
    why = f" ({', '.join(foreign)} not imported: if you trust that code, add --trust {foreign[0]})" if foreign else ""
    if not tasks:
        raise NothingToPractise(
            f"None of the tasks that {of} has learned can be judged here{why}: {', '.join(known_tasks)}."
        )
    if foreign:
        log.warning("Some tasks that %s has learned are not practised%s.", of, why)
    known = read_about(str(of)).get("settings", {})
    longest = max(settings.max_episode_steps, known.get("max_episode_steps", 0))
    prompt = read_prompt(of) or prompt_of(settings)
    prompt.check_imported()
    first = known.get("first_episode_seed", 0)
    jobs = [Job(tasks[i % len(tasks)], first + i // len(tasks)) for i in range(EPISODES)]
    agent = LLMAgent(policy, **{**prompt.options(policy), "guards": False}, seed=settings.seed)
    log.info("Practice: %s plays %d episodes of tasks that it has learned.", of, len(jobs))
    about = {"most": settings.rollouts.batch, "max_episode_steps": longest, **settings.environment.options()}
    with Rollouts(settings.rollouts.contexts, **about) as rollouts:
        results = rollouts.run(agent, jobs, progress=_told)
    failed = [result for result in results if result.masked]
    if len(failed) > len(results) / 2:
        raise RolloutError(
            f"{len(failed)} of {len(results)} practice episodes could not be run ({failed[0].detail}). Fix the cause, "
            "then run the same command again."
        )
    samples = [row for rows in rows_of([one for one in results if one.solved], policy) for row in rows]
    rows = choose(samples, ROWS, np.random.default_rng(settings.seed))
    if not rows:
        raise NothingToPractise(f"{of} solved none of its practice episodes, so there is nothing to practise.")
    if left := [task for task in tasks if task not in {row.env_id for row in rows}]:
        log.warning("Not practised, because %s solved no episode of these tasks: %s.", of, ", ".join(left))
    return [(row.prompt_ids, row.completion_ids) for row in rows]
