"""Workers of a run on this machine: processes, or one in this process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any

from selfsurf.agents.play import Decider
from selfsurf.browser_env import Task
from selfsurf.scripts.machine.processes import kill_tree
from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.suite.run import GONE
from selfsurf.scripts.suite.worker import Message, Worker
from selfsurf.scripts.terminal.console import VERBOSE, logged


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
        """As `Pool.start`."""
        ours, theirs = self._spawn.Pipe()
        process = self._spawn.Process(target=_work, args=(self._plan, number, theirs), daemon=False)
        process.start()
        theirs.close()
        self._workers[number] = process, ours

    def send(self, number: int, message: Message) -> None:
        """As `Pool.send`."""
        with contextlib.suppress(OSError):
            self._workers[number][1].send(message)

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """As `Pool.receive`."""
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
        """As `Pool.kill`."""
        if number in self._workers:
            process, connection = self._workers.pop(number)
            kill_tree(process.pid)
            process.join(10)
            connection.close()

    def close(self) -> None:
        """As `Pool.close`."""
        for number in self._workers:
            self.send(number, ("stop",))
        for number, (process, _) in list(self._workers.items()):
            process.join(20)
            self.kill(number)


class InProcess:
    """One worker in this process, which works while it is listened to. An agent that hangs can't be killed here.

    Args:
        plan: the run.
        agent: as for `Worker`.
        own: as for `Worker`.
    """

    def __init__(self, plan: Plan, agent: Callable[[], Decider] | None, own: Mapping[str, Task]) -> None:
        self._said: list[tuple[int, Message]] = []
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._worker = Worker(plan, 0, self._heard, self._inbox, agent=agent, own=own)
        self._open = False

    def start(self, number: int) -> None:
        """As `Pool.start`."""
        self._open = self._worker.open()

    def send(self, number: int, message: Message) -> None:
        """As `Pool.send`."""
        self._inbox.put(message)

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """As `Pool.receive`."""
        if self._open:
            self._open = self._worker.turn()
        said, self._said = self._said[:], []
        return said

    def kill(self, number: int) -> None:
        """As `Pool.kill`."""
        self.close()

    def close(self) -> None:
        """As `Pool.close`."""
        self._open = False
        self._worker.close()

    def _heard(self, message: Message) -> None:
        self._said.append((0, message))


def _work(plan: Plan, number: int, connection: Connection) -> None:
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
    with logged(verbose=VERBOSE in os.environ):
        Worker(plan, number, send, inbox).serve()
    connection.close()
    os._exit(0)  # a timer or a library's thread keeps nothing alive
