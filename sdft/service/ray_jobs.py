"""A job on a node of a Ray cluster: the server's trainer process sends its inputs and retrieves its results.

On the node the job runs in a service folder of its own, with the normal trainer. The run is copied back after each
checkpoint, so that a job whose node is lost resumes on another. Only the server's database counts.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfsurf.extras import how_to_install
from selfsurf.sdft.run.checkpoint_files import UNFINISHED, discard, last_step
from selfsurf.sdft.service.adapters import archive_of, keep, weights_of
from selfsurf.sdft.service.archive import ADAPTER_NAME, LARGEST_ADAPTER, unpack
from selfsurf.sdft.service.schemas import FINISHED, Adapter, Event, Job, TrainRequest
from selfsurf.sdft.service.service_folder import ServiceFolder, ServiceSettings
from selfsurf.sdft.service.store import Store

TURN = 0.5
"""Seconds between two polls of a node."""
ENDING = 60.0
"""Seconds for a node to write its last checkpoint."""
COPIED = ("step", "steps", "figures")
"""Columns of a job that are copied from a node."""


class NodeLost(RuntimeError):
    """The node or its Ray connection is lost. The job resumes elsewhere."""


@dataclass
class NodeUpdate:
    """Changes on a node since the last poll."""

    job: Job
    events: list[Event]
    run: bytes | None
    """Packed folder of the run after a new checkpoint; None without one."""
    adapter: tuple[Adapter, bytes] | None
    """Finished adapter and its archive; None before the job has succeeded."""
    ended: bool
    """Whether the trainer's process has ended."""


