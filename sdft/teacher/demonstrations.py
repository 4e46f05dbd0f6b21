"""The contexts `demonstration` and `hindsight`: actions of successful episodes for the same goal on the same page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

from selfsurf.agents.play.job import Result
from selfsurf.browser_env.actions import parse_action
from selfsurf.browser_env.disk import intact_lines
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.envs_registry import is_open, task_of
from selfsurf.sdft.teacher.context import PrivilegedContext, TeacherContext, given
from selfsurf.sdft.teacher.recording import RecordedStep, Recording, advise, goal_of, recording_of_result

KEPT = 3
"""Number of the agent's own episodes kept for a goal; the shortest are kept."""


class DemonstrationContext(TeacherContext):
    """Recorded episodes, by any player, that demonstrate how a goal is reached.

    An episode fits a task if environment and goal are the same; the seed may differ. Of several episodes, the one whose
    page is most similar to the student's provides the action. No action is provided if no page is similar enough, or if
    the student couldn't have given the action: its kind was not offered, or its element was not visible.

    Args:
        recordings: the episodes.
        kinds: kinds of actions that the student is offered.
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
        """Whether an episode of the task was recorded."""
        goal = task_of(env_id).goal if is_open(env_id) else None
        goals = {known for environment, known in self._recordings if environment == _environment(env_id)}
        return bool(goals) if goal is None else goal in goals

    def tell(self, result: Result, index: int) -> PrivilegedContext | None:
        """Return the action of the recorded step that corresponds to the student's step."""
        recordings = self._of(result.job.env_id, goal_of(result))
        advices = [advise(recording, result.steps[: index + 1]) for recording in recordings]
        best, _ = max((advice for advice in advices if advice), key=lambda advice: advice[1], default=(None, 0.0))
        step = result.steps[index]
        action = None if best is None else given(best, self._kinds, step)
        return None if action is None else self.told(action, step)

    def _of(self, env_id: str, goal: str) -> list[Recording]:
        """Return the episodes for a goal in an environment."""
        return self._recordings.get((_environment(env_id), goal), [])


class HindsightContext(DemonstrationContext):
    """The agent's own successful episodes for a goal, including those of the current batch.

    Args:
        recordings: successful episodes of the agent from earlier runs.
        kinds: kinds of actions that the student is offered.
        path: JSON Lines file of this run's episodes, which gives a resumed run the state of an uninterrupted one.
        batch: number of the first batch that will be run again; its episodes and later ones are removed from the file.
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
        """Whether the task can recognize the agent's own success, or a successful episode exists already."""
        return task_of(env_id).judges or super().can_speak(env_id)

    def learn(self, results: Sequence[Result], batch: int) -> None:
        """Keep the successful episodes of a batch."""
        for result in results:
            recording = recording_of_result(result) if result.solved and not result.led else None
            if recording is not None and recording.steps and self._keep(recording) and self._path is not None:
                with self._path.open("a", encoding="utf8") as file:
                    file.write(_written(recording, batch) + "\n")

    def _keep(self, recording: Recording) -> bool:
        """Add an episode, keep the `KEPT` shortest of its goal, and return whether the new one is among them."""
        self.add(recording)
        known = self._of(recording.env_id, recording.goal)
        known.sort(key=lambda one: len(one.steps))
        del known[KEPT:]
        return recording in known


def _environment(env_id: str) -> str:
    """Return the id without an open-ended task's start page (which may differ) and goal (compared separately)."""
    return env_id.partition("?")[0]


def _written(recording: Recording, batch: int) -> str:
    steps = [{"observation": shown.observation, "action": shown.action.to_dict()} for shown in recording.steps]
    about = {"batch": batch, "env_id": recording.env_id, "goal": recording.goal, "seed": recording.seed}
    return json.dumps({**about, "steps": steps})


def _read(data: dict[str, Any]) -> Recording:
    steps = tuple(RecordedStep(step["observation"], parse_action(step["action"])) for step in data["steps"])
    return Recording(data["env_id"], data["goal"], data["seed"], steps)
