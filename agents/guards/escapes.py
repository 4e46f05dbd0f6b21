"""What is done instead of what leads nowhere."""

from __future__ import annotations

from selfsurf.agents.guards.base import Verdict
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env.actions import Action, Press, Scroll, Wait
from selfsurf.browser_env.observation import Observation


def escapes(obs: Observation) -> list[Action]:
    """Harmless actions that may show something new, the best first."""
    last: list[Action] = [Press(key="Escape"), Wait(ms=1000)]
    if all(element["in_viewport"] for element in obs["elements"]):
        return last
    return [Scroll(dy=400), Scroll(dy=-400), *last]


def instead(escape: Action, told: str) -> Verdict:
    """Do this instead; the model is told what was done, so that it doesn't take it for its own choice."""
    did = f"{told}: did {compact(escape)} instead."
    return Verdict(escape, did, f"{did} Do something else.")
