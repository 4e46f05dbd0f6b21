"""An agent of one rule, to compare with: press what the goal names in quotes, the first element of that name."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Click, Observation, Scroll

_LINE = re.compile(r"^ *\[(\d+)\] .*")


class FirstMatch:
    """Reads the outline alone, line by line, and believes it. Scrolls down where nothing has the name."""

    def reset(self, goal: str = "", slot: int = 0) -> None:
        """Nothing to forget."""

    def act(self, obs: Observation) -> Action:
        """Click the first element whose line has the goal's quoted text."""
        name = re.search(r'"[^"]+"', obs["goal"])
        for row in obs["dom"].split("\n"):
            line = _LINE.match(row)
            if line and name and name[0] in row:
                return Click(id=int(line[1]))
        return Scroll(dy=500)
