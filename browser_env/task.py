"""The contract between the environment and a task. Task suites are in `tasks/`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.observation import ChatMessage, Observation

if TYPE_CHECKING:
    from playwright.async_api import Page

COMMIT_PATIENCE = 15.0
"""Seconds for the server of a start page to answer."""

LOAD_PATIENCE = 5.0
"""Seconds that a start page may take to load; after that, settling takes over and the episode starts regardless."""

Viewport = tuple[int, int]
"""Width and height in CSS pixels."""


@dataclass(frozen=True)
class Score:
    """A task's verdict after a step."""

    reward: float = 0.0
    """In [0, 1]; 1 is full success."""
    done: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    """The task's own numbers, shown as `info["score"]`."""
    judged: bool = True
    """False if the task has no criterion: the episode then ends as `stopped`, not as `failed`."""

    def __post_init__(self) -> None:
        if not isinstance(self.reward, (int, float, np.number)) or not 0 <= self.reward <= 1:
            raise ValueError(f"A task's reward is a number from 0 to 1, not {self.reward!r}.")


@dataclass
class EpisodeState:
    """What a task may use to score an episode, besides the page."""

    goal: str = ""
    seed: int | None = None
    steps: int = 0
    last_action: Action | None = None
    finished: bool = False
    """The agent said `finish` or `infeasible`."""
    answer: str = ""
    infeasible: bool = False
    messages: list[ChatMessage] = field(default_factory=list)


class Task:
    """What is to be done and how it is scored. Subclass it and override what differs.

    The base class is the open-ended task: a page, a goal and no verdict.
    """

    id: str = "open"
    goal: str | None = None
    start_url: str | None = None
    viewport: Viewport = (1280, 720)
    max_steps: int | None = None
    restarts_in_page: bool = False
    """Does `setup` restore a used page by itself? Then context and tab are kept across resets."""
    sites: Mapping[str, Path] = {}
    """Origins that are served from folders, without a server or a network, e.g. `{"http://shop.test": folder}`."""

    def __init__(self, *, goal: str | None = None, start_url: str | None = None) -> None:
        if goal is not None:
            self.goal = goal
        if start_url is not None:
            self.start_url = start_url

    async def setup(self, page: Page, rng: np.random.Generator) -> str:
        """Bring the page to the start of an episode and return the goal."""
        if self.start_url and page.url != self.start_url:
            from playwright.async_api import TimeoutError as Late

            await page.goto(self.start_url, wait_until="commit", timeout=COMMIT_PATIENCE * 1000)
            with contextlib.suppress(Late):  # a picture or a frame that never arrives: the page is there
                await page.wait_for_load_state("load", timeout=LOAD_PATIENCE * 1000)
        return self.goal or ""

    async def score(self, page: Page, episode: EpisodeState) -> Score:
        """Score the episode so far.

        The page is being observed at the same time: read it, don't change it. May be called more than once per step.
        """
        return Score(done=episode.finished, judged=False)

    @property
    def has_oracle(self) -> bool:
        """Is there an expert for this task?"""
        return type(self).oracle is not Task.oracle

    def oracle(self, obs: Observation) -> Action | None:
        """Return an expert's next action with its `reason`, or None if there is no expert."""
        return None

    async def teardown(self, page: Page) -> None:
        """Undo what `setup` did outside the page."""
