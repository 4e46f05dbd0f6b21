"""What the nodes are given besides the state: what can't be kept in a checkpoint, and the way to ask for something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from selfsurf.agents.graph.budgets import Budgets
from selfsurf.agents.graph.hashes import digest
from selfsurf.agents.guards.changes import Changes
from selfsurf.browser_env import Observation

Confirm: TypeAlias = Literal["auto", "user"]
"""Who allows risky actions: nobody has to, or the user."""


@dataclass
class Live:
    """One run, in this process."""

    budgets: Budgets
    confirm: Confirm = "auto"
    scan: bool = True
    """Whether long pages may be scanned for what the goal names."""
    kinds: tuple[str, ...] = ()
    """Of actions that are offered."""
    asks_environment: bool = False
    """Whether whoever plays the episode answers queries (`agents.agent.Query`)."""
    sees: bool = False
    """Whether the model takes pictures."""
    blind: bool = False
    """Whether observations bring no screenshot to a model that sees: it is shown one where it is stuck."""
    obs: Observation = field(default_factory=lambda: cast(Observation, {}))
    """What is there now."""
    changes: Changes = field(default_factory=lambda: Changes(focus=False))
    """What the actions change, told from what changes by itself."""
    changed: bool = True
    """Whether the last action changed anything; True before the first."""
    seconds: float = 0.0
    """That went by and are not in the state yet."""
    pause: Callable[[dict[str, Any]], Any] = lambda wanted: None
    """Ends the node until what it wants is there (LangGraph's `interrupt`). The node is run again from its start then:
    so it comes once in a node, with nothing before it that has an effect."""

    def see(self, obs: Observation) -> None:
        """Take what is there after an action, or at the beginning."""
        self.obs, self.changed = obs, self.changes.see(obs)

    @property
    def page(self) -> str:
        """The hash of what an action may change: not ids, where the focus is, or what changes by itself."""
        return digest(self.changes.page)

    def taken(self) -> float:
        """Return the seconds that are not in the state yet, to be put there."""
        seconds, self.seconds = self.seconds, 0.0
        return round(seconds, 3)

    def plan(self) -> dict[str, Any]:
        """Have the model choose an action."""
        return dict(self.pause({"want": "plan"}))

    def query(self, ask: str, action: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the environment something that is no step."""
        return dict(self.pause({"want": "query", "ask": ask, "action": action}))

    def act(self, action: dict[str, Any]) -> dict[str, Any]:
        """Have an action carried out; then `obs` is what is there after it. `over`: the episode has ended with it."""
        return dict(self.pause({"want": "act", "action": action}))
