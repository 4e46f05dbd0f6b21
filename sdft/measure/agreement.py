"""What an adapter has learned of recordings: does it do what was done, page by page, and does that lead to the goal?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.memory import describe
from selfsurf.browser_env import Action, Observation
from selfsurf.envs_registry import task_of
from selfsurf.sdft.rollouts import Job
from selfsurf.sdft.rows.recorded import bring
from selfsurf.sdft.teacher.recording import Recording, goal_of

if TYPE_CHECKING:
    from selfsurf.sdft.rollouts import Rollouts

ENOUGH = 0.9
"""Share of recorded actions that an adapter should do; with less it is not worth using."""

MOST_EPISODES = 8
"""Recorded episodes that are played again, and as many with other seeds, or one of each task."""

OTHER_SEEDS = range(5_000_000, 5_000_008)
"""Seeds of further episodes of each recorded task; training and benchmarks do not use them."""

MOST_COMPARED = 100
"""Recorded states that are compared at the end of an offline run."""

_TOGETHER = 8
"""States that the model is asked about in one call."""


class Missed(BaseModel):
    """A recorded action that the agent does not do."""

    model_config = ConfigDict(frozen=True)

    step: int
    """Its place in its recording, from 1."""
    recorded: str
    did: str


class Followed(BaseModel):
    """How often an agent chooses what the goal says."""

    model_config = ConfigDict(frozen=True)

    label: str
    """What is chosen, such as "Room"."""
    right: int = 0
    of: int = 0
    """0: the recordings can't teach it."""
    recorded: str = ""
    """Then, what was chosen in all of them."""

    @property
    def enough(self) -> bool:
        """Is there no reason to warn?"""
        return self.of > 0 and self.right >= ENOUGH * self.of

    def text(self) -> str:
        """Say it in a few words."""
        if self.of:
            return f"{self.label}: follows the goal in {self.right} of {self.of}"
        return f"{self.label}: always {self.recorded}; record it once with something else, and a goal that says so"


class Agreement(BaseModel):
    """What an agent does at the pages of recordings."""

    model_config = ConfigDict(frozen=True)

    right: int
    """Recorded actions that it does."""
    of: int
    missed: list[Missed]
    solved: int
    """Recorded episodes that it solved from beginning to end, of those that a task judges."""
    judged: int
    solved_elsewhere: int = 0
    """Episodes with the recorded goal that it solved with other seeds (`OTHER_SEEDS`)."""
    elsewhere: int = 0
    held_out: bool = False
    """Was none of it trained on?"""
    choices: list[Followed] = []
    """Of what was recorded: is what to choose read from the goal?"""

    @property
    def enough(self) -> bool:
        """Is there no reason to warn?"""
        shares = ((self.right, self.of), (self.solved, self.judged), (self.solved_elsewhere, self.elsewhere))
        return all(done >= ENOUGH * asked for done, asked in shares) and all(one.enough for one in self.choices)

    def text(self) -> str:
        """Say it in a sentence or two."""
        said = f"It does {self.right} of {self.of} {'held-out ' if self.held_out else ''}recorded actions"
        if self.judged:
            said += f", and solves {self.solved} of {self.judged} recorded episodes from beginning to end"
        if self.elsewhere:
            said += f" and {self.solved_elsewhere} of {self.elsewhere} with other seeds"
        if self.missed:
            first = self.missed[0]
            said += f". Action {first.step} was {first.recorded}; it does {first.did}"
        return f"{said}. {self.choices_text()}".rstrip()

    def choices_text(self) -> str:
        """Say whether choices follow the goal; empty if there are none."""
        said = "; ".join(one.text() for one in self.choices)
        return f"{said[0].upper()}{said[1:]}." if said else ""


class Place(Protocol):
    """A recorded state."""

    @property
    def index(self) -> int:
        """Its place in its recording."""

    @property
    def shown(self) -> Action:
        """What was done there."""

    def bring(self, agent: LLMAgent, slot: int = 0) -> Observation:
        """Let an agent have done what was done before; return what it sees then."""


@dataclass(frozen=True)
class Shown:
    """A step of a recording, as a `Place`."""

    recording: Recording
    index: int
    """From 0."""

    @property
    def shown(self) -> Action:
        """What was done there."""
        return self.recording.steps[self.index].action

    def bring(self, agent: LLMAgent, slot: int = 0) -> Observation:
        """Let an agent have done what was done before; return what it sees then."""
        return bring(agent, self.recording, self.index, slot)


def missed_at(agent: LLMAgent, states: Sequence[Place]) -> list[Missed | None]:
    """Return, for each recorded state, what an agent does there instead of what was done; None where it does that."""
    found: list[Missed | None] = []
    for start in range(0, len(states), _TOGETHER):
        some = states[start : start + _TOGETHER]
        seen = [state.bring(agent, slot) for slot, state in enumerate(some)]
        for state, obs, decision in zip(some, seen, agent.decide(seen), strict=True):
            did, shown = decision.action, state.shown
            if not isinstance(did, str) and did.to_dict() == shown.to_dict():
                found.append(None)
                continue
            told = did if isinstance(did, str) else describe(did, obs)
            found.append(Missed(step=state.index + 1, recorded=describe(shown, obs), did=told))
    return found


def agreement_at(agent: LLMAgent, states: Sequence[Place], *, held_out: bool) -> Agreement:
    """Compare what an agent does at recorded states with what was done there; nothing is played.

    Args:
        agent: acts greedily.
        states: which.
        held_out: were they not trained on?
    """
    missed = [one for one in missed_at(agent, states) if one is not None]
    return Agreement(
        right=len(states) - len(missed), of=len(states), missed=missed, solved=0, judged=0, held_out=held_out
    )


def agreement(agent: LLMAgent, recordings: Sequence[Recording], rollouts: Rollouts) -> Agreement:
    """Compare what an agent does with what was recorded.

    Args:
        agent: acts greedily.
        recordings: whole, from disk.
        rollouts: the environments, in which the first recorded episodes that can be judged are played again.
    """
    states = [Shown(one, index) for one in recordings for index, shown in enumerate(one.steps) if shown.sayable]
    missed = [one for one in missed_at(agent, states) if one is not None]
    jobs = list(dict.fromkeys(Job(one.env_id, one.seed) for one in recordings if task_of(one.env_id).judges))
    goals = {(one.env_id, one.goal) for one in recordings}
    tasks = list(dict.fromkeys(job.env_id for job in jobs))
    others = [Job(name, seed) for seed in OTHER_SEEDS for name in tasks]
    asked = [*jobs[:MOST_EPISODES], *others[: max(MOST_EPISODES, len(tasks))]]
    played = [one for one in rollouts.run(agent, asked) if not one.masked] if asked else []
    results = [one for one in played if one.job in jobs]
    found = [one for one in played if one.job not in jobs and one.steps and (one.job.env_id, goal_of(one)) in goals]
    return Agreement(
        right=len(states) - len(missed), of=len(states), missed=missed,
        solved=sum(one.solved for one in results), judged=len(results),
        solved_elsewhere=sum(one.solved for one in found), elsewhere=len(found),
    )  # fmt: skip
