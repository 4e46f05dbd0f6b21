"""Asks any agent for decisions: one that decides, one that acts in batches, or one that only has `act(obs)`."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from selfsurf import agents
from selfsurf.agents.agent import Act, Decision, Privileged, Stop
from selfsurf.agents.play.job import Job
from selfsurf.agents.policy import PolicyError
from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.classes import load_class
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.safety.secrets import redact_known

_log = logging.getLogger(__name__)

_NO_AGENT = "{} is no agent: it has neither act(obs) nor act_batch(observations)."


class AgentRaised(Exception):
    """The agent's own code raised. The message says what, `traceback` where."""

    traceback: str = ""


class Decider:
    """One agent for all episodes, or an agent for each.

    Args:
        agent: serves all episodes; must keep them apart by their slots (`agents.agent.Agent`), or there is one only.
        make: makes the agent of one episode, where chance is in it or it has only `act(obs)`; instead of `agent`.

    Raises:
        ValueError: `agent` has neither of the methods.
    """

    def __init__(self, agent: Any = None, *, make: Callable[[Job], Any] | None = None) -> None:
        self.agent = agent
        self._make = make
        self._own: dict[int, Any] = {}
        if make is None and not any(hasattr(agent, name) for name in ("decide", "act_batch", "act")):
            raise ValueError(_NO_AGENT.format(type(agent).__name__))

    @property
    def needs_privileged(self) -> bool:
        """Whether decisions are made of the task's oracle's view."""
        return getattr(self.agent, "needs_privileged", False)

    @property
    def sees_images(self) -> bool:
        """Whether the agent's model looks at screenshots. A user's own agent might, unknown to us."""
        policy = getattr(self.agent, "policy", None)
        return bool(getattr(policy, "sees_images", False)) and getattr(self.agent, "vision", "auto") != "none"

    def begin(
        self,
        slot: int,
        job: Job,
        goal: str,
        *,
        open_ended: bool = False,
        files: Sequence[str] = (),
        folder: Path | None = None,
    ) -> None:
        """Begin an episode.

        Args:
            slot: whose.
            job: which.
            goal: what is wanted.
            open_ended: no task judges it. The agent is told this and the next, if its `reset` takes them.
            files: the names of those that may be uploaded.
            folder: where the episode is recorded, if it is.
        """
        agent = self.agent
        if self._make is not None:
            agent = self._own[slot] = self._make(job)
        if hasattr(agent, "reset"):
            told: dict[str, Any] = {"open_ended": open_ended, "files": files, "folder": folder, "queries": True}
            if self._make is None:
                told["slot"] = slot
            agent.reset(goal, **{name: value for name, value in told.items() if _takes(agent.reset, name)})

    def decide(
        self,
        slots: Sequence[int],
        observations: Sequence[Observation],
        *,
        privileged: Sequence[Privileged | None] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Decision | BaseException]:
        """Choose the next action of each of these episodes.

        One that is asked for all at once and has no `decide_each` is asked again one by one where it raises.

        Args:
            slots: the episodes.
            observations: one for each.
            privileged: for each, what the agent is shown of the oracle's view, where it takes that.
            seeds: for each, what its reply is drawn from, where the agent takes that.

        Returns:
            For each its decision, or what the agent raised: a `PolicyError` where the model could not be asked, a
            `Stop`, or an error of its own.
        """
        if self._make is not None:
            return [_act(self._own[slot], obs) for slot, obs in zip(slots, observations, strict=True)]
        told: dict[str, Any] = {"privileged": privileged, "seeds": seeds}
        way = _way(self.agent)
        if way == "act":
            return [_act(self.agent, obs) for obs in observations]
        answers: list[Decision | BaseException]
        try:
            if way == "act_batch":
                answers = [Decision(action) for action in self.agent.act_batch(observations, slots=slots)]
            else:
                answers = list(getattr(self.agent, way)(observations, slots=slots, **told))
            if len(answers) != len(slots):
                raise ValueError(f"the agent returned {len(answers)} actions for {len(slots)} observations")
        except (Exception, SystemExit) as error:
            if len(slots) == 1 or isinstance(error, (PolicyError, Stop)):
                return [error] * len(slots)
            answers = []
            for row, (slot, obs) in enumerate(zip(slots, observations, strict=True)):
                own = {name: given and [given[row]] for name, given in told.items()}
                answers += self.decide([slot], [obs], **own)
        return answers

    def follow(self, slot: int, observation: Observation, action: Action) -> None:
        """Let an agent that can know what was done in the episode before it was made (`LLMAgent.follow`)."""
        agent = self._own.get(slot, self.agent)
        if hasattr(agent, "follow"):
            agent.follow(observation, action, slot)

    def told(self, slot: int, answer: dict[str, Any]) -> None:
        """Bring the answer to the `Query` of an agent's last decision."""
        self._own.get(slot, self.agent).told(answer, slot)

    def why_ended(self, slot: int, outcome: str, detail: str) -> str:
        """Let an agent that wants to know how its episode ended; return why it did, in its own words."""
        agent = self._own.get(slot, self.agent)
        return str(agent.why_ended(outcome, detail, slot) or "") if hasattr(agent, "why_ended") else ""

    def end(self, slot: int, *, reached: bool, strict: bool = False) -> None:
        """End an episode, for an agent that can make something of it (`LLMAgent.ended`).

        What the agent raises changes nothing of how it ended: it is logged, or with `strict` goes up.
        """
        agent = self._own.get(slot, self.agent)
        try:
            if hasattr(agent, "ended"):
                agent.ended(slot, reached=reached)
        except (Exception, SystemExit) as error:
            if strict:
                raise
            _log.warning("After an episode's end %s", redact_known(raised(error).traceback))

    def close(self) -> None:
        """Release what the agent holds."""
        close = getattr(getattr(self.agent, "policy", self.agent), "close", None)
        if close is not None:
            close()


