"""Flows on a library's catalog: search, results, and a book's page."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, Observation
from selfsurf.tasks.scenarios.scenario import Scenario, click, fill_in, one, some

AUTHORS = ("Hollis", "Brandt", "Osei", "Nakamura", "Duarte", "Farrow", "Lindholm", "Castel")
TITLES = (
    "The Glass Harbour", "Winter Bread", "A Map of Rain", "The Last Orchard", "Paper Boats", "North of Nowhere",
    "Salt and Silver", "The Quiet Engine", "Seven Doors", "The Copper Bird", "Long Shadows", "The Moon Garden",
)  # fmt: skip
FORMATS = ("Hardcover", "Paperback", "Audiobook", "Large print")


class Reserve(Scenario):
    """A task to search for an author, open a book and reserve it."""

    site = "library"
    labels: ClassVar = {
        "query": ("Search for", "Title or author", "Search the catalogue"),
        "search": ("Search", "Find", "Go"),
        "format": ("Format", "Kind", "Show only"),
        "apply": ("Apply", "Filter", "Show"),
        "reserve": ("Reserve", "Reserve this book", "Keep it for me"),
        "back": ("Back", "Back to the results", "All results"),
    }
    formats: tuple[str, ...] = ()
    """Formats by which results can be filtered; empty for no filter."""

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the book to reserve, and the other books and their order, which never affect the flow."""
        author, title = self.pick(rng, AUTHORS), self.pick(rng, TITLES)
        format = self.pick(rng, FORMATS[2:]) if self.formats else FORMATS[1]
        others = [name for name in some(rng, TITLES, 7) if name != title]
        books = [{"title": title, "author": author, "format": format}]
        books += [{"title": title, "author": author, "format": other} for other in self.formats if other != format]
        books += [{"title": name, "author": author, "format": one(rng, FORMATS)} for name in others[:3]]
        books += [{"title": name, "author": "Nobody", "format": one(rng, FORMATS)} for name in others[3:]]
        self.wanted = {"title": title, "format": format}
        self.author = author
        shown = {"books": [books[index] for index in rng.permutation(len(books))], "formats": list(self.formats)}
        as_what = f" as {format}" if self.formats else ""
        return f'Search for the author {author} and reserve "{title}"{as_what}.', shown

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        asked = {self.label["query"]: self.author}
        searched = any(each["value"] == self.author for each in obs["elements"]) and "Results" in obs["dom"]
        on_results = self._filtered(obs) or click(obs, "link", self.wanted["title"]) if searched else None
        return on_results or click(obs, "button", self.label["reserve"]) or fill_in(obs, asked, self.label["search"])

    def _filtered(self, obs: Observation) -> Action | None:
        """Return the action that filters the results; None if no filter is needed or it is already applied."""
        if not self.formats:
            return None
        titles = [each for each in obs["elements"] if each["name"] == self.wanted["title"]]
        if len(titles) == 1:
            return None
        return fill_in(obs, {self.label["format"]: self.wanted["format"]}, self.label["apply"])


class ReserveFormat(Reserve):
    """A task to reserve a book that exists in several formats, by which the results have to be filtered."""

    formats = FORMATS
