"""Who is timed in `selfsurf bench env`: the raw limit, ours, and the peers, behind one face for each kind of work."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import gymnasium

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.browser_env.session.runtime import runtime
from selfsurf.scripts.environment.raw import RawMiniWob, RawPage
from selfsurf.scripts.peers import Peer, PeerError, open_peer
from selfsurf.scripts.report.turns import OURS, RAW

STEPS, RESETS, LOOKS = 10, 5, 5
"""A round of the quick contenders."""

PEER_STEPS, PEER_RESETS, PEER_LOOKS = 3, 1, 1
"""A round of the slow ones."""

BOXES = 5
"""Elements that are clicked in turn."""

ROLE = "checkbox"

VIEWPORT = (1280, 720)
"""Of the documentation's pages; what both peers have."""


class Contender(Protocol):
    """Does the work of a round and says how long each piece took, in seconds, by the work's name."""

    name: str

    def round(self, number: int) -> dict[str, list[float]]:
        """Do round `number`."""
        ...

    def close(self) -> None:
        """End everything that it has started."""
        ...


class OursOnTask:
    """Our environment on a MiniWoB++ task."""

    name = OURS

    def __init__(self, task: str) -> None:
        self.env = gymnasium.make(f"MiniWoB/{task}-v0", max_episode_steps=10_000)
        self.boxes: list[Any] = []
        """Boxes of the elements that the last round clicked."""
        self.phases: dict[str, list[float]] = {}
        """Milliseconds of the parts of a step."""

    def round(self, number: int) -> dict[str, list[float]]:
        """Reset and step."""
        times: dict[str, list[float]] = {"reset": [], "step": []}
        if number == 0:
            self.env.reset(seed=0)  # the first one pays for the browser's start
        for index in range(RESETS):
            start = time.perf_counter()
            observation, _ = self.env.reset(seed=1000 + number * RESETS + index)
            times["reset"].append(time.perf_counter() - start)
        elements = [e for e in observation["elements"] if e["role"] == ROLE and e["in_viewport"]][:BOXES]
        self.boxes = [element["bbox"] for element in elements]
        for index in range(STEPS):
            action = {"action": "click", "id": elements[index % len(elements)]["id"]}
            start = time.perf_counter()
            _, _, terminated, truncated, info = self.env.step(action)
            times["step"].append(time.perf_counter() - start)
            if terminated or truncated or info["action_path"] != "mouse":
                raise RuntimeError(f"The benchmark's clicks did not go as planned: {info}")
            for phase, value in info["timing"].items():
                self.phases.setdefault(phase, []).append(value)
        return times

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


class RawOnTask:
    """The raw work of a MiniWoB++ task: clicks where ours clicked."""

    name = RAW

    def __init__(self, base_url: str, task: str, ours: OursOnTask) -> None:
        self._ours = ours
        self._raw = runtime().run(RawMiniWob.open(base_url, task))

    def round(self, number: int) -> dict[str, list[float]]:
        """Reset and step."""
        boxes, raw = self._ours.boxes, self._raw
        return {
            "reset": runtime().run(_timed(lambda i: raw.reset(1000 + number * RESETS + i), RESETS)),
            "step": runtime().run(_timed(lambda i: raw.click(boxes[i % len(boxes)]), STEPS)),
        }

    def close(self) -> None:
        """Close the context."""
        runtime().run(self._raw.raw.close(), timeout=30)


class BrowserGymOnTask:
    """BrowserGym on a MiniWoB++ task, with its default delay or with none."""

    def __init__(self, base_url: str, task: str, peer: Peers, *, delay: bool) -> None:
        self.name = "BrowserGym" if delay else "BrowserGym, no delay"
        self._arguments = (base_url, task)
        self._peer = peer
        self._delay = delay

    def round(self, number: int) -> dict[str, list[float]]:
        """Reset and step."""
        return self._peer.get("browsergym").miniwob(
            *self._arguments, role=ROLE, seed=1000 + number, resets=PEER_RESETS, steps=PEER_STEPS, delay=self._delay
        )

    def close(self) -> None:
        """Nothing: the peers are closed together."""


