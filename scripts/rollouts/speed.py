"""Measurement of episodes per minute with workers against a single process, and of the overlap with training."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from selfsurf.scripts.machine.processes import cpu_seconds, memory
from selfsurf.scripts.terminal.console import progress

if TYPE_CHECKING:
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.rollouts import Job
    from selfsurf.sdft.rollouts.ray_generator import RayGenerator
    from selfsurf.sdft.rollouts.scale import WorkerFigures
    from selfsurf.sdft.settings import TrainSettings

TASKS = ("click-button", "click-link", "click-option", "click-dialog-2", "enter-text")

TARGET = 0.8
"""Target share of the shorter phase, generation or training, that overlaps the other."""

CONTEXT_MB = 26.0
"""Memory in MB of one more context, from `selfsurf bench vector`."""


def measure(
    model: str, workers: Sequence[int], *, episodes: int, rounds: int, contexts: int, steps: int
) -> dict[str, Any]:
    """Time batches of the same episodes in this process and with workers; then train with and without `ahead`.

    Args:
        model: Model, as in `TrainSettings.model`.
        workers: Numbers of browser workers; there is one policy worker.
        episodes: Episodes per batch.
        rounds: Batches per configuration.
        contexts: Concurrent episodes, in this process and in each worker.
        steps: Optimizer steps of each training; 0 to skip training.

    Returns:
        `rates`, `overlap`, `figures` (`sdft.rollouts.scale.WorkerFigures`), and the configuration.
    """
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.rollouts.models import LocalModel, reuse
    from selfsurf.sdft.run.model import lora_config
    from selfsurf.sdft.teacher.weights import student_weights

    policy = TransformersPolicy(model)
    settings = _settings(policy.name, contexts, steps)
    # the same model as in training
    acting = LocalModel(policy.name, lora_config(policy.model, settings), reuse=reuse(None)).make()
    weights = student_weights(acting.policy.model)
    rates: dict[str, list[float]] = {}
    figures: dict[str, float] = {}
    done = itertools.count(1)
    with progress("Batches", rounds * (len(workers) + 1)) as update:
        for turn in range(rounds):
            jobs = _jobs(episodes, first=1000 * turn)
            rates.setdefault("process", []).append(_alone(settings, acting.policy, jobs))
            update(next(done))
            for count in workers:
                with _generator(settings, policy, count) as generator:
                    rate, found = _together(generator, weights, jobs, contexts)
                rates.setdefault(str(count), []).append(rate)
                figures = found if count == workers[0] else figures
                update(next(done))
    best = {name: statistics.median(values) for name, values in rates.items()}
    shown = {
        name: {
            "episodes_per_minute": round(best[name], 2), "rounds": [round(value, 2) for value in values],
            "against_process": round(best[name] / best["process"], 3),
        }
        for name, values in rates.items()
    }  # fmt: skip
    return {
        "model": policy.name, "dtype": str(policy.model.dtype), "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(), "tasks": TASKS, "episodes": episodes, "contexts": contexts, "rates": shown,
        "overlap": _overlap(settings, policy) if steps else None, "target": TARGET, "figures": figures,
    }  # fmt: skip


def _settings(model: str, contexts: int, steps: int) -> TrainSettings:
    from selfsurf.sdft.rollouts.layout import RolloutSettings
    from selfsurf.sdft.settings import TrainSettings

    return TrainSettings(
        model=model, tasks=tuple(f"MiniWoB/{task}-v0" for task in TASKS), steps=max(1, steps),
        rollouts=RolloutSettings(contexts=contexts), importance_clip=2.0,
    )  # fmt: skip


def _jobs(count: int, first: int) -> list[Job]:
    from selfsurf.sdft.rollouts import Job

    return [Job(f"MiniWoB/{TASKS[index % len(TASKS)]}-v0", first + index // len(TASKS)) for index in range(count)]


def _alone(settings: TrainSettings, policy: TransformersPolicy, jobs: list[Job]) -> float:
    """Return the episodes per minute of this process."""
    from selfsurf.sdft.agent import make_agent
    from selfsurf.sdft.rollouts import Rollouts

    agent = make_agent(policy, settings, sampling=True)
    with Rollouts(settings.rollouts.contexts, max_episode_steps=settings.max_episode_steps) as rollouts:
        rollouts.run(agent, _jobs(len(TASKS), first=-1000), seed=0)  # the first episodes include the browser's start
        start = time.monotonic()
        rollouts.run(agent, jobs, seed=1)
        return 60 * len(jobs) / (time.monotonic() - start)


@contextmanager
def _generator(settings: TrainSettings, policy: TransformersPolicy, workers: int) -> Iterator[RayGenerator]:
    """Yield a generator with browser workers that share half of this machine's CPUs."""
    from selfsurf.sdft.agent import make_agent
    from selfsurf.sdft.rollouts.ray_generator import RayGenerator
    from selfsurf.sdft.run.model import lora_config
    from selfsurf.sdft.run.workers import generating

    chosen = _shares(settings, workers)
    lora, agent_of = lora_config(policy.model, chosen), partial(make_agent, settings=chosen, sampling=True)
    environment = {"max_episode_steps": settings.max_episode_steps}
    with generating(chosen.rollouts, policy, lora, agent_of, environment) as generator:
        assert isinstance(generator, RayGenerator)
        generator.wait_ready()
        yield generator


