"""A garden center: choose a plant on its card, its size, the quantity, and the time of delivery."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, Observation
from selfsurf.tasks.scenarios.scenario import Scenario, click, fill_in, find, one, some

PLANTS = (
    "lavender", "rosemary", "fern", "oleander", "sage", "olive tree", "fig", "jasmine", "clematis", "hydrangea",
    "thyme", "lemon tree",
)  # fmt: skip
SIZES = ("Small", "Medium", "Large")
SLOTS = ("Morning (8-12)", "Afternoon (12-17)", "Evening (17-20)")
PEOPLE = ("Ada Brook", "Ben Hale", "Cleo Marsh", "Dana Reed", "Eli Stone", "Faye Wood")
NUMBERS = ("one", "two", "three", "four", "five", "six")


class Nursery(Scenario):
    """A task to order the plant, size and quantity given in the goal, for a name and a time of day."""

    site = "nursery"
    labels: ClassVar = {}

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the plants and the order to place."""
        plants = [{"name": name, "price": int(rng.integers(4, 40))} for name in some(rng, PLANTS, 5)]
        plant, size = plants[int(rng.integers(5))]["name"], one(rng, SIZES)
        number, slot, name = int(rng.integers(1, 7)), one(rng, SLOTS), one(rng, PEOPLE)
        self.wanted = {"plant": plant, "size": size, "number": str(number), "slot": slot, "name": name}
        goal = (
            f"Order {NUMBERS[number - 1]} pots of {plant} in the {size.lower()} size for {name}, to be delivered "
            f"in the {slot.partition(' ')[0].lower()}."
        )
        return goal, {"plants": plants, "sizes": SIZES, "slots": SLOTS}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        wanted = self.wanted
        if find(obs, "Number"):
            fields = {
                wanted["size"]: True,
                "Number": wanted["number"],
                "Delivery": wanted["slot"],
                "Name": wanted["name"],
            }
            return fill_in(obs, fields, "Order now")
        return click(obs, "button", f"Choose {wanted['plant']}") or click(obs, "link", "All plants")
