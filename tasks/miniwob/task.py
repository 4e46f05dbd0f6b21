"""A MiniWoB++ task: loads its page once, starts every episode in the page, reads the page's own score."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

import selfsurf.tasks.miniwob.oracles as oracles
from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.task import EpisodeState, Score, Task
from selfsurf.tasks.miniwob.names import FLIGHTS, NAMES

ORIGIN = "http://miniwob.test"
"""The pages are served under this address from the `miniwob` package's folder, without a server."""

LONGEST_LIMIT = 2**31 - 1
"""Milliseconds of the longest timer that a browser has, 25 days: a page's own limit is lifted by this. The pages' own
default is 10,000, which a language model can't keep."""

LIFTED_SCALE = 1_000_000
"""Milliseconds over which the time-scaled reward falls to 0 where the limit is lifted, as BrowserGym has it."""

FLIGHT_VIEWPORT = (375, 667)
"""Size of an airline's page, which is made for phones."""

MORE_STEPS = {
    "book-flight": 12,
    "book-flight-nodelay": 12,
    "click-checkboxes-large": 20,
    "flight.Alaska": 15,
    "flight.Alaska-auto": 20,
    "hot-cold": 20,
    "number-checkboxes": 20,
    "social-media-all": 12,
    "social-media-some": 12,
    "stock-market": 40,
}
"""Step limits of the tasks that can't be done in the usual 10."""

RELOADED = frozenset(
    {
        "book-flight",
        "book-flight-nodelay",
        "choose-date",
        "choose-date-easy",
        "choose-date-medium",
        "choose-date-nodelay",
        "stock-market",
    }
)
"""Tasks that keep something over a restart in the page, the month of a date picker or the last price of a stock: these
are loaded anew for every episode."""

# Starts an episode without a navigation; follows the protocol of MiniWoB++'s core.js. Fields are reset as a load resets
# them: a text area that was typed into would not show the text that the next episode gives it.
_START = """async ([seed, mode, limit, scale]) => {
  document.activeElement?.blur();
  if (core.EP_TIMER !== null) core.endEpisode(0);
  const form = document.body.appendChild(document.createElement('form'));
  form.id = 'all-fields';
  const fields = document.querySelectorAll('input, select, textarea');
  for (const field of fields) field.setAttribute('form', form.id);
  form.reset();
  for (const field of fields) field.removeAttribute('form');
  form.remove();
  Math.seedrandom(seed);
  core.setDataMode?.(mode);
  core.EPISODE_MAX_TIME = limit;
  core.startEpisode = () => {};  // or the end of an episode is covered by a black START
  core.startEpisodeReal();
  core.EPISODE_MAX_TIME = scale;  // the timer has been set: from here on it is what a reward is scaled by
  core.hideDisplay();
  const end = performance.now() + 10000;
  while (!WOB_TASK_READY && performance.now() < end) await new Promise((done) => setTimeout(done, 1));
  const goal = core.getUtterance();
  return [typeof goal === 'string' ? goal : goal.utterance, WOB_TASK_READY];
}"""

# An agent may be on another page, by its own doing.
_SCORE = """() => typeof WOB_DONE_GLOBAL === 'undefined' ? [false, 0, 0, 'not on the page of the task']
  : [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, WOB_REWARD_GLOBAL, WOB_REWARD_REASON]"""


def names() -> tuple[str, ...]:
    """Return the names of the suite's 125 tasks, e.g. `"click-test"`; `FLIGHTS` stand beside them."""
    return NAMES


@cache
def html_root() -> Path:
    """Return the folder with the pages.

    Raises:
        EnvError: the `miniwob` package isn't installed.
    """
    spec = importlib.util.find_spec("miniwob")
    if spec is None or not spec.submodule_search_locations:
        raise EnvError("MiniWoB++ is not installed; `pip install miniwob` brings its pages.")
    return Path(next(iter(spec.submodule_search_locations))) / "html"


class MiniWobTask(Task):
    """One of the MiniWoB++ tasks.

    Args:
        name: such as `"click-test"`.
        data_mode: which data the five tasks that have a split draw from.
        time_limit: milliseconds that the page gives an episode, by which it scales its reward, too; None lifts the
            limit, and the reward is scaled by 1,000 s.

    Raises:
        ValueError: there is no such task, or a limit that can't be kept.
    """

    viewport = (332, 214)
    max_steps: int | None = 10
    restarts_in_page = True

    def __init__(
        self, name: str, *, data_mode: Literal["train", "test"] = "train", time_limit: int | None = None
    ) -> None:
        if name not in (*NAMES, *FLIGHTS):
            raise ValueError(f"There is no MiniWoB++ task {name!r}; `selfsurf envs --match MiniWoB` lists them.")
        if time_limit is not None and not 0 < time_limit <= LONGEST_LIMIT:
            raise ValueError(f"A time limit is from 1 to {LONGEST_LIMIT} ms, or None, not {time_limit!r}.")
        flight = name in FLIGHTS
        page = f"{name.replace('.', '/')}/wrapper.html" if flight else f"miniwob/{name}.html"
        super().__init__(start_url=f"{ORIGIN}/{page}")
        self.viewport = FLIGHT_VIEWPORT if flight else MiniWobTask.viewport
        self.name = name
        self.id = f"MiniWoB/{name}-v0"
        self.max_steps = MORE_STEPS.get(name, self.max_steps)
        self.data_mode = data_mode
        self.time_limit = time_limit
        self.sites = {ORIGIN: html_root()}
        self._oracle = oracles.ORACLES.get(name)
        self._notes: oracles.Notes = {}

    async def setup(self, page: Any, rng: np.random.Generator) -> str:
        """Load the page unless it is there, and start an episode in it."""
        if page.url != self.start_url or self.name in RELOADED:
            await page.goto(self.start_url, wait_until="load")
        self._notes = {}
        seed = str(rng.integers(2**31))
        limit, scale = self.time_limit or LONGEST_LIMIT, self.time_limit or LIFTED_SCALE
        goal, ready = await page.evaluate(_START, [seed, self.data_mode, limit, scale])
        if not ready:
            raise EnvError(f"The page of {self.id} did not become ready.")
        return str(goal)

    async def score(self, page: Any, episode: EpisodeState) -> Score:
        """Read the page's verdict: reward is its raw reward, not scaled by time, and 0 where that is negative."""
        done, raw, scaled, reason = await page.evaluate(_SCORE)
        details = {"raw_reward": raw, "reward": scaled, "reason": reason}
        return Score(reward=min(max(float(raw), 0.0), 1.0) if done else 0.0, done=bool(done), details=details)

    @property
    def has_oracle(self) -> bool:
        """Is there an expert for this task?"""
        return self._oracle is not None

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action of an expert, which remembers what it saw in the episode; None if there is none."""
        return self._oracle(obs, self._notes) if self._oracle else None
