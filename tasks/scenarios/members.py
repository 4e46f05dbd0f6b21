"""A club's member administration: find a member in a table and change role and phone."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, Observation
from selfsurf.tasks.scenarios.form import PEOPLE, TOWNS
from selfsurf.tasks.scenarios.scenario import Scenario, click_in_row, fill_in, one, some
from selfsurf.tasks.scenarios.shop import PASSWORDS, USERS

ROLES = ("Auditor", "Coach", "Editor", "Guest", "Moderator", "Organiser", "Secretary", "Treasurer", "Volunteer")
COUNTRIES = {
    "Austria": "+43", "Belgium": "+32", "Canada": "+1", "France": "+33", "Germany": "+49", "Ireland": "+353",
    "Italy": "+39", "Norway": "+47", "Poland": "+48", "Portugal": "+351", "Spain": "+34", "Switzerland": "+41",
}  # fmt: skip
"""Calling codes by country."""


class EditMember(Scenario):
    """A task to sign in and change a member who has a namesake in another city.

    Removing a member ends the episode as failed: `details["done"]` is then `{"removed": name, "city": city}`.
    """

    site = "members"
    labels: ClassVar = {
        "user": ("User name", "Name", "Your user name"),
        "password": ("Password", "Your password", "Secret word"),
        "enter": ("Sign in", "Log in", "Enter"),
        "members": ("Members", "All members", "Member list"),
        "edit": ("Edit", "Change", "Details"),
        "remove": ("Remove", "Delete", "Take out"),
        "full": ("Full name", "Member's name", "First and last name"),
        "role": ("Role", "Role in the club", "Position"),
        "country": ("Phone country", "Country code", "Country of the phone"),
        "phone": ("Phone", "Phone number", "Number"),
        "save": ("Save", "Save changes", "Store"),
    }

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the administrator, the table of members, and the change to one of them."""
        self.user, self.password = one(rng, USERS), one(rng, PASSWORDS)
        name, *others = [" ".join(PEOPLE[index]) for index in rng.permutation(len(PEOPLE))[:7]]
        city, role, country = one(rng, TOWNS), one(rng, ROLES), one(rng, [*COUNTRIES])
        cities = [city, one(rng, [town for town in TOWNS if town != city]), *some(rng, TOWNS, 6)]
        roles, countries = [each for each in ROLES if each != role], [each for each in COUNTRIES if each != country]
        members = [
            {"name": who, "city": where, "role": one(rng, roles), "country": one(rng, countries), "phone": _phone(rng)}
            for who, where in zip([name, name, *others], cities, strict=True)
        ]
        self.wanted = {"name": name, "city": city, "role": role, "country": country, "phone": _phone(rng)}
        article = "an" if role[0] in "AEIOU" else "a"
        goal = (
            f"Sign in as {self.user} with the password {self.password}. Make {name} in {city} {article} {role.lower()} "
            f"and change the phone to {self.wanted['phone']} in {country}."
        )
        shown = {"user": self.user, "password": self.password, "roles": self.mixed(rng, ROLES), "codes": COUNTRIES}
        return goal, {**shown, "members": [members[index] for index in rng.permutation(len(members))]}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        country = self.wanted["country"]
        change = {
            self.label["role"]: self.wanted["role"],
            self.label["country"]: f"{country} ({COUNTRIES[country]})",
            self.label["phone"]: self.wanted["phone"],
        }
        return (
            fill_in(obs, {self.label["user"]: self.user, self.label["password"]: self.password}, self.label["enter"])
            or fill_in(obs, change, self.label["save"])
            or click_in_row(obs, self.wanted["name"], self.wanted["city"])
        )


def _phone(rng: np.random.Generator) -> str:
    return f"07{rng.integers(10**4, 10**5)}"
