"""Measurements of a model: success by task, and retention of its earlier abilities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.scripts.learning.settings import LearnSettings, short
from selfsurf.scripts.learning.stages import MeasureError, Stages
from selfsurf.scripts.terminal.console import progress

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy


class AdapterMeasurements:
    """Measurements of adapters on one base model, which is loaded on first use.

    Args:
        settings: Settings of the comparison.
        stages: Store of the results.
    """

    def __init__(self, settings: LearnSettings, stages: Stages) -> None:
        self.settings = settings
        self.stages = stages
        self._policy: TransformersPolicy | None = None

    def success(
        self,
        name: str,
        adapter: Path | None,
        tasks: Sequence[str],
        *,
        validation: bool = False,
        demonstrate: bool = False,
    ) -> None:
        """Let a model act greedily in every task on every seed; a task's stage is `name/test/task`.

        Args:
            name: Prefix of the stages.
            adapter: Folder of the adapter; None for the base model.
            tasks: Gymnasium ids.
            validation: Whether to use the validation seeds; the stages are `name/validation/task`.
            demonstrate: Whether the prompt shows the oracle's next action.
        """
        which = "validation" if validation else "test"
        missing = [task for task in tasks if self.stages.done(f"{name}/{which}/{short(task)}") is None]
        if not missing:
            return
        seeds = self.settings.validation_range if validation else self.settings.test_range
        with progress(f"{name}: {which}", len(missing)) as update:
            for number, task in enumerate(missing, 1):
                self.stages.once(
                    f"{name}/{which}/{short(task)}",
                    lambda task=task: self._episodes(adapter, task, seeds, demonstrate),  # type: ignore[misc]
                )
                update(number)

    def retention(self, name: str, adapter: Path | None) -> None:
        """Measure perplexity and accuracy on general text and questions, as `name/perplexity` and `name/questions`."""
        from selfsurf.sdft.measure.questions import answers
        from selfsurf.sdft.measure.retention import perplexity

        self.stages.once(f"{name}/perplexity", lambda: perplexity(self.model(adapter)))
        self.stages.once(f"{name}/questions", lambda: answers(self.model(adapter)))

    def _episodes(self, adapter: Path | None, task: str, seeds: Sequence[int], demonstrate: bool) -> dict[str, Any]:
        from selfsurf.sdft.agent import make_agent
        from selfsurf.sdft.rollouts import Job, Rollouts

        agent = make_agent(self.model(adapter), self.settings.training, sampling=False)
        with Rollouts(self.settings.parallel, max_episode_steps=self.settings.evaluation_steps) as rollouts:
            results = rollouts.run(agent, [Job(task, seed) for seed in seeds], demonstrate=demonstrate)
        if all(one.masked for one in results):
            raise MeasureError(
                f"The infrastructure failed in all episodes of {task}: {results[0].detail}. "
                "The same command tries again."
            )
        return {
            "task": task,
            "episodes": [
                {
                    "seed": one.job.seed,
                    "outcome": str(one.outcome),
                    "solved": one.solved,
                    "judged": one.outcome != "env_error",
                    "steps": len(one.steps),
                }
                for one in results
            ],
        }

    def model(self, adapter: Path | None) -> TransformersPolicy:
        """Return the policy with an adapter active; None for the base model."""
        from selfsurf.sdft.rows.images import shows_images
        from selfsurf.sdft.run.model import load_policy

        if self._policy is None:
            self._policy = load_policy(self.settings.training)
            if shows_images(self._policy, self.settings.training):
                raise ValueError(
                    "Some of the compared arms can't show screenshots to a model: begin a comparison with --set "
                    "'vision=\"none\"'."
                )
        if self._policy.adapter != adapter:
            self._policy.set_adapter(adapter)
        return self._policy
