"""Base of the scenarios: a page that starts with drawn data, and the score of its final state."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, Click, Element, EpisodeState, Fill, Observation, Score, Task
from selfsurf.browser_env.actions import Select
from selfsurf.browser_env.task import Ends

HTML = Path(__file__).with_name("html")

LINKS = ("About us", "Opening hours", "Contact", "Gallery", "Jobs", "Partners", "Press", "Help", "Newsletter", "Map")
NEWS = (
    "The car park is closed on Monday.", "We have a new roof.", "The summer party was a success.",
    "Lost: one blue umbrella.", "Our team has grown to twelve people.", "Tickets for the fair are sold out.",
    "The café opens an hour later on Sundays.", "Thank you for 300 letters.", "Mind the wet paint by the stairs.",
)  # fmt: skip
NOTICES = ("We are closed on Friday.", "This page works without cookies.", "Welcome back!", "Last week of the season.")
FOOTERS = ("Since 1987", "Made with care", "Members of the regional association", "All rights reserved")


CHANGES = ("same", "moved", "renamed", "wrapped", "relabelled", "reordered", "decoys", "removed", "extra")
"""Changes that a new version of a site may have (`html/change.js`); `same` has none."""


class Scenario(Task):
    """A task on one of the sites.

    Args:
        name: name of the scenario, which is part of its ID.
        varied: also draw values, labels and the order of elements from the seed.
        change: use a changed copy of the site, one of `CHANGES`; `details["touched"]` then lists the elements clicked
            or filled in, by their original names.
        version: number of the changed copy; decoys, for example, are placed differently in each of five.
        ends: as `Task.ends`.

    Raises:
        ValueError: the change doesn't exist.
    """

    site: ClassVar[str]
    """Name of the site's host and page: `form` stands for `http://form.test/form.html`."""
    labels: ClassVar[Mapping[str, tuple[str, ...]]]
    """Possible labels of the page's elements; the first is used if nothing is varied."""
    max_steps: int | None = 16
    restarts_in_page = True

    def __init__(
        self, name: str, *, varied: bool = False, change: str = "", version: int = 0, ends: Ends = "verdict"
    ) -> None:
        if change and change not in CHANGES:
            raise ValueError(f"There is no change {change!r} of scenarios; the changes are {', '.join(CHANGES)}.")
        origin = f"http://{self.site}.test"
        super().__init__(start_url=f"{origin}/{self.site}.html")
        self.sites = {origin: HTML}
        self.id = f"Scenario/{name}-v0"
        self.varied = varied
        self.ends = ends
        self.change, self.version = change, version
        self.label: dict[str, str] = {}
        """Labels of the page's elements in this episode."""
        self.wanted: dict[str, Any] = {}
        """Final state of the site that solves the task."""

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Set `wanted`; return the goal and the data for the site's script."""
        raise NotImplementedError

    async def setup(self, page: Any, rng: np.random.Generator) -> str:
        """Open the site if necessary, and start an episode in it."""
        if page.url.partition("#")[0] != self.start_url:
            await page.goto(self.start_url, wait_until="load")
        frame = {
            "links": some(rng, LINKS, int(rng.integers(1, 6))),
            "news": some(rng, NEWS, int(rng.integers(1, 4))),
            "notice": one(rng, NOTICES) if rng.random() < 0.5 else "",
            "newsFirst": bool(rng.random() < 0.5),
            "footer": one(rng, FOOTERS),
        }
        self.label = {key: self.pick(rng, names) for key, names in self.labels.items()}
        goal, drawn = self.draw(rng)
        await page.evaluate("drawn => start(drawn)", {"frame": frame, "labels": self.label, **drawn})
        if self.change:
            if not await page.evaluate("'change' in window"):
                await page.add_script_tag(path=HTML / "change.js")
            await page.evaluate("([change, version]) => window.change(change, version)", [self.change, self.version])
        return goal

    async def score(self, page: Any, episode: EpisodeState) -> Score:
        """Compare the site's final state with `wanted`. A site accepts one submission per episode."""
        done = await page.evaluate("typeof state === 'undefined' ? null : state.done")
        right = done == self.wanted
        details = {"done": done}
        if self.change:
            details["touched"] = await page.evaluate("window.touched || []")
        return Score(float(right), done=done is not None or episode.finished, details=details)

    def pick(self, rng: np.random.Generator, of: Sequence[str]) -> str:
        """Return the first item or, if varied, any item."""
        return one(rng, of) if self.varied else of[0]

    def mixed(self, rng: np.random.Generator, of: Sequence[Any]) -> list[Any]:
        """Return the items in the given order or, if varied, in any order."""
        return [of[index] for index in rng.permutation(len(of))] if self.varied else list(of)


def one(rng: np.random.Generator, of: Sequence[str]) -> str:
    """Draw one item."""
    return of[int(rng.integers(len(of)))]


def some(rng: np.random.Generator, of: Sequence[str], number: int) -> list[str]:
    """Draw several different items, in any order."""
    return [of[index] for index in rng.permutation(len(of))[:number]]


def find(obs: Observation, name: str, role: str = "") -> Element | None:
    """Return the first element with a name, and with a role if one is given; None if there is none."""
    return next((one for one in obs["elements"] if one["name"] == name and role in ("", one["role"])), None)


def click(obs: Observation, role: str, name: str) -> Action | None:
    """Return a click on an element; None if the element is not on the page."""
    found = find(obs, name, role)
    return None if found is None else Click(id=found["id"], reason=f'The {role} "{name}" is next.')


def click_in_row(obs: Observation, *cells: str) -> Action | None:
    """Return a click on the first button of the table row that has all of these cells; None if there is none."""
    for row in re.split(r"^ *row\b.*$", obs["dom"], flags=re.MULTILINE):
        lines = {line.strip() for line in row.splitlines()}
        button = re.search(r"\[(\d+)\] button", row)
        if button and lines.issuperset(f"cell: {cell}" for cell in cells):
            return Click(id=int(button[1]), reason=f"The row with {', '.join(cells)} is meant.")
    return None


def fill_in(obs: Observation, wanted: Mapping[str, str | bool], button: str) -> Action | None:
    """Return the next action to fill in fields by label, from top to bottom, and then press the button.

    Returns:
        The next action; None if there are no such fields.
    """
    fields = [one for one in obs["elements"] if one["name"] in wanted and one["role"] not in ("button", "link")]
    for field in fields:
        value, id = wanted[field["name"]], field["id"]
        reason = f'"{field["name"]}" is not filled in yet.'
        if value is True:
            if "checked" not in field["states"]:
                return Click(id=id, reason=reason)
        elif field["tag"] == "select":
            if field["value"] != value:
                return Select(id=id, options=(str(value),), reason=reason)
        elif field["value"] not in (value, "•" * len(str(value))):
            return Fill(id=id, text=str(value), reason=reason)
    return click(obs, "button", button) if fields else None
