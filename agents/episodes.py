"""One step of one or several episodes: one call of the agent, all environments at the same time, written to disk.

The loop around it, and what becomes of an episode that has ended, is its caller's: `sdft.rollout` for many episodes,
`selfsurf run` for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.agent import Agent, Privileged
from agents.record import policy_record
from browser_env import AsyncBrowserEnv, Observation
from browser_env.episode import EpisodeWriter
from browser_env.observation import Info
from browser_env.runtime import runtime

if TYPE_CHECKING:
    from agents.llm_agent import Decision


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


def advance(agent: Agent, running: Sequence[Running], *, demonstrate: bool = False) -> list[Taken]:
    """Take one step in each of these episodes.

    Args:
        agent: chooses the actions, in one call.
        running: the episodes, whose observations become the new ones.
        demonstrate: show the agent the oracle's next action; only for an agent that takes `privileged`.

    Raises:
        PolicyError: the model could not be asked; no environment has been touched.
    """
    told = [one.env.privileged() for one in running]
    options: dict[str, Any] = {"privileged": told} if demonstrate else {}
    actions = agent.act_batch([one.observation for one in running], slots=[one.slot for one in running], **options)
    decisions: Sequence[Decision | None] = getattr(agent, "decisions", None) or [None] * len(running)
    steps = runtime().run(_step(running, actions))
    taken = []
    for one, action, decision, privileged, (after, reward, ended, cut, info) in zip(
        running, actions, decisions, told, steps, strict=True
    ):
        if one.writer is not None:
            one.writer.step(
                one.observation,
                action,
                reward=reward,
                info=info,
                after=after,
                privileged=privileged,
                policy=None if decision is None else policy_record(decision),
            )
        taken.append(Taken(one.observation, decision, privileged, reward, info, after, ended or cut))
        one.observation = after
    return taken


async def _step(running: Sequence[Running], actions: Sequence[Any]) -> list[Any]:
    return list(await asyncio.gather(*(one.env.step(action) for one, action in zip(running, actions, strict=True))))
