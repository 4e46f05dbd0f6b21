"""An SDFT run from its settings to its adapter, with any learning library (`sdft.train`)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.measure.agreement import MOST_COMPARED, agreement, agreement_at
from selfsurf.sdft.measure.following import followed
from selfsurf.sdft.measure.heldout import (
    MOST_KNOWN,
    Evaluation,
    check_heldout,
    evaluate_heldout,
    evaluate_states,
    spread,
)  # fmt: skip
from selfsurf.sdft.mlx.library import mlx_library
from selfsurf.sdft.processes import check_alone, is_first, unsharded
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.images import shows_images
from selfsurf.sdft.rows.jobs import check_live, offline_states, state_jobs, training_jobs
from selfsurf.sdft.rows.stored import FEWEST, done_well, load_stored, recordings_of
from selfsurf.sdft.run.checkpoints import CheckpointManager
from selfsurf.sdft.run.contexts import make_lessons
from selfsurf.sdft.run.folder import check_own
from selfsurf.sdft.run.library import Backend, torch_library
from selfsurf.sdft.run.run import MakeTrainer, Run, TrainOptions, run_training
from selfsurf.sdft.run.workers import generating
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.recording import load_recordings

_log = logging.getLogger(__name__)


def train(
    settings: TrainSettings, out: str | Path, *, backend: Backend = "torch", **options: Unpack[TrainOptions]
) -> dict[str, Any]:
    """Train an adapter by SDFT, or a verifier's adapter (`role`) by `train_verifier`.

    Args:
        settings: settings of the run.
        out: folder for `adapter/` (PEFT, with `selfsurf.json`), `checkpoints/` and `metrics.jsonl`.
        backend: the learning library, `torch` or `mlx` (docs/mac.md).
        options: `policy`, a loaded model to train, or None to load `settings.model` (it is wrapped by PEFT in place);
            `resume`, to continue from the last checkpoint in `out`, if one exists; `progress`, called after every
            optimizer step with its number and metrics.

    Returns:
        The summary that is also saved beside the adapter, with `adapter` as the folder's path.

    Raises:
        ValueError: `out` holds another run's adapter and `resume` is off, or the run there has other settings; a
            package of `report_to` is missing; no context can teach one of the tasks; `evaluate_every` asks for success
            on tasks without a verdict, or on episodes that are trained on; another training is running in `out`.
    """
    if settings.role == "verifier":
        if backend != "torch":
            raise ValueError(f"A verifier is trained with torch, not with {backend}.")
        from selfsurf.sdft.trainers.verifier import train_verifier

        return train_verifier(settings, out, **options)
    library = torch_library() if backend == "torch" else mlx_library()

    def check(folder: Path, last: int | None) -> MakeTrainer:
        check_own(folder, last, backend)
        for name in ("evaluate_every", "minutes", "enrich"):
            if getattr(settings, name):
                check_alone(name)
        if settings.rollouts.workers:
            check_alone("rollouts.workers")
        if "hindsight" in settings.contexts and not settings.offline:
            check_alone('the context "hindsight"')
        jobs = training_jobs(settings)
        check_live(settings, jobs)
        check_heldout(settings, jobs)
        lessons = make_lessons(settings, folder, batch=last or 0)
        return lambda run: _trainer(run, jobs, lessons)

    return run_training(settings, out, check, library=library, **options)


@contextlib.contextmanager
def _trainer(run: Run, jobs: Sequence[Job], lessons: LessonContext) -> Iterator[Any]:
    settings = run.settings
    owner = getattr(run.policy, "processor", None) or run.policy.tokenizer
    about = {
        "lessons": lessons, "compared": run.log.has("step0_divergence"), "processing_class": owner, **run.given,
    }  # fmt: skip
    if settings.offline:
        yield from _offline(run, about)
        return
    limits = {"max_episode_steps": settings.max_episode_steps, "screenshot": shows_images(run.policy, settings)}
    environment = {**limits, **settings.environment.options()}
    with (
        Rollouts(settings.episodes_per_step, most=settings.rollouts.batch, **environment) as rollouts,
        generating(
            settings.rollouts,
            run.policy,
            run.lora,
            partial(make_agent, settings=settings, sampling=True),
            environment,
            settings.lead,
        ) as generator,
    ):
        recordings = [] if shows_images(run.policy, settings) else load_recordings(settings.demonstrations)
        given: dict[str, Any] = {"recordings": recordings, "rollouts": rollouts, "generator": generator}
        trainer = _trainer_class(run)(jobs=jobs, **given, **about)
        agent = make_agent(trainer.policy, settings, sampling=False)
        _evaluated(run, trainer, partial(evaluate_heldout, agent=agent, rollouts=rollouts, settings=settings))
        yield trainer
        if recordings:
            trainer.policy.forget()  # the weights have changed
            with _whole(run, trainer):
                if is_first():
                    found = agreement(agent, recordings, rollouts)
                    run.agreement = found.model_copy(update={"choices": followed(agent, recordings)})


def _offline(run: Run, about: dict[str, Any]) -> Iterator[Any]:
    """Yield a trainer at recorded states, without environments."""
    settings, images = run.settings, shows_images(run.policy, run.settings)
    stored = load_stored(settings.episodes, images=images, hindsight=settings.looks_back)
    _log.info("Learning offline from recorded states; no browser is opened. %s", stored.text())
    states, held = offline_states(settings, images=images)
    if not held:
        if not settings.evaluate_every:
            why = "Evaluation is off"
        elif len({one.what for one in stored.teaching(settings.actions)}) < FEWEST:
            why = f"There are fewer than {FEWEST} different training episodes"
        else:
            why = "Training includes every state of the held-out episodes"
        _log.warning("%s: no episode is held out, and no gain is claimed.", why)
    recordings = [] if images else recordings_of(dict.fromkeys(state.episode for state in states))
    trainer = _trainer_class(run)(jobs=state_jobs(settings, states), states=states, recordings=recordings, **about)
    agent = make_agent(trainer.policy, settings, sampling=False, guarded=True)
    kept = done_well(dict.fromkeys(state.episode for state in states), settings.actions)
    judged = held or kept or states
    most = settings.evaluate_seeds if held else max(settings.evaluate_seeds, MOST_KNOWN)
    _evaluated(run, trainer, partial(evaluate_states, agent=agent, states=judged, most=most, held_out=bool(held)))
    yield trainer
    trainer.policy.forget()
    with _whole(run, trainer):
        if is_first():
            found = agreement_at(agent, spread(held or states, MOST_COMPARED), held_out=bool(held))
            run.agreement = found.model_copy(update={"choices": followed(agent, recordings)})


def _evaluated(run: Run, trainer: Any, evaluate: Callable[[int], Evaluation]) -> None:
    """Add evaluations to a run if its settings ask for them."""
    if run.settings.evaluate_every:
        run.manager = CheckpointManager(trainer, evaluate, run.settings, run.log, run.steps, resumed_at=run.last)
        trainer.add_callback(run.manager)


def _whole(run: Run, trainer: Any) -> AbstractContextManager[None]:
    """Return a context with the unsharded weights of a model that torch may split over processes."""
    return unsharded(trainer.model) if run.library.name == "torch" else contextlib.nullcontext()


def _trainer_class(run: Run) -> type[Any]:
    """Load the SDFT trainer's class of a run's learning library; both classes take the same arguments."""
    if run.library.name == "mlx":
        from selfsurf.sdft.mlx.trainer import MLXTrainer

        return MLXTrainer
    from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer

    return EpisodeSDFTTrainer
