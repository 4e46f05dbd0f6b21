"""A wrapper for discrete actions: action k clicks the k-th element."""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from selfsurf.browser_env.environment.env import BrowserEnv
from selfsurf.browser_env.observation import Element

NO_ELEMENT = {"action": "click", "id": 0}
"""Action that clicks nothing, because IDs start at 1. It costs a step, like any action that can't be performed."""


class ClickElement(gym.ActionWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """A wrapper with the action space `Discrete(elements)`: action k clicks the k-th observed element, from 0.

    The order is that of `obs["elements"]` and `FlatObservation`.

    Args:
        env: a `BrowserEnv`, wrapped or not.
        elements: number of elements to choose from.
    """

    def __init__(self, env: gym.Env[Any, Any], elements: int = 20) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, elements=elements)
        super().__init__(env)
        self.action_space = spaces.Discrete(elements)

    def action(self, action: int) -> dict[str, Any]:
        """Return the click as an action of the environment."""
        there = self._there()
        return {"action": "click", "id": there[action]["id"]} if action < len(there) else dict(NO_ELEMENT)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return a mask (elements,) of actions that click an element, for `MaskablePPO`. The first is always valid."""
        number = cast(spaces.Discrete, self.action_space).n
        return np.arange(number) < max(1, len(self._there()))

    def _there(self) -> tuple[Element, ...]:
        observation = cast(BrowserEnv, self.unwrapped).core.observation
        return () if observation is None else observation["elements"]
