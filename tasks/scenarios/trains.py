"""A railway's ticket site: search for a day's trains, choose one by its departure, and select travel options."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, Observation
from selfsurf.tasks.scenarios.scenario import Scenario, click_in_row, fill_in, one, some

STATIONS = (
    "Leeds", "York", "Hull", "Durham", "Lincoln", "Derby", "Bath", "Exeter", "Oxford", "Reading", "Carlisle", "Chester",
)  # fmt: skip
DEPARTURES = (
    "06:40", "07:05", "07:50", "08:15", "09:05", "10:20", "11:35", "12:10", "13:25", "14:05", "15:45", "16:30", "17:55",
    "19:10",
)  # fmt: skip
CLASSES = {"1st class": "first class", "2nd class": "second class", "Business": "business class"}
"""Travel classes as on the page, with their wording in a goal."""
SEATS = {
    "Window": "a window seat", "Aisle": "an aisle seat", "Table": "a seat at a table",
    "Quiet coach": "a seat in the quiet coach", "Family area": "a seat in the family area",
    "Next to the door": "a seat by the door", "Upper deck": "a seat on the upper deck",
    "Facing forward": "a seat that faces forward",
}  # fmt: skip
YEAR = 2027
"""Year of the timetable, shown on the page but not mentioned in a goal."""


class Ticket(Scenario):
    """A task to book a train between two stations on a given day, in some episodes with a bicycle."""

    site = "trains"
    labels: ClassVar = {
        "from": ("From", "Start", "Leaving from"),
        "to": ("To", "Destination", "Going to"),
        "date": ("Date", "Day", "Day of travel"),
        "search": ("Search", "Find trains", "Show trains"),
        "choose": ("Select", "Choose", "Take it"),
        "seat": ("Seat", "Seat wish", "Where to sit"),
        "bicycle": ("Bicycle", "Take a bicycle", "With bicycle"),
        "news": ("Tell me about delays", "Messages about delays", "Text me if it is late"),
        "book": ("Book", "Book now", "Book the train"),
    }

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the journey, the trains of the day, and the travel options."""
        start, end = some(rng, STATIONS, 2)
        day = date(YEAR, 1, 1) + timedelta(days=int(rng.integers(365)))
        trains: list[dict[str, Any]] = [
            {"departure": each, "duration": int(rng.integers(45, 150)), "price": int(rng.integers(12, 90))}
            for each in sorted(some(rng, DEPARTURES, 6))
        ]
        departure, bicycle = trains[int(rng.integers(len(trains)))]["departure"], bool(rng.random() < 0.5)
        level, seat = one(rng, [*CLASSES]), one(rng, [*SEATS])
        self.wanted = {
            "from": start, "to": end, "date": day.isoformat(), "departure": departure, "class": level, "seat": seat,
            "bicycle": bicycle, "news": False,
        }  # fmt: skip
        goal = (
            f"Book the {departure.removeprefix('0')} train from {start} to {end} on {day.day} {day:%B}, "
            f"{CLASSES[level]}, {SEATS[seat]}{', and take a bicycle along' if bicycle else ''}."
        )
        shown = {"year": YEAR, "stations": STATIONS, "trains": trains, "classes": self.mixed(rng, [*CLASSES])}
        return goal, {**shown, "seats": ["No preference", *self.mixed(rng, [*SEATS])]}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        asked = {self.label[key]: self.wanted[key] for key in ("from", "to", "date")}
        travel = {self.wanted["class"]: True, self.label["seat"]: self.wanted["seat"]}
        travel |= {self.label["bicycle"]: True} if self.wanted["bicycle"] else {}
        return (
            fill_in(obs, asked, self.label["search"])
            or fill_in(obs, travel, self.label["book"])
            or click_in_row(obs, self.wanted["departure"])
        )
