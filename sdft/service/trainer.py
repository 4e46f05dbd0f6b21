"""Trainer process of one job: python -m selfsurf.sdft.service.trainer FOLDER JOB [PARENT].

The process locks its job while it lives, so a job never has a second trainer, whoever starts it. No server is required:
the state is in the database, where a restarted server finds it. SIGTERM leaves a checkpoint, and the job queued or
cancelled. If PARENT, a process id, is given, the trainer ends with that process.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfsurf.browser_env.record.lock import FolderInUse, FolderLock
from selfsurf.browser_env.text import one_line
from selfsurf.sdft.service.adapters import keep, weights_of
from selfsurf.sdft.service.ray_jobs import NodeLost, work_elsewhere
from selfsurf.sdft.service.schemas import Job, Problem
from selfsurf.sdft.service.service_folder import NoRoom, ServiceFolder, ServiceSettings
from selfsurf.sdft.service.store import Store

HEARTBEAT = 2.0
"""Seconds between two heartbeats."""
IN_USE = 3
"""Exit code of a trainer that found its job or all places locked."""
LOST = 4
"""Exit code of a trainer whose node was lost; its job has to be started again."""
FIGURES = ("loss", "learning_rate", "grad_norm", "steps/right", "rows", "rows/recorded", "recorded/loss",
           "recorded/distilled", "step0_divergence", "evaluation/success", "evaluation/agreement",
           "evaluation/held_out", "evaluation/perplexity", "evaluation/drift", "best_step", "rollbacks")  # fmt: skip
"""Metrics that clients may see; none contains a name or a text of a page."""


MESSAGE = 2000
"""Maximum length of a forwarded message, in characters."""


class _Log(logging.Handler):
    """Logging handler that forwards the training's messages, which contain no page text, as events."""

    def __init__(self, store: Store, job: str) -> None:
        super().__init__(logging.INFO)
        self._store, self._job = store, job

    def emit(self, record: logging.LogRecord) -> None:
        self._store.add_event(
            self._job, "log", {"level": record.levelname, "text": one_line(record.getMessage(), MESSAGE)}
        )


def settings_of(job: Job, allowed: ServiceSettings) -> dict[str, Any]:
    """Return the settings of a job's run. Folders are relative to the service's folder.

    Raises:
        ValueError: there is nothing to learn from the episodes, or the server doesn't allow the request.
    """
    from selfsurf.browser_env.environment.env_options import EnvironmentSettings
    from selfsurf.sdft.rows.jobs import learned_from, learned_offline

    request = job.request
    folders = [f"episodes/{one}" for one in request.episodes]
    given = request.settings.model_dump(exclude_none=True, exclude={"hindsight"})
    if "ema_alpha" in given:
        given["teacher_rate"] = given.pop("ema_alpha")
    if request.live:
        shown = {**learned_from(folders), "live": True, "environment": EnvironmentSettings(allowed=allowed.domains)}
    else:
        shown = learned_offline(folders, hindsight=request.settings.hindsight)
    more: dict[str, Any] = {"model": allowed.models[job.model]}
    if request.settings.hindsight:
        more["contexts"] = ("demonstration", "hindsight")
    if request.enrich:
        if allowed.enrich is None:
            raise ValueError("This server has no model to explain demonstrations (enrich).")
        more["enrich"] = allowed.enrich
    if request.start_from:
        more["start_from"] = Path("adapters") / request.start_from / "peft"
    return {**shown, **given, **more}


def work(place: ServiceFolder, store: Store, job: Job) -> None:
    """Train from the beginning or the last checkpoint, and store the adapter."""
    allowed = place.settings()
    place.check_room(0, allowed.quota)  # space may have run out since the job was queued
    from selfsurf.sdft import TrainSettings, train
    from selfsurf.sdft.run.model import load_policy
    from selfsurf.sdft.service import probe
    from selfsurf.sdft.teacher.weights import STUDENT, activate

    if job.request.start_from and not weights_of(place, job.request.start_from).is_dir():
        raise ValueError("The adapter to start from no longer exists.")
    settings = TrainSettings(**settings_of(job, allowed))
    store.change_job(job.id, steps=settings.steps)

    def told(step: int, logs: Mapping[str, float]) -> None:
        figures = {name: logs[name] for name in FIGURES if isinstance(logs.get(name), (int, float))}
        figures = {name: value for name, value in figures.items() if value == value and abs(value) < 1e300}
        with store.transaction():
            store.change_job(job.id, step=step, figures=json.dumps(figures))
            store.add_event(job.id, "progress", {"step": step, "steps": settings.steps, **figures})

    policy = load_policy(settings)
    summary = train(settings, Path("jobs") / job.id / "run", policy=policy, resume=True, progress=told)
    model = summary["model"]
    activate(model, STUDENT)
    found = None if settings.vision != "none" and policy.sees_images else probe.record(model, policy.tokenizer)
    source = allowed.models[job.model]
    keep(place, store, Path(summary["adapter"]), job.adapter, model=(job.model, source), job=job.id, probe=found)
    store.change_job(job.id, status="succeeded", ended=time.time(), step=summary["steps"], error=None)


