import math

import pytest

from selfsurf.tasks.miniwob.oracles.games import DIGITS, DISTANCES, most_telling, tic_tac_toe
from selfsurf.tasks.miniwob.oracles.words import alike


def cells(board):
    """What an agent sees of a board, as far as the oracle looks at it."""
    names = {"X": "mark-x", "O": "mark-o", ".": ""}
    return {"elements": [{"id": at, "role": "generic", "name": names[mark]} for at, mark in enumerate(board)]}


@pytest.mark.parametrize(
    ("board", "best", "why"),
    [
        ("XX.OO....", 2, "completes"),
        ("OO.X.....", 2, "keeps O from"),
        (".........", 0, "best chances"),
    ],
)
def test_tic_tac_toe_wins_blocks_and_begins_in_a_corner(board, best, why):
    action = tic_tac_toe(cells(board))
    assert action.id == best
    assert why in action.reason


def test_tic_tac_toe_has_no_move_on_a_full_or_missing_board():
    assert tic_tac_toe(cells("XOXOXOOXO")) is None
    assert tic_tac_toe({"elements": []}) is None


@pytest.mark.parametrize("spot", [(5, 55), (154, 169), (80, 110), (5, 169), (33, 71)])
def test_the_hot_spot_is_found_in_few_tries(spot):
    answers = {}
    for _ in range(15):
        at = most_telling((2.0, 52.0, 156.0, 127.0), answers)
        distance = math.dist(at, spot)
        if distance < DISTANCES[0]:
            return
        answers[at] = sum(distance >= bound for bound in DISTANCES)
    raise AssertionError("not found")


def test_answers_that_fit_no_spot_are_forgotten():
    answers = {(20.0, 70.0): 1, (150.0, 170.0): 1}
    most_telling((2.0, 52.0, 156.0, 127.0), answers)
    assert answers == {}


def test_digits_are_seven_rows_of_four():
    assert [[len(row) for row in digit.split()] for digit in DIGITS] == [[4] * 7] * 10


def test_words_are_alike_within_their_group_only():
    assert alike("water", "water")
    assert alike("TV", "television")
    assert not alike("TV", "tv")
    assert not alike("odd", "old")
