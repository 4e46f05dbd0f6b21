"""Oracles of games, and of drawing with checkboxes."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env import Action, Click, Hover, Observation
from selfsurf.tasks.miniwob.oracles.base import Notes, click, elements, oracle, quoted, submit

DIGITS = (
    ".##. #..# #..# #..# #..# #..# .##.",
    "..#. .##. ..#. ..#. ..#. ..#. ..#.",
    ".##. #..# #..# ..#. .#.. #... ####",
    ".##. #..# ...# .##. ...# #..# .##.",
    "#... #.#. #.#. #### ..#. ..#. ..#.",
    "#### #... #... ###. ...# #..# .##.",
    ".##. #..# #... ###. #..# #..# .##.",
    "#### #..# ...# ..#. ..#. .#.. .#..",
    ".##. #..# #..# .##. #..# #..# .##.",
    ".##. #..# #..# .### ...# #..# .##.",
)
"""Shapes of the digits in rows of four checkboxes."""


@oracle("number-checkboxes")
def number_checkboxes(obs: Observation) -> Action | None:
    """Tick the boxes that draw the digit, row by row, then submit."""
    digit = quoted(obs["goal"])[0]
    rows = DIGITS[int(digit)].split()
    for index, box in enumerate(elements(obs, "checkbox")):
        row = rows[index // 4]
        should = row[index % 4] == "#"
        if should != ("checked" in box["states"]):
            why = f'Row {index // 4 + 1} of a "{digit}" is {row}, so its box {index % 4 + 1}'
            return Click(id=box["id"], reason=f"{why} must {'' if should else 'not '}be ticked.")
    return submit(obs, f'The boxes draw a "{digit}", so Submit comes next.')


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


@oracle("tic-tac-toe")
def tic_tac_toe(obs: Observation) -> Action | None:
    """Take the cell that gives X the highest probability of winning."""
    cells = elements(obs, "generic")
    if len(cells) != 9:
        return None
    board = "".join({"mark-x": "X", "mark-o": "O"}.get(cell["name"], ".") for cell in cells)
    free = [at for at, mark in enumerate(board) if mark == "."]
    if not free:
        return None
    chances = {at: _chance(_put(board, at, "X")) for at in free}
    best = max(free, key=lambda at: chances[at])
    where = f"Row {best // 3 + 1}, column {best % 3 + 1}"
    if _won(_put(board, best, "X"), "X"):
        return click([cells[best]], f"{where} completes a line of three X.")
    if _won(_put(board, best, "O"), "O"):
        return click([cells[best]], f"{where} keeps O from completing a line.")
    return click([cells[best]], f"{where} gives X the best chances of a line of three.")


def _put(board: str, at: int, mark: str) -> str:
    return board[:at] + mark + board[at + 1 :]


def _won(board: str, mark: str) -> bool:
    return any(all(board[at] == mark for at in line) for line in LINES)


@cache
def _chance(board: str) -> float:
    """Return X's probability of winning when O is next. O plays at random half of the time, else wins or blocks."""
    if _won(board, "X"):
        return 1.0
    free = [at for at, mark in enumerate(board) if mark == "."]
    if not free:
        return 0.0
    replies = {at: _answered(_put(board, at, "O")) for at in free}
    random = sum(replies.values()) / len(free)
    winning = [at for at in free if _won(_put(board, at, "O"), "O")]
    clever = winning or [at for at in free if _won(_put(board, at, "X"), "X")] or free
    return (random + sum(replies[at] for at in clever) / len(clever)) / 2


def _answered(board: str) -> float:
    """Return X's probability of winning when X is next."""
    if _won(board, "O"):
        return 0.0
    return max((_chance(_put(board, at, "X")) for at, mark in enumerate(board) if mark == "."), default=0.0)


WORDS = ("HOT", "WARM", "COLD", "ICE COLD")
DISTANCES = (5, 10, 40)
"""Distances from the spot, in pixels, at which the page's answer changes to the next word."""


@oracle("hot-cold")
def hot_cold(obs: Observation, notes: Notes) -> Action | None:
    """Search for the spot by moving the mouse to the most informative point; click where the answer is HOT."""
    area = elements(obs, "generic")[:1]
    if not area:
        return None
    answers: dict[tuple[float, float], int] = notes.setdefault("answers", {})
    heard = re.search(f"^({'|'.join(WORDS)})$", obs["page_text"], re.MULTILINE)
    over = re.fullmatch(r'\{"action": "hover", "x": ([\d.]+), "y": ([\d.]+)\}', obs["last_action"])
    so_far = ""
    if heard and over:
        x, y = float(over.group(1)), float(over.group(2))
        if heard.group() == "HOT":
            return Click(x=x, y=y, reason=f"It is HOT at {x:g}, {y:g}.")
        answers[x, y] = WORDS.index(heard.group())
        so_far = f"It is {heard.group()} at {x:g}, {y:g}, and "
    x, y = most_telling(area[0]["bbox"], answers)
    return Hover(x=x, y=y, reason=f"{so_far}{x:g}, {y:g} is the place to try that tells most about where it is HOT.")


def most_telling(
    box: tuple[float, float, float, float], answers: dict[tuple[float, float], int]
) -> tuple[float, float]:
    """Return the point whose answer best divides the remaining positions of the spot."""
    spots = _grid(box, 3)
    possible = spots
    for at, word in answers.items():
        away = np.hypot(*(possible - at).T)
        low, high = (0, *DISTANCES, np.inf)[word : word + 2]
        possible = possible[(away > low - 2) & (away < high + 2)]  # the spot may be between grid points
    if not len(possible):
        answers.clear()
        possible = spots
    tries = possible if len(possible) < 400 else _grid(box, 8)
    words = np.digitize(np.hypot(*(tries[:, None] - possible).transpose(2, 0, 1)), DISTANCES)
    alike = sum(np.count_nonzero(words == word, axis=1) ** 2 for word in range(len(WORDS)))
    x, y = tries[np.argmin(alike)]
    return float(x), float(y)


def _grid(box: tuple[float, float, float, float], step: int) -> NDArray[np.float64]:
    left, top, width, height = box
    return np.array([(left + x, top + y) for x in range(3, int(width), step) for y in range(3, int(height), step)])
