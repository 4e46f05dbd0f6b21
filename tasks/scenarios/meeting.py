"""A company's meeting rooms: log in, choose a day, and reserve one of the rooms in a table."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, Observation
from selfsurf.tasks.scenarios.scenario import Scenario, click, fill_in, find, one, some

ROOMS = (
    "Amber", "Birch", "Cedar", "Dune", "Elm", "Fjord", "Grove", "Heath", "Iris", "Juniper", "Lagoon", "Meadow",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
LENGTHS = ("30 minutes", "1 hour", "2 hours", "Half a day")
SCREENS = ("Projector", "Whiteboard", "Television")
STAFF = (("nora", "pine31"), ("emil", "lake90"), ("jana", "moss57"), ("theo", "sand26"))


class Meeting(Scenario):
    """A task to log in, choose the day, and reserve the room, duration and equipment given in the goal."""

    site = "meeting"
    labels: ClassVar = {}

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the user, the rooms and the reservation to make."""
        self.user, self.password = STAFF[int(rng.integers(len(STAFF)))]
        rooms = [
            {"name": name, "floor": int(rng.integers(1, 7)), "seats": 2 * int(rng.integers(2, 12))}
            for name in some(rng, ROOMS, 4)
        ]
        day, length, screen = one(rng, DAYS), one(rng, LENGTHS), one(rng, SCREENS)
        room = rooms[int(rng.integers(4))]["name"]
        self.wanted = {"day": day, "room": room, "length": length, "equipment": screen}
        goal = (
            f"Log in as {self.user} with the password {self.password} and reserve the room {room} on "
            f"{day} for {length.lower()}, with a {screen.lower()}."
        )
        shown = {"days": DAYS, "rooms": rooms, "lengths": LENGTHS, "equipment": SCREENS}
        return goal, {"user": self.user, "password": self.password, **shown}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        login = {"User name": self.user, "Password": self.password}
        wanted = {"Duration": self.wanted["length"], self.wanted["equipment"]: True}
        if find(obs, "Duration"):
            return fill_in(obs, wanted, "Send request")
        return (
            fill_in(obs, login, "Log in")
            or click(obs, "button", f"Reserve {self.wanted['room']}")
            or click(obs, "link", self.wanted["day"])
        )