def _shares(settings: TrainSettings, workers: int, ahead: Literal[0, 1] = 0) -> TrainSettings:
    """Return the settings with `workers` browser workers, whose CPU shares fit on this machine."""
    from selfsurf.sdft.rollouts.layout import Resources

    cpus = os.cpu_count() or 1
    shares = {
        "workers": workers, "browser": Resources(num_cpus=min(1.0, cpus / 2 / workers)),
        "policy": Resources(num_cpus=cpus / 2), "ahead": ahead,
    }  # fmt: skip
    return settings.model_copy(update={"rollouts": settings.rollouts.model_copy(update=shares)})


def _together(
    generator: RayGenerator, weights: dict[str, torch.Tensor], jobs: list[Job], contexts: int
) -> tuple[float, dict[str, float]]:
    """Return the episodes per minute with workers, and the figures of one worker."""
    from selfsurf.sdft.rollouts.scale import WorkerFigures

    generator.publish(0, lambda: weights)
    generator.request(0, _jobs(len(TASKS), first=-1000), seed=0)
    generator.collect(0)
    before, states, driver = _used(generator), generator.policy_states(), generator.books.driver_seconds
    start = time.monotonic()
    generator.request(1, jobs, seed=1)
    batch = generator.collect(1)
    seconds = time.monotonic() - start
    after, later = _used(generator), generator.policy_states()
    made = sum(one.rows for one in later) - sum(one.rows for one in states)
    busy = sum(one.seconds for one in later) - sum(one.seconds for one in states)
    taken = {name: after[name] - before[name] for name in after}
    pid = next(iter(generator.books.processes.values()))
    found = WorkerFigures(
        steps=taken["steps"] / len(jobs),
        env_seconds=taken["env"] / taken["steps"],
        cpu_seconds=taken["cpu"] / taken["steps"],
        policy_seconds=taken["agent"] / taken["steps"],
        policy_rows=made / busy,
        driver_seconds=(generator.books.driver_seconds - driver) / len(jobs),
        worker_mb=max(0.0, (memory(pid) or 0.0) - contexts * CONTEXT_MB),
        context_mb=CONTEXT_MB,
        policy_mb=memory(later[0].pid) or 0.0,
        call_bytes=statistics.mean(  # request (conversation and grammar) plus response (completion)
            len(pickle.dumps((one.messages, one.completion.grammar))) + len(pickle.dumps(one.completion))
            for one in (step.decision for result in batch.results for step in result.steps)
        ),
        result_bytes=statistics.mean(len(pickle.dumps(result)) for result in batch.results),
        weight_bytes=generator.books.weight_bytes,
    )
    return 60 * len(jobs) / seconds, {name: round(value, 5) for name, value in asdict(found).items()}


