"""The runtime context of the nodes: objects that a checkpoint can't store, and requests to the player."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from selfsurf.agents.graph.budgets import Budgets
from selfsurf.agents.graph.hashes import digest
from selfsurf.agents.guards.changes import Changes
from selfsurf.browser_env import Observation

Confirm: TypeAlias = Literal["auto", "user"]
"""Who confirms risky actions: nobody (`auto`), or the user."""


@dataclass
class Live:
    """The runtime context of one run in this process."""

    budgets: Budgets
    confirm: Confirm = "auto"
    scan: bool = True
    """Whether long pages may be scanned for the goal's names."""
    kinds: tuple[str, ...] = ()
    """Kinds of actions offered in the episode."""
    asks_environment: bool = False
    """Whether the player answers queries (`agents.agent.Query`)."""
    sees: bool = False
    """Whether the model takes images."""
    blind: bool = False
    """Whether a model that takes images gets observations without screenshots; when stuck, it is shown a screenshot."""
    obs: Observation = field(default_factory=lambda: cast(Observation, {}))
    """The current observation."""
    changes: Changes = field(default_factory=lambda: Changes(focus=False))
    """Detector of changes caused by actions, as opposed to changes of the page by itself."""
    changed: bool = True
    """Whether the last action changed the page; True before the first action."""
    seconds: float = 0.0
    """Elapsed seconds not yet added to the state."""
    pause: Callable[[dict[str, Any]], Any] = lambda wanted: None
    """LangGraph's `interrupt`: pauses the node until its request is answered, then reruns the node from its start. A
    node may call `pause` once, with no side effects before the call."""

    def see(self, obs: Observation) -> None:
        """Take the observation after an action, or the first observation."""
        self.obs, self.changed = obs, self.changes.see(obs)

    @property
    def page(self) -> str:
        """A hash of the page, without ids, focus and content that changes by itself."""
        return digest(self.changes.page)

    def taken(self) -> float:
        """Return and reset the elapsed seconds not yet added to the state."""
        seconds, self.seconds = self.seconds, 0.0
        return round(seconds, 3)

    def plan(self) -> dict[str, Any]:
        """Request the next action from the model."""
        return dict(self.pause({"want": "plan"}))

    def query(self, ask: str, action: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a query to the environment; queries cost no step."""
        return dict(self.pause({"want": "query", "ask": ask, "action": action}))

    def act(self, action: dict[str, Any]) -> dict[str, Any]:
        """Request the execution of an action and wait for the next page. `over` in the result: the episode ended."""
        return dict(self.pause({"want": "act", "action": action}))
