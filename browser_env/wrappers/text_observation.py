"""Observations as one text."""

from __future__ import annotations

import string
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from selfsurf.browser_env.observation import Observation, as_text

OTHER = "?"
"""What stands for a character that is not in the space."""


class TextObservation(gym.ObservationWrapper[str, Any, Observation], gym.utils.RecordConstructorArgs):
    """Goal, page, outline and last error as one text in a `gymnasium.spaces.Text`.

    Args:
        env: a `BrowserEnv`, wrapped or not.
        max_length: characters; what is longer is cut off at the end. `budget=` at make cuts the page more cleverly.
        characters: those of the space; any other one becomes `?`.
    """

    def __init__(
        self, env: gym.Env[Observation, Any], max_length: int = 4000, characters: str = string.printable
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, max_length=max_length, characters=characters)
        super().__init__(env)
        self._known = frozenset(characters) | {OTHER}
        self._max_length = max_length
        self.observation_space = spaces.Text(max_length, charset=self._known)

    def observation(self, observation: Observation) -> str:
        """Return the text of an observation."""
        text = as_text(observation)[: self._max_length]
        return "".join(one if one in self._known else OTHER for one in text)
