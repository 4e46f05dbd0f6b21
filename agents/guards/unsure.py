"""A guard that asks the user before an irreversible step if the model was unsure of its choices."""

from __future__ import annotations

import math

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.agents.policy import Completion
from selfsurf.browser_env import Action, Click, Infeasible, Observation
from selfsurf.browser_env.actions import AskUser, Select
from selfsurf.browser_env.environment.confirm import allowed_before, confirmation_of, target_of
from selfsurf.browser_env.safety.risk import assess

SURE = 0.6
"""Minimum probability of the choices that lead to an irreversible step (docs/learning.md)."""

_FOR_GOOD = ("purchase", "transfer", "delete", "send", "publish")
"""Kinds of risk that mark an action as irreversible."""


class LowConfidence(Guard):
    """Guard that asks the user before an unsure model orders, sends or deletes something, and stops without a yes.

    It needs constrained replies with labels (`LLMAgent.labels`), whose probability is that of the chosen element or
    option. Fill and type actions don't count, since a text can be copied from the goal in several ways. Irreversible
    actions are recognised by the element's label, by the rules of `Safety.confirm`.
    """

    name = "unsure"

    def reset(self) -> None:
        """Forget the choices of the last episode."""
        self._likely, self._least, self._what, self._asked = 1.0, 1.0, "", False

    def heard(self, completion: Completion) -> None:
        """Store the probability of the completion for the next check."""
        self._likely = math.exp(sum(completion.logprobs))

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Replace an irreversible action after an unsure choice with a question, and then with `infeasible`."""
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
