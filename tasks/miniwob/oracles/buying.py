"""Oracles of tasks that buy tickets, meals or stock."""

from __future__ import annotations

import re
from typing import NamedTuple

from selfsurf.browser_env import Action, Click, Element, Observation, Wait
from selfsurf.tasks.miniwob.oracles.base import Notes, click, elements, last_done, oracle, outline, text_lines

MOVE = 1.5
"""Largest change of a stock's price in dollars; the price changes ten times a second."""
SOON = 25.0
"""Milliseconds until the stock's price is checked again when it is about to become acceptable."""


class Offer(NamedTuple):
    """A ticket or flight, with the button that buys it."""

    button: Element
    price: int
    minutes: int

    @property
    def about(self) -> str:
        """Price and duration of the offer, as text."""
        return f"${self.price}, {self.minutes // 60}h {self.minutes % 60}m"


def offers(obs: Observation) -> list[Offer]:
    """Return the offers listed on the page, each with its duration above its button."""
    durations = [match.groups() for match in text_lines(obs, r"(\d+)h (\d+)m")]
    buttons = [e for e in elements(obs, "button") if e["name"].startswith("Book ")]
    return [
        Offer(button, int(button["name"].split("$")[1]), int(hours) * 60 + int(minutes))
        for button, (hours, minutes) in zip(buttons, durations, strict=False)
    ]


def best(obs: Observation, wish: str) -> Action | None:
    """Buy the cheapest, most expensive, shortest or longest offer."""
    listed = offers(obs)
    if not listed:
        return None
    by_price = sorted(listed, key=lambda offer: offer.price)
    by_time = sorted(listed, key=lambda offer: offer.minutes)
    choices = {"cheapest": by_price[0], "most expensive": by_price[-1], "shortest": by_time[0], "longest": by_time[-1]}
    chosen = choices[wish]
    return Click(id=chosen.button["id"], reason=f"Of the {len(listed)} offers, this is the {wish}: {chosen.about}.")


@oracle("buy-ticket")
def buy_ticket(obs: Observation) -> Action | None:
    """Buy the ticket that best meets the goal's criterion."""
    match = re.search(r"cheapest|most expensive|shortest|longest", obs["goal"])
    return best(obs, match[0]) if match else None


class Dish(NamedTuple):
    """A dish on the menu: its kinds (such as vegan), the number ordered, and the buttons for one less or more."""

    name: str
    kinds: list[str]
    ordered: int
    less: int
    more: int


def menu(obs: Observation) -> list[Dish]:
    """Read the menu. Each dish has a name, images of its kinds, a minus, its number unless 0, and a plus."""
    found = []
    name, kinds, ordered, less = "", list[str](), 0, 0
    for line in outline(obs):
        if kind := re.fullmatch(r'img "(.+)"', line.text):
            kinds.append(kind[1])
        elif line.id is None and line.text.isdigit():
            ordered = int(line.text)
        elif line.id is None:
            name, kinds = line.text, []
        elif line.text.endswith('"-"'):
            ordered, less = 0, line.id
        elif line.text.endswith('"+"'):
            found.append(Dish(name, kinds, ordered, less, line.id))
    return found


@oracle("order-food")
def order_food(obs: Observation) -> Action | None:
    """Order one of each dish named, or the given number of a kind, all from the first dish that fits."""
    dishes = menu(obs)
    if amount := re.fullmatch(r"Order (\d+) items that are (.+)", obs["goal"]):
        fitting = [dish for dish in dishes if amount[2] in dish.kinds]
        others = sum(dish.ordered for dish in fitting[1:])
        counts = {dish.name: dish.ordered for dish in fitting}
        counts[fitting[0].name] = max(0, int(amount[1]) - others)
        surplus = others - int(amount[1])
        for dish in fitting[1:]:
            if surplus > 0 and dish.ordered:
                counts[dish.name] = dish.ordered - min(surplus, dish.ordered)
                surplus -= dish.ordered
        why = f"{amount[1]} {amount[2]} items are asked for, and {{}} is {amount[2]}."
    else:
        names = [name.strip() for name in obs["goal"].split(":", 1)[1].split(",")]
        counts = dict.fromkeys(names, 1)
        why = "{} is one of the items that the goal names."
    for dish in dishes:
        wanted = counts.get(dish.name, 0)
        if dish.ordered > wanted:
            return Click(id=dish.less, reason=f"{dish.ordered} of {dish.name} are ordered, but it should be {wanted}.")
    for dish in dishes:
        if dish.ordered < counts.get(dish.name, 0):
            return Click(id=dish.more, reason=why.format(dish.name))
    return click(elements(obs, "button", "Order!"), "The order is as the goal wants it, so it can be placed.")


@oracle("stock-market")
def stock_market(obs: Observation, notes: Notes) -> Action | None:
    """Buy when the price is low enough to remain acceptable until the click, or has just become acceptable."""
    limit = float(re.findall(r"\$([\d.]+)\.", obs["goal"])[0])
    shown = re.search(r"Stock price: \$(\d+\.\d\d)", obs["page_text"])
    if not shown:
        return Wait(ms=50, reason="There is no price yet.")
    price = float(shown[1])
    before, notes["price"] = notes.get("price"), price
    just_changed = before != price and last_done(obs) == {"action": "wait", "ms": SOON}
    if price <= limit - MOVE or (price <= limit and just_changed):
        return click(elements(obs, "button", "Buy"), f"The price is ${price:.2f}, which is not above ${limit:.2f}.")
    if price <= limit:
        return Wait(ms=SOON, reason=f"${price:.2f} would do, but it may change any moment: the next change is awaited.")
    ms = max(SOON, round((price - limit) / MOVE * 200))
    return Wait(ms=ms, reason=f"${price:.2f} is more than ${limit:.2f}, so it has to fall first.")
