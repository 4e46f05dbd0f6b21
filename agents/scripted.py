"""Agents without a model: a fixed script, random actions, and the task's own oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from selfsurf.agents.agent import Act, Decision, Privileged
from selfsurf.agents.kinds import is_editable
from selfsurf.browser_env import Action, Click, Fill, Infeasible, Observation, Wait, parse_action


class _PerSlot:
    """Base of agents that gain nothing from batching: `act_batch` is a loop."""

    def act(self, obs: Observation) -> Act:
        """Choose the next action of slot 0."""
        return self._act(obs, 0)

    def act_batch(self, observations: Sequence[Observation], slots: Sequence[int] | None = None) -> list[Act]:
        """Choose the next action of several episodes; `slots` defaults to 0, 1, 2, ..."""
        slots = range(len(observations)) if slots is None else slots
        return [self._act(obs, slot) for obs, slot in zip(observations, slots, strict=True)]

    def _act(self, obs: Observation, slot: int) -> Act:
        raise NotImplementedError


class ScriptedAgent(_PerSlot):
    """Plays the same actions in every episode, then gives up.

    Args:
        actions: actions in any form that the environment accepts.

    Raises:
        browser_env.errors.ActionError: an action is malformed.
    """

    def __init__(self, actions: Sequence[Any]) -> None:
        self.actions = [parse_action(action) for action in actions]
        self._next: dict[int, int] = {}

    def reset(self, goal: str = "", slot: int = 0) -> None:
        """Restart the script at its first action."""
        self._next[slot] = 0

    def follow(self, obs: Observation, action: Action, slot: int = 0) -> Decision:
        """Skip one action of the script, because an action was already executed."""
        self._next[slot] = self._next.get(slot, 0) + 1
        return Decision(action)

    def _act(self, obs: Observation, slot: int) -> Act:
        number = self._next.get(slot, 0)
        self._next[slot] = number + 1
        return self.actions[number] if number < len(self.actions) else Infeasible(reason="The script has ended.")


class RandomAgent(_PerSlot):
    """Clicks or fills a random element in the viewport: the baseline that every policy must beat.

    Args:
        seed: seed of the random streams, one per slot, so that episodes don't depend on other slots.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._random: dict[int, np.random.Generator] = {}
        self._goal: dict[int, str] = {}

    def reset(self, goal: str = "", slot: int = 0) -> None:
        """Begin an episode; the slot's random stream continues."""
        self._goal[slot] = goal

    def _act(self, obs: Observation, slot: int) -> Act:
        random = self._random.setdefault(slot, np.random.default_rng([self.seed, slot]))
        usable = [element for element in obs["elements"] if "disabled" not in element["states"]]
        visible = [element for element in usable if element["in_viewport"]] or usable
        if not visible:
            return Wait(ms=100)
        element = visible[int(random.integers(len(visible)))]
        if is_editable(element) and random.random() < 0.5:
            words = (self._goal.get(slot) or obs["goal"]).split() or ["a"]
            return Fill(id=element["id"], text=words[int(random.integers(len(words)))].strip("\"'.,"))
        return Click(id=element["id"])


class OracleAgent(_PerSlot):
    """Plays the actions of the task's oracle.

    Args:
        privileged: returns the privileged view of a slot, e.g. `lambda slot: env.unwrapped.privileged()`. Not needed
            when the views are passed to `decide`, as by `agents.play`.
    """

    needs_privileged = True

    def __init__(self, privileged: Callable[[int], Privileged | None] = lambda slot: None) -> None:
        self._privileged = privileged

    def reset(self, goal: str = "", slot: int = 0) -> None:
        """Do nothing: the agent has no state."""

    def decide(
        self,
        observations: Sequence[Observation],
        slots: Sequence[int] | None = None,
        *,
        privileged: Sequence[Privileged | None] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Decision]:
        """Return the oracle's actions from the given privileged views, or else from the slots' own views."""
        if privileged is None:
            return [Decision(action) for action in self.act_batch(observations, slots)]
        return [Decision(_followed(view)) for view in privileged]

    def _act(self, obs: Observation, slot: int) -> Act:
        return _followed(self._privileged(slot))


def _followed(view: Privileged | None) -> Action:
    return Infeasible(reason="The task has no oracle here.") if view is None else parse_action(view["action"])