class TrainingNode:
    """Ray actor that runs a training on its node.

    Args:
        files: packed service folders that the job needs.
        settings: settings of the service as JSON.
        request: training request as JSON.
        model: name of the base model.
    """

    def __init__(self, files: bytes, settings: str, request: str, model: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="selfsurf-training-")
        place = self._place = ServiceFolder(Path(self._folder.name))
        place.settle(ServiceSettings.model_validate_json(settings).model_copy(update={"ray": None}))
        self._store = Store(place.database)
        self._job = self._store.add_job(TrainRequest.model_validate_json(request), model).id
        _unpack(files, place.root)
        self._run = place.root / "jobs" / self._job / "run"
        if (place.root / "run").exists():
            self._run.parent.mkdir()
            (place.root / "run").rename(self._run)
        self._sent = last_step(self._run)
        command = [
            sys.executable,
            "-m",
            "selfsurf.sdft.service.trainer",
            self._folder.name,
            self._job,
            str(os.getpid()),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def news(self, after: int) -> NodeUpdate:
        """Return the changes since the last call, with the events that follow a number."""
        ended = self._process.poll() is not None
        job, events = self._store.job(self._job), self._store.events(self._job, after)
        step, run, made = last_step(self._run), None, None
        if step is not None and step != self._sent:
            run, self._sent = _packed({"run": self._run}), step
        if job.status == "succeeded":
            made = self._store.adapter(job.adapter), archive_of(self._place, job.adapter, "peft").read_bytes()
        return NodeUpdate(job, events, run, made, ended)

    def stop(self, after: int) -> NodeUpdate:
        """Stop the trainer, which writes a checkpoint; return the changes."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self.news(after)


def work_elsewhere(place: ServiceFolder, store: Store, job: Job) -> None:
    """Run a job on a node, from the beginning or its last checkpoint, and store the adapter.

    Raises:
        NodeLost: the job has to be started again.
        KeyboardInterrupt: the job was cancelled, or the server ends; progress is kept.
    """
    try:
        import ray
    except ImportError:
        raise ValueError(f"Training on a cluster needs Ray: {how_to_install('ray')}.") from None
    allowed = place.settings()
    own = {"run": place.root / "jobs" / job.id / "run"}
    _mend(own["run"])
    needed = {f"episodes/{one}": place.root / "episodes" / one for one in job.request.episodes}
    if start := job.request.start_from:
        needed[f"adapters/{start}/peft"] = weights_of(place, start)
    files = _packed({name: folder for name, folder in {**needed, **own}.items() if folder.is_dir()})
    try:
        ray.init(address=allowed.ray, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
        node = ray.remote(num_cpus=1, num_gpus=allowed.ray_gpus, max_restarts=0)(TrainingNode).remote(
            files, allowed.model_dump_json(), job.request.model_dump_json(), job.model
        )
        store.add_event(job.id, "log", {"level": "INFO", "text": "The job is waiting for a node of the cluster."})
        _follow(place, store, job, node)
    except (ray.exceptions.RayError, ConnectionError) as error:
        store.add_event(job.id, "log", {"level": "WARNING", "text": "The node was lost: the job continues on another."})
        raise NodeLost(str(error)) from error
    finally:
        ray.shutdown()


def _follow(place: ServiceFolder, store: Store, job: Job, node: Any) -> None:
    """Copy a node's changes to the database until the job ends."""
    import ray

    after = 0
    try:
        while True:
            after, news = _take(place, store, job, ray.get(node.news.remote(after)), after)
            if news.job.status in FINISHED:
                break
            if news.ended:
                raise NodeLost("The trainer on the node ended.")
            time.sleep(TURN)
    except KeyboardInterrupt:
        _take(place, store, job, ray.get(node.stop.remote(after), timeout=2 * ENDING), after)
        raise
    if news.adapter is None:
        problem = news.job.error
        error = None if problem is None else problem.model_dump_json()
        store.change_job(job.id, status=news.job.status, ended=time.time(), error=error)
        return
    adapter, archive = news.adapter
    source = place.root / "jobs" / job.id / "adapter"
    discard(source)
    unpack(io.BytesIO(archive), source, ADAPTER_NAME, most=LARGEST_ADAPTER, largest=LARGEST_ADAPTER)
    base = (job.model, place.settings().models[job.model])
    keep(place, store, source, job.adapter, model=base, job=job.id, probe=adapter.probe)
    discard(source)
    store.change_job(job.id, status="succeeded", ended=time.time(), step=news.job.step, error=None)


def _take(place: ServiceFolder, store: Store, job: Job, news: NodeUpdate, after: int) -> tuple[int, NodeUpdate]:
    """Copy a node's changes to the database; return the number of the last event with them."""
    if news.run is not None:
        run = place.root / "jobs" / job.id / "run"
        made = run.with_name(f"run.{UNFINISHED}")
        discard(made)
        _unpack(news.run, made)
        _replace(run, made / "run")
        discard(made)
    with store.transaction():
        columns: Mapping[str, Any] = {name: getattr(news.job, name) for name in COPIED}
        if news.job.step or news.job.steps:
            store.change_job(job.id, **{**columns, "figures": json.dumps(columns["figures"])})
        for event in news.events:
            after = event.number
            if event.type != "status":
                store.add_event(job.id, event.type, event.data)
    return after, news


def _replace(run: Path, made: Path) -> None:
    """Replace a run's folder. A kill at any point leaves one complete folder (`_mend`)."""
    if run.exists():
        shutil.rmtree(_old(run), ignore_errors=True)
        run.rename(_old(run))
    made.rename(run)
    shutil.rmtree(_old(run), ignore_errors=True)


def _mend(run: Path) -> None:
    """Restore a run whose replacement was interrupted by a kill."""
    if not run.exists() and _old(run).exists():
        _old(run).rename(run)


def _old(run: Path) -> Path:
    return run.with_name(f"{run.name}.old")


def _packed(folders: Mapping[str, Path]) -> bytes:
    """Pack folders under the given names; start over if a file disappears meanwhile."""
    while True:
        made = io.BytesIO()
        try:
            with tarfile.open(fileobj=made, mode="w") as tar:
                for name, folder in folders.items():
                    tar.add(folder, name)
        except FileNotFoundError:
            continue
        return made.getvalue()


def _unpack(files: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(files)) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # missing before Python 3.11.4
        tar.extractall(folder)
