"""Few-shot examples: earlier turns of the conversation with the right action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from selfsurf.agents.policy import Message
from selfsurf.agents.prompt.page import page_lines
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env import Action, Observation


@dataclass(frozen=True)
class Example:
    """A goal on a page, and the action that was right there."""

    goal: str
    page: str
    """As a prompt shows a page: `link "Eget" {"click":4}`."""
    action: Action | dict[str, Any] | str
    """In any form that the environment accepts."""

    @classmethod
    def of(cls, obs: Observation, action: Action | dict[str, Any] | str) -> Example:
        """Make an example of an observation, its whole page included: choose a short one."""
        page = "\n".join(line.text for line in page_lines(obs, goal=obs["goal"]))
        return cls(obs["goal"], page, action)

    def turns(self) -> tuple[Message, Message]:
        """The user's turn and the assistant's. They don't depend on the prompt that follows.

        Raises:
            browser_env.errors.ActionError: the action is malformed.
        """
        asked = Message("user", f"Goal: {self.goal}\n\nPage:\n{self.page}")
        return asked, Message("assistant", compact(self.action))
