"""A hotel booking site: log in, find a city's hotels, and book one with a room and a date."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, Observation
from selfsurf.tasks.scenarios.scenario import Scenario, click, fill_in, one, some

HOTELS = (
    "Seaview", "Harbour Inn", "Alpine Lodge", "Old Mill", "Grand Central", "Riverside", "The Crown", "Garden House",
    "Station Hotel", "Sunrise", "White Horse", "Castle View",
)  # fmt: skip
CITIES = ("Porto", "Bergen", "Graz", "Ghent", "Leeds", "Turin", "Basel", "Cork")
ROOMS = ("Single", "Double", "Suite")
USERS = (("ines", "tide88"), ("otto", "fern12"), ("mila", "coal45"), ("remy", "silk07"))


class Hotel(Scenario):
    """A task to log in, search for a city, and book the hotel, room and date given in the goal."""

    site = "hotel"
    labels: ClassVar = {}

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the user, the cities with their hotels, and the booking to make."""
        self.user, self.password = USERS[int(rng.integers(len(USERS)))]
        names = some(rng, HOTELS, 9)
        cities: list[dict[str, Any]] = [
            {
                "name": city,
                "hotels": [{"name": name, "price": int(rng.integers(50, 200))} for name in names[at : at + 3]],
            }
            for city, at in zip(some(rng, CITIES, 3), (0, 3, 6), strict=True)
        ]
        self.city = cities[int(rng.integers(3))]
        hotel, room = self.city["hotels"][int(rng.integers(3))]["name"], one(rng, ROOMS)
        month, day = int(rng.integers(1, 11)), int(rng.integers(1, 29))
        self.wanted = {"hotel": hotel, "room": room, "date": f"2027-{month:02}-{day:02}", "breakfast": True}
        goal = (
            f"Log in as {self.user} with the password {self.password} and book the hotel {hotel} in "
            f"{self.city['name']}, a {room.lower()} room with breakfast, arriving on {self.wanted['date']}."
        )
        shown = {"user": self.user, "password": self.password, "cities": cities, "rooms": ["Any room", *ROOMS]}
        return goal, shown

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        city, login = self.city["name"], {"User name": self.user, "Password": self.password}
        return (
            fill_in(obs, login, "Log in")
            or fill_in(
                obs,
                {"Room": self.wanted["room"], "Arrival": self.wanted["date"], "Breakfast": True},
                "Confirm booking",
            )
            or click(obs, "link", f"Book {self.wanted['hotel']}")
            or fill_in(obs, {"City": city}, "Search")
        )
