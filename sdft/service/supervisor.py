"""Supervision of queued jobs: starts a limited number of trainers, and restarts jobs whose trainer died."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import psutil

from selfsurf.sdft.service import ray_jobs
from selfsurf.sdft.service.schemas import Job, Problem
from selfsurf.sdft.service.service_folder import ServiceFolder
from selfsurf.sdft.service.store import Store
from selfsurf.sdft.service.trainer import IN_USE, LOST

TURN = 0.3
"""Seconds between two checks."""
SILENT = 120.0
"""Seconds without a heartbeat after which a trainer is killed."""
ENDING = 30.0
"""Seconds for trainers to write their last checkpoints when the server ends."""
ENDING_ELSEWHERE = 2 * ray_jobs.ENDING + 30
"""Seconds for trainers on cluster nodes when the server ends: their checkpoints must be written and retrieved."""
TRIES = 10
"""Number of starts without progress after which a job has failed."""
_KEPT_BACK = ("SELFSURF_SERVER_TOKEN",)
"""Environment variables that trainers don't inherit."""

_log = logging.getLogger(__name__)


class Supervisor:
    """Supervisor of the trainers, including those left behind by a killed server.

    Args:
        place: the service's folder.
        store: the service's database.
    """

    def __init__(self, place: ServiceFolder, store: Store) -> None:
        self._place, self._store = place, store
        allowed = place.settings()
        self._most = allowed.trainings
        self._ending = ENDING if allowed.ray is None else ENDING_ELSEWHERE
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._tries: dict[str, tuple[int, int]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def begin(self) -> None:
        """Start supervision in a thread."""
        self._thread.start()

    def end(self) -> None:
        """Stop supervision. Trainers write a checkpoint and end; their jobs stay queued for the next server."""
        self._over.set()
        self._thread.join()
        running = {pid for job, pid, _ in self._store.unfinished() if pid and self._is_trainer(pid, job.id)}
        starting = {child.pid for child in self._children.values() if child.poll() is None}
        trainers = []
        for pid in running | starting:
            with contextlib.suppress(psutil.NoSuchProcess):
                trainers.append(psutil.Process(pid))
                trainers[-1].terminate()
        for one in psutil.wait_procs(trainers, self._ending)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()  # the job resumes from its last checkpoint

    def _watch(self) -> None:
        while not self._over.wait(TURN):
            try:
                self._turn()
            except Exception:  # the next turn may succeed, for example once the disk has space
                _log.exception("A turn of the supervisor failed.")
                self._over.wait(5)

    def _turn(self) -> None:
        for id, child in [*self._children.items()]:
            if child.poll() is not None:
                if child.returncode not in (0, IN_USE, LOST):
                    _log.warning("A trainer ended with exit code %d.", child.returncode)
                    if (job := self._store.job(id)).status == "queued":  # died before its start
                        self._take_back(job)
                del self._children[id]
        self._end_silent()
        for job, pid, _ in self._store.unfinished():
            if job.status == "running" and not (pid and self._is_trainer(pid, job.id)):
                self._take_back(job)
        free = self._most - max(len(self._children), self._place.at_work(self._most))
        waiting = [job for job, _, _ in self._store.unfinished() if job.status == "queued"]
        for job in [one for one in waiting if one.id not in self._children][: max(0, free)]:
            if not self._over.is_set():
                self._start(job)

    def _end_silent(self) -> None:
        """Kill trainers that hang or ignore their cancellation."""
        for job, pid, beat in self._store.unfinished():
            if job.status == "running" and pid and time.time() - beat > SILENT and self._is_trainer(pid, job.id):
                _log.warning("The trainer of %s sent no heartbeat for %d s and was killed.", job.id, SILENT)
                os.kill(pid, signal.SIGKILL)

    def _is_trainer(self, pid: int, job: str) -> bool:
        try:
            return job in psutil.Process(pid).cmdline()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def _take_back(self, job: Job) -> None:
        """Queue a job whose trainer died; after repeated deaths without progress, mark the job as failed."""
        count, step = self._tries.get(job.id, (0, -1))
        count = count + 1 if step == job.step else 1
        self._tries[job.id] = count, job.step
        if job.cancelling:
            self._store.change_job(job.id, status="cancelled", ended=time.time(), cancelling=0)
        elif count >= TRIES:
            told = f"The trainer died {count} times in a row"
            told += " before it began: see the job's trainer.log for the cause." if job.status == "queued" else "."
            why = Problem(type="trainer_died", message=told, retryable=True)
            self._store.change_job(job.id, status="failed", ended=time.time(), error=why.model_dump_json())
            del self._tries[job.id]  # a resumed job gets new attempts
        elif job.status == "running":
            self._store.change_job(job.id, status="queued")

    def _start(self, job: Job) -> None:
        folder = self._place.root / "jobs" / job.id
        folder.mkdir(mode=0o700, exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name not in _KEPT_BACK}
        command = [sys.executable, "-m", "selfsurf.sdft.service.trainer", str(self._place.root.resolve()), job.id]
        with (folder / "trainer.log").open("ab") as log:
            self._children[job.id] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment
            )
