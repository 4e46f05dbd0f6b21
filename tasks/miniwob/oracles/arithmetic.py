"""Oracles of tasks with numbers: comparing, calculating, guessing."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Element, Observation
from selfsurf.tasks.miniwob.oracles.base import Notes, click, elements, fill_then_submit, oracle, submit, was_clicked
from selfsurf.tasks.miniwob.oracles.sliders import middle


@oracle("ascending-numbers")
def ascending_numbers(obs: Observation, notes: Notes) -> Action | None:
    """Click the numbers in order from 1. The first click covers them, so their positions are kept in the notes."""
    where: dict[int, tuple[float, float]] = notes.setdefault("numbers", {})
    shown = elements(obs, "generic")
    where.update({int(e["name"]): middle(e) for e in shown if e["name"].isdigit()})

    def number(box: Element) -> int:
        if box["name"].isdigit():
            return int(box["name"])
        x, y = middle(box)
        return min(where, key=lambda n: (where[n][0] - x) ** 2 + (where[n][1] - y) ** 2, default=0)

    boxes = sorted(shown, key=number)
    if not boxes:
        return None
    lowest = number(boxes[0])
    covered = "" if boxes[0]["name"].isdigit() else f", and the box now covers the place where {lowest} was"
    return click(boxes, f"{lowest} is the lowest number that is left{covered}.")


@oracle("find-greatest")
def find_greatest(obs: Observation) -> Action | None:
    """Pick the card with the greatest number, then submit."""
    cards = [card for card in elements(obs, "generic") if card["name"].isdigit()]
    if not cards:
        return None
    greatest = max(cards, key=lambda card: int(card["name"]))
    if was_clicked(obs, greatest):
        return submit(obs, f"The card with {greatest['name']} is picked, so Submit is next.")
    return click([greatest], f"{greatest['name']} is the greatest of {', '.join(card['name'] for card in cards)}.")


@oracle("generate-number")
def generate_number(obs: Observation) -> Action | None:
    """Generate numbers until one fits, then submit."""
    condition = obs["goal"].removeprefix("Generate ").removesuffix(", then press submit.")
    shown = re.search(r"^\d+$", obs["page_text"], re.MULTILINE)
    if shown is None:
        return click(elements(obs, "button", "Generate"), f"There is no number yet; it must be {condition}.")
    number = int(shown.group())
    if _fits(number, condition):
        return submit(obs, f"{number} is {condition}.")
    return click(elements(obs, "button", "Generate"), f"{number} is not {condition}, so another one is needed.")


def _fits(number: int, condition: str) -> bool:
    bound = re.search(r"(less|greater) than (\d+)", condition)
    if bound is None:
        return number % 2 == ("odd" in condition)
    return number < int(bound.group(2)) if bound.group(1) == "less" else number > int(bound.group(2))


@oracle("guess-number")
def guess_number(obs: Observation, notes: Notes) -> Action | None:
    """Find the number from 0 to 9 by bisection, based on the answers so far."""
    low, high = notes.get("low", 0), notes.get("high", 9)
    if answer := re.search(r"is (lower|higher) than (-?\d+)", obs["page_text"]):
        bound = int(answer.group(2))
        low, high = (low, min(high, bound - 1)) if answer.group(1) == "lower" else (max(low, bound + 1), high)
        notes.update(low=low, high=high)
    guess = str((low + high) // 2)
    why = f"The number is between {low} and {high}, and {guess} is in the middle."
    return fill_then_submit(obs, elements(obs, "spinbutton"), guess, why)


@oracle("odd-or-even")
def odd_or_even(obs: Observation) -> Action | None:
    """Mark each number with the button Odd or Even of its row, then submit."""
    odd, even = elements(obs, "button", "Odd"), elements(obs, "button", "Even")
    numbers = re.findall(r"^-?\d+$", obs["page_text"], re.MULTILINE)
    for number, left, right in zip(numbers, odd, even, strict=False):
        button = left if int(number) % 2 else right
        if "selected" not in button["states"]:
            return click([button], f"{number} is {button['name'].lower()}.")
    return submit(obs, f"{', '.join(numbers)} are marked, so Submit comes next.")


@oracle("simple-algebra")
def simple_algebra(obs: Observation) -> Action | None:
    """Solve the equation for x, fill in the result, then submit."""
    match = re.search(r"^(x|\d+) ([+-]) (x|\d+) = (-?\d+)", obs["page_text"], re.MULTILINE)
    if match is None:
        return None
    left, sign, right, result = match.groups()
    if left == "x":
        x = int(result) - int(right) if sign == "+" else int(result) + int(right)
        how = f"{result} {'-' if sign == '+' else '+'} {right}"
    else:
        x = int(result) - int(left) if sign == "+" else int(left) - int(result)
        how = f"{result} - {left}" if sign == "+" else f"{left} - {result}"
    return _answer(obs, x, f"From {match.group()} follows x = {how} = {x}.")


@oracle("simple-arithmetic")
def simple_arithmetic(obs: Observation) -> Action | None:
    """Calculate, fill in the result, then submit."""
    match = re.search(r"^(\d+) ([+x-]) (\d+) =", obs["page_text"], re.MULTILINE)
    if match is None:
        return None
    one, two = int(match.group(1)), int(match.group(3))
    result = {"+": one + two, "-": one - two, "x": one * two}[match.group(2)]
    return _answer(obs, result, f"{match.group()} {result}.")


@oracle("visual-addition")
def visual_addition(obs: Observation) -> Action | None:
    """Add up the numbers of blocks, fill in the sum, then submit."""
    counts = [int(number or 1) for number in re.findall(r"(?:(\d+) )?#[0-9a-f]{6} box", obs["dom"])]
    if not counts:
        return None
    return _answer(obs, sum(counts), f"There are {' + '.join(str(count) for count in counts)} = {sum(counts)} blocks.")


def _answer(obs: Observation, number: int, why: str) -> Action | None:
    """Fill the number into the only text field, then submit."""
    return fill_then_submit(obs, elements(obs, "textbox"), str(number), why)
