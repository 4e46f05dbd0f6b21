"""Practice: a run that starts from an adapter keeps what that adapter could do.

The adapter first plays episodes of the tasks that it has learned, those that the run trains included. On its own steps
in those that it solved, the student is kept close to it while it learns: as rehearsal does for what the untrained model
knew (`sdft.loss.rehearsal`), from the model's own episodes, without any data of the earlier runs.
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
from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.envs_registry import task_of
from selfsurf.envs_registry.loading import unloaded
from selfsurf.sdft.agent import prompt_of
from selfsurf.sdft.loss.rehearsal import drawn
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rollouts.generator import RolloutError
from selfsurf.sdft.rows.images import shows_images
from selfsurf.sdft.rows.jobs import trained_tasks
from selfsurf.sdft.rows.samples import choose, rows_of
from selfsurf.sdft.run.processes import alone, check_alone, is_first
from selfsurf.sdft.settings import TrainSettings

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

EPISODES = 64
"""Episodes that are played before the first step."""

ROWS = 64
"""Most steps of them that are practised on."""

Row = tuple[list[int], list[int]]
"""Prompt and reply, in tokens."""


class Practice:
    """Steps of an adapter's own, and how far the student is from it on them.

    Args:
        model: a PEFT model with the adapter active, as it was before this run.
        rows: the steps.
        most: how many of them count in one optimizer step.
        seed: of which do.
        weight: of the divergence in the loss.
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
        """Return KL(adapter before || student) in nats a token on the steps' replies, with the student's gradient.

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
    """An adapter knows no tasks, or can't do any. The message says which, and what to do."""


def practice_of(
    settings: TrainSettings, policy: TransformersPolicy, model: Any, folder: Path, *, begun: bool
) -> Practice | None:
    """Return what a run practises, or None.

    Args:
        settings: of the run.
        policy: of the base model.
        model: with the adapter that the run starts from active.
        folder: of the run; what was played is kept in it.
        begun: is the run resumed?

    Raises:
        NothingToPractise: and the settings ask for it.
        ValueError: they do, and the student is shown screenshots, or several processes train.
        RolloutError: the infrastructure failed most of the episodes.
    """
    player = policy.tokenizer if policy.processor is None else policy.processor
    rows = practice_rows(settings, policy, lambda: TransformersPolicy(model, player), folder, begun=begun)
    return Practice(model, rows, settings.practice_rows, settings.seed, weight_of(settings)) if rows else None


def weight_of(settings: TrainSettings) -> float:
    """Return what practice counts in a run's loss, if there is any."""
    return 1.0 if settings.practice is None else settings.practice


def practice_rows(
    settings: TrainSettings, policy: LocalPolicy, acting: Callable[[], LocalPolicy], folder: Path, *, begun: bool
) -> list[Row]:
    """Return the steps that a run practises; empty if it doesn't. Errors are those of `practice_of`.

    Args:
        settings: of the run.
        policy: of the base model.
        acting: gives the policy of the adapter that the run starts from.
        folder: of the run; what was played is kept in it.
        begun: is the run resumed?
    """
    if settings.start_from is None or settings.practice == 0:
        return []
    if settings.offline:
        log.warning(
            "Nothing is practised offline. What %s has learned of other tasks may be forgotten.", settings.start_from
        )
        return []
    asked = settings.practice is not None
    if asked:
        check_alone("practice")
    if asked and shows_images(policy, settings):
        raise ValueError('practice is for text: leave it out, or show no screenshots (vision="none").')
    path = folder / "practice.jsonl"
    if begun and path.exists():
        return [tuple(json.loads(line)) for line in path.read_text(encoding="utf8").splitlines()]
    try:
        if not alone() or shows_images(policy, settings):
            raise NothingToPractise("Nothing is practised on several processes, nor with screenshots.")
        rows = played(settings, acting())
    except NothingToPractise as error:
        if asked:
            raise
        log.warning("%s What it has learned may be forgotten.", error)
        rows = []
    if is_first():
        write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows))
    return rows


def _told(ended: int) -> None:
    """Say every quarter how many episodes have ended."""
    if ended % (EPISODES // 4) == 0:
        log.info("Practice: %d of %d episodes.", ended, EPISODES)


def learned_tasks(adapter: Path) -> list[str]:
    """Return the tasks that an adapter was trained on, in all of its runs; none if it does not say."""
    about = read_about(adapter)
    return list(about.get("learned", about.get("settings", {}).get("tasks", ())))


def tasks_before(settings: TrainSettings) -> list[str]:
    """Return the tasks that the adapter that a run starts from has learned and that the run does not train."""
    if settings.start_from is None:
        return []
    now = trained_tasks(settings)
    return [task for task in learned_tasks(settings.start_from) if task not in now]


def _can_be_judged(task: str) -> bool:
    try:
        return task_of(task).judges
    except ValueError:  # it is not there
        return False


def played(settings: TrainSettings, policy: LocalPolicy) -> list[Row]:
    """Let an adapter play the tasks that it has learned; return its steps in the episodes that it solved.

    Raises:
        NothingToPractise: it names none, or none that can be played and judged; or it solved no episode.
        AdapterError: it names a prompt in a file that nobody has imported.
        RolloutError: the infrastructure failed most of the episodes.
    """
    of = cast(Path, settings.start_from)
    known_tasks = learned_tasks(of)
    if not known_tasks:
        raise NothingToPractise(f"{of} names no tasks that it has learned: leave out practice.")
    foreign = sorted({where for task in known_tasks if (where := unloaded(task))})
    tasks = [task for task in known_tasks if not unloaded(task) and _can_be_judged(task)]
    why = f" ({', '.join(foreign)} not imported: if you know that, add --trust {foreign[0]})" if foreign else ""
    if not tasks:
        raise NothingToPractise(
            f"None of the tasks that {of} has learned can be judged here{why}: {', '.join(known_tasks)}."
        )
    if foreign:
        log.warning("Some of the tasks that %s has learned are not practised%s.", of, why)
    known = read_about(str(of)).get("settings", {})
    longest = max(settings.max_episode_steps, known.get("max_episode_steps", 0))
    prompt = read_prompt(of) or prompt_of(settings)
    prompt.check_imported()
    first = known.get("first_episode_seed", 0)
    jobs = [Job(tasks[i % len(tasks)], first + i // len(tasks)) for i in range(EPISODES)]
    agent = LLMAgent(policy, **{**prompt.options(policy), "guards": False}, seed=settings.seed)
    log.info("Practice: %s plays %d episodes of the tasks that it has learned.", of, len(jobs))
    about = {"most": settings.rollouts.batch, "max_episode_steps": longest, **settings.environment.options()}
    with Rollouts(settings.rollouts.contexts, **about) as rollouts:
        results = rollouts.run(agent, jobs, progress=_told)
    failed = [result for result in results if result.masked]
    if len(failed) > len(results) / 2:
        raise RolloutError(
            f"{len(failed)} of {len(results)} episodes to practise on could not be run ({failed[0].detail}). When that "
            "is mended, the same command begins again."
        )
    samples = [row for rows in rows_of([one for one in results if one.solved], policy) for row in rows]
    rows = choose(samples, ROWS, np.random.default_rng(settings.seed))
    if not rows:
        raise NothingToPractise(f"{of} solved no episode of its tasks: there is nothing to practise on.")
    if left := [task for task in tasks if task not in {row.env_id for row in rows}]:
        log.warning("Not practised, since %s solved no episode of it: %s.", of, ", ".join(left))
    return [(row.prompt_ids, row.completion_ids) for row in rows]
