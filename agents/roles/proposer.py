"""The proposer: a role that advances the task by actions on the page, several per reply if configured.

It wraps an `LLMAgent`, with its prompts, constraint, guards and adapters. Its calls are the environment's own action
models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from pydantic import BaseModel

from selfsurf.agents.agent import Act, Privileged, raise_first
from selfsurf.agents.llm.llm_agent import LLMAgent
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
"""Message to the proposer after a rejected claim."""


class Proposer(BaseRole):
    """A role that proposes actions and claims completion.

    Args:
        agent: the agent that chooses the actions.
    """

    name = "proposer"
    tools: ClassVar[ToolRegistry] = ToolRegistry(
        Navigate, Click, Fill, Type, Upload, Press, Select, Scroll, Hover, Drag, Back, FocusTab, Wait, MarkComplete,
        Infeasible,
    )  # fmt: skip
    """Tools offered to the agent by default; its own `actions=` or its adapter's kinds of actions take precedence."""

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
        """Choose the next action of each task, with one policy call for all tasks whose last reply is used up.

        Raises the first error of a task, if there is one; the arguments are those of `LLMAgent.decide`.
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
        """Choose the next action of each task as `propose` does, but return a task's error in place of its proposal."""
        decisions = self.agent.decide_each(
            [task.observation for task in tasks], [task.slot for task in tasks], privileged=privileged, seeds=seeds
        )
        proposals: list[Proposal | BaseException] = []
        for task, decision in zip(tasks, decisions, strict=True):
            if isinstance(decision, BaseException):
                proposals.append(decision)
                continue
            last = next((step.proposals[0] for step in reversed(task.history)), None)
            if decision.place and last is not None:  # a further action of the last reply
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
        """Leave an action to the environment, and a claim of completion to the verifier."""
        assert proposal.decision is not None
        action = proposal.decision.action
        if isinstance(action, Finish):
            task.claim, task.mode = action, Mode.VERIFY
        else:
            task.pending = proposal, "" if isinstance(action, str) else action.name
        return proposal.results

    def reject(self, task: RoleTask) -> None:
        """Inform the agent in its next prompt that its claim was rejected."""
        self.agent.advise(REJECTED.format(missing=task.missing), task.slot)


def note_step(task: RoleTask, actions: Sequence[Act], rejected: str = "") -> None:
    """Add a step that was decided elsewhere to a task's history, which the verifier sees.

    Args:
        task: a task that has already observed the step's page.
        actions: the actions of the step; a rejected claim is given as `finish`.
        rejected: what the verifier found missing in the claim.
    """
    calls = tuple(call_of(one) for one in actions if not isinstance(one, str))
    proposal = Proposal(Proposer.name, calls)
    task.history.append(RoleStep([proposal]))
    if rejected:
        proposal.results.append(ExecutionResult("mark_complete", ok=False, said=rejected))
    elif calls:
        task.pending = proposal, name_of(calls[0])


def call_of(action: Action) -> BaseModel:
    """Return an action as a call of the proposer: `finish` becomes `MarkComplete`, others stay as they are."""
    return MarkComplete(answer=action.answer, reason=action.reason) if isinstance(action, Finish) else action
