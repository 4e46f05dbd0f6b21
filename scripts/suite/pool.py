"""Worker processes of a run, on this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from multiprocessing.connection import Connection, wait
from typing import Any

from selfsurf.scripts.machine.processes import kill_tree
from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.suite.worker import Message, Worker

GONE = "gone"
"""What a pool says of a worker that has died: `("gone", text)`."""


class LocalPool:
    """Workers as processes of this machine.

    Args:
        plan: the run.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._spawn = multiprocessing.get_context("spawn")
        self._workers: dict[int, tuple[Any, Connection]] = {}

    def start(self, number: int) -> None:
        """Start a worker, or another in its place."""
        ours, theirs = self._spawn.Pipe()
        process = self._spawn.Process(target=_work, args=(self._plan, theirs), daemon=False)
        process.start()
        theirs.close()
        self._workers[number] = process, ours

    def send(self, number: int, message: Message) -> None:
        """Send a message. One to a worker that has died is lost, which `receive` tells."""
        with contextlib.suppress(OSError):
            self._workers[number][1].send(message)

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """Return what the workers have said, waiting up to `timeout` seconds for something."""
        by_connection = {connection: number for number, (_, connection) in self._workers.items()}
        said: list[tuple[int, Message]] = []
        for connection in wait(list(by_connection), timeout):
            assert isinstance(connection, Connection)
            number = by_connection[connection]
            try:
                while True:
                    said.append((number, connection.recv()))
                    if not connection.poll():
                        break
            except (EOFError, OSError):
                process, _ = self._workers.pop(number)
                process.join(10)
                said.append((number, (GONE, f"a worker ended with exit code {process.exitcode}")))
        return said

    def kill(self, number: int) -> None:
        """End a worker and everything it has started, at once. Nothing more comes from it."""
        if number in self._workers:
            process, connection = self._workers.pop(number)
            kill_tree(process.pid)
            process.join(10)
            connection.close()

    def close(self) -> None:
        """Let the workers end, and kill those that do not."""
        for number in self._workers:
            self.send(number, ("stop",))
        for number, (process, _) in list(self._workers.items()):
            process.join(20)
            self.kill(number)


def _work(plan: Plan, connection: Connection) -> None:
    """Be a worker process. It ends when the run's process ends, however that did."""
    os.dup2(2, 1)  # what an agent prints is none of the run's output
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                inbox.put(connection.recv())
        inbox.put(("stop",))
        threading.Timer(15, leave).start()  # an agent may hang

    def leave() -> None:
        kill_tree(os.getpid())

    def send(message: Message) -> None:
        with contextlib.suppress(OSError), lock:
            connection.send(message)

    lock = threading.Lock()
    threading.Thread(target=listen, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's to handle
    Worker(plan, send, inbox).serve()
    connection.close()
    os._exit(0)  # a timer or a library's thread keeps nothing alive
