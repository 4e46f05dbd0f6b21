"""Observations as vectors of numbers, for libraries that support only `Box` and `Dict` spaces."""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Iterable
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from selfsurf.browser_env.environment.env import BrowserEnv
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.task import Viewport

STATES = ("checked", "covered", "disabled", "expanded", "focused", "selected")
ROLES = ("button", "checkbox", "combobox", "generic", "link", "menuitem", "option", "radio", "tab", "textbox")
FEATURES = ("there", "x", "y", "width", "height", "in viewport", "named in the goal", "has a value", *STATES, *ROLES)
"""Features of an element, each from 0 to 1. The box is relative to the viewport; `named in the goal` is the fraction of
the words of its name that occur in the goal."""


class FlatObservation(
    gym.ObservationWrapper[dict[str, Any], Any, Observation],
    gym.utils.RecordConstructorArgs,
):
    """A wrapper with observations as a `Dict` of fixed-size `Box`es, for Stable-Baselines3's `MultiInputPolicy`.

    | key | values |
    | --- | --- |
    | `elements` | (elements x `FEATURES`,) float32: the first elements of `obs["elements"]`, one after the other |
    | `goal`, `page` | (words,) float32: which words occur in the goal and the visible text, by a hash of each |
    | `error` | (1,) float32: whether the last action failed |
    | `screenshot` | unchanged, if the environment provides it |

    `gymnasium.wrappers.FlattenObservation` turns them into a single vector.

    Args:
        env: a `BrowserEnv`, wrapped or not.
        elements: number of elements included.
        words: number of values that words are hashed into.
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
        """Convert an observation to numbers."""
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
    """Return the features of the first elements as one vector, (most x `FEATURES`,)."""
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
    """Return a vector (size,) with 1 at the hash of each word. The hash is the same in every process."""
    values = np.zeros(size, np.float32)
    values[[crc32(word.encode()) % size for word in words]] = 1
    return values
