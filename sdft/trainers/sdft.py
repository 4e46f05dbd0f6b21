"""Trains by SDFT: the model on its own episodes, towards what it would do if it were told the right action.

One optimizer step, top to bottom: the student plays a batch of episodes, and every step of them becomes a row, tokens
verbatim (`_prepare_training_batch`); teacher and student read the row's tokens, and their divergence is the loss
(`compute_loss`). The teacher is the same model with what it is told (`sdft.teacher`) in its context, by an average of
the student's weights.

It is a trainer of its own beside TRL's `SDFTTrainer`, to which `selfsurf bench train` compares it. What differs: rows
come from episodes and are not tokenised again; the teacher's prompt is never cut; its adapter starts as a copy of the
student's; rows are read without padding, what they share once, through leaner LoRA layers; a model that sees is given
the images that it sampled from; and of several processes, one that learns nothing takes part all the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.loss.distillation import confident, divergence, importance, mean_of_rows
from selfsurf.sdft.measure.heldout import check_heldout
from selfsurf.sdft.rollouts import Generator, Job, LocalGenerator, Result, Rollouts
from selfsurf.sdft.rollouts.pipeline import Pipeline, figures
from selfsurf.sdft.rows.images import shows_images
from selfsurf.sdft.rows.jobs import training_jobs
from selfsurf.sdft.rows.samples import choose, samples_of
from selfsurf.sdft.run.checkpoints import CheckpointManager
from selfsurf.sdft.run.metrics import batch_figures, memory_figures
from selfsurf.sdft.run.processes import check_alone, whole
from selfsurf.sdft.run.run import MakeTrainer, Run, TrainOptions, run_training
from selfsurf.sdft.run.workers import generating
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.lessons import Lessons, make_lessons
from selfsurf.sdft.teacher.oracle import Oracle
from selfsurf.sdft.teacher.weights import FollowStudent, add_teacher, student_weights, teaching
from selfsurf.sdft.trainers.base import MOST_FAILED, EpisodeTrainer

_ACTIONS = 1
"""Tells the seeds of a step's actions from those of its choice of rows."""

_TEACHERS: dict[str, Callable[[Any], AbstractContextManager[Any]]] = {
    "ema": teaching,
    "base": lambda model: model.disable_adapter(),  # type: ignore[no-any-return]
    "live": contextlib.nullcontext,
}
"""Contexts in which a model is its teacher, by `TrainSettings.teacher_weights`."""


class NothingToTeach(ValueError):
    """The teacher is no different from the student."""


def train(settings: TrainSettings, out: str | Path, **options: Unpack[TrainOptions]) -> dict[str, Any]:
    """Train an adapter by SDFT.

    Args:
        settings: what to do.
        out: `adapter/` (PEFT, with `selfsurf.json`), `checkpoints/` and `metrics.jsonl` go here.
        options: `policy`, a loaded model to train, or None to load `settings.model` (it is wrapped by PEFT in place);
            `resume`, to continue from the last checkpoint in `out`, if there is one; `progress`, called after every
            optimizer step with its number and metrics.

    Returns:
        The summary that is also saved beside the adapter, with `adapter` as the folder's path.

    Raises:
        ValueError: `out` holds another run's adapter and `resume` is off, or the run there has other settings; a
            package of `report_to` is missing; nobody can teach one of the tasks; `evaluate_every` asks for success
            on tasks without a verdict, or on episodes that are trained on; another training is running there.
    """

    def check(folder: Path, last: int | None) -> MakeTrainer:
        for name in ("evaluate_every", "minutes", "enrich"):
            if getattr(settings, name):
                check_alone(name)
        if "hindsight" in settings.contexts:
            check_alone('the context "hindsight"')
        jobs = training_jobs(settings)
        check_heldout(settings, jobs)
        lessons = make_lessons(settings, folder, batch=last or 0)
        return lambda run: _trainer(run, jobs, lessons)

    return run_training(settings, out, check, **options)