class OracleRaised(ValueError):
    """A task's oracle raised; the message says what, and where."""

    def __init__(self, task: str, error: Exception) -> None:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(at.filename).name}, line {at.lineno}"
        own = task.rpartition("/")[2] if ".py:" in task else task
        super().__init__(f"The oracle of {own} raised {type(error).__name__}: {error} ({where})")


def raised(error: BaseException) -> AgentRaised:
    """Say what an agent, or the oracle that it follows, raised, and where."""
    oracles = isinstance(error, OracleRaised)
    said = AgentRaised(str(error) if oracles else f"the agent raised {type(error).__name__}: {error}")
    said.traceback = "".join(traceback.format_exception(error))
    return said


def _way(agent: Any) -> str:
    """Return the method by which an agent is asked: the best that it has; of `decide` and `decide_each`, the latest."""
    ways = ("decide_each", "decide", "act_batch", "act")
    for kind in type(agent).__mro__[:-1]:
        own = [way for way in ways[:2] if way in vars(kind)]
        if own:
            return own[0]
    return next(way for way in ways if hasattr(agent, way))


def _act(agent: Any, observation: Observation) -> Decision | BaseException:
    try:
        action: Act = agent.act(observation)
        if inspect.iscoroutine(action):
            action.close()
            raise TypeError("act(obs) is asynchronous; it must be a plain function")
    except (Exception, SystemExit) as error:
        return error
    return Decision(action)


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def make_decider(name: str, options: dict[str, Any]) -> Decider:
    """Make an agent by its name, ready to be asked for many episodes.

    One object serves all episodes where it can; where chance is in the agent, or it knows only `act`, every episode has
    its own, so that what it does never depends on what is played beside it.

    Args:
        name: as `agents.make`, or `file.py:Class` or `module:Class` of anything with `act(obs)`.
        options: of the agent.

    Raises:
        ValueError: there is no such agent.
        Exception: the agent's own, while it is made.
    """
    if name == "random":
        seed = options.get("seed", 0)
        return Decider(make=lambda job: agents.make("random", seed=crc32(f"{seed} {job.env_id} {job.seed}".encode())))
    if name in ("oracle", "scripted") or name in (*agents.BACKENDS, *agents.COMPOSED):
        return Decider(agents.make(name, **agents.check_options(name, options)))
    kind = load_class(name)
    if hasattr(kind, "act_batch") or hasattr(kind, "decide"):
        return Decider(kind(**options))
    if hasattr(kind, "act"):
        kind(**options)  # or it would fail in every episode
        return Decider(make=lambda job: kind(**options))
    if hasattr(kind, "complete"):
        return Decider(agents.make(name, **agents.check_options(name, options)))
    raise ValueError(_NO_AGENT.format(name))
