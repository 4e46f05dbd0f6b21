"""The agent with roles: the proposer acts until it claims completion, and the verifier accepts or rejects the claim.

It implements the usual interface of agents (`agents.agent`), so that the player, benchmarks and records need no special
case. A rejected claim costs a step without an action, as an unreadable reply does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from selfsurf.agents.agent import UNASKED, Act, DecidingAgent, Decision, Privileged
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play.provenance import sampled_record
from selfsurf.agents.policy import Policy, summed
from selfsurf.agents.roles.proposer import Proposer, note_step
from selfsurf.agents.roles.role import BaseRole
from selfsurf.agents.roles.task import ExecutionResult, Mode, Proposal, RoleStep, RoleTask
from selfsurf.agents.roles.tools import name_of
from selfsurf.agents.roles.verifier import MAX_REJECTIONS, verifying_policy
from selfsurf.browser_env import Action, Observation, Wait
from selfsurf.browser_env.classes import load_class
from selfsurf.browser_env.observe.outlines import Outlines

VERIFIER = "selfsurf.agents.roles.verifier:Verifier"
"""Import path of the default verifier."""


def role_named(role: Any) -> Any:
    """Return a verifier as a class or object, importing it if it is given by name; None stays None.

    Raises:
        ValueError: the role is a proposer, or doesn't inherit from `BaseRole`.
    """
    kind = load_class(role) if isinstance(role, str) else role
    if isinstance(kind, Proposer) or (isinstance(kind, type) and issubclass(kind, Proposer)):
        raise ValueError(f"{role} is a proposer; a verifier must inherit from agents.roles.Verifier or BaseRole.")
    if isinstance(kind, type) and issubclass(kind, BaseRole):
        return kind
    if isinstance(kind, BaseRole) or kind is None:
        return kind
    raise ValueError(f"{role} is not a role: it does not inherit from agents.roles.BaseRole")


class TaskExecutor(DecidingAgent):
    """An agent that plays tasks with a proposer and a verifier.

    Args:
        agent: the proposer's agent.
        verifier: another verifier, as `file.py:Class`, a class, or an object with a policy of its own; None accepts
            every claim without a verifier.
        verifier_adapter: folder of an adapter that was trained to verify (`train --verifier`), for the agent's model;
            the base model verifies by default.

    Raises:
        ValueError: the agent has no policy, or one that can't change its adapter; the adapter wasn't trained to verify;
            a tool of the verifier can't be offered (`ToolRegistry.functions`).
    """

    actions = tuple("finish" if name == "mark_complete" else name for name in Proposer.tools.names)
    """Kinds of actions offered to the proposer's agent by default."""

    @classmethod
    def defaults(cls, policy: Any, *, trained: bool = False) -> dict[str, Any]:
        """Return default options for the proposer's agent.

        An agent with a `trained` adapter keeps the actions of its training, and can also claim completion (`finish`).
        """
        return {"more_actions": ["finish"]} if trained else {"actions": cls.actions}

    def __init__(
        self,
        agent: LLMAgent,
        /,
        *,
        verifier: Annotated[Any, AfterValidator(role_named)] = VERIFIER,
        verifier_adapter: str | Path | None = None,
    ) -> None:
        if not isinstance(agent, LLMAgent):
            raise ValueError(f"The proposer needs a policy, but {type(agent).__name__} is not a policy.")
        self.proposer = Proposer(agent)
        verifier = role_named(verifier)
        policy = verifying_policy(agent.policy, verifier_adapter)
        made = verifier(policy, vision=agent.vision) if isinstance(verifier, type) else verifier
        self.verifier: BaseRole | None = made
        if self.verifier is not None:
            self.verifier.tools.functions()  # fails here instead of at the first claim
        self._tasks: dict[int, RoleTask] = {}
        self._goals: dict[int, str] = {}
        self._outlines: dict[int, Outlines] = {}

    @property
    def policy(self) -> Policy:
        """Policy of the proposer."""
        return self.proposer.agent.policy

    @property
    def vision(self) -> str:
        """What the proposer's model is shown of the screenshot (`agents.llm.llm_agent.Vision`)."""
        return self.proposer.agent.vision

    def task(self, slot: int = 0) -> RoleTask | None:
        """Return the state and history of the slot's episode; None before its first decision."""
        return self._tasks.get(slot)

    def reseed(self, seed: int | None) -> None:
        """Restart the proposer's random stream from a seed."""
        self.proposer.agent.reseed(seed)

    def reset(self, goal: str = "", slot: int = 0, *, open_ended: bool = False, files: Sequence[str] = ()) -> None:
        """Begin a new episode in a slot, with the arguments of `LLMAgent.reset`."""
        self.proposer.agent.reset(goal, slot, open_ended=open_ended, files=files)
        self._goals[slot] = goal
        self._tasks.pop(slot, None)

    def decide_each(
        self,
        observations: Sequence[Observation],
        slots: Sequence[int] | None = None,
        *,
        privileged: Sequence[Privileged | None] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Decision | BaseException]:
        """Choose the next action of several episodes, with one call each of the proposer's and the verifier's policy.

        Args:
            observations: one for each episode.
            slots: the slot of each episode; 0, 1, 2, ... if None.
            privileged: demonstrations for the proposer, as for `LLMAgent.decide`; not shown to the verifier.
            seeds: seeds of the replies, as for `LLMAgent.decide`.

        Returns:
            For each episode its decision or its error; an error leaves the other episodes unaffected.
        """
        slots = list(range(len(observations))) if slots is None else list(slots)
        tasks = [self._seen(obs, slot) for obs, slot in zip(observations, slots, strict=True)]
        for task in tasks:
            if task.mode is Mode.DONE:  # the environment rejected the accepted `finish`
                task.mode = Mode.PROPOSE
        answers: list[Any] = self.proposer.propose_each(tasks, seeds=seeds, privileged=privileged)
        for task, proposal in zip(tasks, answers, strict=True):
            if isinstance(proposal, Proposal):
                task.history.append(RoleStep([proposal]))
                self.proposer.execute(task, proposal)
        claims = [row for row, task in enumerate(tasks) if _claims(task, answers[row])]
        drawn = None if seeds is None else [seeds[row] for row in claims]
        for row, error in zip(claims, self._verify([tasks[row] for row in claims], drawn), strict=True):
            if error is not None:  # no verdict: the claim is dropped
                answers[row], tasks[row].mode = error, Mode.PROPOSE
        return [
            self._decision(task) if isinstance(answer, Proposal) else answer
            for task, answer in zip(tasks, answers, strict=True)
        ]

    def follow(self, obs: Observation, action: Action, slot: int = 0) -> Decision:
        """Record an action that was not chosen by the agent, so that its next decision takes the step into account."""
        note_step(self._seen(obs, slot), [action])
        return self.proposer.agent.follow(obs, action, slot)

    def recall(
        self, obs: Observation, actions: Sequence[Act], slot: int = 0, *, rejected: str = "", **recorded: Any
    ) -> None:
        """Replay a step from an episode's record into the agent's memory and the task's history.

        Args:
            obs: the observation of the step.
            actions: the actions of the step; a rejected claim is given as `finish`.
            slot: the episode's slot.
            rejected: what the verifier found missing in the claim.
            recorded: further arguments of `LLMAgent.recall`.
        """
        task = self._seen(obs, slot)
        self.proposer.agent.recall(obs, actions, slot, **recorded)
        note_step(task, actions, rejected)
        if rejected:
            task.reject(rejected)
            self.proposer.reject(task)

    def conclude(self, obs: Observation, slot: int = 0) -> None:
        """Take the observation after an episode's last step, so that the history includes the step's result."""
        if slot in self._tasks:
            self._tasks[slot].observe(obs)

    def _seen(self, obs: Observation, slot: int) -> RoleTask:
        obs = self._outlines.setdefault(slot, Outlines()).whole(obs)
        task = self._tasks.get(slot)
        if task is None:
            task = self._tasks[slot] = RoleTask(self._goals.get(slot) or obs["goal"], obs, slot)
        task.observe(obs)
        return task

    def _verify(self, claims: Sequence[RoleTask], seeds: Sequence[int] | None) -> list[BaseException | None]:
        """Have claims verified with one call of the policy, and return each claim's error or None.

        Unreadable verdicts are requested once more.
        """
        if self.verifier is None or not claims:
            for task in claims:
                task.accept()
            return [None] * len(claims)
        verdicts: list[Any] = self.verifier.propose_each(claims, seeds=seeds)
        unread = [row for row, verdict in enumerate(verdicts) if isinstance(verdict, Proposal) and verdict.error]
        for row in unread:
            claims[row].history[-1].proposals.append(verdicts[row])
            claims[row].unread = verdicts[row].error
        drawn = None if seeds is None else [seeds[row] + 1 for row in unread]
        again = self.verifier.propose_each([claims[row] for row in unread], seeds=drawn) if unread else []
        for row, verdict in zip(unread, again, strict=True):
            verdicts[row], claims[row].unread = verdict, ""
        return [self._conclude(task, verdict) for task, verdict in zip(claims, verdicts, strict=True)]

    def _conclude(self, task: RoleTask, verdict: Proposal | BaseException) -> BaseException | None:
        """Carry out a verdict, or return the error in its place."""
        if isinstance(verdict, BaseException):
            return verdict
        assert self.verifier is not None
        try:
            self.verifier.execute(task, verdict)
        except Exception as error:
            return error
        task.history[-1].proposals.append(verdict)
        if task.mode is Mode.VERIFY:  # the verifier called only tools that decide nothing
            task.reject("the verifier did not agree")
        if task.mode is Mode.PROPOSE:
            self.proposer.reject(task)
        return None

    def _decision(self, task: RoleTask) -> Decision:
        """Return the decision of the step, with the proposals of all roles."""
        proposal, *verdicts = task.history[-1].proposals
        decision = proposal.decision
        assert decision is not None
        completion, action, note = decision.completion, decision.action, decision.guard_note
        rejected, gives_up = "", ""
        if verdicts or task.mode is Mode.DONE:
            accepted = task.mode is Mode.DONE
            proposal.results.append(ExecutionResult("mark_complete", accepted, task.missing))
            if not accepted:
                rejected = task.missing
                told = f"The claim was rejected: {rejected}"
                note = " ".join(filter(None, (note, told)))
                action, gives_up = Wait(ms=0, reason=told), told if task.rejections >= MAX_REJECTIONS else ""
        asked = [one for one in (completion, *(verdict.completion for verdict in verdicts)) if one is not UNASKED]
        if verdicts and asked:
            completion = replace(completion, usage=reduce(summed, (one.usage for one in asked)))
        sampled = [{**_record(one), **sampled_record(one.completion, one.messages)} for one in verdicts]
        return replace(
            decision,
            action=action,
            completion=completion,
            guard_note=note,
            rejected=rejected,
            gives_up=gives_up,
            roles=(_record(proposal), *sampled),
        )


def _claims(task: RoleTask, proposal: Any) -> bool:
    return isinstance(proposal, Proposal) and task.mode is Mode.VERIFY


def _record(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal in the form in which an episode records it."""
    return {
        "role": proposal.role,
        "thought": proposal.thought,
        "calls": [{name_of(call): call.model_dump(mode="json", exclude_defaults=True)} for call in proposal.calls],
        "results": [result.to_dict() for result in proposal.results],
        "error": proposal.error,
    }
