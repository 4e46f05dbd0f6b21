"""A real server process on loopback, and episodes for it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from selfsurf.browser_env.record.episode import EpisodeWriter

ROOT = Path(__file__).parents[3]


def write_episode(folder, number=0, *, steps=2, size=(8, 8), url="https://shop.example/"):
    """An episode of a page with three links, solved."""
    goal = f"Click the link {number}"
    elements = tuple(
        {"id": i, "role": "link", "name": f"{i}", "tag": "a", "value": "", "states": (), "bbox": (0.0, 20.0 * i, 50.0, 18.0),
         "in_viewport": True, "frame": "", "options": ()}
        for i in range(3)
    )  # fmt: skip
    page = {
        "goal": goal, "url": url, "title": "Shop", "tabs": ({"url": url, "title": "Shop", "active": True},),
        "elements": elements, "dom": "\n".join(f'[{i}] link "{i}"' for i in range(3)), "page_text": "0 1 2", "last_action": "",
        "last_error": "", "events": (), "messages": (),
    }  # fmt: skip
    rng = np.random.default_rng(number)
    writer = EpisodeWriter(folder, {"goal": goal, "url": url, "seed": number})
    for step in range(steps):
        last = step == steps - 1
        info = {"timing": {}, "outcome": "solved" if last else "running", "score": {}}
        seen = {**page, "screenshot": rng.integers(0, 255, (*size, 3), dtype=np.uint8)}
        writer.step(seen, {"action": "click", "id": (number + step) % 3}, reward=float(last), info=info, after=page)
    writer.finish("solved", trainable=True, after=page)
    return folder


class Server:
    """`selfsurf serve` as a process of its own; it can be killed and started again at the same address."""

    def __init__(self, folder, *more, token="", port=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = port or free.getsockname()[1]
        self.folder, self.token, self._more = folder, token, more
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = [sys.executable, "-m", "selfsurf.scripts.cli", "serve", self.folder, "--port", self.port, *self._more]
        environment = {**os.environ, "SELFSURF_SERVER_TOKEN": self.token, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            list(map(str, command)),
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert re.search("Listening", self.process.stdout.readline()), self.process.stderr.read()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(90)
        self.process.stdout.close()
        self.process.stderr.close()

    def client(self):
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One without a token that trains nothing: its folder's lock of the trainer is held by this process."""
    from selfsurf.browser_env.record.lock import FolderLock

    folder = tmp_path_factory.mktemp("service")
    lock = FolderLock(folder / "trainer")
    one = Server(folder, "--max-upload-mb", "8")
    yield one
    one.end()
    lock.release()


@pytest.fixture
def http(server):
    with server.client() as client:
        yield client


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come to that")
