"""Worker process of a peer: its start, and requests with a timeout."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from selfsurf.scripts.machine.processes import kill_tree
from selfsurf.scripts.peers.environments import REQUIREMENTS, PeerError, browser_wrapper, home, make

FOLDER = Path(__file__).parent

START_SECONDS = 180.0
"""Seconds added to the first request's timeout, for imports and the browser's launch."""

OBSERVE_SECONDS = 150.0
"""Seconds until an observation times out; BrowserGym needs half a minute for the largest page on an idle machine."""

MINIWOB_SECONDS = 30.0
"""Seconds until a reset or step of a MiniWoB++ task times out."""

CLOSE_SECONDS = 20.0
"""Seconds that a peer gets to close its browsers before they are killed."""


class Peer(contextlib.AbstractContextManager["Peer"]):
    """A peer's worker process, opened by `open_peer`, and closed by `close` or as a context manager.

    A worker that hangs or exits is replaced on the next request.
    """

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._command = command
        self._environment = {**os.environ, **environment}
        self._log = log
        self._worker: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._closed = False

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("w", encoding="utf8") as errors:
            worker = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf8",
                # Ctrl-C is handled by this process, which closes the worker
                env=self._environment, start_new_session=True,
            )  # fmt: skip
        self._worker, self._answers = worker, queue.Queue()
        threading.Thread(target=_read, args=(worker.stdout, self._answers), daemon=True).start()
        return worker

    def call(self, method: str, timeout: float, **arguments: Any) -> Any:
        """Send a request to the worker and return the result.

        Args:
            method: Method of the class `Side` in the peer's file.
            timeout: Seconds until the worker is killed with its browsers, in addition to those for the start.
            arguments: Arguments of the method, as JSON data.

        Raises:
            PeerError: The request failed or timed out, or the peer is closed.
        """
        if self._closed:
            raise PeerError(f"{self.name} is closed.")
        worker = self._worker
        if worker is None or worker.poll() is not None:
            worker = self._start()
            timeout += START_SECONDS
        assert worker.stdin is not None
        try:
            worker.stdin.write(json.dumps({"method": method, "arguments": arguments}) + "\n")
            worker.stdin.flush()
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            self._kill()
            raise PeerError(f"{self.name} did not answer within {timeout:g} s.") from None
        except BrokenPipeError:
            line = ""
        except BaseException:
            self._kill()  # a late response would be mistaken for the next request's
            raise
        if not line:
            self._kill()
            raise PeerError(f"{self.name} exited; its last output is in {self._log}.")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name} failed: {answer['error'].splitlines()[0]}")
        return answer["result"]

    def observe(self, url: str, repeat: int) -> dict[str, Any]:
        """Time the peer's observation of a page, including the screenshot, after an untimed first one.

        Returns:
            `seconds`, a list of `repeat` times; `characters`, the size of the text for the model; `missing`, the parts
            ("DOM",
            "screenshot") that the peer gave up on, in which case the times are lower bounds.

        Raises:
            PeerError: The request failed or timed out, or the peer is closed.
        """
        return self.call("observe", OBSERVE_SECONDS * (repeat + 1), url=url, repeat=repeat)

    def miniwob(
        self, base_url: str, task: str, *, role: str, seed: int, resets: int, steps: int, delay: bool
    ) -> dict[str, list[float]]:
        """Time resets and clicks of a MiniWoB++ task, including observations with screenshots; BrowserGym only.

        Args:
            base_url: Address of the tasks' pages, with a trailing slash.
            task: Name such as `"click-checkboxes-large"`.
            role: Role whose first elements are clicked in turn; the clicks must not end the episode.
            seed: Seed of the first reset; further resets count up.
            resets: Number of resets, at least one.
            steps: Number of steps after the last reset.
            delay: Whether to keep the default sleep before an observation instead of `pre_observation_delay=0`.

        Returns:
            Seconds of each `reset` and `step`.

        Raises:
            PeerError: The request failed or timed out, or the peer is closed.
        """
        timeout = MINIWOB_SECONDS * (resets + steps + 1)
        arguments = {"role": role, "seed": seed, "resets": resets, "steps": steps, "delay": delay}
        return self.call("miniwob", timeout, base_url=base_url, task=task, **arguments)

    def solve(self, base_url: str, task: str, seeds: list[int], *, delay: bool) -> dict[str, Any]:
        """Play whole episodes of a MiniWoB++ task by a script of correct actions; BrowserGym only.

        Args:
            base_url: Address of the tasks' pages, with a trailing slash.
            task: Task in `browsergym_side.SOLVED`.
            seeds: Seed of each episode.
            delay: Whether to keep the default sleep before an observation instead of `pre_observation_delay=0`.

        Returns:
            `seconds` of each episode from reset to end, `elapsed` including the environment's start and end, and the
            total
            `steps` and `solved`.

        Raises:
            PeerError: The request failed or timed out, or the peer is closed.
        """
        arguments = {"base_url": base_url, "task": task, "seeds": seeds, "delay": delay}
        return self.call("solve", MINIWOB_SECONDS * (4 * len(seeds) + 2), **arguments)

    def close(self) -> None:
        """End the worker and its browsers; a second call does nothing."""
        self._closed = True
        worker = self._worker
        try:
            if worker is not None and worker.poll() is None and worker.stdin is not None:
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    worker.stdin.close()
                    worker.wait(CLOSE_SECONDS)
        finally:
            self._kill()

    def _kill(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None and worker.poll() is None:
            kill_tree(worker.pid)
            worker.wait(10)

    def __exit__(self, *_: object) -> None:
        self.close()


def open_peer(name: str) -> Peer:
    """Open a peer; the first call installs it, which takes a minute and network access.

    Args:
        name: `"browsergym"` or `"browser-use"`.

    Raises:
        PeerError: The peer is unknown, or could not be installed.
        BrowserNotFound: There is no browser.
    """
    if name not in REQUIREMENTS:
        raise PeerError(f"There is no peer {name!r}; choose from {', '.join(REQUIREMENTS)}.")
    python = make(name, REQUIREMENTS[name])
    folder = home(name)
    environment = {"ANONYMIZED_TELEMETRY": "false"}
    if name == "browsergym":
        environment["PLAYWRIGHT_BROWSERS_PATH"] = str(folder / "browsers")
        browser_wrapper(_playwright_path(python, environment))
        side = "browsergym_side.py"
    else:
        environment["SELFSURF_PEER_BROWSER"] = str(browser_wrapper(folder / "chromium"))
        environment["TIMEOUT_BrowserStateRequestEvent"] = str(OBSERVE_SECONDS)  # the default is 30 s
        environment["BROWSER_USE_CONFIG_DIR"] = str(folder / "config")
        side = "browser_use_side.py"
    command = [str(python), "-P", str(FOLDER / "worker.py"), str(FOLDER / side)]
    return Peer(name, command, environment, folder / "worker.log")


def _playwright_path(python: Path, environment: Mapping[str, str]) -> Path:
    """Return the path at which a peer's Playwright expects its own build of Chromium."""
    script = "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
    try:
        done = subprocess.run(
            [str(python), "-c", script],
            env={**os.environ, **environment}, capture_output=True, text=True, timeout=START_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        message = str(getattr(error, "stderr", "") or error)
        raise PeerError(f"The peer's Playwright does not start: {message.strip().splitlines()[-1]}") from None
    return Path(done.stdout.strip())


def _read(answers: IO[str], into: queue.Queue[str]) -> None:
    for line in answers:
        into.put(line)
    into.put("")
