"""A baseline agent with one rule: click the first element whose name the goal quotes."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Click, Observation, Scroll

_LINE = re.compile(r"^ *\[(\d+)\] .*")


class FirstMatch:
    """An agent that searches the outline line by line for the goal's quoted text, and scrolls down without a match."""

    def reset(self, goal: str = "", slot: int = 0) -> None:
        """Do nothing, because the agent keeps no state."""

    def act(self, obs: Observation) -> Action:
        """Click the first element whose line has the goal's quoted text."""
        name = re.search(r'"[^"]+"', obs["goal"])
        for row in obs["dom"].split("\n"):
            line = _LINE.match(row)
            if line and name and name[0] in row:
                return Click(id=int(line[1]))
        return Scroll(dy=500)
