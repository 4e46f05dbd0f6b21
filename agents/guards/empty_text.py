"""No empty text where the goal asks for one."""

from __future__ import annotations

import re

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.agents.guards.goals import quoted
from selfsurf.browser_env.actions import Action, Fill, Type
from selfsurf.browser_env.observation import Observation

_TYPING = re.compile(r"\b(enter|type|fill|write|input|search for|named|called)\b", re.IGNORECASE)


class EmptyText(Guard):
    """Nothing is typed where the goal asks for a text: the goal's only quoted text is typed instead."""

    name = "empty_text"

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        if not isinstance(action, (Fill, Type)) or action.text.strip() or not _TYPING.search(goal):
            return Verdict(action)
        texts = quoted(goal)
        if len(texts) != 1:
            return Verdict(action, "The text is empty, but the goal asks to type something.")
        return Verdict(
            action.model_copy(update={"text": texts[0]}), f"The text was empty; typed {texts[0]!r} from the goal."
        )
