"""Combination of the contexts into one text about a step, at the end of the teacher's prompt and never truncated."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from selfsurf.agents.play.job import Result
from selfsurf.envs_registry import task_of
from selfsurf.envs_registry.loading import short_name
from selfsurf.sdft.rows.jobs import trained_tasks
from selfsurf.sdft.teacher.context import PrivilegedContext, TeacherContext
from selfsurf.sdft.teacher.demonstrations import DemonstrationContext, HindsightContext
from selfsurf.sdft.teacher.enrich import Enricher
from selfsurf.sdft.teacher.feedback import FeedbackContext
from selfsurf.sdft.teacher.oracle import OracleContext, RecordedActionContext
from selfsurf.sdft.teacher.recording import load_recordings

if TYPE_CHECKING:
    from selfsurf.sdft.settings import TrainSettings

log = logging.getLogger(__name__)


class LessonContext:
    """The teacher's context for the steps of episodes.

    Every context contributes its text, but only the first context with an action presents it, because a teacher with
    two different actions follows neither. The action comes last, where a model attends to it most.

    Args:
        contexts: contexts in order of precedence.
        enricher: source of explanations; None for none.
    """

    def __init__(self, contexts: Sequence[TeacherContext], enricher: Enricher | None = None) -> None:
        self.contexts = tuple(contexts)
        self._enricher = enricher
        self._counts: Counter[str] = Counter()

    @property
    def come_later(self) -> bool:
        """Whether the contexts may be empty at first and get information later in the run."""
        return any(context.comes_later for context in self.contexts)

    def of(self, results: Sequence[Result], batch: int = 0) -> list[list[PrivilegedContext | None]]:
        """Return the teacher's context of every step of every episode; None for a step without any.

        Args:
            results: episodes of a batch.
            batch: number of the batch, from 0.
        """
        for context in self.contexts:
            context.learn(results, batch)
        lessons = [[self._told(result, index) for index in range(len(result.steps))] for result in results]
        if self._enricher is not None:
            lessons = self._enricher.enrich(results, lessons)
        return [[_joined(said) for said in steps] for steps in lessons]

    def take_counts(self) -> dict[str, int]:
        """Return each context's number of steps since the last call, and the counts of the enricher."""
        counts = {f"told/{context.name}": self._counts[context.name] for context in self.contexts}
        self._counts.clear()
        return counts if self._enricher is None else {**counts, **self._enricher.take_counts()}

    def _told(self, result: Result, index: int) -> dict[str, PrivilegedContext]:
        """Return a step's information by context, with at most one action, placed last; empty for an unsampled step."""
        if not result.steps[index].decision.completion.token_ids:
            return {}
        said: dict[str, PrivilegedContext] = {}
        named: dict[str, PrivilegedContext] = {}
        for context in self.contexts:
            told = context.tell(result, index)
            if told is None or (told.action is not None and named):
                continue
            (said if told.action is None else named)[context.name] = told
        self._counts.update([*said, *named])
        return {**said, **named}


def _joined(said: dict[str, PrivilegedContext]) -> PrivilegedContext | None:
    if not said:
        return None
    parts = list(said.values())
    return PrivilegedContext("\n".join(part.text for part in parts), parts[-1].action)


def make_lessons(settings: TrainSettings, folder: Path | None = None, batch: int = 0) -> LessonContext:
    """Make the contexts and the enricher of a run.

    Args:
        settings: settings of the run.
        folder: folder of files that have to outlive the process.
        batch: number of the first batch to learn from; more than 0 in a resumed run.

    Raises:
        ValueError: no context can ever have information about one of the tasks, a named episode doesn't exist, or the
            enriching model is unusable.
    """
    contexts = make_contexts(settings, folder, batch)
    return LessonContext(contexts, Enricher(settings.enrich, folder) if settings.enrich else None)


def make_contexts(settings: TrainSettings, folder: Path | None = None, batch: int = 0) -> list[TeacherContext]:
    """Make the contexts of a run; arguments and errors as for `make_lessons`."""
    kinds = settings.actions
    makers = {
        "oracle": lambda: OracleContext(kinds),
        "demonstration": lambda: (
            RecordedActionContext(kinds)
            if settings.offline
            else DemonstrationContext(load_recordings(settings.demonstrations), kinds)
        ),
        "hindsight": lambda: HindsightContext(
            load_recordings(settings.hindsight_episodes), kinds,
            path=folder / "hindsight.jsonl" if folder else None, batch=batch,
        ),
        "feedback": FeedbackContext,
    }  # fmt: skip
    named = ("demonstration",) if settings.offline else settings.contexts
    contexts: list[TeacherContext] = [makers[name]() for name in named]
    for context in contexts:
        context.wording, context.labels = settings.teacher_wording, settings.labels
    for task in () if settings.offline else trained_tasks(settings):
        task_of(task)
        if not any(context.can_speak(task) for context in contexts):
            told = [name for name in settings.contexts if name != "oracle"]
            more = json.dumps([*told, "oracle"] if task_of(task).has_oracle else [*settings.contexts, "hindsight"])
            if not task_of(task).judges and "hindsight" in settings.contexts:
                raise ValueError(
                    f"No context teaches {short_name(task)}: without a score, the agent's episodes can't be judged. "
                    "Give the task a `score` or an `oracle`, or record an episode of it for --demonstrations."
                )
            raise ValueError(
                f"No context teaches {task}: " + ", ".join(f"there is no {context.name} for it" for context in contexts)
                + f". Record an episode of it for --demonstrations, or name more contexts: --set contexts='{more}'."
            )  # fmt: skip
        if not any(context.can_speak(task) for context in contexts if not context.comes_later):
            lacks = (
                "no recording, and the contexts leave out its oracle"
                if task_of(task).has_oracle
                else "neither an oracle nor a recording"
            )
            log.info(
                "%s has %s: from its first success on, the agent learns the task from its own episodes.",
                short_name(task),
                lacks,
            )
    return contexts
