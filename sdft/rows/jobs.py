"""Which episodes a run trains on."""

from __future__ import annotations

from selfsurf.sdft.rollouts import Job
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.recording import load_recordings


def training_jobs(settings: TrainSettings) -> list[Job]:
    """Return the episodes of a run in order: every batch goes through the tasks, or the demonstrations, in turn."""
    count = settings.steps * settings.episodes_per_step
    tasks = settings.tasks
    if not tasks:
        shown = [Job(recording.env_id, recording.seed) for recording in load_recordings(settings.demonstrations)]
        return [shown[i % len(shown)] for i in range(count)]
    return [Job(tasks[i % len(tasks)], settings.first_episode_seed + i // len(tasks)) for i in range(count)]


def trained_tasks(settings: TrainSettings) -> list[str]:
    """Return the tasks that a run trains on: its own, or those of its demonstrations."""
    return list(dict.fromkeys(settings.tasks or (job.env_id for job in training_jobs(settings))))
