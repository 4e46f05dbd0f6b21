"""Contenders of `selfsurf bench env`: the raw limit, selfsurf, and the peers.

A contender takes the number of a round, does the round's work, and returns the seconds of each repetition by the name
of the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, closing
from typing import Any, TypeAlias

import gymnasium

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.scripts.environment.raw import RawMiniWob, RawPage
from selfsurf.scripts.peers import Peer, PeerError, open_peer
from selfsurf.scripts.report.turns import OURS

STEPS, RESETS, LOOKS = 10, 5, 5
"""Numbers of steps, resets and observations of the fast contenders in a round."""

PEER_STEPS, PEER_RESETS, PEER_LOOKS = 3, 1, 1
"""Numbers of steps, resets and observations of the slow contenders in a round."""

BOXES = 5
"""Number of elements that are clicked in turn."""

ROLE = "checkbox"

EXPERTS = (
    "click-option", "enter-text", "choose-list", "drag-box", "use-slider", "scroll-text-2", "click-menu", "terminal",
    "email-inbox",
)  # fmt: skip
"""Tasks whose experts together take every kind of action that MiniWoB++ needs."""

VIEWPORT = (1280, 720)
"""Viewport for the documentation's pages, the same as both peers'."""

Contender: TypeAlias = Callable[[int], dict[str, list[float]]]


class OursOnTask:
    """Selfsurf's environment on a MiniWoB++ task: resets and steps."""

    def __init__(self, task: str, stack: ExitStack) -> None:
        self._env, self._blind = (
            stack.enter_context(
                closing(gymnasium.make(f"MiniWoB/{task}-v0", max_episode_steps=10_000, screenshot=screenshot))
            )
            for screenshot in (True, False)
        )
        self.boxes: list[Any] = []
        """Bounding boxes of the elements clicked in the last round."""
        self.phases: dict[str, list[float]] = {}
        """Milliseconds of each phase of the steps with a screenshot."""

    def __call__(self, number: int) -> dict[str, list[float]]:
        """Time resets and steps."""
        resets: list[float] = []
        if number == 0:
            self._env.reset(seed=0)  # the first reset includes the browser's start
        for index in range(RESETS):
            start = time.perf_counter()
            observation, _ = self._env.reset(seed=1000 + number * RESETS + index)
            resets.append(time.perf_counter() - start)
        self.boxes = [element["bbox"] for element in clickable(observation["elements"])]
        seen, _ = self._blind.reset(seed=1000 + number * RESETS + RESETS - 1)
        return {
            "reset": resets,
            "step": self._steps(self._env, observation, self.phases),
            "step, no screenshot": self._steps(self._blind, seen, {}),
        }

    def _steps(self, env: Any, observation: Any, phases: dict[str, list[float]]) -> list[float]:
        times = []
        elements = clickable(observation["elements"])
        for index in range(STEPS):
            action = {"action": "click", "id": elements[index % len(elements)]["id"]}
            start = time.perf_counter()
            _, _, terminated, truncated, info = env.step(action)
            times.append(time.perf_counter() - start)
            if terminated or truncated or info["action_path"] != "mouse":
                raise RuntimeError(f"The benchmark's clicks did not go as planned: {info}")
            for phase, value in info["timing"].items():
                phases.setdefault(phase, []).append(value)
        return times


class Kinds:
    """Selfsurf's environment on tasks whose experts need each kind of action: steps by kind, without screenshots."""

    def __init__(self, stack: ExitStack, **options: Any) -> None:
        self._envs = [
            stack.enter_context(closing(gymnasium.make(f"MiniWoB/{task}-v0", screenshot=False, **options)))
            for task in EXPERTS
        ]

    def __call__(self, number: int) -> dict[str, list[float]]:
        """Let the expert of each task play an episode."""
        times: dict[str, list[float]] = {}
        for env in self._envs:
            env.reset(seed=1000 + number)
            over = False
            while not over:
                action = env.unwrapped.privileged()["action"]  # type: ignore[attr-defined]
                start = time.perf_counter()
                _, _, terminated, truncated, _ = env.step(action)
                times.setdefault(f"step, {action['action']}", []).append(time.perf_counter() - start)
                over = terminated or truncated
        return times


def clickable(elements: Any) -> list[Any]:
    """Return the elements of an observation that are clicked in turn."""
    return [element for element in elements if element["role"] == ROLE and element["in_viewport"]][:BOXES]