@contextlib.contextmanager
def _trainer(run: Run, jobs: Sequence[Job], lessons: Lessons) -> Iterator[EpisodeSDFTTrainer]:
    settings = run.settings
    environment = {"max_episode_steps": settings.max_episode_steps, "screenshot": shows_images(run.policy, settings)}
    with (
        Rollouts(settings.episodes_per_step, most=settings.rollouts.batch, **environment) as rollouts,
        generating(settings, run.policy, run.learner, environment) as generator,
    ):
        owner = run.policy.tokenizer if run.policy.processor is None else run.policy.processor
        about = {"lessons": lessons, "compared": run.log.has("step0_divergence"), **run.given}
        trainer = EpisodeSDFTTrainer(jobs=jobs, rollouts=rollouts, generator=generator, processing_class=owner, **about)
        if settings.evaluate_every:
            agent = make_agent(trainer.policy, settings, sampling=False)
            run.manager = CheckpointManager(trainer, agent, rollouts, settings, run.log, resumed_at=run.last)
            trainer.add_callback(run.manager)
        yield trainer


class EpisodeSDFTTrainer(EpisodeTrainer):
    """SDFT from on-policy episodes.

    Args:
        settings: of the run.
        checkpoints: folder.
        rollouts: the environments.
        generator: makes the episodes; by default in this process, in `rollouts`. One that works ahead is asked for the
            next batch before the current one is learned from.
        lessons: what the teacher is told; by default the oracle's actions.
        compared: have teacher and student been compared already, by an earlier start of the run?
        options: as `EpisodeTrainer`.
    """

    def __init__(
        self,
        settings: TrainSettings,
        checkpoints: Path,
        *,
        rollouts: Rollouts,
        generator: Generator | None = None,
        lessons: Lessons | None = None,
        compared: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(settings, checkpoints, rollouts=rollouts, **options)
        self._lessons = lessons or Lessons((Oracle(),))
        self._compared = compared
        if settings.teacher_weights == "ema":
            add_teacher(self.model)
            self.add_callback(FollowStudent(settings.teacher_rate, lambda: self.learned))
        rank = [self.accelerator.process_index] if self.accelerator.process_index else []
        self.pipeline = Pipeline(
            generator or LocalGenerator(rollouts, self.agent, settings.lead),
            weights=lambda: student_weights(self.model),
            jobs_of=self._jobs_of,
            seed_of=lambda number: int(np.random.default_rng([settings.seed, number, _ACTIONS, *rank]).integers(2**31)),
        )
        self._idle = None if compared or self._lessons.come_later else 0
        """Batches so far that taught nothing; None once one has, or where that is to be expected."""
        self._told = False
        """Was anything told about the current batch, in any process? Asked only while `_idle` counts."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> torch.Tensor:
        """How far the student is from the teacher on the tokens that it sampled, and what it must not forget."""
        student, teacher = self._student_and_teacher(model, inputs)
        return self._distillation_loss(student, teacher, inputs) + self.forgetting(model)

    def _distillation_loss(self, student: torch.Tensor, teacher: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
        """The mean over rows of the divergence (`sdft.loss.distillation`), from logits (B, C, V)."""
        settings, mask = self.settings, inputs["completion_mask"]
        student = student.log_softmax(-1)
        if not self._compared:
            self._compare(student.detach(), teacher.log_softmax(-1), mask)
        teacher = (teacher / settings.teacher_temperature).log_softmax(-1)
        mask = self._gated(teacher, mask)
        losses = divergence(student, teacher, settings.divergence)
        if settings.importance_clip is not None:
            drawn = inputs["completion_ids"], inputs["allowed"], inputs["old_per_token_logps"]
            losses = losses * importance(student, *drawn, settings.importance_clip)
        by_token = float((losses.detach() * mask).sum() / mask.sum().clamp(min=1))
        self.note({"sdft/distillation_loss": self.over_all(by_token)})
        return mean_of_rows(losses, mask) if mask.any() else student.sum() * 0.0

    def _student_and_teacher(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits (B, C, V) of both about the tokens that the student sampled."""
        held, seen = self.accelerator.unwrap_model(model), inputs.get("seen")
        told = inputs["teacher_input_ids"], inputs["teacher_attention_mask"], inputs["completion_mask"]
        # The teacher goes first: switching adapters after the student's pass would touch its graph's leaves.
        with torch.no_grad(), _TEACHERS[self.settings.teacher_weights](held):
            teacher = self.logits(held, *told, seen and [one.teacher for one in seen])
        return self.student_logits(model, inputs), teacher

    def _gated(self, teacher: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the tokens that the teacher is sure of, and note whether there are any, in any process."""
        kept = confident(teacher, mask, self.settings.min_confidence)
        left_out = int((mask - kept).sum())
        self.note({"gate/confidence": left_out})
        self.learned = self.over_all(bool(kept.any())) > 0
        if self.learned:
            self._idle = None
        elif self._told:
            self._count_idle(f"the confidence gate left out all of it ({left_out} tokens). Set min_confidence lower.")
        return kept

    def _compare(self, student: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor) -> None:
        """Record how far the teacher with demonstration is from the student, per token, before anything is learned.

        The teacher's distribution is taken as it is: sharpened, even one that knows nothing more differs.

        Raises:
            NothingToTeach: it is not.
        """
        total = self.over_all(float((divergence(student, teacher) * mask).sum()))
        tokens = self.over_all(float(mask.sum()))
        if tokens == 0:  # nothing was told about this batch
            return
        self._compared = True
        mean, least = total / tokens, self.settings.least_first_divergence
        self.note({"step0_divergence": mean})
        if least > 0 and mean < least:
            raise NothingToTeach(
                f"With its demonstration the teacher differs from the student by {mean:.2g} nats a token only (at "
                f"least {least:g} are wanted): there is nothing to learn. The demonstration is "
                "too weak, the student knows the tasks already, or, in a run that goes on from an adapter, an average "
                'of its weights (teacher="ema") does what it has learned before, whatever it is told: the untrained '
                'model (teacher="base") may not. least_first_divergence=0 trains all the same.'
            )

    def _prepare_training_batch(self, jobs: list[Job]) -> dict[str, Any]:
        # Everything random hangs on the seed and the step, so that a resumed run goes on as the unbroken one would.
        number, rank = self.state.global_step, self.accelerator.process_index
        rng = np.random.default_rng([self.settings.seed, number, *([rank] if rank else [])])
        with whole(self.model):
            episodes = self.pipeline.batch(number, jobs, self.state.max_steps)
        results = episodes.results
        usable = self.count_failed(results)
        samples = samples_of(results, self.policy, self._lessons, number, teacher_sees=self.settings.teacher_sees)
        if self._idle is not None:
            self._told = self.over_all(len(samples)) > 0
            if usable and not self._told:
                self._count_idle(_why_untold(results))
        rows = choose(samples, self.max_rows, rng)
        self._batch = {
            **batch_figures(results, samples, rows),
            **self._lessons.take_counts(),
            **figures(episodes, number, [row.version for row in rows]),
        }
        self.note(self._batch)
        return self.collate(rows, allowed=self.settings.importance_clip is not None)

    def _count_idle(self, why: str) -> None:
        """Count the batches at a run's beginning that taught nothing.

        Raises:
            NothingToTeach: there are too many of them.
        """
        if self._idle is None:
            return
        self._idle += 1
        if self._idle == min(MOST_FAILED, self.state.max_steps):
            raise NothingToTeach(f"The first {self._idle} batches taught nothing. Of the last: {why}")

    def _jobs_of(self, number: int) -> list[Job]:
        """The episodes that the data loader gives this process in a later step; it goes through them in order."""
        size = self.args.per_device_train_batch_size
        start = size * (number * self.accelerator.num_processes + self.accelerator.process_index)
        return [self.jobs[index % len(self.jobs)] for index in range(start, start + size)]

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One step, with its speed and memory in the metrics."""
        before = self.seconds["learn"]
        loss = super().training_step(*args, **kwargs)
        learn = self.seconds["learn"] - before
        self.note({
            "tokens/generated_per_second": self._batch["tokens/generated"] / max(self._batch["rollouts/seconds"], 1e-9),
            "tokens/learned_per_second": self._batch["tokens/learned"] / max(learn, 1e-9),
            **memory_figures(),
        })  # fmt: skip
        return loss


def _why_untold(results: Sequence[Result]) -> str:
    """Say why nothing was told about a batch."""
    sampled = any(step.decision.completion.token_ids for result in results for step in result.steps)
    if not sampled and any(result.led for result in results):
        return "the oracle took every step of every episode, and the student none. Set `lead` lower."
    return (
        "nothing could be told about any step. The right actions may be of kinds that the student is not offered "
        '(--set \'actions=["click","fill","select","press"]\' offers more), or about elements that it is not shown '
        "(max_prompt_tokens)."
    )
