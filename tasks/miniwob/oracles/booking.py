"""Oracles of tasks that book flights or enter events into a calendar."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Click, Element, Fill, Observation, Press, Scroll
from selfsurf.tasks.miniwob.oracles.base import click, elements, oracle, outline, quoted
from selfsurf.tasks.miniwob.oracles.buying import best, offers
from selfsurf.tasks.miniwob.oracles.dates import choose_day
from selfsurf.tasks.miniwob.oracles.dragging import drag_onto


@oracle("book-flight", "book-flight-nodelay")
def book_flight(obs: Observation) -> Action | None:
    """Choose both airports from the suggestions and the day from the calendar, search, and book the best flight."""
    goal = re.fullmatch(r"Book the (\w+) one-way flight from: (.+) to: (.+) on (.+)\.", obs["goal"])
    if goal is None:
        return None
    wish, origin, destination, day = goal.groups()
    if back := elements(obs, "button", "Back"):
        said = " ".join(line.text for line in outline(obs))
        if offers(obs) and all(part in said for part in (origin, destination, day)):
            return best(obs, wish)
        return click(back, f"These are not the flights from {origin} to {destination} on {day}.")
    for name, airport in (("From:", origin), ("To:", destination)):
        for field in elements(obs, "textbox", name):
            if not _is_airport(field["value"], airport):
                return _choose_airport(obs, field, airport)
    date = [e for e in elements(obs, "textbox") if "readonly" in e["states"]]
    if date and date[0]["value"] != day:
        return choose_day(obs, date, day)
    return click(elements(obs, "button", "Search"), f"From {origin} to {destination} on {day}: all is filled in.")


def _is_airport(shown: str, airport: str) -> bool:
    """Whether a suggestion names an airport of the given city, or with the given code."""
    return shown.startswith(f"{airport} (") or shown.endswith(f"({airport})")


def _choose_airport(obs: Observation, field: Element, airport: str) -> Action:
    for suggestion in elements(obs, "listitem"):
        if field["value"] == airport and _is_airport(suggestion["name"], airport):
            why = f'"{suggestion["name"]}" is the suggestion for "{airport}".'
            return Click(id=suggestion["id"], reason=why)
    if field["value"] == airport:
        why = f'The field holds "{airport}", of which a suggestion has to be chosen, and this key shows them.'
        return Press(id=field["id"], key="ArrowDown", reason=why)
    return Fill(id=field["id"], text=airport, reason=f'"{airport}" in the field {field["name"]} brings suggestions.')


HALF_HOURS = {"mins": 1 / 30, "hour": 2, "hours": 2}
"""Number of half hours per unit of time."""


@oracle("daily-calendar")
def daily_calendar(obs: Observation) -> Action | None:
    """Drag over enough free half hours for the event, enter its name, and create it."""
    goal = re.fullmatch(r'Create a ([\d.]+) (\w+) event named ".+", between (\w+) and (\w+)\.', obs["goal"])
    if goal is None:
        return None
    length = round(float(goal[1]) * HALF_HOURS[goal[2]])
    first, end = half_hour(goal[3]), half_hour(goal[4])
    if field := elements(obs, "textbox", "Event name"):
        return _describe(obs, field[0], length, first, end)
    if "New event" in obs["page_text"]:
        why = "A new event that nobody has finished is in the way, and a click on it brings the form that cancels it."
        return Click(selector="text=New event", reason=why)
    slots = [e for e in elements(obs, "generic") if e["name"] == "half-hour"]
    window = slots[first:end]
    free = ["covered" not in slot["states"] and slot["in_viewport"] for slot in window]
    for start in range(len(window) - length + 1):
        if all(free[start : start + length]):
            why = f"{clock(first + start)} to {clock(first + start + length)} is free, between {goal[3]} and {goal[4]}."
            return drag_onto(window[start], window[start + length - 1], why)
    there = window[0] if window[-1]["in_viewport"] else window[-1]
    why = f"Room for {goal[1]} {goal[2]} between {goal[3]} and {goal[4]} is not in view yet."
    return Scroll(id=there["id"], reason=why)


def _describe(obs: Observation, field: Element, length: int, first: int, end: int) -> Action | None:
    """Fill in the form of a new event, or cancel the form if the event has the wrong time or length."""
    name = quoted(obs["goal"])[0]
    found = re.findall(r"\b(\d+(?::30)?[ap]m) to (\d+(?::30)?[ap]m)\b", obs["page_text"])[0]
    times = [half_hour(time) for time in found]
    if times[1] - times[0] != length or times[0] < first or times[1] > end:
        window = f"between {clock(first)} and {clock(end)}"
        why = f"The event is to take {length * 30} minutes {window}, which this does not."
        return click(elements(obs, "button", "Cancel"), why)
    if field["value"] != name:
        why = f'The event from {clock(times[0])} to {clock(times[1])} is "{name}".'
        return Fill(id=field["id"], text=name, reason=why)
    return click(elements(obs, "button", "Create"), f'The event is called "{name}" now, so it can be created.')


def half_hour(time: str) -> int:
    """Return the index of the half hour that begins at a time such as 4PM or 4:30pm, counted from 0 at midnight."""
    hour, half, noon = re.fullmatch(r"(\d+)(:30)?([ap])m", time.casefold()).groups()  # type: ignore[union-attr]
    return (int(hour) % 12 + 12 * (noon == "p")) * 2 + bool(half)


def clock(number: int) -> str:
    """Return the time at which a half hour begins, such as 4:30pm."""
    hour = number // 2
    return f"{(hour - 1) % 12 + 1}{':30' * (number % 2)}{'ap'[hour // 12 % 2]}m"
