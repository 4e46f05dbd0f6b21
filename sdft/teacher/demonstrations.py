"""The contexts `demonstration` and `hindsight`: what was done where an episode for the same goal was at this page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

from selfsurf.agents.play.job import Result
from selfsurf.browser_env.actions import parse_action
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.envs_registry import is_open, task_of
from selfsurf.sdft.run.checkpoint_files import intact_lines
from selfsurf.sdft.teacher.context import Context, Told, given
from selfsurf.sdft.teacher.recording import Recording, Shown, advise, goal_of, recording_of_result

KEPT = 3
"""Of the agent's own episodes for a goal, how many are kept: the shortest."""


class Demonstrations(Context):
    """Episodes in which a person, or whoever it was, has shown how a goal is reached.

    An episode is for a task if environment and goal are the same; its seed may be another. Of several, the one whose
    page is most like the student's tells its action. Nothing is told where no page is like it, or where the student
    could not have given that action: its kind was not offered, or its element was not shown.

    Args:
        recordings: the episodes.
        kinds: the kinds of actions that the student is offered.
    """

    name: ClassVar[str] = "demonstration"

    def __init__(self, recordings: Iterable[Recording], kinds: Sequence[str]) -> None:
        self._kinds = frozenset(kinds)
        self._recordings: dict[tuple[str, str], list[Recording]] = {}
        for recording in recordings:
            self.add(recording)

    def add(self, recording: Recording) -> None:
        """Add an episode that reached its goal."""
        self._recordings.setdefault((_environment(recording.env_id), recording.goal), []).append(recording)

    def can_speak(self, env_id: str) -> bool:
        """Is there an episode of the task?"""
        goal = task_of(env_id).goal if is_open(env_id) else None
        goals = {known for environment, known in self._recordings if environment == _environment(env_id)}
        return bool(goals) if goal is None else goal in goals

    def tell(self, result: Result, index: int) -> Told | None:
        """Tell the action of the step that corresponds to this one."""
        recordings = self._of(result.job.env_id, goal_of(result))
        advices = [advise(recording, result.steps[: index + 1]) for recording in recordings]
        best, _ = max((advice for advice in advices if advice), key=lambda advice: advice[1], default=(None, 0.0))
        step = result.steps[index]
        action = None if best is None else given(best, self._kinds, step)
        return None if action is None else self.told(action, step)

    def _of(self, env_id: str, goal: str) -> list[Recording]:
        """The episodes for a goal in an environment."""
        return self._recordings.get((_environment(env_id), goal), [])


class Hindsight(Demonstrations):
    """The agent's own episodes that reached the same goal, those of the batch that is learned from included.

    Args:
        recordings: such episodes from elsewhere.
        kinds: the kinds of actions that the student is offered.
        path: a JSON Lines file in which this run's are kept, so that a resumed run knows what the unbroken one would.
        batch: what the file has of batches from this number on is forgotten: they will be run again.
    """

    name: ClassVar[str] = "hindsight"
    comes_later: ClassVar[bool] = True

    def __init__(
        self, recordings: Iterable[Recording], kinds: Sequence[str], *, path: Path | None = None, batch: int = 0
    ) -> None:
        super().__init__((), kinds)
        self._path = path
        for recording in recordings:
            self._keep(recording)
        if path is None or not path.exists():
            return
        known = list(takewhile(lambda line: line["batch"] < batch, intact_lines(path)))
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in known))
        for line in known:
            self._keep(_read(line))

    def can_speak(self, env_id: str) -> bool:
        """May the agent reach the goal by itself, and the task notice? Or is there an episode that did?"""
        return task_of(env_id).judges or super().can_speak(env_id)

    def learn(self, results: Sequence[Result], batch: int) -> None:
        """Keep the episodes that reached their goal."""
        for result in results:
            recording = recording_of_result(result) if result.solved and not result.led else None
            if recording is not None and recording.steps and self._keep(recording) and self._path is not None:
                with self._path.open("a", encoding="utf8") as file:
                    file.write(_written(recording, batch) + "\n")

    def _keep(self, recording: Recording) -> bool:
        """Add it unless there are enough that are no longer; is it among those that are kept?"""
        self.add(recording)
        known = self._of(recording.env_id, recording.goal)
        known.sort(key=lambda one: len(one.steps))
        del known[KEPT:]
        return recording in known


def _environment(env_id: str) -> str:
    """The id without the start page and goal of an open-ended task: its goal counts by itself, its address not."""
    return env_id.partition("?")[0]


def _written(recording: Recording, batch: int) -> str:
    steps = [{"observation": shown.observation, "action": shown.action.to_dict()} for shown in recording.steps]
    about = {"batch": batch, "env_id": recording.env_id, "goal": recording.goal, "seed": recording.seed}
    return json.dumps({**about, "steps": steps})


def _read(data: dict[str, Any]) -> Recording:
    steps = tuple(Shown(step["observation"], parse_action(step["action"])) for step in data["steps"])
    return Recording(data["env_id"], data["goal"], data["seed"], steps)
