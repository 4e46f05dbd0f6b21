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
    """A few-shot example: a goal, a page, and the right action."""

    goal: str
    page: str
    """The page in the notation of prompts: `link "Eget" {"click":4}`."""
    action: Action | dict[str, Any] | str
    """The right action, in any form that the environment accepts."""

    @classmethod
    def of(cls, obs: Observation, action: Action | dict[str, Any] | str) -> Example:
        """Make an example from an observation. The whole page is included, so the page should be short."""
        page = "\n".join(line.text for line in page_lines(obs, goal=obs["goal"]))
        return cls(obs["goal"], page, action)

    def turns(self) -> tuple[Message, Message]:
        """Return the user's turn and the assistant's, which are independent of the prompt that follows.

        Raises:
            browser_env.errors.ActionError: the action is malformed.
        """
        asked = Message("user", f"Goal: {self.goal}\n\nPage:\n{self.page}")
        return asked, Message("assistant", compact(self.action))
