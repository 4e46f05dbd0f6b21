"""A wrapper that returns observations as one text."""

from __future__ import annotations

import string
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from selfsurf.browser_env.observation import Observation, as_text

OTHER = "?"
"""Replacement for characters that are not in the space."""


class TextObservation(gym.ObservationWrapper[str, Any, Observation], gym.utils.RecordConstructorArgs):
    """A wrapper that joins goal, page, outline and last error into one text of a `gymnasium.spaces.Text`.

    Args:
        env: a `BrowserEnv`, wrapped or not.
        max_length: maximum number of characters; longer texts are cut off at the end. `budget=` at make shortens the
            page more selectively.
        characters: characters of the space; any other becomes `?`.
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
        """Convert an observation to text."""
        text = as_text(observation)[: self._max_length]
        return "".join(one if one in self._known else OTHER for one in text)
