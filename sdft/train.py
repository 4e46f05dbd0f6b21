"""Runs one SDFT training: model, environments, trainer, checkpoints, adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.measure.heldout import check_heldout
from selfsurf.sdft.rollouts import Rollouts
from selfsurf.sdft.rows.gates import Gates
from selfsurf.sdft.rows.images import shows_images
from selfsurf.sdft.rows.jobs import training_jobs
from selfsurf.sdft.run.adapter import save_adapter
from selfsurf.sdft.run.checkpoints import CheckpointManager
from selfsurf.sdft.run.generating import generating
from selfsurf.sdft.run.loading import load_policy
from selfsurf.sdft.run.metrics import Progress, check_reporters, reporting
from selfsurf.sdft.run.processes import check_alone, is_first, share, whole
from selfsurf.sdft.run.run_folder import alone_in, going_on_from, settle
from selfsurf.sdft.run.running import prepare
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.lessons import make_lessons
from selfsurf.sdft.trainers.arguments import sdft_arguments
from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer


def train(
    settings: TrainSettings,
    out: str | Path,
    *,
    policy: TransformersPolicy | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train an adapter.

    Args:
        settings: what to do.
        out: `adapter/` (PEFT, with `selfsurf.json`), `checkpoints/` and `metrics.jsonl` go here.
        policy: a loaded model to train, or None to load `settings.model`. Its model is wrapped by PEFT in place.
        resume: go on from the last checkpoint in `out`, if there is one.
        progress: called after every optimizer step with its number and metrics.

    Returns:
        The summary that is also saved beside the adapter, with `adapter` as the folder's path.

    Raises:
        ValueError: `out` holds another run's adapter and `resume` is off, or the run there has other settings; a
            package of `report_to` is missing; nobody can teach one of the tasks; `evaluate_every` asks for success
            where nobody judges, or on episodes that are trained on; another training is under way there.
    """
    with alone_in(Path(out)):
        return _train(settings, Path(out), policy, resume=resume, progress=progress)


def _train(
    settings: TrainSettings, folder: Path, policy: TransformersPolicy | None, *, resume: bool, progress: Progress | None
) -> dict[str, Any]:
    last = going_on_from(folder, resume=resume)
    check_reporters(settings.report_to)
    for name in ("evaluate_every", "minutes", "enrich"):
        if getattr(settings, name):
            check_alone(name)
    if "hindsight" in settings.contexts:
        check_alone('the context "hindsight"')
    jobs = training_jobs(settings)
    check_heldout(settings, jobs)
    lessons = make_lessons(settings, folder, batch=last or 0)
    settle(settings, folder, begun=last is not None)
    policy = policy or load_policy(settings)
    run = prepare(settings, folder, policy, last, progress)
    dataset = Dataset.from_dict({"env_id": [job.env_id for job in jobs], "seed": [job.seed for job in jobs]})
    environment = {
        "max_episode_steps": settings.max_episode_steps,
        "screenshot": shows_images(policy, settings),
    }
    with (
        reporting(settings.report_to, folder / "logs"),
        Rollouts(settings.episodes_per_step, most=settings.rollout_batch, **environment) as rollouts,
        generating(settings, policy, run.learner, environment) as generator,
    ):
        trainer = EpisodeSDFTTrainer(
            generator=generator,
            agent_of=lambda policy: make_agent(policy, settings, sampling=True),
            rollouts=rollouts,
            max_rows=share(settings.max_rows, "max_rows"),
            lead=settings.lead,
            lessons=lessons,
            mean_over=settings.mean_over,
            under_grammar=settings.under_grammar,
            teacher_sees=settings.teacher_sees,
            teacher_temperature=settings.teacher_temperature,
            gates=Gates(settings.skip_right, settings.skip_solved, settings.min_divergence, settings.min_confidence),
            least_first_divergence=None if run.log.has("step0_divergence") else settings.least_first_divergence,
            **run.learner,
            processing_class=policy.tokenizer if policy.processor is None else policy.processor,
            args=sdft_arguments(settings, folder / "checkpoints"),
            train_dataset=dataset,
            callbacks=run.callbacks,
        )
        run.take(trainer)
        manager = None
        if settings.evaluate_every:
            agent = make_agent(trainer.policy, settings, sampling=False)
            manager = CheckpointManager(trainer, agent, rollouts, settings, run.log, resumed_at=last)
            trainer.add_callback(manager)
        if manager is None or not manager.stopped:
            run.go_on(trainer)
        if manager is not None:
            manager.restore_best()
    summary = run.summary(trainer)
    if manager is not None:
        summary["evaluation"] = manager.summary()
    with whole(trainer.model):
        if is_first():
            save_adapter(trainer.model, folder / "adapter", summary)
    trainer.accelerator.wait_for_everyone()
    return {**summary, "adapter": str(folder / "adapter"), "model": trainer.model}
