"""MiniWoB++: small synthetic web tasks, from the `miniwob` package (https://miniwob.farama.org)."""

from selfsurf.tasks.miniwob.names import FLIGHTS
from selfsurf.tasks.miniwob.task import MiniWobTask, names

__all__ = ["FLIGHTS", "MiniWobTask", "names"]
