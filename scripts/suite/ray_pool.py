"""Workers of a run as actors of a Ray cluster."""

from __future__ import annotations

import os
import queue
import re
import shutil
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfsurf.browser_env.classes import Sources, load_class, named_in
from selfsurf.envs_registry.loading import name_of, sources_of
from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.suite.run import GONE, NODE_GONE, PENDING, RunError
from selfsurf.scripts.suite.worker import Message, Worker
from selfsurf.sdft.rollouts.ray_cluster import connect, speak, verbose

_POLL = 1.0
"""Seconds that an actor waits for messages before it returns an empty list."""

_PENDING = 10.0
"""Seconds without a reply after which an actor counts as pending; a running actor replies every `_POLL` seconds."""

_NO_ROOM = 900.0
"""Seconds after which a run is given up if the cluster has had room for none of its workers."""

_ENDING = 20.0
"""Seconds that the workers get to end."""


class RayPool:
    """Pool of workers as Ray actors, on the cluster of `RAY_ADDRESS` or on a local one for the life of the pool.

    A worker's files are returned with its records, and the source of a user's own tasks and agent is sent with the
    plan, so the machines need no shared disk. Each worker reserves a CPU of the cluster, or a fraction if there are too
    few.

    Args:
        plan: Plan of the run.
    """

    def __init__(self, plan: Plan) -> None:
        import ray

        self._ray = ray
        if not ray.is_initialized():
            os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # errors of calls to workers that are gone
        self._ours = connect()
        share = min(1.0, ray.cluster_resources().get("CPU", 1.0) / plan.processes)
        self._actor = ray.remote(num_cpus=share, max_concurrency=3)(_Remote)
        self._plan = plan
        tasks = [name_of(task["id"], task["folder"], **task["options"]) for task in plan.tasks]
        own = [name for name in (plan.agent, plan.environment.get("user", "")) if ":" in name]
        self._sources = ray.put(sources_of(tasks, *map(load_class, own), *named_in(plan.agent_options)))
        self._workers: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}
        self._silent: dict[int, float] = {}
        """Monotonic time since which a worker that has not replied yet is awaited, by number."""
        self._told: set[int] = set()
        """Workers already reported as pending."""
        self._begun = time.monotonic()
        self._had_room = False

    def start(self, number: int) -> None:
        """Create a worker's actor."""
        self._workers[number] = self._actor.remote(self._plan, number, self._sources, everything=verbose())
        self._silent[number] = time.monotonic()
        self._told.discard(number)
        self._ask(number)

    def send(self, number: int, message: Message) -> None:
        """Send a message to the worker's actor."""
        if number in self._workers:
            self._workers[number].tell.remote(message)

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """Return the messages of all workers; lost and pending ones are reported, too.

        Raises:
            RunError: The cluster has no room for any worker.
        """
        said: list[tuple[int, Message]] = []
        ready, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=timeout)
        for reference in ready:
            number = self._asked.pop(reference)
            try:
                messages = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                self.kill(number)  # the actor may only be unreachable
                said.append((number, _loss(error)))
                continue
            self._had_room = True
            self._silent.pop(number, None)
            self._ask(number)
            said += [(number, unpacked(message, Path(self._plan.folder))) for message in messages]
        return said + self._pending()

    def kill(self, number: int) -> None:
        """Kill a worker's actor."""
        worker = self._workers.pop(number, None)
        self._silent.pop(number, None)
        if worker is not None:
            self._asked = {reference: other for reference, other in self._asked.items() if other != number}
            self._ray.kill(worker)

    def close(self) -> None:
        """Stop all workers, kill those that don't end in time, and shut down a local cluster."""
        for number in list(self._silent):  # pending actors wouldn't respond, and have nothing to close
            self.kill(number)
        endings = [worker.close.remote() for worker in self._workers.values()]
        self._ray.wait(endings, num_returns=len(endings), timeout=_ENDING) if endings else None
        for number in list(self._workers):
            self.kill(number)
        if self._ours:
            self._ray.shutdown()

    def _ask(self, number: int) -> None:
        self._asked[self._workers[number].said.remote()] = number

    def _pending(self) -> list[tuple[int, Message]]:
        now = time.monotonic()
        if not self._had_room and now - self._begun > _NO_ROOM:
            raise RunError(f"The cluster had no room for any worker within {_NO_ROOM:g} s.")
        late = [each for each, since in self._silent.items() if now - since > _PENDING and each not in self._told]
        self._told.update(late)
        return [
            (each, (PENDING, "the cluster has no room for the worker yet, or is still starting it.")) for each in late
        ]


def unpacked(message: Message, folder: Path) -> Message:
    """Write the files that came with a record over those of an earlier attempt; return the message without them."""
    if message[0] != "done":
        return message
    *rest, files = message
    record = rest[3]
    if record["episode"]:
        shutil.rmtree(folder / record["episode"], ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tuple(rest)


class _Remote:
    """Ray actor that runs a worker in a folder of its own."""

    def __init__(self, plan: Plan, number: int, sources: Sources, *, everything: bool = False) -> None:
        import ray

        os.dup2(2, 1)  # an agent's prints must not mix with the run's output on stdout
        speak(everything=everything)
        sources.use()
        self._node = ray.util.get_node_ip_address()
        self._folder = Path(tempfile.mkdtemp(prefix="selfsurf-"))
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._closing = False
        worker = Worker(replace(plan, folder=str(self._folder)), number, self._pack, self._inbox)
        self._thread = threading.Thread(target=worker.serve, daemon=True)
        self._thread.start()

    def tell(self, message: Message) -> None:
        """Pass a message to the worker."""
        self._inbox.put(message)

    def said(self) -> list[Message]:
        """Return the worker's messages since the last call, waiting up to `_POLL` seconds for the first."""
        try:
            messages = [self._outbox.get(timeout=_POLL)]
        except queue.Empty:
            if not self._thread.is_alive() and not self._closing:
                raise RuntimeError("the worker's thread has ended") from None
            return []
        while not self._outbox.empty():
            messages.append(self._outbox.get())
        return messages

    def close(self) -> None:
        """Stop the worker and delete its folder."""
        self._closing = True
        self._inbox.put(("stop",))
        self._thread.join(15)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _pack(self, message: Message) -> None:
        if message[0] == "ready":
            self._outbox.put(("ready", f"{message[1]} on {self._node}"))
            return
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


def _loss(error: Exception) -> Message:
    """Return the message for a lost actor, with Ray's reason in a few words, such as `its node has died`."""
    text = str(error)
    if "temporarily unavailable" in text:
        return NODE_GONE, "it can't be reached: its node has died, or the network has failed"
    found = re.search(r"is dead because (.+?)(?:\.|\n|$)", text)
    why = found[1] if found else next(iter(text.strip().splitlines()), type(error).__name__)
    return NODE_GONE if "node has died" in why else GONE, why
