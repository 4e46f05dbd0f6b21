"""Worker processes of a run, as actors of a Ray cluster."""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.suite.pool import GONE
from selfsurf.scripts.suite.worker import Message, Worker

_POLL = 1.0
"""Seconds that an actor waits for something to say before it says that there is nothing."""


class RayPool:
    """Workers as actors: on the cluster of `RAY_ADDRESS`, or on one that is started here.

    What a worker writes comes back with its records, so the machines need no common disk. A user's own tasks and
    agents must be importable on all of them. Each takes a processor of the cluster, or less where it has fewer.

    Args:
        plan: the run.
    """

    def __init__(self, plan: Plan) -> None:
        import ray

        self._ray = ray
        if not ray.is_initialized():
            ray.init(address=os.environ.get("RAY_ADDRESS"), include_dashboard=False, logging_level="ERROR")
        share = min(1.0, ray.cluster_resources().get("CPU", 1.0) / plan.processes)
        self._actor = ray.remote(num_cpus=share, max_concurrency=3)(_Remote)
        self._plan = plan
        self._workers: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}

    def start(self, number: int) -> None:
        """As `LocalPool.start`."""
        self._workers[number] = self._actor.remote(self._plan)
        self._ask(number)

    def send(self, number: int, message: Message) -> None:
        """As `LocalPool.send`."""
        if number in self._workers:
            self._workers[number].tell.remote(message)

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """As `LocalPool.receive`."""
        said: list[tuple[int, Message]] = []
        ready, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=timeout)
        for reference in ready:
            number = self._asked.pop(reference)
            try:
                messages = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                self._workers.pop(number)
                said.append((number, (GONE, f"a worker was lost: {str(error).splitlines()[0]}")))
                continue
            self._ask(number)
            said += [(number, self._unpacked(message)) for message in messages]
        return said

    def kill(self, number: int) -> None:
        """As `LocalPool.kill`."""
        worker = self._workers.pop(number, None)
        if worker is not None:
            self._asked = {reference: other for reference, other in self._asked.items() if other != number}
            self._ray.kill(worker)

    def close(self) -> None:
        """As `LocalPool.close`."""
        endings = [worker.close.remote() for worker in self._workers.values()]
        self._ray.wait(endings, num_returns=len(endings), timeout=20) if endings else None
        for number in list(self._workers):
            self.kill(number)

    def _ask(self, number: int) -> None:
        self._asked[self._workers[number].said.remote()] = number

    def _unpacked(self, message: Message) -> Message:
        """Write the files that came with a record."""
        if message[0] != "done":
            return message
        *rest, files = message
        for name, content in files.items():
            path = Path(self._plan.folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tuple(rest)


class _Remote:
    """A worker in an actor, writing into a folder of its own."""

    def __init__(self, plan: Plan) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="selfsurf-"))
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        worker = Worker(replace(plan, folder=str(self._folder)), self._pack, self._inbox)
        self._thread = threading.Thread(target=worker.serve, daemon=True)
        self._thread.start()

    def tell(self, message: Message) -> None:
        """Take a message to the worker."""
        self._inbox.put(message)

    def said(self) -> list[Message]:
        """Return what the worker has said since the last call, waiting a moment for something."""
        try:
            messages = [self._outbox.get(timeout=_POLL)]
        except queue.Empty:
            if not self._thread.is_alive():
                raise RuntimeError("the worker's thread has ended") from None
            return []
        while not self._outbox.empty():
            messages.append(self._outbox.get())
        return messages

    def close(self) -> None:
        """Let the worker end."""
        self._inbox.put(("stop",))
        self._thread.join(15)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _pack(self, message: Message) -> None:
        if message[0] != "done":
            self._outbox.put(message)
            return
        record = message[3]
        places = [self._folder / record[name] for name in ("episode", "screenshot") if record[name]]
        files = [
            file for place in places for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file()
        ]
        self._outbox.put((*message, {str(file.relative_to(self._folder)): file.read_bytes() for file in files}))
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
