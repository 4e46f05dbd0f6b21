"""Observations as vectors of numbers, for libraries that know `Box` and `Dict` only."""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Iterable
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from selfsurf.browser_env.env import BrowserEnv
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.task import Viewport

STATES = ("checked", "covered", "disabled", "expanded", "focused", "selected")
ROLES = ("button", "checkbox", "combobox", "generic", "link", "menuitem", "option", "radio", "tab", "textbox")
FEATURES = ("there", "x", "y", "width", "height", "in viewport", "named in the goal", "has a value", *STATES, *ROLES)
"""What is told of an element, each from 0 to 1: its box as a part of the viewport, and the part of its name's words
that the goal has, too."""


class FlatObservation(
    gym.ObservationWrapper[dict[str, Any], Any, Observation],
    gym.utils.RecordConstructorArgs,
):
    """A `Dict` of `Box`es of fixed size, as Stable-Baselines3's `MultiInputPolicy` takes it.

    | key | values |
    | --- | --- |
    | `elements` | (elements x `FEATURES`,) float32: the first elements of `obs["elements"]`, one after the other |
    | `goal`, `page` | (words,) float32: which words the goal and the visible text have, by a hash of each |
    | `error` | (1,) float32: whether the last action failed |
    | `screenshot` | as it is, if the environment has it |

    `gymnasium.wrappers.FlattenObservation` makes a single vector of them.

    Args:
        env: a `BrowserEnv`, wrapped or not.
        elements: how many elements are told of.
        words: into how many values words are hashed.
    """

    def __init__(self, env: gym.Env[Observation, Any], elements: int = 20, words: int = 64) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, elements=elements, words=words)
        super().__init__(env)
        self._elements, self._words = elements, words
        sizes = {"elements": elements * len(FEATURES), "goal": words, "page": words, "error": 1}
        parts: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(0, 1, (size,), np.float32) for name, size in sizes.items()
        }
        seen: Any = env.observation_space
        if "screenshot" in seen.spaces:
            parts["screenshot"] = seen["screenshot"]
        self.observation_space = spaces.Dict(parts)

    def observation(self, observation: Observation) -> dict[str, Any]:
        """Return the numbers of an observation."""
        viewport = cast(BrowserEnv, self.unwrapped).core.viewport
        values: dict[str, Any] = {
            "elements": _elements(observation, self._elements, viewport),
            "goal": _hashed(_words(observation["goal"]), self._words),
            "page": _hashed(_words(observation["page_text"]), self._words),
            "error": np.array([bool(observation["last_error"])], np.float32),
        }
        if "screenshot" in observation:
            values["screenshot"] = observation["screenshot"]
        return values


def _elements(observation: Observation, most: int, viewport: Viewport) -> NDArray[np.float32]:
    """Return the features of the first elements, one after the other, (most x `FEATURES`,)."""
    table = np.zeros((most, len(FEATURES)), np.float32)
    goal = set(_words(observation["goal"]))
    for row, element in zip(table, observation["elements"], strict=False):
        row[:] = _features(element, goal, viewport)
    return table.clip(0, 1).ravel()


def _features(element: Element, goal: set[str], viewport: Viewport) -> list[float]:
    x, y, width, height = element["bbox"]
    name = _words(element["name"])
    return [
        1,
        *(x / viewport[0], y / viewport[1], width / viewport[0], height / viewport[1]),
        element["in_viewport"],
        sum(word in goal for word in name) / max(1, len(name)),
        bool(element["value"]),
        *(state in element["states"] for state in STATES),
        *(role == element["role"] for role in ROLES),
    ]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _hashed(words: Iterable[str], size: int) -> NDArray[np.float32]:
    """Return which of `size` hash values words have; the same in every process."""
    values = np.zeros(size, np.float32)
    values[[crc32(word.encode()) % size for word in words]] = 1
    return values
