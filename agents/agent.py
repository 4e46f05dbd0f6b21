"""What an agent is: observations in, actions out. It never touches a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from selfsurf.agents.policy import Completion, Message
from selfsurf.browser_env import Action, Observation

Act: TypeAlias = Action | str
"""What `act` returns. A str is a reply that could not be read as an action: the environment answers it with an
error, so the mistake costs a step and the next prompt reports it."""

Privileged: TypeAlias = dict[str, Any]
"""What the task's oracle would do and why: `{"action": {...}, "reason": str}`, from `env.unwrapped.privileged()`."""

UNASKED = Completion("", [], [], [], None, "eos")
"""The completion of an action that no model was asked for."""


class Stop(Exception):
    """Raised by an agent that ends its episode without an action, as `stopped`. The message says why."""


@dataclass(frozen=True)
class Decision:
    """An action and how it came about: everything that training and logs need."""

    action: Act
    """What to do. A str is the raw reply, which could not be read as an action."""
    completion: Completion = UNASKED
    """What the model sampled."""
    messages: tuple[Message, ...] = ()
    """What the model saw; with `privileged`, the demonstration included. Empty: no model was asked."""
    visible_ids: frozenset[int] = frozenset()
    """Elements whose ids stood in the prompt or on its picture."""
    how: str = ""
    """Where in the reply the action was found (`agents.reply.parse.How`)."""
    error: str = ""
    """Why the reply could not be read; empty when it could."""
    guard_note: str = ""
    """What the guards overrode or noticed."""
    guard_counts: dict[str, int] = field(default_factory=dict)
    """What the guards did in this episode so far, this action included (`LLMAgent.guard_counts`)."""
    privileged: Privileged | None = None
    """The demonstration that the model was given, if any."""


class Agent(Protocol):
    """Chooses actions. A slot is one of several episodes that run at the same time.

    An agent with `decide` (as `agents.llm_agent.LLMAgent.decide`) also says how its actions came about, which is what
    logs and training are made of.
    """

    def reset(self, goal: str, slot: int = 0) -> None:
        """Begin a new episode in `slot`, forgetting the last one. An empty goal means `obs["goal"]`."""

    def act(self, obs: Observation) -> Act:
        """Choose the next action of slot 0."""

    def act_batch(self, observations: Sequence[Observation], slots: Sequence[int] | None = None) -> list[Act]:
        """Choose the next action of several episodes; `slots` defaults to 0, 1, 2, ..."""
