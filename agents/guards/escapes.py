"""What is done instead of what leads nowhere."""

from __future__ import annotations

from browser_env.actions import Action, Press, Scroll
from browser_env.observation import Observation


def escapes(obs: Observation) -> list[Action]:
    """Harmless actions that may show something new, the best first."""
    if all(element["in_viewport"] for element in obs["elements"]):
        return [Press(key="Escape")]
    return [Scroll(dy=400), Scroll(dy=-400), Press(key="Escape")]
