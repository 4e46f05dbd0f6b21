"""The agent of roles: has the proposer act until it says that it is done, and then the verifier decide.

An agent like any other (`agents.agent`), so that the player, benchmarks and records know it. A claim that is rejected
costs a step, in which nothing is done, as an unreadable reply does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from selfsurf.agents.agent import UNASKED, Act, DecidingAgent, Decision, Privileged
from selfsurf.agents.llm_agent import LLMAgent
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
"""The verifier, unless another is given."""


def role_named(role: Any) -> Any:
    """Return the class of a role that can decide a claim.

    Raises:
        ValueError: it is none.
    """
    kind = load_class(role) if isinstance(role, str) else role
    if isinstance(kind, Proposer) or (isinstance(kind, type) and issubclass(kind, Proposer)):
        raise ValueError(f"{role} proposes; a verifier inherits from agents.roles.Verifier, or from BaseRole.")
    if isinstance(kind, type) and issubclass(kind, BaseRole):
        return kind
    if isinstance(kind, BaseRole) or kind is None:
        return kind
    raise ValueError(f"{role} is no role: it does not inherit from agents.roles.BaseRole")


class TaskExecutor(DecidingAgent):
    """Plays tasks by a proposer and a verifier.

    Args:
        agent: the proposer's.
        verifier: another verifier, as `file.py:Class`, a class, or an object with a policy of its own; None leaves it
            out: every claim counts.
        verifier_adapter: folder of an adapter that was trained to verify (`train --verifier`), on the agent's model,
            which verifies without an adapter otherwise.

    Raises:
        ValueError: the agent has no policy, or one that can't change its adapter; the adapter is no verifier's; a tool
            of the verifier can't be offered (`ToolRegistry.functions`).
    """

    actions = tuple("finish" if name == "mark_complete" else name for name in Proposer.tools.names)
    """The kinds of actions that its agent is offered, unless it is told others."""

    @classmethod
    def defaults(cls, policy: Any, *, trained: bool = False) -> dict[str, Any]:
        """Return the options of its agent unless others are given, around a policy of this class.

        With a `trained` adapter, whose actions are its own, it can claim to be done besides.
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
            raise ValueError(f"The proposer needs a policy, which {type(agent).__name__} is not.")
        self.proposer = Proposer(agent)
        verifier = role_named(verifier)
        policy = verifying_policy(agent.policy, verifier_adapter)
        made = verifier(policy, vision=agent.vision) if isinstance(verifier, type) else verifier
        self.verifier: BaseRole | None = made
        if self.verifier is not None:
            self.verifier.tools.functions()  # or the first claim would fail
        self._tasks: dict[int, RoleTask] = {}
        self._goals: dict[int, str] = {}
        self._outlines: dict[int, Outlines] = {}

    @property
    def policy(self) -> Policy:
        """The proposer's."""
        return self.proposer.agent.policy

    @property
    def vision(self) -> str:
        """What is shown of the screenshot."""
        return self.proposer.agent.vision

    def task(self, slot: int = 0) -> RoleTask | None:
        """Return the state and history of an episode; None before its first decision."""
        return self._tasks.get(slot)

    def reseed(self, seed: int | None) -> None:
        """As `LLMAgent.reseed`."""
        self.proposer.agent.reseed(seed)

    def reset(self, goal: str = "", slot: int = 0, *, open_ended: bool = False, files: Sequence[str] = ()) -> None:
        """Begin a new episode; as `LLMAgent.reset`."""
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
        """Choose the next action of several episodes: one call of the proposer's policy, and one of the verifier's.

        Args:
            observations: one for each episode.
            slots: whose each is; 0, 1, 2, ... if None.
            privileged: as `LLMAgent.decide`; the verifier is not shown it.
            seeds: as `LLMAgent.decide`.

        Returns:
            For each its decision, or why there is none; the others are decided all the same.
        """
        slots = list(range(len(observations))) if slots is None else list(slots)
        tasks = [self._seen(obs, slot) for obs, slot in zip(observations, slots, strict=True)]
        for task in tasks:
            if task.mode is Mode.DONE:  # the environment took the claim for an error
                task.mode = Mode.PROPOSE
        answers: list[Any] = self.proposer.propose_each(tasks, seeds=seeds, privileged=privileged)
        for task, proposal in zip(tasks, answers, strict=True):
            if isinstance(proposal, Proposal):
                task.history.append(RoleStep([proposal]))
                self.proposer.execute(task, proposal)
        claims = [row for row, task in enumerate(tasks) if _claims(task, answers[row])]
        drawn = None if seeds is None else [seeds[row] for row in claims]
        for row, error in zip(claims, self._verify([tasks[row] for row in claims], drawn), strict=True):
            if error is not None:  # nothing was claimed: it is asked again, if at all
                answers[row], tasks[row].mode = error, Mode.PROPOSE
        return [
            self._decision(task) if isinstance(answer, Proposal) else answer
            for task, answer in zip(tasks, answers, strict=True)
        ]

    def follow(self, obs: Observation, action: Action, slot: int = 0) -> Decision:
        """Note an action that somebody else took; as `LLMAgent.follow`."""
        note_step(self._seen(obs, slot), [action])
        return self.proposer.agent.follow(obs, action, slot)

    def recall(
        self, obs: Observation, actions: Sequence[Act], slot: int = 0, *, rejected: str = "", **recorded: Any
    ) -> None:
        """Note a step from an episode's record; as `LLMAgent.recall`.

        Args:
            obs: what was seen.
            actions: what was done; a claim that was rejected as `finish`.
            slot: whose step it is.
            rejected: what the verifier missed of it.
            recorded: the rest, as for `LLMAgent.recall`.
        """
        task = self._seen(obs, slot)
        self.proposer.agent.recall(obs, actions, slot, **recorded)
        note_step(task, actions, rejected)
        if rejected:
            task.reject(rejected)
            self.proposer.reject(task)

    def ended(self, slot: int = 0, *, reached: bool) -> None:
        """As `LLMAgent.ended`."""
        self.proposer.agent.ended(slot, reached=reached)

    def conclude(self, obs: Observation, slot: int = 0) -> None:
        """Take what is seen after an episode's last step, so that its history holds what came of that."""
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
        """Have claims checked, with one call of the policy; return for each what has failed.

        Verdicts that can't be read are asked for once more.
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
        """Carry out a verdict; return why there is none."""
        if isinstance(verdict, BaseException):
            return verdict
        assert self.verifier is not None
        try:
            self.verifier.execute(task, verdict)
        except Exception as error:
            return error
        task.history[-1].proposals.append(verdict)
        if task.mode is Mode.VERIFY:  # tools of its own that decide nothing
            task.reject("the verifier did not agree")
        if task.mode is Mode.PROPOSE:
            self.proposer.reject(task)
        return None

    def _decision(self, task: RoleTask) -> Decision:
        """What to do, with all that was proposed for it."""
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
    """What an episode keeps of a proposal."""
    return {
        "role": proposal.role,
        "thought": proposal.thought,
        "calls": [{name_of(call): call.model_dump(mode="json", exclude_defaults=True)} for call in proposal.calls],
        "results": [result.to_dict() for result in proposal.results],
        "error": proposal.error,
    }
