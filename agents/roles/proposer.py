"""The proposer: brings the task forward by actions in the page, several at a time if wanted.

It is an `LLMAgent`, with its prompts, constraint, guards and adapters; the actions are the environment's own models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from pydantic import BaseModel

from selfsurf.agents.agent import Act, Privileged, raise_first
from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.reply.thought import thought_in
from selfsurf.agents.roles.role import BaseRole
from selfsurf.agents.roles.task import ExecutionResult, Mode, Proposal, RoleStep, RoleTask
from selfsurf.agents.roles.tools import MarkComplete, ToolRegistry, name_of
from selfsurf.browser_env import (
    Action,
    Click,
    Drag,
    Fill,
    Finish,
    Hover,
    Infeasible,
    Press,
    Scroll,
    Select,
    Type,
    Upload,
    Wait,
)
from selfsurf.browser_env.actions import Back, FocusTab, Navigate

REJECTED = "You said that you were done, but it was checked, and this is missing: {missing}"
"""What the proposer is told of a rejected claim."""


class Proposer(BaseRole):
    """Proposes actions, and claims completion.

    Args:
        agent: chooses the actions.
    """

    name = "proposer"
    tools: ClassVar[ToolRegistry] = ToolRegistry(
        Navigate, Click, Fill, Type, Upload, Press, Select, Scroll, Hover, Drag, Back, FocusTab, Wait, MarkComplete,
        Infeasible,
    )  # fmt: skip
    """What its agent is offered, unless that has kinds of actions of its own (`actions=`, an adapter's)."""

    def __init__(self, agent: LLMAgent) -> None:
        super().__init__(agent.policy)
        self.agent = agent

    def propose(
        self,
        tasks: Sequence[RoleTask],
        *,
        seeds: Sequence[int] | None = None,
        privileged: Sequence[Privileged | None] | None = None,
    ) -> list[Proposal]:
        """Choose the next action of each task, with one call of the policy for those whose last proposal is done.

        As `LLMAgent.decide`.
        """
        raise_first(proposals := self.propose_each(tasks, seeds=seeds, privileged=privileged))
        return cast("list[Proposal]", proposals)

    def propose_each(
        self,
        tasks: Sequence[RoleTask],
        *,
        seeds: Sequence[int] | None = None,
        privileged: Sequence[Privileged | None] | None = None,
    ) -> list[Proposal | BaseException]:
        """As `propose`, but an error of one task stands in its proposal's place; as `LLMAgent.decide_each`."""
        decisions = self.agent.decide_each(
            [task.observation for task in tasks], [task.slot for task in tasks], privileged=privileged, seeds=seeds
        )
        proposals: list[Proposal | BaseException] = []
        for task, decision in zip(tasks, decisions, strict=True):
            if isinstance(decision, BaseException):
                proposals.append(decision)
                continue
            last = next((step.proposals[0] for step in reversed(task.history)), None)
            if decision.place and last is not None:  # the last reply's next action
                last.decision = decision
                proposals.append(last)
                continue
            if last is not None:
                undone = last.calls[len(last.results) :]
                last.results += [ExecutionResult(name_of(call), ok=False, said=decision.left) for call in undone]
            actions = () if isinstance(decision.action, str) else (decision.action, *decision.more)
            thought = thought_in(decision.completion.text) if self.agent.thinks else ""
            proposal = Proposal(
                self.name, tuple(map(call_of, actions)), thought, decision.completion, decision.messages
            )
            proposal.error, proposal.decision = decision.error, decision
            proposals.append(proposal)
        return proposals

    def execute(self, task: RoleTask, proposal: Proposal) -> list[ExecutionResult]:
        """Leave an action to the environment; a claim of completion goes to the verifier."""
        assert proposal.decision is not None
        action = proposal.decision.action
        if isinstance(action, Finish):
            task.claim, task.mode = action, Mode.VERIFY
        else:
            task.pending = proposal, "" if isinstance(action, str) else action.name
        return proposal.results

    def reject(self, task: RoleTask) -> None:
        """Tell it that its claim was rejected."""
        self.agent.advise(REJECTED.format(missing=task.missing), task.slot)


def note_step(task: RoleTask, actions: Sequence[Act], rejected: str = "") -> None:
    """Add a step that was not decided here to a task's history, which the verifier is shown.

    Args:
        task: which has seen the step's page.
        actions: what was done; a claim that was rejected as `finish`.
        rejected: what the verifier missed of it.
    """
    calls = tuple(call_of(one) for one in actions if not isinstance(one, str))
    proposal = Proposal(Proposer.name, calls)
    task.history.append(RoleStep([proposal]))
    if rejected:
        proposal.results.append(ExecutionResult("mark_complete", ok=False, said=rejected))
    elif calls:
        task.pending = proposal, name_of(calls[0])


def call_of(action: Action) -> BaseModel:
    """Return the proposer's call that an action is."""
    return MarkComplete(answer=action.answer, reason=action.reason) if isinstance(action, Finish) else action
