"""Episodes for a trainer: publish weights, request episodes, collect them, read the statistics.

The trainers here use it, and so can a custom trainer (docs/own-trainer.md), whose `Collector` comes from
`selfsurf.sdft.make_collector`. A collector numbers versions and batches; a `Generator` makes the episodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from selfsurf.agents.play.job import Job, derived
from selfsurf.sdft.rollouts.generator import Batch, Generator, RolloutError, RolloutStats, Weights

if TYPE_CHECKING:
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy


class Collector:
    """Source of a trainer's episodes. A context manager.

    Args:
        generator: generator of the episodes.
        policy: policy of the trained model.
        weights: function that returns the tensors of the model's adapter.
        seed: seed from which the seeds of batches are derived that are requested without one.
        save: function that writes the adapter to a folder.
        check: function that raises for invalid jobs before they are requested.
        stack: resources that are closed with the collector.
    """

    def __init__(
        self,
        generator: Generator,
        policy: TransformersPolicy,
        weights: Weights,
        *,
        seed: int = 0,
        save: Callable[[Path], None] | None = None,
        check: Callable[[Sequence[Job]], None] = lambda jobs: None,
        stack: contextlib.ExitStack | None = None,
    ) -> None:
        self.policy = policy
        """Policy of the trained model (`policy.model`), in this process."""
        self.ahead = generator.ahead
        """Number of batches that may be requested in advance. Their samples are that many versions old."""
        self._generator = generator
        self._weights = weights
        self._seed = seed
        self._save = save
        self._check = check
        self._stack = stack or contextlib.ExitStack()
        self._version: int | None = None
        self._next = 0
        self._asked: list[int] = []

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close environments and end workers if the collector owns them."""
        self._stack.close()

    def publish(self, weights: Mapping[str, torch.Tensor] | None = None, *, version: int | None = None) -> int:
        """Use weights for all batches requested from now on.

        Args:
            weights: tensors of an adapter by PEFT's names (`peft.get_peft_model_state_dict`); None for the current
                weights of `policy.model`. Without workers they are loaded into that model.
            version: version number of the weights; None for one more than the last, from 0.

        Returns:
            The version, which every result contains (`Result.version`).
        """
        if version is None:
            version = 0 if self._version is None else self._version + 1
        self._generator.publish(version, self._weights if weights is None else lambda: weights)
        self._version = version
        return version

    def request(self, jobs: Sequence[Job], *, seed: int | None = None, number: int | None = None) -> int:
        """Request a batch of episodes. Workers start immediately; without workers, episodes are played when collected.

        Args:
            jobs: tasks and seeds. Two equal jobs are two episodes, whose actions are sampled differently.
            seed: seed of the sampled actions; None for a seed of the batch's own. The same seed, jobs and weights give
                the same samples.
            number: number of the batch; None for the next.

        Returns:
            The number by which the batch is collected.

        Raises:
            RolloutError: no weights have been published.
            TypeError: an element isn't a `Job`.
            ValueError: a task doesn't exist or can't be made, or a seed is invalid. Nothing is requested then.
        """
        if self._version is None:
            raise RolloutError("Publish weights before requesting a batch.")
        self._check(jobs)
        number = self._next if number is None else number
        own = derived(self._seed, "batch", number) if seed is None else seed
        self._generator.request(number, jobs, own)
        self._asked.append(number)
        self._next = max(self._next, number + 1)
        return number

    def collect(self, number: int | None = None) -> Batch:
        """Wait for a batch and return it, once.

        Args:
            number: number of the batch; None for the first requested batch that has not been collected.

        Returns:
            The results in the order of the jobs, each with its steps, and the tally: asked = finished + masked.

        Raises:
            RolloutError: the batch can't be made, or was not requested.
        """
        number = self._asked[0] if number is None and self._asked else number
        if number not in self._asked:
            raise RolloutError(f"Request a batch before collecting it. Requested batches: {self._asked or 'none'}.")
        batch = self._generator.collect(number)
        self._asked.remove(number)
        return batch

    def forget(self, number: int) -> None:
        """Drop a requested batch. Its number may be requested again."""
        self._generator.forget(number)
        self._asked.remove(number)

    @property
    def books(self) -> RolloutStats:
        """Statistics of all episodes so far and of the workers."""
        return self._generator.books

    def save(self, folder: str | Path) -> Path:
        """Write the adapter and its prompt for `agents.make("transformers", adapter=FOLDER)`.

        Raises:
            ValueError: the collector was made for a trainer that saves its adapter itself.
        """
        if self._save is None:
            raise ValueError("This collector belongs to a trainer, which saves the adapter itself.")
        self._save(Path(folder))
        return Path(folder)
