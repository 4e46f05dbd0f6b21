"""SDFT trainer: the model learns from its own episodes to act as if it had been told the right action.

One optimizer step, from top to bottom: the student plays a batch of episodes, and each of their steps becomes a row of
verbatim tokens (`_prepare_training_batch`); teacher and student read the row's tokens, and their divergence is the loss
(`compute_loss`). The teacher is the same model with privileged context (`sdft.teacher`) and an average of the student's
weights.

The trainer is independent of TRL's `SDFTTrainer`, to which `selfsurf bench train` compares it. Differences: rows come
from episodes and are not retokenized; the teacher's prompt is never truncated; the teacher's adapter starts as a copy
of the student's; rows are packed without padding, with shared prefixes, through faster LoRA layers; a vision model gets
the images from which it sampled; and a process that has nothing to learn still takes part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from selfsurf.sdft.loss.distillation import (
    confident,
    cross_entropy,
    divergence,
    importance,
    mean_of_rows,
    mean_of_unknown,
)
from selfsurf.sdft.processes import share, unsharded
from selfsurf.sdft.rollouts import Job
from selfsurf.sdft.run.batches import KNOWN, Batches, Processes
from selfsurf.sdft.run.metrics import memory_figures
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.following import FOLLOWS, Places, heeded, throughout
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import OracleContext
from selfsurf.sdft.teacher.recording import Recording
from selfsurf.sdft.teacher.weights import FollowStudent, add_teacher, teaching
from selfsurf.sdft.trainers.base import EpisodeTrainer

_TEACHERS: dict[str, Callable[[Any], AbstractContextManager[Any]]] = {
    "ema": teaching,
    "base": lambda model: model.disable_adapter(),  # type: ignore[no-any-return]
    "live": contextlib.nullcontext,
}
"""Context managers that turn the model into its teacher, by `TrainSettings.teacher_weights`."""


class EpisodeSDFTTrainer(EpisodeTrainer):
    """SDFT trainer on on-policy episodes.

    Args:
        settings: settings of the run.
        checkpoints: folder of the checkpoints.
        lessons: contexts of the teacher; by default the oracle's actions.
        recordings: recorded episodes that are also learned from directly (`TrainSettings.recorded_rows`).
        compared: whether an earlier start of the run has compared teacher and student already.
        options: further arguments of `EpisodeTrainer`.
    """

    def __init__(
        self,
        settings: TrainSettings,
        checkpoints: Path,
        *,
        lessons: LessonContext | None = None,
        recordings: Sequence[Recording] = (),
        compared: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(settings, checkpoints, **options)
        self.recorded_rows = share(settings.recorded_rows, "recorded_rows") if recordings else 0
        accelerator = self.accelerator
        self._batches = Batches(
            settings,
            self.policy,
            self.collector,
            self.jobs,
            episodes=self.args.per_device_train_batch_size,
            max_rows=self.max_rows,
            lessons=lessons or LessonContext((OracleContext(),)),
            recordings=recordings,
            recorded_rows=self.recorded_rows,
            compared=compared,
            processes=Processes(accelerator.process_index, accelerator.num_processes, self.over_all),
        )
        self.pipeline = self._batches.pipeline
        self._teacher = settings.teacher_weights
        if self._teacher == "chosen" and accelerator.num_processes > 1:
            self._teacher = "base"  # a second pass would have to be collective
        if self._teacher in ("ema", "chosen"):
            add_teacher(self.model)
            self.add_callback(FollowStudent(settings.teacher_rate, lambda: self.learned))

    def compute_loss(self, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> torch.Tensor:
        """Return the student's divergence from the teacher on sampled tokens, plus the losses against forgetting."""
        held, rows = self.accelerator.unwrap_model(model), inputs.get("shown")
        # Teachers run first: switching adapters after the student's pass would modify the leaves of its graph.
        teacher = self._teacher_logits(held, inputs)
        shown_teacher = None if rows is None else self._teacher_logits(held, rows)
        loss = self._distillation_loss(self.student_logits(model, inputs), teacher, inputs)
        return loss + self._shown_loss(held, rows, shown_teacher) + self.forgetting(model)

    def _shown_loss(
        self, model: Any, rows: dict[str, Any] | None, teacher: torch.Tensor | None
    ) -> torch.Tensor | float:
        """Return the loss, in nats, of rows with a known action: the mean over rows of the mean over unlearned tokens.

        A mean over all tokens would weigh a click, which is mostly an element's number, a fifth as much as a text. Of
        twenty tokens that choose an option, only one or two are decisive.
        """
        loss, follows = torch.zeros(()), list[bool]()
        if rows is not None and teacher is not None:
            losses, follows = self._shown_losses(self.student_logits(model, rows), teacher, rows)
            loss = mean_of_unknown(losses, rows["completion_mask"], KNOWN)
            self._batches.heard(follows)
        if self.recorded_rows:  # the mean over processes needs a call from processes without rows, too
            self.note({"recorded/loss": self.over_all(float(loss.detach()))})
            taught, of = self.over_all(sum(follows)), self.over_all(len(follows))
            self.note({"recorded/distilled": taught / of} if of else {})
        return 0.0 if rows is None else loss

    def _shown_losses(
        self, student: torch.Tensor, teacher: torch.Tensor, rows: dict[str, Any]
    ) -> tuple[torch.Tensor, list[bool]]:
        """Return each token's loss (B, C), and whether the teacher follows in each row, from logits (B, C, V).

        The student learns the teacher's distribution where the teacher follows (`sdft.teacher.following`) and is
        confident of the token (`min_confidence`), and the action itself elsewhere.
        """
        settings, losses = self.settings, cross_entropy(student, rows["completion_ids"])
        teacher = (teacher / settings.teacher_temperature).log_softmax(-1)
        follows = [one >= FOLLOWS for one in _following(teacher, rows["places"])]
        if any(follows):
            taught = confident(teacher, torch.tensor(follows, device=losses.device)[:, None], settings.min_confidence)
            apart = divergence(student.log_softmax(-1), teacher, settings.divergence)
            losses = torch.where(taught.bool(), apart, losses)
        return losses, follows

    def _distillation_loss(self, student: torch.Tensor, teacher: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
        """Return the mean over rows of the divergence (`sdft.loss.distillation`), from logits (B, C, V)."""
        settings, mask = self.settings, inputs["completion_mask"]
        student = student.log_softmax(-1)
        if not self._batches.compared:
            apart = float((divergence(student.detach(), teacher.log_softmax(-1)) * mask).sum())
            self.note(self._batches.compare(apart, float(mask.sum())))
        teacher = (teacher / settings.teacher_temperature).log_softmax(-1)
        if self._teacher == "chosen":
            pairs = zip(_following(teacher, inputs["places"]), _following(student, inputs["places"]), strict=True)
            kept = torch.tensor([heeded(*pair) for pair in pairs], device=mask.device)
            self.note({"teacher/unheeded": int((~kept).sum())})
            mask = mask * kept[:, None]
        mask = self._gated(teacher, mask)
        losses = divergence(student, teacher, settings.divergence)
        if settings.importance_clip is not None:
            drawn = inputs["completion_ids"], inputs["allowed"], inputs["old_per_token_logps"]
            losses = losses * importance(student, *drawn, settings.importance_clip)
        by_token = float((losses.detach() * mask).sum() / mask.sum().clamp(min=1))
        self.note({"sdft/distillation_loss": self.over_all(by_token)})
        return mean_of_rows(losses, mask) if mask.any() else student.sum() * 0.0

    def _teacher_logits(self, held: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Return the teacher's logits (B, C, V) at the completions' tokens."""
        told = inputs["teacher_input_ids"], inputs["teacher_attention_mask"], inputs["completion_mask"]
        seen = inputs.get("seen")
        images = seen and [one.teacher for one in seen]
        if self._teacher == "chosen":
            return self._chosen(held, told, images, inputs)
        return self._taught(self._teacher, held, told, images)

    def _taught(self, who: str, held: Any, told: Sequence[torch.Tensor], images: Any) -> torch.Tensor:
        """Return the logits (B, C, V) of one kind of teacher."""
        ids, attended, mask = told
        with torch.no_grad(), _TEACHERS[who](held):
            return self.logits(held, ids, attended, mask, images)

    def _chosen(self, held: Any, told: Sequence[torch.Tensor], images: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Return the averaged teacher's logits, except in rows where only the untrained model follows."""
        teacher, sharp = self._taught("ema", held, told, images), self.settings.teacher_temperature
        follows = _following((teacher / sharp).log_softmax(-1), inputs["places"])
        if rows := [row for row, one in enumerate(follows) if one < FOLLOWS]:
            base = self._taught("base", held, [one[rows] for one in told], images and [images[row] for row in rows])
            found = _following((base / sharp).log_softmax(-1), [inputs["places"][row] for row in rows])
            better = [(row, one) for row, one, how in zip(rows, base, found, strict=True) if how > follows[row]]
            for row, one in better:
                teacher[row] = one
            self._metrics["teacher/base"] = [sum(self._metrics["teacher/base"]) + len(better)]
        return teacher

    def _gated(self, teacher: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the mask of the tokens that the teacher is confident of, and record whether any process has some."""
        kept = confident(teacher, mask, self.settings.min_confidence)
        self.note(self._batches.gated(int(kept.sum()), int((mask - kept).sum())))
        self.learned = self._batches.learned
        return kept

    def _prepare_training_batch(self, jobs: list[Job]) -> dict[str, Any]:
        with unsharded(self.model):
            drawn = self._batches.draw(self.state.global_step, jobs)
        self._batch = drawn.figures
        batch = self.collate(drawn.rows, allowed=self.settings.importance_clip is not None)
        batch["places"] = self._batches.places(drawn.rows) or [([], [])]
        if drawn.shown:
            batch["shown"] = self.collate(drawn.shown, allowed=False)
            batch["shown"]["places"] = [throughout(row.completion_ids) for row in drawn.shown]
        self.note(self._batch)
        return batch

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Run one step and add its speed and memory use to the metrics."""
        before = self.seconds["learn"]
        loss = super().training_step(*args, **kwargs)
        learn = self.seconds["learn"] - before
        self.note({
            "tokens/generated_per_second": self._batch["tokens/generated"] / max(self._batch["rollouts/seconds"], 1e-9),
            "tokens/learned_per_second": self._batch["tokens/learned"] / max(learn, 1e-9),
            **memory_figures(),
        })  # fmt: skip
        return loss


def _following(logprobs: torch.Tensor, places: Sequence[Places]) -> list[float]:
    """Return the probability of each row's demonstrated action (`sdft.teacher.following`), from logprobs (B, C, V)."""
    with torch.no_grad():
        return [float(row[at, tokens].sum().exp()) for row, (at, tokens) in zip(logprobs, places, strict=True)]
