"""One step of one or several episodes: one call of the agent, all environments at the same time, written to disk.

The loop around it, and what becomes of an episode that has ended, is its caller's: `sdft.rollouts` for many episodes,
`selfsurf run` for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from selfsurf.agents.agent import Act, Agent, Privileged
from selfsurf.agents.play.record import policy_record
from selfsurf.browser_env import AsyncBrowserEnv, Observation
from selfsurf.browser_env.observation import Info
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.session.runtime import runtime

if TYPE_CHECKING:
    from selfsurf.agents.llm_agent import Decision


@dataclass
class Running:
    """An episode under way."""

    slot: int
    """Which of the agent's memories is this episode's."""
    env: AsyncBrowserEnv
    observation: Observation
    """The latest."""
    writer: EpisodeWriter | None


@dataclass(frozen=True)
class Chosen:
    """What the agent wants to do."""

    action: Act
    decision: Decision | None
    """How the action came about; None for an agent without a language model."""
    privileged: Privileged | None


@dataclass(frozen=True)
class Taken:
    """One step as it happened."""

    observation: Observation
    """What the agent saw."""
    decision: Decision | None
    """How the action came about; None for an agent without a language model."""
    privileged: Privileged | None
    reward: float
    info: Info
    after: Observation
    ended: bool


def advance(agent: Agent, running: Sequence[Running]) -> list[Taken]:
    """Take one step in each of these episodes, all at the same time.

    Raises:
        PolicyError: the model could not be asked; no environment has been touched.
    """
    chosen = choose(agent, running)
    steps = runtime().run(_step(running, chosen))
    return [taken(*each) for each in zip(running, chosen, steps, strict=True)]


def choose(
    agent: Agent, running: Sequence[Running], *, demonstrate: bool = False, seeds: Sequence[int] | None = None
) -> list[Chosen]:
    """Let the agent choose the next action of each of these episodes, in one call.

    Args:
        agent: chooses.
        running: the episodes.
        demonstrate: show the agent the oracle's next action; only for an agent that takes `privileged`.
        seeds: what each action is drawn from; only for an agent that takes `seeds`.

    Raises:
        PolicyError: the model could not be asked.
    """
    told = [one.env.privileged() for one in running]
    options: dict[str, Any] = {"privileged": told} if demonstrate else {}
    if seeds is not None:
        options["seeds"] = seeds
    actions = agent.act_batch([one.observation for one in running], slots=[one.slot for one in running], **options)
    decisions: Sequence[Decision | None] = getattr(agent, "decisions", None) or [None] * len(running)
    return [Chosen(*each) for each in zip(actions, decisions, told, strict=True)]


def taken(one: Running, chosen: Chosen, step: tuple[Observation, float, bool, bool, Any]) -> Taken:
    """Take down a step that the environment has made; the episode's observation becomes the new one."""
    after, reward, ended, cut, info = step
    if one.writer is not None:
        one.writer.step(
            one.observation,
            chosen.action,
            reward=reward,
            info=info,
            after=after,
            privileged=chosen.privileged,
            policy=None if chosen.decision is None else policy_record(chosen.decision),
        )
    before, one.observation = one.observation, after
    return Taken(before, chosen.decision, chosen.privileged, reward, info, after, ended or cut)


async def _step(running: Sequence[Running], chosen: Sequence[Chosen]) -> list[Any]:
    return list(await asyncio.gather(*(one.env.step(each.action) for one, each in zip(running, chosen, strict=True))))
