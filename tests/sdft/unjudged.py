"""A task without a score."""

from selfsurf.browser_env import Task
from selfsurf.envs_registry import name_of


class Unjudged(Task):
    start_url, goal, max_steps = "data:text/html,<button>Go</button>", "Look.", 1


UNJUDGED = name_of(Unjudged)
