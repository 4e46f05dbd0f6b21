"""Hashes of pages and actions, the same in every process, so that a run that is taken up knows them again."""

from __future__ import annotations

import hashlib
from typing import Any

from selfsurf.agents.guards.stuck import action_key
from selfsurf.browser_env import Action, Observation
from selfsurf.browser_env.safety.confirm import target_of


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits for anything whose `repr` says all of it."""
    return hashlib.sha256(repr(value).encode("utf8", "replace")).hexdigest()[:16]


def step_key(action: Action, obs: Observation, page: str) -> str:
    """Return the hash of an action on a page, its element by what and where it is.

    Args:
        action: what is to be done.
        obs: where.
        page: the page's own hash (`graph.live.Live.page`).
    """
    return f"{page}:{digest(action_key(action, obs))}"


def name_of(action: Action, obs: Observation) -> str:
    """Return the hash of what an action does to what, without ids: what a user has allowed stays so on a new page."""
    element = target_of(action, obs)
    said = {key: value for key, value in action.to_dict().items() if key not in ("id", "reason")}
    return digest((said, element and (element["role"], element["name"]), obs["url"]))
