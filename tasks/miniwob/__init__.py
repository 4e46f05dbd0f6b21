"""MiniWoB++: small synthetic web tasks, from the `miniwob` package (https://miniwob.farama.org)."""

from selfsurf.tasks.miniwob.task import FLIGHTS, MiniWobTask, names

__all__ = ["FLIGHTS", "MiniWobTask", "names"]
