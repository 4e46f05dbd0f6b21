"""Hashes of pages and actions that are the same in every process, so that a resumed run recognizes them."""

from __future__ import annotations

import hashlib
from typing import Any

from selfsurf.agents.guards.stuck import action_key
from selfsurf.browser_env import Action, Observation
from selfsurf.browser_env.environment.confirm import target_of


def digest(value: Any) -> str:
    """Return a hash of 16 hexadecimal digits of any value with a complete `repr`."""
    return hashlib.sha256(repr(value).encode("utf8", "replace")).hexdigest()[:16]


def step_key(action: Action, obs: Observation, page: str) -> str:
    """Return the key of an action on a page; elements count by role, name and place rather than id.

    Args:
        action: the action.
        obs: the observation on which the action is chosen.
        page: hash of the page (`graph.live.Live.page`).
    """
    return f"{page}:{digest(action_key(action, obs))}"


def name_of(action: Action, obs: Observation) -> str:
    """Return a hash of an action and its element without ids, so that a user's permission survives page reloads."""
    element = target_of(action, obs)
    said = {key: value for key, value in action.to_dict().items() if key not in ("id", "reason")}
    return digest((said, element and (element["role"], element["name"]), obs["url"]))
