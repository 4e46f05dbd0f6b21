"""An agent that replays a recorded episode's actions, and a comparison of the two ends."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from selfsurf.agents.agent import Stop
from selfsurf.agents.play.agent_adapter import AgentAdapter
from selfsurf.agents.play.environments import Environments
from selfsurf.agents.play.job import EpisodeRequest, Job, Step
from selfsurf.agents.play.options import PlayerCallbacks, PlayOptions
from selfsurf.agents.play.player import Player
from selfsurf.browser_env import (
    Action,
    ActionError,
    Element,
    EnvError,
    Finish,
    Infeasible,
    Observation,
    Risk,
    Safety,
    Task,
    Upload,
)
from selfsurf.browser_env.outline import without_focus
from selfsurf.browser_env.record.episode import Episode
from selfsurf.browser_env.record.format import recorded_action
from selfsurf.browser_env.record.matching import matching

_DIALOG = re.compile(r'(alert|confirm|prompt|beforeunload) dialog (accepted|dismissed|answered "(.*?)")(?:: |$)')

RECORDING_ENDED = "the recording has ended"

NOT_RISKED = "Not executed: the action looks risky ({kind}), and an earlier action failed."


@dataclass(frozen=True)
class ReplayedStep:
    """One replayed action of a recording."""

    step: int
    action: str
    """The action as executed, or as recorded if its element was not found."""
    done: bool
    matched: str
    """How the element was found: `id`, `name` or `position`; empty if not found or not needed."""
    error: str


@dataclass(frozen=True)
class Replay:
    """The result of a replayed episode."""

    steps: list[ReplayedStep]
    outcome: str
    reward: float
    difference: str
    """Difference between the two ends, in one sentence; empty for none. Episodes judged by a task are compared by
    outcome and reward, others by address and outline of the last page."""

    @property
    def same_outcome(self) -> bool:
        """Whether the replay ended like the recording."""
        return not self.difference

    @property
    def complete(self) -> bool:
        """Whether every action was executed."""
        return all(step.done for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return the replay as plain data."""
        return {**asdict(self), "same_outcome": self.same_outcome, "complete": self.complete}


class ReplayAgent:
    """Replays an episode's actions. An action whose element is missing is skipped.

    After a failed action, risky actions are refused: `replay` has the environment ask `allows`.

    Args:
        episode: the recorded episode.
        files: folder of the uploaded files.
        shown: called with each step as soon as its result is known.
    """

    def __init__(
        self, episode: Episode, *, files: Path | None = None, shown: Callable[[ReplayedStep], None] | None = None
    ) -> None:
        self.episode = episode
        self._files = files
        self._shown = shown or (lambda step: None)

    def reset(self, goal: str = "") -> None:
        """Restart at the first action."""
        self._actions = ((step, action) for step in self.episode.steps() for action in step["actions"])
        self._steps: list[ReplayedStep] = []
        self._refused = ""
        self._open: ReplayedStep | None = None
        """The last returned action; its result is visible in the next observation."""
        self._end: Observation | None = None
        """The observation before the recorded claim that ended the episode; None before a claim."""

    def act(self, obs: Observation) -> Action:
        """Return the next action, with its element's id on the current page.

        Raises:
            Stop: no actions are left.
        """
        self._close(obs)
        for step, entry in self._actions:
            try:
                action = recorded_action(entry)
            except ActionError as failure:  # a reply without an action
                text = entry.get("unreadable") or str(entry)
                self._add(ReplayedStep(step["step"], text, False, "", str(failure)))
                continue
            if isinstance(action, Finish | Infeasible) and self.episode.meta["recorded"]:
                self._end = obs
            found, matched, missing = matching(action, step["observation"]["elements"], obs["elements"])
            if isinstance(found, Upload) and self._files is not None:
                found = found.model_copy(update={"files": tuple(str(self._files / name) for name in found.files)})
            replayed = ReplayedStep(step["step"], found.to_json(), not missing, matched, missing)
            if missing:
                self._add(replayed)
                continue
            self._open = replayed
            return found
        raise Stop(RECORDING_ENDED)

    def allows(self, action: Action, element: Element | None, risk: Risk) -> bool:
        """Return whether a risky action may be executed: only if all actions before it were."""
        self._refused = "" if all(step.done for step in self._steps) else NOT_RISKED.format(kind=risk.kind)
        return not self._refused

    def result(self, last: Observation, *, outcome: str, reward: float) -> Replay:
        """Compare the end with the recorded end.

        Args:
            last: the last observation.
            outcome: outcome of the replayed episode.
            reward: total reward of the replayed episode.
        """
        self._close(last)
        difference = _difference(self.episode.meta, outcome, reward, self._end or last)
        return Replay(self._steps, outcome, reward, difference)

    def _close(self, obs: Observation) -> None:
        if self._open is not None:
            error = self._refused or obs["last_error"]
            self._refused = ""
            self._add(replace(self._open, done=not error, error=error))
            self._open = None

    def _add(self, step: ReplayedStep) -> None:
        self._steps.append(step)
        self._shown(step)


