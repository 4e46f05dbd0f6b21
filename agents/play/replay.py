"""Plays the actions of an episode again: recorded ones and those of agents alike.

The episode is an agent: it finds its actions' elements on the page at hand (`browser_env.record.matching`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from selfsurf.agents.agent import Act, Stop
from selfsurf.agents.play.decide import Decider
from selfsurf.agents.play.environments import Environments
from selfsurf.agents.play.job import Ask, Job
from selfsurf.agents.play.player import Manner, Player, Watch
from selfsurf.browser_env import Task
from selfsurf.browser_env.actions import Action, Finish, Infeasible, Upload, parse_action
from selfsurf.browser_env.errors import ActionError, EnvError
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.record.episode import Episode
from selfsurf.browser_env.record.matching import matching

_DIALOG = re.compile(r'(alert|confirm|prompt|beforeunload) dialog (accepted|dismissed|answered "(.*?)")(?:: |$)')
_UNIQUE = re.compile(r"\[\d+\] ")


@dataclass(frozen=True)
class ReplayedStep:
    """What became of one recorded action."""

    step: int
    action: str
    """As it was carried out, or as it was recorded when its element was not found."""
    done: bool
    matched: str
    """How its element was found: `id`, `name`, `position`, or empty where there is none or none was found."""
    error: str


@dataclass
class Replay:
    """What became of an episode."""

    steps: list[ReplayedStep] = field(default_factory=list)
    outcome: str = "running"
    reward: float = 0.0
    same_outcome: bool = False
    """Does it end as it did? Where a task judges: outcome and reward. Else: address and outline of the last page."""
    difference: str = ""
    """What differs at the end, in one sentence."""

    @property
    def complete(self) -> bool:
        """Could every action be done?"""
        return all(step.done for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "complete": self.complete}


class ReplayAgent:
    """Does what was done in an episode. An action whose element is not there is skipped, and the next one is tried.

    Args:
        episode: what to play.
        files: folder in which uploaded files are looked for by their names; None: where they were.
        shown: called with every step that is over.
    """

    def __init__(
        self, episode: Episode, *, files: Path | None = None, shown: Callable[[ReplayedStep], None] | None = None
    ) -> None:
        self._episode = episode
        self._files = files
        self._shown = shown or (lambda step: None)
        self.reset()

    def reset(self, goal: str = "", slot: int = 0) -> None:
        """Start over."""
        self.steps: list[ReplayedStep] = []
        self.last: Observation | None = None
        """The page before the recorded end, which a person's word about it is no part of."""
        self._records: Iterator[dict[str, Any]] = self._episode.steps()
        self._under_way: ReplayedStep | None = None

    def act(self, obs: Observation) -> Act:
        """Return the next recorded action, on this page.

        Raises:
            Stop: there is none.
        """
        self.note(obs)
        for record in self._records:
            recorded = record["actions"][0]
            try:
                action = parse_action(recorded)
            except ActionError as error:  # a reply that could not be read
                self._over(ReplayedStep(record["step"], str(recorded), False, "", str(error)))
                continue
            if isinstance(action, Finish | Infeasible) and self._episode.meta["recorded"]:
                self.last = obs
            found, way, missing = matching(action, record["observation"]["elements"], obs["elements"])
            step = ReplayedStep(record["step"], found.to_json(), not missing, way, missing)
            if missing:
                self._over(step)
                continue
            self._under_way = step
            return self._with_files(found)
        raise Stop("the recorded actions are over")

    def note(self, obs: Observation) -> None:
        """Note what became of the last action."""
        if self._under_way is not None:
            error = obs["last_error"]
            self._over(replace(self._under_way, done=not error, error=error))
            self._under_way = None

    def _over(self, step: ReplayedStep) -> None:
        self.steps.append(step)
        self._shown(step)

    def _with_files(self, action: Action) -> Action:
        if isinstance(action, Upload) and self._files is not None:
            return action.model_copy(update={"files": tuple(str(self._files / name) for name in action.files)})
        return action


class _Last(Watch):
    """Keeps the latest observation."""

    observation: Observation

    def opened(self, ask: Any, observation: Observation) -> None:
        self.observation = observation

    def stepped(self, ask: Any, step: Any) -> None:
        self.observation = step.after


def replay(
    episode: Episode,
    task: Task,
    *,
    files: Path | None = None,
    shown: Callable[[ReplayedStep], None] | None = None,
    **env_options: Any,
) -> Replay:
    """Play an episode's actions in a new environment, and compare the end.

    Args:
        episode: what to play.
        task: its task, or an open-ended one with its start page.
        files: folder in which uploaded files are looked for by their names.
        shown: called with every step.
        env_options: of the environment (`browser_env.env.make_core`). Secrets in the episode need those of the same
            name in `Safety.secrets`.

    Raises:
        EnvError: the task could not be brought to its start.
    """
    agent, last = ReplayAgent(episode, files=files, shown=shown), _Last()
    environments = Environments(lambda name: task, 1, dialogs=recorded_answers(episode), **env_options)
    player = Player(Decider(agent), environments, 1, Manner(keep_steps=False), watch=last)
    try:
        player.begin(Ask(0, Job(episode.meta["env_id"], episode.meta["seed"])))
        ended = player.turn()
        while not ended:
            ended = player.turn()
    finally:
        player.close()
        environments.close()
    ((_, result),) = ended
    if result.masked and result.length == 0:
        raise EnvError(result.detail)
    agent.note(last.observation)
    # Of an episode that was cut off where the record ends, the environment still says that it runs.
    outcome = "running" if result.outcome == "stopped" and result.detail else result.outcome
    made = Replay(agent.steps, outcome, result.reward)
    _compare(made, episode, agent.last or last.observation)
    return made


def recorded_answers(episode: Episode) -> Callable[[str, str], str]:
    """Return a `dialogs` policy that answers as the episode's events tell, kind by kind, and then accepts."""
    answers: dict[str, deque[str]] = {}
    for step in episode.steps():
        for event in step["events"]:
            if told := _DIALOG.match(event):
                said = {"accepted": "accept", "dismissed": "dismiss"}.get(told[2], told[3])
                answers.setdefault(told[1], deque()).append(said)

    def answer(kind: str, message: str) -> str:
        left = answers.get(kind)
        return left.popleft() if left else "accept"

    return answer


def _compare(result: Replay, episode: Episode, last: Observation) -> None:
    then = episode.meta.get("final") or {}
    if episode.meta["judged"]:
        was = (episode.meta["outcome"], episode.meta["totals"].get("reward", 0.0))
        if (result.outcome, result.reward) != was:
            result.difference = f"It ended {result.outcome} ({result.reward:g}), not {was[0]} ({was[1]:g})."
    elif then.get("url") != last["url"]:
        result.difference = f"It ended at {last['url']}, not at {then.get('url')}."
    elif _outline(then.get("dom", "")) != _outline(last["dom"]):
        result.difference = "The page at the end shows something else."
    result.same_outcome = not result.difference


def _outline(dom: str) -> str:
    """Return an outline without ids, and without where the focus is: a `fill` leaves it in the field."""
    return re.sub(r" focused\b", "", _UNIQUE.sub("", dom))