class Peers:
    """The peers that have been opened so far, each one once."""

    def __init__(self) -> None:
        self._open: dict[str, Peer] = {}
        self._failed: dict[str, PeerError] = {}

    def get(self, name: str) -> Peer:
        """Return a peer, opened on first use.

        Raises:
            PeerError: it can't be installed, which is not tried twice.
        """
        if name in self._failed:
            raise self._failed[name]
        if name not in self._open:
            try:
                self._open[name] = open_peer(name)
            except PeerError as error:
                self._failed[name] = error
                raise
        return self._open[name]

    def close(self) -> None:
        """Close them all."""
        for peer in self._open.values():
            peer.close()


class OursOnPages:
    """Our environment's observation: from the end of an action that does nothing to the finished observation."""

    name = OURS

    def __init__(self, pages: dict[str, str]) -> None:
        self._envs = {
            work: gymnasium.make("Browser-v0", start_url=url, viewport=VIEWPORT) for work, url in pages.items()
        }
        self.characters: dict[str, int] = {}
        """Characters of the outline, by work."""

    def round(self, number: int) -> dict[str, list[float]]:
        """Observe every page."""
        times: dict[str, list[float]] = {}
        for work, env in self._envs.items():
            if number == 0:
                env.reset(seed=0)
                env.step({"action": "wait", "ms": 0})
            times[work] = []
            for _ in range(LOOKS):
                observation, _, terminated, truncated, info = env.step({"action": "wait", "ms": 0})
                if terminated or truncated:
                    raise RuntimeError(f"The observation failed: {info['outcome_detail']}")
                # Both: what settling does at the same time as the observation is no less part of it.
                times[work].append((info["timing"]["settle"] + info["timing"]["observe"]) / 1000)
            self.characters[work] = len(observation["dom"])
        return times

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs.values():
            env.close()


class RawOnPages:
    """The raw work of an observation: pass and screenshot."""

    name = RAW

    def __init__(self, pages: dict[str, str]) -> None:
        self._pages = pages
        self._raw: dict[str, RawPage] = {}

    async def _open(self, url: str) -> RawPage:
        raw = await RawPage.open(VIEWPORT)
        await raw.page.goto(url, wait_until="load")
        await raw.install()
        await raw.look()
        return raw

    def _looker(self, work: str) -> Callable[[int], Coroutine[Any, Any, None]]:
        return lambda _: self._raw[work].look()

    def round(self, number: int) -> dict[str, list[float]]:
        """Observe every page."""
        times = {}
        for work, url in self._pages.items():
            if work not in self._raw:
                self._raw[work] = runtime().run(self._open(url))
            times[work] = runtime().run(_timed(self._looker(work), LOOKS))
        return times

    def close(self) -> None:
        """Close the contexts."""
        for raw in self._raw.values():
            runtime().run(raw.close(), timeout=30)


class PeerOnPage:
    """A peer's observation of one page."""

    def __init__(self, name: str, peer: str, peers: Peers, work: str, url: str) -> None:
        self.name = name
        self.characters: dict[str, int] = {}
        self.missing: set[str] = set()
        """Parts that the peer gave up on."""
        self._peer, self._peers, self._work, self._url = peer, peers, work, url

    def round(self, number: int) -> dict[str, list[float]]:
        """Observe the page."""
        seen = self._peers.get(self._peer).observe(self._url, PEER_LOOKS)
        self.characters[self._work] = seen["characters"]
        self.missing |= set(seen["missing"])
        return {self._work: seen["seconds"]}

    def close(self) -> None:
        """Nothing: the peers are closed together."""


async def _timed(work: Callable[[int], Coroutine[Any, Any, None]], count: int) -> list[float]:
    times = []
    for index in range(count):
        start = time.perf_counter()
        await work(index)
        times.append(time.perf_counter() - start)
    return times
