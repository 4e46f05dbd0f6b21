"""What an agent is: observations in, actions out. It never touches a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast

from selfsurf.agents.policy import Completion, Message
from selfsurf.browser_env import Action, Infeasible, Observation

Act: TypeAlias = Action | str
"""What `act` returns. A str is a reply that could not be read as an action: the environment answers it with an
error, so the mistake costs a step and the next prompt reports it."""

Privileged: TypeAlias = dict[str, Any]
"""What the task's oracle would do and why: `{"action": {...}, "reason": str}`, from `env.unwrapped.privileged()`."""

UNASKED = Completion("", [], [], [], None, "eos")
"""The completion of an action that no model was asked for."""


class Stop(Exception):
    """Raised by an agent that ends its episode without an action, as `stopped`. The message says why."""


@dataclass(frozen=True)
class Query:
    """What an agent asks of the environment before it acts. It is no step, and changes nothing.

    The player answers it (`agents.play.queries`) by the agent's `told(answer, slot)`, and has it decide again.
    """

    ask: Literal["risk", "look", "scan", "screenshot"]
    """How risky `action` is on the page as it is; what is there now, and how risky `action` is, if there is one; what a
    long page shows further down; or how the page looks: the observation then has its screenshot."""
    action: Action | None = None


@dataclass(frozen=True)
class Decision:
    """An action and how it came about: everything that training and logs need."""

    action: Act
    """What to do. A str is the raw reply, which could not be read as an action."""
    completion: Completion = UNASKED
    """What the model sampled."""
    messages: tuple[Message, ...] = ()
    """What the model saw; with `privileged`, the demonstration included. Empty: no model was asked."""
    visible_ids: frozenset[int] = frozenset()
    """Elements whose ids stood in the prompt or on its picture."""
    how: str = ""
    """Where in the reply the action was found (`agents.reply.parse.How`)."""
    error: str = ""
    """Why the reply holds no action for this page: it could not be read, or the action's element is not there."""
    guard_note: str = ""
    """What the guards overrode or noticed."""
    guard_counts: dict[str, int] = field(default_factory=dict)
    """What the guards did in this episode so far, this action included (`LLMAgent.guard_counts`)."""
    privileged: Privileged | None = None
    """The demonstration that the model was given, if any."""
    more: tuple[Action, ...] = ()
    """The reply's further actions, to be carried out after this one (`agents.sequence`)."""
    place: int = 0
    """Of the action in its reply; from 1 on, it is one of the `more` of an earlier decision."""
    left: str = ""
    """Which of the last reply's actions were not carried out, and why, as the model was told."""
    roles: tuple[dict[str, Any], ...] = ()
    """What each role of a composed agent proposed, and what came of it so far."""
    rejected: str = ""
    """What a verifier missed of the claim that it rejected here; nothing is done then."""
    gives_up: str = ""
    """Why the agent ends the episode after this action, without the goal: it has failed, whatever the task wants."""
    query: Query | None = None
    """What is to be asked before anything is done; the action is none then."""
    graph: dict[str, Any] = field(default_factory=dict)
    """What an agent of a graph says of the step: stage, intent, nodes, queries with answers, narration, claim."""


class Agent(Protocol):
    """Chooses actions. A slot is one of several episodes that run at the same time.

    An agent with `decide` (as `agents.llm_agent.LLMAgent.decide`) also says how its actions came about, which is what
    logs and training are made of; with `decide_each`, an error in one episode leaves the others alone. One with
    `follow` (as `LLMAgent.follow`) can go on after steps that it did not take.
    """

    def reset(self, goal: str, slot: int = 0) -> None:
        """Begin a new episode in `slot`, forgetting the last one. An empty goal means `obs["goal"]`.

        One that takes `open_ended` and `files` is told, too, whether no task judges the goal, and the names of the
        files that may be uploaded; one that takes `folder` and `queries`, where the episode is recorded (a Path, or
        None) and that a `Query` is answered.
        """

    def act(self, obs: Observation) -> Act:
        """Choose the next action of slot 0."""

    def act_batch(self, observations: Sequence[Observation], slots: Sequence[int] | None = None) -> list[Act]:
        """Choose the next action of several episodes; `slots` defaults to 0, 1, 2, ..."""


class DecidingAgent:
    """An agent that decides: what it does follows from `decide_each`."""

    def act(self, obs: Observation) -> Act:
        """Choose the next action of slot 0."""
        return self.act_batch([obs])[0]

    def act_batch(self, observations: Sequence[Observation], slots: Sequence[int] | None = None) -> list[Act]:
        """Choose the next action of several episodes; `slots` defaults to 0, 1, 2, ..."""
        decisions = self.decide(observations, slots)
        return [Infeasible(reason=one.gives_up) if one.gives_up else one.action for one in decisions]

    def decide(
        self,
        observations: Sequence[Observation],
        slots: Sequence[int] | None = None,
        *,
        privileged: Sequence[Privileged | None] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Decision]:
        """As `decide_each`, but raises the first of the errors."""
        raise_first(decisions := self.decide_each(observations, slots, privileged=privileged, seeds=seeds))
        return cast("list[Decision]", decisions)

    def decide_each(
        self,
        observations: Sequence[Observation],
        slots: Sequence[int] | None = None,
        *,
        privileged: Sequence[Privileged | None] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Decision | BaseException]:
        """As `agents.llm_agent.LLMAgent.decide_each`."""
        raise NotImplementedError


def raise_first(answers: Iterable[object]) -> None:
    """Raise the first error among the answers, if there is one."""
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
