"""Oracles of search tasks: a form, a search engine with pages of results, and a contact book."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Click, Fill, Observation
from selfsurf.tasks.miniwob.oracles.base import Notes, click, elements, oracle, outline, quoted, said

PAGE = 3
"""Number of results on a page of the search engine."""


@oracle("search-engine")
def search_engine(obs: Observation) -> Action | None:
    """Search for the name, go to the page of the numbered result, and click the result, which has the same name."""
    name = quoted(obs["goal"])[0]
    index = int(said(obs, r"(\d+)(?:st|nd|rd|th)", "1")) - 1
    field = elements(obs, "textbox")
    if field and field[0]["value"] != name:
        return Fill(id=field[0]["id"], text=name, reason=f'"{name}" must be searched for.')
    links = [e for e in elements(obs, "link") if e["name"] not in ("1", "2", "3", "<", ">")]
    pages = elements(obs, "link", str(index // PAGE + 1))
    if not links:
        return click(elements(obs, "button", "Search"), f'The field holds "{name}", so "Search" comes next.')
    names = [e["name"] for e in elements(obs, "link")]
    shown = 0 if "<" not in names else 2 if ">" not in names else 1
    if shown != index // PAGE:
        return click(pages, f"Result {index + 1} is on page {index // PAGE + 1}, with {PAGE} results a page.")
    place = index % PAGE
    if links[place]["name"] != name:
        why = f'These are not the results for "{name}", so it is searched for.'
        return click(elements(obs, "button", "Search"), why)
    return click(links[place:], f"On page {shown + 1}, result {index + 1} is number {place + 1}.")


@oracle("phone-book")
def phone_book(obs: Observation, notes: Notes) -> Action | None:
    """Turn the pages until the person appears, then click the requested detail."""
    match = re.fullmatch(r"Find (.+) in the contact book and click on their (\w+).*", obs["goal"])
    person, what = match.groups() if match else ("", "")
    lines = outline(obs)
    if any(line.text.startswith(f'heading "{person}"') for line in lines):
        label = [line.text.casefold() for line in lines].index(f"{what}:")
        for link in elements(obs, "link"):
            if link["id"] == lines[label + 1].id:
                why = f"The goal asks for the {what} of {person}, and this is it: {link['name']}."
                return Click(id=link["id"], reason=why)
    page = next((int(e["name"]) for e in elements(obs, "link") if e["name"].isdigit()), 1)
    seen: set[int] = notes.setdefault("pages", set())
    seen.add(page)
    onward = elements(obs, "link", ">")
    if onward and not all(number in seen for number in range(page + 1, 6)):
        return click(onward, f"{person} is not on page {page}, so the next page is worth a look.")
    return click(elements(obs, "link", "<"), f"{person} is on neither page {page} nor a later one, so it goes back.")


@oracle("multi-layouts", "multi-orderings")
def search_movies(obs: Observation) -> Action | None:
    """Fill in genre, director and year, in the order of their labels, then submit."""
    match = re.fullmatch(r"Search for (.+) movies directed by (.+) from year (\d+)\.", obs["goal"])
    genre, director, year = match.groups() if match else ("", "", "")
    wanted = {"genre": genre, "director": director, "year": year, "date": year}
    labels = [
        word
        for line in outline(obs)
        if line.id is None
        for word in wanted
        if re.search(rf"\b{word}\b", line.text, re.IGNORECASE)
    ]
    for field, label in zip(elements(obs, "textbox"), labels, strict=False):
        if field["value"] != wanted[label]:
            why = f'The goal names the {label} "{wanted[label]}", which belongs into this field.'
            return Fill(id=field["id"], text=wanted[label], reason=why)
    buttons = [e for e in elements(obs) if e["name"] in ("Submit", "Search", "Go!")]
    return click(buttons, f"Genre {genre}, director {director} and year {year} are filled in, so the search can start.")
