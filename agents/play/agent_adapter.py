"""Asks any agent for decisions: agents with `decide` or `decide_each`, `act_batch`, or only `act(obs)`."""

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

_log = logging.getLogger(__name__)

_NO_AGENT = "{} is not an agent: it has neither act(obs) nor act_batch(observations)."


class AgentRaised(Exception):
    """The agent's own code raised. The message is the error; `traceback` gives its location."""

    traceback: str = ""


class AgentAdapter:
    """Asks one agent for all episodes, or one agent per episode.

    Args:
        agent: serves all episodes, separated by slots (`agents.agent.Agent`); with only `act(obs)`, serves one episode.
        make: makes the agent of one episode, for random agents and agents with only `act(obs)`; instead of `agent`.

    Raises:
        ValueError: `agent` has none of these methods.
    """

    def __init__(self, agent: Any = None, *, make: Callable[[Job], Any] | None = None) -> None:
        self.agent = agent
        self._make = make
        self._own: dict[int, Any] = {}
        if make is None and not any(hasattr(agent, name) for name in ("decide", "act_batch", "act")):
            raise ValueError(_NO_AGENT.format(type(agent).__name__))

    @property
    def needs_privileged(self) -> bool:
        """Whether the agent needs the oracle's view for its decisions."""
        return getattr(self.agent, "needs_privileged", False)

    @property
    def sees_images(self) -> bool:
        """Whether the agent's model sees screenshots; False for agents without a `policy`."""
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
            slot: slot of the episode.
            job: the episode's job.
            goal: the goal.
            open_ended: whether no task judges the episode. This and the following are passed to a `reset` that takes
                them.
            files: names of the files that may be uploaded.
            folder: where the episode is recorded, or None.
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
        """Choose the next action of each episode.

        If a batched call raises, an agent without `decide_each` is asked again for each episode alone.

        Args:
            slots: the episodes.
            observations: one for each episode.
            privileged: for each episode, the oracle's view to be shown to the agent, or None.
            seeds: for each episode, the seed of its reply.

        Returns:
            For each episode its decision or the agent's error: a `PolicyError` if the model could not be asked, a
            `Stop`, or an error of the agent's own code.
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
        """Replay an action executed before the agent was made, for agents that support it (`LLMAgent.follow`)."""
        agent = self._own.get(slot, self.agent)
        if hasattr(agent, "follow"):
            agent.follow(observation, action, slot)

    def told(self, slot: int, answer: dict[str, Any]) -> None:
        """Pass the answer to the query of the agent's last decision."""
        self._own.get(slot, self.agent).told(answer, slot)

    def why_ended(self, slot: int, outcome: str, detail: str) -> str:
        """Report an episode's outcome to the agent and return its reason for the end; empty without `why_ended`."""
        agent = self._own.get(slot, self.agent)
        return str(agent.why_ended(outcome, detail, slot) or "") if hasattr(agent, "why_ended") else ""

    def close(self) -> None:
        """Close the agent's policy, or the agent itself, if it has `close`."""
        close = getattr(getattr(self.agent, "policy", self.agent), "close", None)
        if close is not None:
            close()


class OracleRaised(ValueError):
    """A task's oracle raised; the message gives the error and its location."""

    def __init__(self, task: str, error: Exception) -> None:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(at.filename).name}, line {at.lineno}"
        own = task.rpartition("/")[2] if ".py:" in task else task
        super().__init__(f"The oracle of {own} raised {type(error).__name__}: {error} ({where})")


def raised(error: BaseException) -> AgentRaised:
    """Return the error of an agent, or of the oracle that it follows, as `AgentRaised`."""
    oracles = isinstance(error, OracleRaised)
    said = AgentRaised(str(error) if oracles else f"the agent raised {type(error).__name__}: {error}")
    said.traceback = "".join(traceback.format_exception(error))
    return said


def _way(agent: Any) -> str:
    """Return the name of the agent's best method; of `decide` and `decide_each`, the more derived one."""
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
            raise TypeError("act(obs) must be a plain function, not an asynchronous function")
    except (Exception, SystemExit) as error:
        return error
    return Decision(action)


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def make_decider(name: str, options: dict[str, Any]) -> AgentAdapter:
    """Make an agent by its name, ready to decide for many episodes.

    One agent serves all episodes if it can. Random agents and agents with only `act` are made per episode, so that
    their actions don't depend on episodes that run concurrently.

    Args:
        name: a name of `agents.make`, or `file.py:Class` or `module:Class` of anything with `act(obs)`.
        options: options of the agent.

    Raises:
        ValueError: no agent has that name.
        Exception: an error of the agent's constructor.
    """
    if name == "random":
        seed = options.get("seed", 0)
        return AgentAdapter(
            make=lambda job: agents.make("random", seed=crc32(f"{seed} {job.env_id} {job.seed}".encode()))
        )
    if name in ("oracle", "scripted") or name in (*agents.BACKENDS, *agents.COMPOSED):
        return AgentAdapter(agents.make(name, **agents.check_options(name, options)))
    kind = load_class(name)
    if hasattr(kind, "act_batch") or hasattr(kind, "decide"):
        return AgentAdapter(kind(**options))
    if hasattr(kind, "act"):
        kind(**options)  # fails now rather than in every episode
        return AgentAdapter(make=lambda job: kind(**options))
    if hasattr(kind, "complete"):
        return AgentAdapter(agents.make(name, **agents.check_options(name, options)))
    raise ValueError(_NO_AGENT.format(name))
