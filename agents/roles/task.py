"""State and history of one task of an agent with roles, independent of models and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from selfsurf.agents.agent import UNASKED, Decision
from selfsurf.agents.llm.memory import elements_of
from selfsurf.agents.policy import Completion, Message
from selfsurf.browser_env import Finish, Observation


class Mode(StrEnum):
    """The role whose turn it is."""

    PROPOSE = "propose"
    VERIFY = "verify"
    DONE = "done"


@dataclass
class ExecutionResult:
    """The result of one tool call."""

    tool: str
    ok: bool
    said: str = ""
    """Error message or output of the tool."""
    on: str = ""
    """Labels of the action's elements on its page."""

    def to_dict(self) -> dict[str, Any]:
        """Return tool, success and message as JSON-compatible data."""
        return {"tool": self.tool, "ok": self.ok, "said": self.said}


@dataclass
class Proposal:
    """The tool calls in one reply of a role, and their results."""

    role: str
    calls: tuple[BaseModel, ...]
    """Tools with their arguments, in order; empty if the reply could not be read."""
    thought: str = ""
    completion: Completion = field(default=UNASKED, repr=False)
    messages: Sequence[Message] = field(default=(), repr=False)
    error: str = ""
    """Why the reply could not be read."""
    results: list[ExecutionResult] = field(default_factory=list)
    """Results in the order of the calls, including calls that were not carried out."""
    decision: Decision | None = field(default=None, repr=False)
    """The agent's decision for the current call; None for roles without an agent."""


@dataclass
class RoleStep:
    """All proposals of one step of the environment, with their results."""

    proposals: list[Proposal]


@dataclass
class RoleTask:
    """State of one episode of an agent with roles."""

    goal: str
    observation: Observation
    """The current observation."""
    slot: int = 0
    """Slot of the episode in its agent."""
    mode: Mode = Mode.PROPOSE
    claim: Finish | None = None
    """The proposer's last claim of completion, kept after the verdict; None before the first claim."""
    missing: str = ""
    """What the verifier last found missing."""
    rejections: int = 0
    unread: str = ""
    """Error in the verifier's last reply while it is requested again; empty otherwise."""
    history: list[RoleStep] = field(default_factory=list)
    pending: tuple[Proposal, str] | None = None
    """Proposal and tool name of the action that the environment is carrying out."""

    def observe(self, obs: Observation) -> None:
        """Take the current observation, and record the pending action's result from it."""
        before, self.observation = self.observation, obs
        if self.pending is not None:
            proposal, tool = self.pending
            call = next(iter(proposal.calls[len(proposal.results) :]), None)
            error, on = obs["last_error"], elements_of(call, before)
            proposal.results.append(ExecutionResult(tool, not error, error, on))
            self.pending = None

    def accept(self, reason: str = "") -> str:
        """Mark the task as done, and return the reason."""
        self.mode, self.missing = Mode.DONE, ""
        return reason

    def reject(self, missing: str) -> str:
        """Reject the claim, and return the turn to the proposer with what is missing."""
        self.mode, self.missing = Mode.PROPOSE, missing or "it was not said what"
        self.rejections += 1
        return missing


def rejected_in(roles: Sequence[Mapping[str, Any]]) -> tuple[Finish, str] | None:
    """Return a step's rejected claim and what was missing, from its `roles` record; None if no claim was rejected."""
    for role in roles[:1]:
        for call, result in zip(role["calls"], role["results"], strict=False):
            if result["tool"] == "mark_complete" and not result["ok"]:
                claim = call.get("mark_complete", {})
                return Finish(answer=claim.get("answer", ""), reason=claim.get("reason", "")), result["said"]
    return None