def raw_on_task(base_url: str, task: str, ours: OursOnTask, stack: ExitStack, *, held: bool = False) -> Contender:
    """Return a contender with the raw work of a MiniWoB++ task: resets, and clicks at the positions of `ours`.

    `held` is an option of `RawPage.open`.
    """
    raw = runtime().run(RawMiniWob.open(base_url, task, held=held))
    stack.callback(lambda: runtime().run(raw.raw.close(), timeout=30))

    def round(number: int) -> dict[str, list[float]]:
        boxes = ours.boxes

        def steps(screenshot: bool) -> list[float]:
            return runtime().run(_timed(lambda i: raw.click(boxes[i % len(boxes)], screenshot=screenshot), STEPS))

        return {
            "reset": runtime().run(_timed(lambda i: raw.reset(1000 + number * RESETS + i), RESETS)),
            "step": steps(True),
            "step, no screenshot": steps(False),
        }

    return round


def browsergym_on_task(base_url: str, task: str, peers: Peers, *, delay: bool) -> Contender:
    """Return a contender for BrowserGym on a MiniWoB++ task, with its default delay or without."""
    return lambda number: peers.get("browsergym").miniwob(
        base_url, task, role=ROLE, seed=1000 + number, resets=PEER_RESETS, steps=PEER_STEPS, delay=delay
    )


class Peers:
    """Cache of the opened peers."""

    def __init__(self) -> None:
        self._open: dict[str, Peer | PeerError] = {}

    def get(self, name: str) -> Peer:
        """Return a peer, opened on first use.

        Raises:
            PeerError: The peer can't be installed; another call doesn't try again.
        """
        if name not in self._open:
            try:
                self._open[name] = open_peer(name)
            except PeerError as error:
                self._open[name] = error
        found = self._open[name]
        if isinstance(found, PeerError):
            raise found
        return found

    def close(self) -> None:
        """Close all opened peers."""
        for peer in self._open.values():
            if isinstance(peer, Peer):
                peer.close()


class PageObservations:
    """Timed observations of pages, whose addresses are given by the name of the work."""

    def __init__(self, pages: dict[str, str], stack: ExitStack) -> None:
        self._pages = pages
        self._stack = stack
        self._envs: dict[str, Any] = {}
        self._raw: dict[str, RawPage] = {}
        self.characters: dict[str, dict[str, int]] = {}
        """Number of characters of the text for the model, by work and contender."""
        self.missing: dict[tuple[str, str], set[str]] = {}
        """Parts that a peer gave up on, by contender and work."""

    def ours(self, number: int) -> dict[str, list[float]]:
        """Time observations of every page, from the end of an action without effect to the finished observation."""
        times: dict[str, list[float]] = {}
        for work, url in self._pages.items():
            if work not in self._envs:
                made = gymnasium.make("Browser-v0", start_url=url, viewport=VIEWPORT)
                self._envs[work] = self._stack.enter_context(closing(made))
                made.reset(seed=0)
                made.step({"action": "wait", "ms": 0})
            times[work] = []
            for _ in range(LOOKS):
                observation, _, terminated, truncated, info = self._envs[work].step({"action": "wait", "ms": 0})
                if terminated or truncated:
                    raise RuntimeError(f"The observation failed: {info['outcome_detail']}")
                # Settling counts as well, because part of the observation happens during it.
                times[work].append((info["timing"]["settle"] + info["timing"]["observe"]) / 1000)
            self.characters.setdefault(work, {})[OURS] = len(observation["dom"])
        return times

    def raw(self, number: int) -> dict[str, list[float]]:
        """Time the raw work of observing every page: in-page pass and screenshot."""
        times = {}
        for work, url in self._pages.items():
            if work not in self._raw:
                self._raw[work] = runtime().run(self._opened(url))
            times[work] = runtime().run(_timed(lambda _, page=self._raw[work]: page.look(), LOOKS))  # type: ignore[misc]
        return times

    async def _opened(self, url: str) -> RawPage:
        raw = await RawPage.open(VIEWPORT)
        self._stack.callback(lambda: runtime().run(raw.close(), timeout=30))
        await raw.page.goto(url, wait_until="load")
        await raw.install()
        await raw.look()
        return raw

    def of_peer(self, name: str, work: str, peers: Peers) -> Contender:
        """Return a contender for a peer's observation of one of the pages."""

        def round(number: int) -> dict[str, list[float]]:
            seen = peers.get(name.lower()).observe(self._pages[work], PEER_LOOKS)
            self.characters.setdefault(work, {})[name] = seen["characters"]
            self.missing.setdefault((name, work), set()).update(seen["missing"])
            return {work: seen["seconds"]}

        return round


async def _timed(work: Callable[[int], Coroutine[Any, Any, None]], count: int) -> list[float]:
    times = []
    for index in range(count):
        start = time.perf_counter()
        await work(index)
        times.append(time.perf_counter() - start)
    return times
