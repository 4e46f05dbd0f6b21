"""MiniWoB++: small synthetic web tasks, from the `miniwob` package (https://miniwob.farama.org)."""

from tasks.miniwob.names import FLIGHTS
from tasks.miniwob.task import MiniWobTask, names

__all__ = ["FLIGHTS", "MiniWobTask", "names"]
