"""What an agent of roles is at: the task with its state and history. Knows neither models nor pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from selfsurf.agents.agent import UNASKED, Decision
from selfsurf.agents.memory import elements_of
from selfsurf.agents.policy import Completion, Message
from selfsurf.browser_env import Finish, Observation


class Mode(StrEnum):
    """Whose turn it is."""

    PROPOSE = "propose"
    VERIFY = "verify"
    DONE = "done"


@dataclass
class ExecutionResult:
    """What came of one tool call."""

    tool: str
    ok: bool
    said: str = ""
    """The error, or what the tool answered."""
    on: str = ""
    """What the elements of an action were called on its page."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"tool": self.tool, "ok": self.ok, "said": self.said}


@dataclass
class Proposal:
    """What a role wants to do."""

    role: str
    calls: tuple[BaseModel, ...]
    """Tools with their arguments, in their order. None: the reply could not be read."""
    thought: str = ""
    completion: Completion = field(default=UNASKED, repr=False)
    messages: Sequence[Message] = field(default=(), repr=False)
    error: str = ""
    """Why the reply could not be read."""
    results: list[ExecutionResult] = field(default_factory=list)
    """One for each call that was carried out, or left undone."""
    decision: Decision | None = field(default=None, repr=False)
    """An agent's, of the call that is under way."""


@dataclass
class RoleStep:
    """A step of the environment: what was proposed, and what came of it."""

    proposals: list[Proposal]


@dataclass
class RoleTask:
    """One episode of an agent of roles."""

    goal: str
    observation: Observation
    """What is there now."""
    slot: int = 0
    """Which of the agent's episodes it is."""
    mode: Mode = Mode.PROPOSE
    claim: Finish | None = None
    """With what the proposer says that it is done; stays when the verifier agreed."""
    missing: str = ""
    """What the verifier last found missing."""
    rejections: int = 0
    unread: str = ""
    """Why the verifier's last reply could not be read, while it is asked again."""
    history: list[RoleStep] = field(default_factory=list)
    pending: tuple[Proposal, str] | None = None
    """The proposal whose action the environment is carrying out, and the tool's name."""

    def observe(self, obs: Observation) -> None:
        """Take what is seen now, which tells what came of the last action."""
        before, self.observation = self.observation, obs
        if self.pending is not None:
            proposal, tool = self.pending
            call = next(iter(proposal.calls[len(proposal.results) :]), None)
            error, on = obs["last_error"], elements_of(call, before)
            proposal.results.append(ExecutionResult(tool, not error, error, on))
            self.pending = None

    def accept(self, reason: str = "") -> str:
        """Agree with the claim: the task is done."""
        self.mode, self.missing = Mode.DONE, ""
        return reason

    def reject(self, missing: str) -> str:
        """Take the claim away: the proposer goes on, and is told what is missing."""
        self.mode, self.missing = Mode.PROPOSE, missing or "it was not said what"
        self.rejections += 1
        return missing


def rejected_in(roles: Sequence[Mapping[str, Any]]) -> tuple[Finish, str] | None:
    """Return the claim that was rejected in a step, by its `roles` in an episode, and what was missing of it."""
    for role in roles[:1]:
        for call, result in zip(role["calls"], role["results"], strict=False):
            if result["tool"] == "mark_complete" and not result["ok"]:
                claim = call.get("mark_complete", {})
                return Finish(answer=claim.get("answer", ""), reason=claim.get("reason", "")), result["said"]
    return None
