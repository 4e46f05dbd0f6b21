"""SDFT trainer on MLX: the steps of `sdft.trainers.sdft`, with checkpoints from which a killed run resumes.

Metrics, evaluation and interrupts work as in training on torch: the same callbacks run at the same moments.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import mlx.core as mx
from mlx.optimizers import AdamW
from mlx.utils import tree_flatten
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState, TrainerControl, TrainerState

from selfsurf.agents.adapters.identity import write_about
from selfsurf.agents.adapters.mlx import MLX_WEIGHTS
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.mlx.objective import Objective
from selfsurf.sdft.mlx.student import Student, Weights, write
from selfsurf.sdft.rollouts import Generator, Job, LocalGenerator, Rollouts
from selfsurf.sdft.rollouts.collector import Collector
from selfsurf.sdft.rows.stored import State
from selfsurf.sdft.rows.stored_states import StoredGenerator
from selfsurf.sdft.run import checkpoint_files as files
from selfsurf.sdft.run.batches import Batches
from selfsurf.sdft.run.metrics import memory_figures
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import OracleContext
from selfsurf.sdft.teacher.recording import Recording

TEACHER, OPTIMIZER, STATE = "teacher.safetensors", "optimizer.safetensors", "trainer_state.json"
"""File names in a checkpoint besides the student's weights."""

KEPT = 2
"""Number of latest checkpoints that are kept, besides that of the best state."""


