"""Agreement of an adapter with recordings: whether it reproduces recorded actions and solves recorded episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.llm.memory import describe
from selfsurf.browser_env import Action, Observation
from selfsurf.envs_registry import task_of
from selfsurf.sdft.rollouts import Job
from selfsurf.sdft.rows.recorded import bring
from selfsurf.sdft.teacher.recording import Recording, goal_of

if TYPE_CHECKING:
    from selfsurf.sdft.rollouts import Rollouts

ENOUGH = 0.9
"""Minimum share of recorded actions that a usable adapter reproduces."""

MOST_EPISODES = 8
"""Maximum number of recorded episodes that are played again, and of episodes with other seeds (at least one per task).
"""

OTHER_SEEDS = range(5_000_000, 5_000_008)
"""Seeds of further episodes of each recorded task, unused in training and benchmarks."""

MOST_COMPARED = 100
"""Maximum number of recorded states compared at the end of an offline run."""

_TOGETHER = 8
"""Number of states in one call of the model."""


class MissedAction(BaseModel):
    """A recorded action that the agent doesn't reproduce."""

    model_config = ConfigDict(frozen=True)

    step: int
    """Number of the step in its recording, from 1."""
    recorded: str
    did: str


class ChoiceAgreement(BaseModel):
    """How often an agent makes a choice according to the goal."""

    model_config = ConfigDict(frozen=True)

    label: str
    """Name of the choice, such as "Room"."""
    right: int = 0
    of: int = 0
    """Number of variations tested; 0 if the recordings can't teach the choice."""
    recorded: str = ""
    """Value chosen in all recordings, if they can't teach the choice."""

    @property
    def enough(self) -> bool:
        """Whether the agent follows the goal often enough to need no warning."""
        return self.of > 0 and self.right >= ENOUGH * self.of

    def text(self) -> str:
        """Return the result in a few words."""
        if self.of:
            return f"{self.label}: follows the goal in {self.right} of {self.of} variations"
        return f"{self.label}: always {self.recorded}; record another episode whose goal asks for a different choice"


class Agreement(BaseModel):
    """Comparison of an agent with recordings."""

    model_config = ConfigDict(frozen=True)

    right: int
    """Number of recorded actions that the agent reproduces."""
    of: int
    missed: list[MissedAction]
    solved: int
    """Number of recorded episodes, among those that a task judges, that the agent solved from beginning to end."""
    judged: int
    solved_elsewhere: int = 0
    """Number of episodes with the recorded goal that the agent solved with other seeds (`OTHER_SEEDS`)."""
    elsewhere: int = 0
    held_out: bool = False
    """Whether the compared states were held out of training."""
    choices: list[ChoiceAgreement] = []
    """Test results for the choices in the recordings."""

    @property
    def enough(self) -> bool:
        """Whether all shares are high enough to need no warning."""
        shares = ((self.right, self.of), (self.solved, self.judged), (self.solved_elsewhere, self.elsewhere))
        return all(done >= ENOUGH * asked for done, asked in shares) and all(one.enough for one in self.choices)

    def text(self) -> str:
        """Return the comparison in one or two sentences."""
        said = f"It reproduces {self.right} of {self.of} {'held-out ' if self.held_out else ''}recorded actions"
        if self.judged:
            said += f", and solves {self.solved} of {self.judged} recorded episodes from beginning to end"
        if self.elsewhere:
            said += f" and {self.solved_elsewhere} of {self.elsewhere} with other seeds"
        if self.missed:
            first = self.missed[0]
            said += f". Action {first.step} was recorded as {first.recorded}; the adapter does {first.did}"
        return f"{said}. {self.choices_text()}".rstrip()

    def choices_text(self) -> str:
        """Return a sentence on whether choices follow the goal; empty without choices."""
        said = "; ".join(one.text() for one in self.choices)
        return f"{said[0].upper()}{said[1:]}." if said else ""


class RecordedState(Protocol):
    """A recorded state."""

    @property
    def index(self) -> int:
        """Index of the state in its recording, from 0."""

    @property
    def shown(self) -> Action:
        """Recorded action at the state."""

    def bring(self, agent: LLMAgent, slot: int = 0) -> Observation:
        """Replay the preceding recorded steps into the agent's memory; return the state's observation."""


@dataclass(frozen=True)
class StepInRecording:
    """A recorded step that implements `RecordedState`."""

    recording: Recording
    index: int
    """Index of the step in its recording, from 0."""

    @property
    def shown(self) -> Action:
        """Recorded action of the step."""
        return self.recording.steps[self.index].action

    def bring(self, agent: LLMAgent, slot: int = 0) -> Observation:
        """Replay the preceding recorded steps into the agent's memory; return the step's observation."""
        return bring(agent, self.recording, self.index, slot)


def missed_at(agent: LLMAgent, states: Sequence[RecordedState]) -> list[MissedAction | None]:
    """Return the agent's action at each state where it differs from the recorded one; None where it doesn't."""
    found: list[MissedAction | None] = []
    for start in range(0, len(states), _TOGETHER):
        some = states[start : start + _TOGETHER]
        seen = [state.bring(agent, slot) for slot, state in enumerate(some)]
        for state, obs, decision in zip(some, seen, agent.decide(seen), strict=True):
            did, shown = decision.action, state.shown
            if not isinstance(did, str) and did.to_dict() == shown.to_dict():
                found.append(None)
                continue
            told = did if isinstance(did, str) else describe(did, obs)
            found.append(MissedAction(step=state.index + 1, recorded=describe(shown, obs), did=told))
    return found


def agreement_at(agent: LLMAgent, states: Sequence[RecordedState], *, held_out: bool) -> Agreement:
    """Compare an agent's actions with the recorded actions at recorded states, without playing.

    Args:
        agent: an agent that acts greedily.
        states: the recorded states.
        held_out: whether the states were held out of training.
    """
    missed = [one for one in missed_at(agent, states) if one is not None]
    return Agreement(
        right=len(states) - len(missed), of=len(states), missed=missed, solved=0, judged=0, held_out=held_out
    )


def agreement(agent: LLMAgent, recordings: Sequence[Recording], rollouts: Rollouts) -> Agreement:
    """Compare an agent with recordings, at their states and by playing them again.

    Args:
        agent: an agent that acts greedily.
        recordings: complete recordings from disk.
        rollouts: environments in which the first recorded episodes with a judge are played again.
    """
    states = [
        StepInRecording(one, index) for one in recordings for index, shown in enumerate(one.steps) if shown.sayable
    ]
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
