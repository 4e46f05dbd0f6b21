"""No finish without an answer where the goal asks for one."""

from __future__ import annotations

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.agents.guards.goals import asks
from selfsurf.browser_env.actions import Action, Finish, Message, Wait
from selfsurf.browser_env.observation import Observation

FEEDBACK = "The goal asks for an answer: give it as the text of finish."


class Answer(Guard):
    """The goal asks a question and the model finishes without a word: it is asked for the answer.

    Nothing is invented: the step is spent on waiting 0 ms, and the next prompt says what is missing.

    Args:
        limit: how often an episode; then finishing is let pass. So it is after a message to the user.
    """

    name = "answer"

    def __init__(self, limit: int = 2) -> None:
        self.limit = limit
        super().__init__()

    def reset(self) -> None:
        """See `Guard.reset`."""
        self._asked = 0
        self._told = False

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        self._told = self._told or isinstance(action, Message)
        if not isinstance(action, Finish) or action.answer.strip() or self._told or not asks(goal):
            return Verdict(action)
        if self._asked == self.limit:
            return Verdict(action, "It finished without the answer that the goal asks for.")
        self._asked += 1
        return Verdict(
            Wait(ms=0), "It finished without the answer that the goal asks for, and was asked for it.", FEEDBACK
        )
