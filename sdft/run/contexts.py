"""The teacher's contexts of a run, made from its settings."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from selfsurf.envs_registry import task_of
from selfsurf.envs_registry.loading import short_name
from selfsurf.sdft.rows.jobs import trained_tasks
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.context import TeacherContext
from selfsurf.sdft.teacher.demonstrations import DemonstrationContext, HindsightContext
from selfsurf.sdft.teacher.enrich import Enricher
from selfsurf.sdft.teacher.feedback import FeedbackContext
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import OracleContext, RecordedActionContext
from selfsurf.sdft.teacher.recording import load_recordings

log = logging.getLogger(__name__)


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