class MLXTrainer:
    """SDFT trainer on on-policy episodes, with a `Student` as `model` and `EpisodeSDFTTrainer`'s other arguments."""

    def __init__(
        self,
        settings: TrainSettings,
        checkpoints: Path,
        *,
        model: Student,
        jobs: Sequence[Job],
        rollouts: Rollouts | None = None,
        states: Sequence[State] = (),
        generator: Generator | None = None,
        lessons: LessonContext | None = None,
        recordings: Sequence[Recording] = (),
        compared: bool = False,
        callbacks: Sequence[TrainerCallback] = (),
        processing_class: Any = None,
        peft_config: Any = None,
    ) -> None:
        self.settings = settings
        self.model = model
        self.policy = model.policy
        self.rehearsal: Any = None
        self.practice: Any = None
        self.about: Mapping[str, Any] | None = None
        """Metadata saved beside every adapter of the run, including checkpoints; None for none."""
        self.args = SimpleNamespace(output_dir=str(checkpoints))
        self.state = TrainerState(max_steps=settings.steps)
        self.control = TrainerControl()
        self.seconds = {"learn": 0.0, "rollout": 0.0}
        """Wall-clock seconds so far, by activity."""
        self._metrics: dict[str, list[float]] = defaultdict(list)
        self._callbacks = list(callbacks)
        agent = make_agent(self.policy, settings, sampling=True, guarded=settings.offline)
        if rollouts is None:
            generator = generator or StoredGenerator(agent, states, settings.rollouts.batch)
        self.batches = Batches(
            settings,
            self.policy,
            Collector(
                generator or LocalGenerator(cast(Rollouts, rollouts), agent, settings.lead),
                cast(Any, self.policy),
                lambda: cast(Any, model.weights),
            ),
            jobs,
            episodes=settings.episodes_per_step,
            max_rows=settings.max_rows,
            lessons=lessons or LessonContext((OracleContext(),)),
            recordings=recordings,
            recorded_rows=settings.recorded_rows if recordings else 0,
            compared=compared,
        )
        self.pipeline = self.batches.pipeline
        self.objective = Objective(model, self.batches)
        if settings.teacher_weights in ("ema", "chosen"):
            model.follow(1.0)
        self.optimizer = AdamW(learning_rate=0.0, weight_decay=0.0, bias_correction=True)
        self.optimizer.init(model.weights)
        self._slower = 1.0
        """Factor by which rollbacks have reduced the learning rate."""

    def add_callback(self, callback: TrainerCallback) -> None:
        """Add a callback that is called after the others."""
        self._callbacks.append(callback)

    def note(self, figures: Mapping[str, float]) -> None:
        """Add columns to the next line of metrics, each as the mean of its noted values."""
        for name, figure in figures.items():
            self._metrics[name].append(figure)

    def log(self, logs: Mapping[str, float]) -> None:
        """Log the given figures with the mean of each figure noted since the last call."""
        noted = {name: sum(values) / len(values) for name, values in self._metrics.items()}
        self._metrics.clear()
        self._call("on_log", logs={**logs, **noted})

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: a linear warm-up, then a linear decay to 0."""
        settings, steps = self.settings, self.settings.steps
        warmup = min(settings.warmup_steps, steps // 4)
        share = step / max(1, warmup) if step < warmup else (steps - step) / max(1, steps - warmup)
        return self._slower * settings.learning_rate * max(0.0, share)

    def train(self, resume_from_checkpoint: str | None = None) -> None:
        """Train from the beginning, or from a checkpoint of this run."""
        if resume_from_checkpoint is not None:
            self._load(Path(resume_from_checkpoint))
        self._call("on_train_begin")
        while self.state.global_step < self.state.max_steps and not self.control.should_training_stop:
            self.control.should_save = False
            self._call("on_step_begin")
            figures = self._step()
            step = self.state.global_step
            self.control.should_training_stop = step >= self.state.max_steps
            self.control.should_save = step % self.settings.checkpoint_every == 0 or self.control.should_training_stop
            self._call("on_step_end")
            self.log(figures)
            if self.control.should_save:
                self._save_checkpoint()
        self._call("on_train_end")

    def _step(self) -> dict[str, float]:
        number, start = self.state.global_step, time.perf_counter()
        self.policy.forget()  # the weights have changed since the last batch
        drawn = self.batches.draw(number, self.batches.jobs_of(number))
        self.seconds["rollout"] += (rolled := time.perf_counter() - start)
        self.note(drawn.figures)
        forgetting = {"rehearsal": self.rehearsal, "practice": self.practice}
        kept = {name: (one.weight, one.of(self.model, number)) for name, one in forgetting.items() if one is not None}
        loss, gradient, figures = self.objective.gradient(drawn, kept)
        self.note(figures)
        rate, norm = self.rate(number), 0.0
        if self.batches.learned and gradient:
            norm = float(sum(mx.square(each).sum() for each in gradient.values())) ** 0.5
            most = self.settings.max_grad_norm
            factor = min(1.0, most / (norm + 1e-6)) if most else 1.0
            gradient = {name: factor * each for name, each in gradient.items()}
        self._call("on_pre_optimizer_step")
        if self.batches.learned and gradient:
            self._update(gradient, rate)
        self.state.global_step += 1
        learn = time.perf_counter() - start - rolled
        self.seconds["learn"] += learn
        self.note({
            "tokens/generated_per_second": drawn.figures["tokens/generated"]
            / max(drawn.figures["rollouts/seconds"], 1e-9),
            "tokens/learned_per_second": drawn.figures["tokens/learned"] / max(learn, 1e-9),
            **memory_figures(),
        })  # fmt: skip
        return {"loss": loss, "grad_norm": norm, "learning_rate": rate}

    def _update(self, gradient: Weights, rate: float) -> None:
        """Update the student, then the teacher."""
        self.optimizer.learning_rate = mx.array(rate)
        weights: Weights = self.optimizer.apply_gradients(gradient, self.model.weights)
        mx.eval(weights, self.optimizer.state)
        self.model.put(weights)
        if self.settings.teacher_weights in ("ema", "chosen"):
            self.model.follow(self.settings.teacher_rate)

    def put_back(self, step: int) -> None:
        """Restore student and teacher from a checkpoint."""
        folder = files.checkpoint(Path(self.args.output_dir), step)
        self.model.put(_read(folder / MLX_WEIGHTS))
        if (folder / TEACHER).exists():
            self.model.teacher = _read(folder / TEACHER)

    def slow_down(self, step: int, factor: float) -> None:
        """Restore the optimizer from a checkpoint, and multiply the learning rate by `factor` from now on."""
        self._load_optimizer(files.checkpoint(Path(self.args.output_dir), step))
        self._slower *= factor

    def _load(self, folder: Path) -> None:
        known = json.loads((folder / STATE).read_text(encoding="utf8"))
        self.state.global_step = known["global_step"]
        self.state.best_global_step = known["best_global_step"]
        self._slower = known["slower"]
        self.put_back(self.state.global_step)
        self._load_optimizer(folder)

    def _load_optimizer(self, folder: Path) -> None:
        state: dict[str, Any] = {}
        for name, value in _read(folder / OPTIMIZER).items():
            weight, _, moment = name.rpartition(".")  # `tree_unflatten` would split weight names at their dots
            (state.setdefault(weight, {}) if weight else state)[moment] = value
        self.optimizer.state = state

    def _save_checkpoint(self, *_: Any) -> None:
        """Write a checkpoint atomically."""
        folder, step = Path(self.args.output_dir), self.state.global_step
        made = folder / files.UNFINISHED
        files.discard(made)
        made.mkdir(parents=True)
        manager = [each for each in self._callbacks if isinstance(each, ExportableState)]
        known = {
            "global_step": step, "best_global_step": self.state.best_global_step, "slower": self._slower,
            "stateful_callbacks": {type(each).__name__: each.state() for each in manager},
        }  # fmt: skip
        with files.room_in(folder):
            self.model.save(made)
            if self.about is not None:
                write_about(made, {**self.about, "steps": step})
            if self.model.teacher is not None:
                write(made / TEACHER, self.model.teacher)
            write(made / OPTIMIZER, dict(tree_flatten(self.optimizer.state)))
            (made / STATE).write_text(json.dumps(known), encoding="utf8")
            files.note_hashes(made)
        files.publish(made, files.checkpoint(folder, step))
        files.forget_old(folder, KEPT)

    def _call(self, moment: str, **more: Any) -> None:
        for callback in list(self._callbacks):
            getattr(callback, moment)(self.args, self.state, self.control, model=self.model, **more)


def _read(file: Path) -> Weights:
    """Read all arrays of a safetensors file."""
    found = cast(Weights, mx.load(str(file)))
    mx.eval(found)
    return found
