"""Rollouts: an agent's episodes, each at its own pace, in this process or on a Ray cluster. Independent of learning.

`Rollouts` runs episodes immediately. A `Generator` is asked for a batch and returns it later, possibly while other work
is done: `LocalGenerator` in this process, `sdft.rollouts.ray_generator.RayGenerator` on a cluster.
"""

from selfsurf.agents.play import EpisodeCounts, Job, Result, Step
from selfsurf.sdft.rollouts.generator import Batch, Generator, LocalGenerator, RolloutError
from selfsurf.sdft.rollouts.local import Rollouts

__all__ = ["Batch", "EpisodeCounts", "Generator", "Job", "LocalGenerator", "Result", "RolloutError", "Rollouts", "Step"]