def take_gpu(turn: str, listed: Path = Path("/proc/driver/nvidia/gpus")) -> None:
    """Limit this process to one of several GPUs, spread over concurrent trainers. Call it before importing torch.

    Args:
        turn: name of the locked place (`ServiceFolder.take_turn`).
        listed: folder in which the driver has an entry for each GPU.
    """
    there = os.environ.get("CUDA_VISIBLE_DEVICES")
    if there is None:
        devices = [str(number) for number in range(len(list(listed.iterdir())) if listed.is_dir() else 0)]
    else:
        devices = there.split(",")
    if len(devices) > 1:
        number = int(turn.removeprefix("trainer").lstrip("-") or 1)
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[(number - 1) % len(devices)]


def main(root: Path, id: str, parent: int | None = None) -> int:
    """Run a job; return the exit code."""
    os.chdir(root)
    place = ServiceFolder(Path())
    allowed = place.settings()
    try:
        locks = FolderLock(place.root / "jobs" / id), place.take_turn(allowed.trainings)
    except FolderInUse:
        return IN_USE
    if allowed.trainings > 1 and allowed.ray is None:
        take_gpu(locks[1].folder.name)
    store = Store(place.database)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with store.transaction():  # the job may have been cancelled meanwhile
        job = store.job(id)
        if job.status not in ("queued", "running"):
            return 0
        store.change_job(
            id, status="running", started=job.started or time.time(), attempts=job.attempts + 1, pid=os.getpid(),
            heartbeat=time.time(), error=None,
        )  # fmt: skip
    over = threading.Event()
    threading.Thread(target=_beat, args=(place, id, over, parent), daemon=True).start()
    logging.getLogger("selfsurf.sdft").setLevel(logging.INFO)
    logging.getLogger("selfsurf.sdft").addHandler(_Log(store, id))
    try:
        (work if allowed.ray is None else work_elsewhere)(place, store, job)
    except NodeLost:
        return LOST
    except KeyboardInterrupt:
        over.set()
        if store.beat(id):
            store.change_job(id, status="cancelled", ended=time.time(), cancelling=0)
        else:
            store.change_job(id, status="queued")
    except Exception as error:
        logging.getLogger(__name__).exception("The job failed.")
        store.change_job(id, status="failed", ended=time.time(), error=_problem(error).model_dump_json())
        return 1
    finally:
        over.set()
    for lock in locks:
        lock.release()
    return 0


def _problem(error: Exception) -> Problem:
    """Describe why a job failed: with the full message of known errors, else only with the error's class."""
    from selfsurf.agents.model_files import ModelError

    full = isinstance(error, NoRoom) or (isinstance(error, OSError) and "room left" in str(error))
    known = isinstance(error, (ValueError, ModelError)) or full
    said = str(error.strerror) if isinstance(error, NoRoom) else str(error)
    message = (
        one_line(said, MESSAGE)
        if known
        else f"The training failed with a {type(error).__name__}: see the server's log."
    )
    return Problem(type="no_room" if full else "training_failed", message=message, retryable=not known or full)


def _beat(place: ServiceFolder, id: str, over: threading.Event, parent: int | None) -> None:
    """Write heartbeats; end the process with a checkpoint once its job is cancelled or its parent is gone."""
    store = Store(place.database)
    while not over.wait(HEARTBEAT):
        try:
            ends = store.beat(id)
        except sqlite3.Error:  # perhaps a full disk; the next heartbeat may succeed
            logging.getLogger(__name__).exception("A heartbeat could not be written.")
            ends = False
        if ends or parent not in (None, os.getppid()):
            os.kill(os.getpid(), signal.SIGTERM)
            return


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])))
