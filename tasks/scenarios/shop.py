"""Tasks in a shop: log in, then order something, change the account, or read from the account."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, EpisodeState, Finish, Observation, Score
from selfsurf.tasks.scenarios.scenario import Scenario, click, fill_in

USERS = ("moreau", "okafor", "lindqvist", "rossi", "petrov", "baker", "tanaka", "silva")
PASSWORDS = ("lark42", "birch77", "stone18", "ember63", "delta29", "maple51")
SHELVES: dict[str, tuple[str, ...]] = {
    "Tea": ("Green Hill", "Black Pearl", "White Cloud", "Red Bush"),
    "Coffee": ("Morning Roast", "Dark Star", "Blue Mountain", "Old Town"),
    "Honey": ("Lime Blossom", "Forest", "Heather", "Acacia"),
    "Soap": ("Lavender", "Sea Salt", "Rosemary", "Orange Peel"),
}
DELIVERIES = ("Post", "Courier", "Pick up", "Locker")


class _Shop(Scenario):
    """Base of the shop's tasks, which all require a login."""

    site = "shop"
    labels: ClassVar = {
        "login": ("Log in", "Sign in", "Member login"),
        "user": ("User name", "Name", "Your user name"),
        "password": ("Password", "Your password", "Secret word"),
        "enter": ("Log in", "Enter", "Continue"),
        "basket": ("Basket", "Your basket", "Cart"),
        "add": ("Add to basket", "Put into the basket", "Add"),
        "delivery": ("Delivery", "How to deliver", "Delivery by"),
        "order": ("Order", "Order now", "Place the order"),
        "account": ("Account", "My account", "Your account"),
        "phone": ("Phone", "Phone number", "New phone"),
        "save": ("Save", "Save changes", "Store"),
    }

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the user and the order of shelves and products."""
        self.user, self.password = self.pick(rng, USERS), self.pick(rng, PASSWORDS)
        in_order = self.mixed(rng, [*SHELVES.items()])
        shelves = [{"name": name, "products": self.mixed(rng, products)} for name, products in in_order]
        shown = {"user": self.user, "password": self.password, "shelves": shelves}
        return f"Log in as {self.user} with the password {self.password}", shown

    def _log_in(self, obs: Observation) -> Action | None:
        """Return the next action of the login; None if already logged in."""
        wanted = {self.label["user"]: self.user, self.label["password"]: self.password}
        return fill_in(obs, wanted, self.label["enter"]) or click(obs, "link", self.label["login"])


class Order(_Shop):
    """A task to log in, find a product, put it into the basket, choose the delivery, and order."""

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the product and the delivery."""
        goal, shown = super().draw(rng)
        self.shelf = self.pick(rng, [*SHELVES])
        product, deliveries = self.pick(rng, SHELVES[self.shelf]), self.mixed(rng, DELIVERIES)
        self.wanted = {"items": [product], "delivery": deliveries[-1]}
        goal += f", put the {self.shelf} {product} into the basket and order it, delivery {deliveries[-1]}."
        return goal, {**shown, "deliveries": deliveries}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        product, delivery = self.wanted["items"][0], self.wanted["delivery"]
        if "It is in the basket." in obs["dom"]:
            return click(obs, "link", self.label["basket"])
        return (
            self._log_in(obs)
            or fill_in(obs, {self.label["delivery"]: delivery}, self.label["order"])
            or click(obs, "button", self.label["add"])
            or click(obs, "link", product)
            or click(obs, "link", self.shelf)
        )


class Phone(_Shop):
    """A task to log in and change the phone number of the account."""

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the new phone number."""
        goal, shown = super().draw(rng)
        phone = f"07{rng.integers(10**4, 10**5)}" if self.varied else "0741852"
        self.wanted = {"phone": phone}
        return f"{goal} and change the phone number of the account to {phone}.", {**shown, "deliveries": []}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        return (
            self._log_in(obs)
            or fill_in(obs, {self.label["phone"]: self.wanted["phone"]}, self.label["save"])
            or click(obs, "link", self.label["account"])
        )


class Login(_Shop):
    """A task to log in and answer with information that only the account shows."""

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the number of points of the account."""
        goal, shown = super().draw(rng)
        self.points = int(rng.integers(100, 1000))
        return f"{goal} and say how many points the account has.", {**shown, "deliveries": [], "points": self.points}

    async def score(self, page: Any, episode: EpisodeState) -> Score:
        """Score whether the answer contains the number of points and no other number."""
        right = episode.finished and re.findall(r"\d+", episode.answer) == [str(self.points)]
        return Score(float(right), done=episode.finished, details={"done": episode.answer or None})

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        if f"You have {self.points} points." in obs["dom"]:
            return Finish(answer=str(self.points), reason="The account shows its points.")
        return self._log_in(obs) or click(obs, "link", self.label["account"])
