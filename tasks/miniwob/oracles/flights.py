"""Oracles of flight searches on airline websites, whose goals are JSON, such as `{"Departure City": "Miami", ...}`."""

from __future__ import annotations

import json
import re
from typing import Any

from selfsurf.browser_env import Action, Click, Element, Fill, Observation, Type
from selfsurf.tasks.miniwob.oracles.base import click, elements, line_near, oracle

_CODES = {
    "New York": "NYC", "Los Angeles": "LAX", "Las Vegas": "LAS", "San Diego": "SAN", "San Francisco": "SFO",
    "Boston": "BOS", "Denver": "DEN", "Dallas": "DFW", "Austin": "AUS", "Portland": "PDX", "Washington DC": "WAS",
}  # fmt: skip
_MAIN_AIRPORTS = {
    "Portland": "Portland, OR", "New York": "New York, NY (All",
    "Washington DC": "Washington, DC (All",
}  # fmt: skip
"""Beginnings of the right suggestion for cities with several airports. For other cities the name is enough."""


def field(obs: Observation, name: str) -> Element | None:
    """Return the first text field whose name begins with `name`."""
    return next((e for e in elements(obs, "textbox") if e["name"].startswith(name)), None)


def pick_day(obs: Observation, day: int) -> Action | None:
    """Click the day in the first month of the open calendar, the month of all flights."""
    return click(elements(obs, "link", str(day)), f"The day is March {day}, 2017.")


@oracle("flight.AA")
def flight_aa(obs: Observation) -> Action | None:
    """Fill in airport codes, pick the days from the calendars, then search."""
    goal: dict[str, Any] = json.loads(obs["goal"])
    days = {"Depart": goal["Departure Day"], "Return": goal["Returning Day"]}
    for name, day in days.items():
        if f'dialog "{name}"' in obs["dom"]:
            return pick_day(obs, day)
    for name, city in (("From", goal["Departure City"]), ("To", goal["Destination City"])):
        box, code = field(obs, name), _CODES[city]
        if box and box["value"] != code:
            return Fill(id=box["id"], text=code, reason=f'The code of {city}, for "{name}", is {code}.')
    for name, day in days.items():
        box = field(obs, name)
        if box and box["value"] != f"03/{day:02}/2017":
            after = [e for e in elements(obs, "button") if e["id"] > box["id"]]
            openers = [e for e in after if e["name"].startswith("Open Calendar")]
            return click(openers, f'The day for "{name}" is picked in its calendar.')
    return click(elements(obs, "button", "Search"), "Cities and days are filled in, so Search comes next.")


@oracle("flight.Alaska", "flight.Alaska-auto")
def flight_alaska(obs: Observation) -> Action | None:
    """Choose the cities from suggestions, the days from calendars and other options by button, then search."""
    goal: dict[str, Any] = json.loads(obs["goal"])
    one_way = goal.get("Ticket Type") == "One-way"
    days = {"Depart": goal["Departure Day"]} | ({} if one_way else {"Return": goal["Returning Day"]})
    match = re.search(r"Select (departure|return) date", obs["dom"])
    if match:
        name = "Depart" if match.group(1) == "departure" else "Return"
        box = field(obs, name)
        if name not in days or (box and box["value"] == f"3/{days[name]}/2017"):
            why = f'The day for "{name}" is as it should be, so the calendar is done.'
            return click(elements(obs, name="DONE"), why)
        return pick_day(obs, days[name])
    for switch in elements(obs, "checkbox", "One-way"):
        if one_way != ("checked" in switch["states"]):
            return Click(id=switch["id"], reason=f"The ticket is {'' if one_way else 'not '}one-way.")
    for name, city in (("From", goal["Departure City"]), ("To", goal["Destination City"])):
        action = choose_city(obs, name, city)
        if action:
            return action
    for name, day in days.items():
        box = field(obs, name)
        if box and box["value"] != f"3/{day}/2017":
            return Click(id=box["id"], reason=f'A click into "{name}" opens the calendar for March {day}.')
    why = "All that the goal asks for is filled in, so the search comes next."
    return other_options(obs, goal) or click(elements(obs, "button", "Find Flights"), why)


def choose_city(obs: Observation, name: str, city: str) -> Action | None:
    """Type the city and click the suggestion; None if the city is already chosen."""
    box, start = field(obs, name), _MAIN_AIRPORTS.get(city, f"{city},")
    if box is None or box["value"].startswith(start):
        return None
    typed = city.removesuffix(" DC")
    if not box["value"]:
        return Type(id=box["id"], text=typed, reason=f'Typing {typed} into "{name}" brings suggestions.')
    offered = [e for e in elements(obs, "listitem") if e["name"].startswith(start)]
    if box["value"] == typed and offered:
        return click(offered, f'"{offered[0]["name"]}" is the airport of {city}.')
    return Fill(id=box["id"], text="", reason=f'"{box["value"]}" in "{name}" has to make room for {city}.')


def other_options(obs: Observation, goal: dict[str, Any]) -> Action | None:
    """Set passengers and cabin as in the goal; None if they are already set."""
    fewer = elements(obs, "generic", "-")
    count = line_near(obs, fewer[0], 1) if fewer else ""
    passengers = goal.get("Passengers", 1)
    if count.isdigit() and int(count) != passengers:
        sign = "+" if int(count) < passengers else "-"
        return click(elements(obs, name=sign), f"{passengers} must travel, and it is {count} now.")
    cabin = goal.get("Seat type", "Coach")
    radios = elements(obs, "radio", cabin)
    if not radios and cabin != "Coach":
        return click(elements(obs, name="More search options"), f"The cabin {cabin} is among the further options.")
    if radios and "checked" not in radios[0]["states"]:
        return click(radios, f"The seats must be in {cabin}.")
    return None
