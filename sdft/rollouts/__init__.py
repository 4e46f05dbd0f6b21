"""Rollouts: an agent's episodes, each at its own pace, in this process or on a Ray cluster. Knows nothing of learning.

`Rollouts` runs episodes here and now. A `Generator` is asked for a batch and later gives it, which may happen while
something else is done: `LocalGenerator` here, `sdft.rollouts.ray_generator.RayGenerator` on a cluster.
"""

from selfsurf.agents.play import Job, Result, Step, Tally
from selfsurf.sdft.rollouts.generator import Batch, Generator, LocalGenerator, RolloutError
from selfsurf.sdft.rollouts.local import Rollouts

__all__ = ["Batch", "Generator", "Job", "LocalGenerator", "Result", "RolloutError", "Rollouts", "Step", "Tally"]
