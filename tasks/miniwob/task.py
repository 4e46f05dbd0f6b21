"""The MiniWoB++ tasks: a page is loaded once, episodes start within the page, and the page sets the score."""

from __future__ import annotations

import importlib.util
import math
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

import selfsurf.tasks.miniwob.oracles as oracles
from selfsurf.browser_env import Action, EnvError, EpisodeState, Observation, Score, Task
from selfsurf.browser_env.task import Ends

FLIGHTS = ("flight.AA", "flight.Alaska", "flight.Alaska-auto")
"""The three tasks on airline websites (FlightWoB), in addition to the 125 that the `miniwob` package registers."""

UNSOLVED = ("count-sides", "drag-cube")
"""Tasks without an oracle."""

NAMES = tuple(sorted({*oracles.ORACLES, *UNSOLVED} - {*FLIGHTS}))
"""The 125 tasks that the `miniwob` package registers."""

ORIGIN = "http://miniwob.test"
"""Origin under which the pages of the `miniwob` package are served, without a server."""

LONGEST_LIMIT = 2**31 - 1
"""Longest timer of a browser in milliseconds (25 days), which replaces a page's own limit. The pages' default of 10,000
is too short for a language model."""

FLIGHT_VIEWPORT = (375, 667)
"""Size of the airlines' pages, which are made for phones, in CSS pixels."""

MORE_STEPS = {
    "book-flight": 12, "book-flight-nodelay": 12, "click-checkboxes-large": 20, "flight.Alaska": 15,
    "flight.Alaska-auto": 20, "hot-cold": 20, "number-checkboxes": 20, "social-media-all": 12, "social-media-some": 12,
    "stock-market": 40,
}  # fmt: skip
"""Step limits of the tasks that need more than the usual 10 steps."""

RELOADED = frozenset({
    "book-flight", "book-flight-nodelay", "choose-date", "choose-date-easy", "choose-date-medium",
    "choose-date-nodelay", "stock-market", "use-slider", "use-slider-2",
})  # fmt: skip
"""Tasks whose pages keep state across a restart, so that they are reloaded for every episode. Such state is the month
of a date picker, the last price of a stock, or the focus ring of a slider."""

_START = Path(__file__).with_name("start.js").read_text(encoding="utf8")

# The agent may have navigated to another page.
_VERDICT = """typeof WOB_DONE_GLOBAL === 'undefined' ? [false, 0, 0, 'not on the page of the task']
  : [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, WOB_REWARD_GLOBAL, WOB_REWARD_REASON]"""


def names() -> tuple[str, ...]:
    """Return the names of the suite's 125 tasks, such as `"click-test"`, without `FLIGHTS`."""
    return NAMES


@cache
def html_root() -> Path:
    """Return the folder with the pages.

    Raises:
        EnvError: the `miniwob` package isn't installed.
    """
    spec = importlib.util.find_spec("miniwob")
    if spec is None or not spec.submodule_search_locations:
        raise EnvError("MiniWoB++ is not installed; `pip install miniwob` installs its pages.")
    return Path(next(iter(spec.submodule_search_locations))) / "html"


class MiniWobTask(Task):
    """One of the MiniWoB++ tasks.

    Args:
        name: name of the task, such as `"click-test"`.
        data_mode: the data split, for the five tasks that have one.
        time_limit: the page's limit for an episode in milliseconds, over which `info["score"]["reward"]` falls to 0.
            None disables both, so that the score doesn't depend on time.
        ends: with `"finish"`, the page's verdict doesn't end the episode but counts once the agent claims to be done.

    Raises:
        ValueError: the task doesn't exist, or the limit is out of range.
    """

    viewport = (332, 214)
    max_steps: int | None = 10
    restarts_in_page = True
    clock = "virtual"
    verdict = _VERDICT

    def __init__(
        self,
        name: str,
        *,
        data_mode: Literal["train", "test"] = "train",
        time_limit: int | None = None,
        ends: Ends = "verdict",
    ) -> None:
        if name not in (*NAMES, *FLIGHTS):
            raise ValueError(f"There is no MiniWoB++ task {name!r}; `selfsurf envs --match MiniWoB` lists them.")
        if time_limit is not None and not 0 < time_limit <= LONGEST_LIMIT:
            raise ValueError(f"time_limit must be from 1 to {LONGEST_LIMIT} ms, or None, not {time_limit!r}.")
        flight = name in FLIGHTS
        page = f"{name.replace('.', '/')}/wrapper.html" if flight else f"miniwob/{name}.html"
        super().__init__(start_url=f"{ORIGIN}/{page}")
        self.viewport = FLIGHT_VIEWPORT if flight else MiniWobTask.viewport
        self.name = name
        self.id = f"MiniWoB/{name}-v0"
        self.max_steps = MORE_STEPS.get(name, self.max_steps)
        self.data_mode = data_mode
        self.time_limit = time_limit
        self.ends = ends
        self.sites = {ORIGIN: html_root()}
        self._notes: oracles.Notes = {}

    async def setup(self, page: Any, rng: np.random.Generator) -> str:
        """Load the page if necessary, and start an episode in it."""
        if page.url != self.start_url or self.name in RELOADED:
            await page.goto(self.start_url, wait_until="load")
        self._notes = {}
        seed = str(rng.integers(2**31))
        limit, scale = self.time_limit or LONGEST_LIMIT, self.time_limit or math.inf
        goal, ready = await page.evaluate(_START, [seed, self.data_mode, limit, scale])
        if not ready:
            raise EnvError(f"The page of {self.id} did not become ready.")
        return str(goal)

    def score_of(self, verdict: Any, episode: EpisodeState) -> Score:
        """Convert the page's verdict to a score. The reward is the page's raw reward, limited to the range 0 to 1."""
        done, raw, scaled, reason = verdict
        raw, scaled = (one if isinstance(one, int | float) else 0.0 for one in (raw, scaled))  # NaN arrives as None
        details = {"raw_reward": raw, "reward": scaled, "reason": reason}
        return Score(reward=min(max(float(raw), 0.0), 1.0) if done else 0.0, done=bool(done), details=details)

    @property
    def has_oracle(self) -> bool:
        """Whether the task has an oracle."""
        return self.name in oracles.ORACLES

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action of the task's oracle, which keeps notes in an episode; None if there is no oracle."""
        expert = oracles.ORACLES.get(self.name)
        return expert(obs, self._notes) if expert else None
