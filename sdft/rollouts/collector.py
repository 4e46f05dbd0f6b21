"""Episodes for a trainer: publish weights, request episodes, collect them, look at the books.

The trainers here stand on it, and so does one of your own (docs/own-trainer.md), whose `Collector` comes from
`selfsurf.sdft.make_collector`. It numbers versions and batches; a `Generator` makes the episodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from selfsurf.agents.play.job import Job, derived
from selfsurf.sdft.rollouts.generator import Batch, Books, Generator, RolloutError, Weights

if TYPE_CHECKING:
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy


class Collector:
    """A trainer's episodes. A context manager.

    Args:
        generator: makes the episodes.
        policy: of the model that is trained.
        weights: gives the tensors of its adapter.
        seed: what the seeds of batches come from that are requested without one.
        save: writes the adapter into a folder.
        check: refuses jobs before they are requested.
        stack: what is closed with it.
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
        """Of the model that is trained, `policy.model`, in this process."""
        self.ahead = generator.ahead
        """How many batches may be requested before they are wanted. Their samples are as many versions old."""
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
        """Close environments and end workers, if they are the collector's own."""
        self._stack.close()

    def publish(self, weights: Mapping[str, torch.Tensor] | None = None, *, version: int | None = None) -> int:
        """Put weights in force for what is requested from now on.

        Args:
            weights: tensors of an adapter by PEFT's names (`peft.get_peft_model_state_dict`); None: those of
                `policy.model` as they are now. In this process they are put into that model.
            version: their number; None: one more than the last, from 0.

        Returns:
            The version, which every result tells (`Result.version`).
        """
        if version is None:
            version = 0 if self._version is None else self._version + 1
        self._generator.publish(version, self._weights if weights is None else lambda: weights)
        self._version = version
        return version

    def request(self, jobs: Sequence[Job], *, seed: int | None = None, number: int | None = None) -> int:
        """Ask for a batch of episodes. Workers begin at once; in this process they are played when collected.

        Args:
            jobs: tasks and seeds. The same job twice is two episodes, whose actions are drawn differently.
            seed: what actions are drawn from; None: a seed of the batch's own. The same seed, jobs and weights give
                the same samples.
            number: of the batch; None: the next.

        Returns:
            The number, by which it is collected.

        Raises:
            RolloutError: no weights are published.
            TypeError: what is no `Job` is among them.
            ValueError: a task is not there or can't be made, or a seed can't be. Nothing is requested then.
        """
        if self._version is None:
            raise RolloutError("Publish weights before a batch is asked for.")
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
            number: which; None: the first that was requested and not collected.

        Returns:
            Its results in the order of the jobs, each with its steps, and the tally: asked = finished + masked.

        Raises:
            RolloutError: it can't be made, or was not requested.
        """
        number = self._asked[0] if number is None and self._asked else number
        if number not in self._asked:
            raise RolloutError(f"Request a batch before it is collected; waiting are {self._asked or 'none'}.")
        batch = self._generator.collect(number)
        self._asked.remove(number)
        return batch

    def forget(self, number: int) -> None:
        """Drop a batch that was requested. Its number may be requested again."""
        self._generator.forget(number)
        self._asked.remove(number)

    @property
    def books(self) -> Books:
        """What became of all episodes so far, and of the workers."""
        return self._generator.books

    def save(self, folder: str | Path) -> Path:
        """Write the adapter for `agents.make("transformers", adapter=FOLDER)`, with the prompt that it acts under.

        Raises:
            ValueError: the collector was made for a trainer that saves by itself.
        """
        if self._save is None:
            raise ValueError("This collector belongs to a trainer, which saves its adapter itself.")
        self._save(Path(folder))
        return Path(folder)
