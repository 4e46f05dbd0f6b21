"""The interface of agents: observations in, actions out. Agents never touch a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast

from selfsurf.agents.policy import Completion, Message
from selfsurf.browser_env import Action, Infeasible, Observation

Act: TypeAlias = Action | str
"""The return value of `act`. A str is a reply that could not be parsed as an action: the environment answers with an
error, so the mistake costs a step and the next prompt reports it.
"""

Privileged: TypeAlias = dict[str, Any]
"""The oracle's next action with its reason: `{"action": {...}, "reason": str}`, from `env.unwrapped.privileged()`."""

UNASKED = Completion("", [], [], [], None, "eos")
"""The empty completion of an action that was chosen without asking a model."""


class Stop(Exception):
    """Raised by an agent to end its episode without an action, as `stopped`. The message is the reason."""


@dataclass(frozen=True)
class Query:
    """A read-only question that an agent puts to the environment before acting. A query costs no step.

    The player answers queries (`agents.play.queries`), passes the answer to the agent's `told(answer, slot)`, and asks
    the agent for a new decision.
    """

    ask: Literal["risk", "look", "scan", "screenshot"]
    """Kind of the query: `risk` judges `action` on the current page; `look` returns the current page, and the risk of
    `action` if given; `scan` returns the texts of the whole page; `screenshot` adds a screenshot to the observation."""
    action: Action | None = None


@dataclass(frozen=True)
class Decision:
    """An action with its origin: everything that training and logs need."""

    action: Act
    """The chosen action. A str is the raw reply, which could not be parsed as an action."""
    completion: Completion = UNASKED
    """The model's completion."""
    messages: tuple[Message, ...] = ()
    """The prompt, with the demonstration if `privileged` is set. Empty: no model was asked."""
    visible_ids: frozenset[int] = frozenset()
    """Ids of the elements shown in the prompt's text or image."""
    how: str = ""
    """The form in which the action was found in the reply (`agents.reply.parse.How`)."""
    error: str = ""
    """Why the reply contains no valid action: unreadable text, or an element that is not on the page."""
    guard_note: str = ""
    """The guards' note on a replaced or questionable action; empty for none."""
    guard_counts: dict[str, int] = field(default_factory=dict)
    """Interventions of the guards in this episode so far, this action included (`LLMAgent.guard_counts`)."""
    privileged: Privileged | None = None
    """The demonstration shown to the model; None for none."""
    more: tuple[Action, ...] = ()
    """Further actions of the reply, to be executed after this action (`agents.llm.sequence`)."""
    place: int = 0
    """Index of the action in its reply; above 0, the action comes from `more` of an earlier decision."""
    left: str = ""
    """The actions of the last reply that were not executed, with the reason, as reported to the model."""
    roles: tuple[dict[str, Any], ...] = ()
    """Proposals of a composed agent's roles, with their results so far."""
    rejected: str = ""
    """The verifier's reason for rejecting the agent's claim; the rejected claim is not executed."""
    gives_up: str = ""
    """Reason for giving up: the episode ends without success, whatever its task requires; empty to continue."""
    query: Query | None = None
    """Query to be answered before any action; `action` is then a placeholder."""
    graph: dict[str, Any] = field(default_factory=dict)
    """A graph agent's report on the step: stage, intent, nodes, queries with answers, narration, claim."""


class Agent(Protocol):
    """Chooses actions. A slot is one of several episodes that run at the same time.

    An agent with `decide` (as `LLMAgent.decide`) also returns the origin of its actions, for logs and
    training; with `decide_each`, an error in one episode leaves the others alone. An agent with `follow` (as
    `LLMAgent.follow`) can continue after actions chosen by somebody else.
    """

    def reset(self, goal: str, slot: int = 0) -> None:
        """Begin a new episode in `slot`, forgetting the last one. An empty goal means `obs["goal"]`.

        Further keyword arguments are passed to agents whose `reset` takes them: `open_ended` (no task judges the goal),
        `files` (names of the files that may be uploaded), `folder` (where the episode is recorded: a Path, or None) and
        `queries` (whether a `Query` is answered).
        """

    def act(self, obs: Observation) -> Act:
        """Choose the next action of slot 0."""

    def act_batch(self, observations: Sequence[Observation], slots: Sequence[int] | None = None) -> list[Act]:
        """Choose the next action of several episodes; `slots` defaults to 0, 1, 2, ..."""


class DecidingAgent:
    """Base of agents that implement `decide_each`; `act`, `act_batch` and `decide` are derived from it."""

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
        """Choose the next action of several episodes; raise the first error of `decide_each`."""
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
        """Choose the next action of several episodes; a failed episode gets its error instead of a decision."""
        raise NotImplementedError


def raise_first(answers: Iterable[object]) -> None:
    """Raise the first error among the answers, if there is one."""
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
