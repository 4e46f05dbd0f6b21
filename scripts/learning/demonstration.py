"""Demonstration that a small model learns to use web pages from its own episodes, measured before and after.

It measures the base model in three ways, trains it, measures it again, and reports. Every stage saves its result in the
output folder, so that an interrupted run resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, ConfigDict

from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.scripts.learning.curves import draw_demonstration
from selfsurf.scripts.learning.settings import env_id
from selfsurf.scripts.learning.stages import Stages
from selfsurf.scripts.terminal.console import console, progress, quiet_libraries, training_progress
from selfsurf.sdft.settings import TrainSettings

TRAINED = ("click-button", "click-link", "click-dialog-2", "click-tab", "click-option")
UNSEEN = ("click-widget", "focus-text-2")


class DemoSettings(BaseModel):
    """Settings of the demonstration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    training: TrainSettings
    """Settings of the training run, whose tasks are the trained ones."""
    unseen_tasks: tuple[str, ...]
    """Gymnasium ids of tasks that training never sees."""
    first_seed: int = 2_000_000
    """First evaluation seed; training seeds start at 0 and never reach it."""
    seeds: int = 40
    """Evaluation seeds per task."""
    free_seeds: int = 8
    """Evaluation seeds per task for free generation, in which every episode reaches the step limit."""
    max_episode_steps: int = 3
    """Step limit of evaluation episodes, the same for every arm; no task here needs more than 2."""
    parallel: int = 8
    """Number of concurrent episodes."""


def default_settings(model: str, seed: int, seeds: int = 40, steps: int | None = None) -> DemoSettings:
    """Return the settings of the published demonstration, with optional changes of evaluation seeds and steps."""
    own: dict[str, Any] = {} if steps is None else {"steps": steps}
    training = TrainSettings(model=model, tasks=tuple(map(env_id, TRAINED)), seed=seed, **own)
    return DemoSettings(
        training=training, unseen_tasks=tuple(map(env_id, UNSEEN)), seeds=seeds, free_seeds=min(seeds, 8)
    )


def run(settings: DemoSettings, out: Path) -> dict[str, Any]:
    """Run or resume the demonstration, and return the report, which is saved as `report.json`.

    A finished run in `out`, or one with other settings, is moved aside; an unfinished one is resumed.
    """
    quiet_libraries()
    out = prepare_folder(settings, out)
    stages = Stages(out)

    import torch

    from selfsurf.agents.play.provenance import versions
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft import train
    from selfsurf.sdft.agent import make_agent
    from selfsurf.sdft.measure.evaluate import summarise
    from selfsurf.sdft.measure.retention import perplexity
    from selfsurf.sdft.rollouts import Job, Rollouts

    start = time.time()
    with stages.timed("load"):
        policy = TransformersPolicy(settings.training.model)
    trained, tasks = list(settings.training.tasks), [*settings.training.tasks, *settings.unseen_tasks]

    def measure(
        arm: str, title: str, *, constrained: bool = True, demonstrate: bool = False, seeds: int = settings.seeds
    ) -> Any:
        def work() -> Any:
            agent = make_agent(policy, settings.training, sampling=False, constrained=constrained)
            chosen = range(settings.first_seed, settings.first_seed + seeds)
            folder, adapter = out / "episodes" / arm, "adapter" if arm == "trained" else None
            meta = {"model": settings.training.model, "adapter": adapter, "tags": [arm]}
            shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted start
            rollouts = Rollouts(settings.parallel, max_episode_steps=settings.max_episode_steps)
            with progress(title, len(tasks) * seeds) as update, rollouts:
                results = rollouts.run(
                    agent, [Job(task, seed) for task in tasks for seed in chosen], demonstrate=demonstrate,
                    folder=folder, meta=meta, progress=update,
                )  # fmt: skip
                return summarise(results, {"trained": trained})

        return stages.once(arm, work)

    text = stages.once("perplexity_before", lambda: perplexity(policy))
    arms = {
        "base, free": measure("free", "Base model, free", constrained=False, seeds=settings.free_seeds),
        "base, constrained": measure("base", "Base model, constrained"),
        "base, shown the answer": measure("demonstration", "Base model, shown the answer", demonstrate=True),
    }

    def learn() -> Any:
        with training_progress("Training", settings.training.steps) as update:
            summary = train(settings.training, out / "training", policy=policy, resume=True, progress=update)
        del summary["model"]
        return summary

    training = stages.once("training", learn)
    if policy.adapter is None and not hasattr(policy.model, "peft_config"):  # an earlier start did the training
        policy.set_adapter(out / "training" / "adapter")
    arms["trained"] = measure("trained", "Trained model")
    before, after = text["perplexity"], stages.once("perplexity_after", lambda: perplexity(policy))["perplexity"]
    success = {name: arm["groups"]["trained"]["success"] for name, arm in arms.items()}
    report = {
        "settings": settings.model_dump(mode="json"),
        "arms": arms,
        "gain": success["trained"] - success["base, constrained"],
        "perplexity": {"before": before, "after": after, "rise": after / before - 1, "tokens": text["tokens"]},
        "training": training,
        "versions": versions(),
        "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "torch_threads": torch.get_num_threads()},
        "seconds": {**stages.seconds, "this_start": round(time.time() - start, 1)},
        "curve": str(draw_demonstration(out, arms)),
    }
    write_atomically(out / "report.json", json.dumps(report, indent=1))
    return report


def prepare_folder(settings: DemoSettings, out: Path) -> Path:
    """Prepare `out` for this run: create it, resume an unfinished run, or rename the folder of another run."""
    text = settings.model_dump_json(indent=1)
    mark = out / "settings.json"
    if out.exists() and any(out.iterdir()):
        if not mark.exists():
            raise typer.BadParameter(f"{out} holds other files; choose another folder with --out.")
        finished = (out / "report.json").exists()
        if finished or mark.read_text(encoding="utf8") != text:
            stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(mark.stat().st_mtime))
            kept = out.with_name(f"{out.name}-{stamp}-{hashlib.sha256(os.urandom(8)).hexdigest()[:4]}")
            out.rename(kept)
            console.print(f"The earlier run is kept in {kept}.")
        else:
            console.print(f"Resuming the unfinished run in {out}.")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(mark, text)
    return out
