"""A guard that asks before a step that can't be undone, where a choice that led there was unsure."""

from __future__ import annotations

import math

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.agents.policy import Completion
from selfsurf.browser_env import Action, Click, Infeasible, Observation
from selfsurf.browser_env.actions import AskUser, Select
from selfsurf.browser_env.safety.confirm import allowed_before, confirmation_of, target_of
from selfsurf.browser_env.safety.risk import assess

SURE = 0.6
"""Probability of a reply that is trusted with what can't be undone (docs/learning.md)."""

_FOR_GOOD = ("purchase", "transfer", "delete", "send", "publish")
"""Kinds of risk after which nothing can be put right."""


class Unsure(Guard):
    """A model that was unsure of a reply asks before it orders, sends or deletes something, and stops without a yes.

    It is heard where a constrained reply names what it acts on (`LLMAgent.labels`): there a reply's probability is that
    of the choice, of an element or an option; a text may be copied from the goal in several ways. What can't be undone
    is told by an element's label, by the rules of `Safety.confirm`.
    """

    name = "unsure"

    def reset(self) -> None:
        """See `Guard.reset`."""
        self._likely, self._least, self._what, self._asked = 1.0, 1.0, "", False

    def heard(self, completion: Completion) -> None:
        """See `Guard.heard`."""
        self._likely = math.exp(sum(completion.logprobs))

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        likely, self._likely = self._likely, 1.0
        target = target_of(action, obs)
        if isinstance(action, (Click, Select)) and likely < self._least:
            said = ", ".join(action.options) if isinstance(action, Select) else ""
            self._least, self._what = likely, " in ".join(filter(None, (said, target["name"] if target else "")))
        risk = assess(action, target)
        if risk is None or risk.kind not in _FOR_GOOD:
            return Verdict(action)
        if self._least >= SURE or allowed_before(action, obs):
            self._least, self._asked = 1.0, False
            return Verdict(action)
        why = f"The agent was only {self._least:.0%} sure of {self._what!r}. {risk.why}"
        if self._asked:
            return Verdict(Infeasible(reason=why), why)
        self._asked = True
        return Verdict(AskUser(question=confirmation_of(why, action)), why)
