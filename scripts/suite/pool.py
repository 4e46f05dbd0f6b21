"""Worker pools on this machine: separate processes, or one worker in this process."""

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

from selfsurf.agents.play import AgentAdapter
from selfsurf.browser_env import Task
from selfsurf.scripts.machine.processes import kill_tree
from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.suite.run import GONE
from selfsurf.scripts.suite.worker import Message, Worker
from selfsurf.scripts.terminal.console import VERBOSE, logged


class LocalPool:
    """Pool of worker processes on this machine.

    Args:
        plan: Plan of the run.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._spawn = multiprocessing.get_context("spawn")
        self._workers: dict[int, tuple[Any, Connection]] = {}

    def start(self, number: int) -> None:
        """Start a worker process."""
        ours, theirs = self._spawn.Pipe()
        process = self._spawn.Process(target=_work, args=(self._plan, number, theirs), daemon=False)
        process.start()
        theirs.close()
        self._workers[number] = process, ours

    def send(self, number: int, message: Message) -> None:
        """Send a message through the worker's pipe."""
        with contextlib.suppress(OSError):
            self._workers[number][1].send(message)

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """Return the messages of all workers; a closed pipe is reported as `GONE`."""
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
        """Kill a worker process and its children."""
        if number in self._workers:
            process, connection = self._workers.pop(number)
            kill_tree(process.pid)
            process.join(10)
            connection.close()

    def close(self) -> None:
        """Stop all workers, and kill those that don't end within 20 s."""
        for number in self._workers:
            self.send(number, ("stop",))
        for number, (process, _) in list(self._workers.items()):
            process.join(20)
            self.kill(number)


class InProcess:
    """A pool of one worker in this process, which works during `receive`. A hung agent can't be killed.

    Args:
        plan: Plan of the run.
        agent: Factory of the agent, as for `Worker`.
        own: Tasks given as objects, as for `Worker`.
    """

    def __init__(self, plan: Plan, agent: Callable[[], AgentAdapter] | None, own: Mapping[str, Task]) -> None:
        self._said: list[tuple[int, Message]] = []
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._worker = Worker(plan, 0, self._heard, self._inbox, agent=agent, own=own)
        self._open = False

    def start(self, number: int) -> None:
        """Load the agent."""
        self._open = self._worker.open()

    def send(self, number: int, message: Message) -> None:
        """Put a message into the worker's inbox."""
        self._inbox.put(message)

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """Let the worker work for a moment, and return its messages."""
        if self._open:
            self._open = self._worker.turn()
        said, self._said = self._said[:], []
        return said

    def kill(self, number: int) -> None:
        """Close the worker."""
        self.close()

    def close(self) -> None:
        """Close the worker."""
        self._open = False
        self._worker.close()

    def _heard(self, message: Message) -> None:
        self._said.append((0, message))


def _work(plan: Plan, number: int, connection: Connection) -> None:
    """Run a worker process, which ends when the run's process ends for any reason."""
    os.dup2(2, 1)  # an agent's prints must not mix with the run's output on stdout
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                inbox.put(connection.recv())
        inbox.put(("stop",))
        threading.Timer(15, leave).start()  # kills a hung agent

    def leave() -> None:
        kill_tree(os.getpid())

    def send(message: Message) -> None:
        with contextlib.suppress(OSError), lock:
            connection.send(message)

    lock = threading.Lock()
    threading.Thread(target=listen, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run's process handles Ctrl-C
    with logged(verbose=VERBOSE in os.environ):
        Worker(plan, number, send, inbox).serve()
    connection.close()
    os._exit(0)  # a timer or a library's thread must not keep the process alive