class _Last(PlayerCallbacks):
    """Stores the latest observation and outcome."""

    observation: Observation
    outcome = "running"

    def opened(self, ask: EpisodeRequest, observation: Observation) -> None:
        self.observation = observation

    def stepped(self, ask: EpisodeRequest, step: Step) -> None:
        self.observation, self.outcome = step.after, step.info["outcome"]


def replay(
    episode: Episode,
    task: Task,
    *,
    files: Path | None = None,
    shown: Callable[[ReplayedStep], None] | None = None,
    **env_options: Any,
) -> Replay:
    """Replay an episode's actions in a new environment, and compare the end.

    Args:
        episode: the recorded episode.
        task: its task, or an open-ended task with its start page.
        files: folder of the uploaded files.
        shown: called with each step as soon as its result is known.
        env_options: options of the environment (`browser_env.environment.env.make_core`). Secrets in the episode need
            those of the same name in `Safety.secrets`. Without a `Safety.confirm`, risky actions are refused after a
            failed action.

    Raises:
        EnvError: the task could not be brought to its start, or the environment failed on the way.
    """
    agent, last = ReplayAgent(episode, files=files, shown=shown), _Last()
    safety = env_options.pop("safety", None) or Safety()
    options = {"dialogs": recorded_answers(episode), **env_options}
    options["safety"] = safety if safety.confirm is not None else replace(safety, confirm=agent.allows)
    environments = Environments(lambda name: task, 1, **options)
    player = Player(AgentAdapter(agent), environments, 1, PlayOptions(keep_steps=False), watch=last)
    try:
        result = player.play(EpisodeRequest(0, Job(episode.meta["env_id"], episode.meta["seed"])))
    finally:
        player.close()
        environments.close()
    if result.masked:
        raise EnvError(result.detail)
    return agent.result(last.observation, outcome=last.outcome, reward=result.reward)


def recorded_answers(episode: Episode) -> Callable[[str, str], str]:
    """Return a `dialogs` policy that repeats the recorded answers for each kind of dialog, and then accepts."""
    answers: dict[str, deque[str]] = {}
    for step in episode.steps():
        for event in step["events"]:
            if dialog := _DIALOG.match(event):
                said = {"accepted": "accept", "dismissed": "dismiss"}.get(dialog[2], dialog[3])
                answers.setdefault(dialog[1], deque()).append(said)

    def answer(kind: str, message: str) -> str:
        left = answers.get(kind)
        return left.popleft() if left else "accept"

    return answer


def _difference(meta: dict[str, Any], outcome: str, reward: float, last: Observation) -> str:
    then, totals = meta["final"] or {}, meta["totals"]
    if totals.get("judged", meta["outcome"] not in ("stopped", "running")):
        was = (meta["outcome"], totals.get("reward", 0.0))
        return (
            "" if (outcome, reward) == was else f"The replay ended {outcome} ({reward:g}), not {was[0]} ({was[1]:g})."
        )
    if then.get("url") != last["url"]:
        return f"The replay ended at {last['url']}, not at {then.get('url')}."
    same = without_focus(then.get("dom", ""), ids=False) == without_focus(last["dom"], ids=False)
    return "" if same else "The last page differs from the recorded page."
