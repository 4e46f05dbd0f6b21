"""Limits on what an agent may do: where it may go, what it may type, read and write, what needs confirmation."""

from selfsurf.browser_env.human_input import Risk, RiskKind
from selfsurf.browser_env.safety.policy import Confirm, Safety
from selfsurf.browser_env.safety.secrets import Secret

__all__ = ["Confirm", "Risk", "RiskKind", "Safety", "Secret"]