def _used(generator: RayGenerator) -> dict[str, float]:
    """Return the resources that all browser workers have used so far."""
    times = generator.browser_times()
    cpu = [cpu_seconds(pid) or {} for pid in generator.books.processes.values()]
    return {
        "steps": float(sum(one.steps for one in times)),
        "env": sum(one.env_seconds for one in times),
        "agent": sum(one.agent_seconds for one in times),
        "cpu": sum(sum(parts.values()) for parts in cpu),
    }


def _overlap(settings: TrainSettings, policy: TransformersPolicy) -> dict[str, Any]:
    """Train with one worker, with and without generating batches ahead."""
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft import train

    found: dict[str, Any] = {}
    turns: tuple[tuple[str, Literal[0, 1]], ...] = (("in turns", 0), ("ahead", 1))
    for name, ahead in turns:
        chosen = _shares(settings, 1, ahead)
        with tempfile.TemporaryDirectory() as folder:
            train(chosen, folder, policy=TransformersPolicy(policy.name))
            lines = (Path(folder) / "metrics.jsonl").read_text(encoding="utf8").splitlines()
        found[name] = hidden([json.loads(line) for line in lines])
    found["step_ratio"] = round(found["ahead"]["step_seconds"] / found["in turns"]["step_seconds"], 3)
    return found


def hidden(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return how far generation and training overlapped, from a run's metrics.

    The first step is left out, since no batch can be generated ahead of it. A step's generation is compared with the
    training of the step before. Hidden time is time in which both ran: if they share CPUs, each slows the other down,
    so the seconds of a step matter, too.
    """
    learned = [line["seconds"]["learn"] for line in lines]
    training = [learned[0], *(after - before for before, after in itertools.pairwise(learned))]
    generation = [line["rollouts/seconds"] for line in lines[1:]]
    waited = [line["rollouts/waited_seconds"] for line in lines[1:]]
    shorter = [min(pair) for pair in zip(generation, training, strict=False)]
    beside = [min(made - idle, least) for made, idle, least in zip(generation, waited, shorter, strict=True)]
    return {
        "generation_seconds": round(statistics.mean(generation), 3),
        "training_seconds": round(statistics.mean(training), 3),
        "trainer_idle_seconds": round(statistics.mean(waited), 3),
        "step_seconds": round(statistics.mean(waited) + statistics.mean(training[1:]), 3),
        "hidden": round(max(0.0, sum(beside)) / sum(shorter), 3),
    }


def figures_of(
    path: Path | None, changes: Mapping[str, Any], measured: dict[str, float] | None = None
) -> WorkerFigures:
    """Return figures from this or an earlier measurement's JSON, with changes.

    Raises:
        ValueError: Figures are missing, unknown or not numbers.
    """
    from selfsurf.sdft.rollouts.scale import WorkerFigures

    found: dict[str, Any] = dict(measured or {})
    if path is not None:
        try:
            found |= json.loads(path.read_text(encoding="utf8"))["figures"]
        except OSError as error:
            raise ValueError(f"--figures: {path} can't be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"--figures: {path} is not the output of `bench rollouts --json`.") from None
    for name, value in changes.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"--set {name}: {value!r} is not a number.")
        found[name] = float(value)
    names = {field.name for field in fields(WorkerFigures)}
    if set(found) != names:
        wrong = ", ".join(sorted(set(found) ^ names))
        raise ValueError(f"Missing or unknown figures: {wrong}. Give --figures FILE or --set NAME=VALUE for each.")
    return WorkerFigures(**found)
