from itertools import product

import numpy as np
import pytest

from selfsurf.sdft.measure.statistics import (
    Mcnemar,
    draw_tasks_and_episodes,
    interval_over_tasks,
    interval_over_tasks_and_episodes,
    mcnemar,
    resampled_means,
    sign_flip_over_tasks,
    unanimous,
    wilson_interval,
)


def test_wilson_is_the_published_one():
    # Newcombe 1998, table I: 81 of 263, and 0 of 20
    assert wilson_interval(81 / 263, 263).low == pytest.approx(0.2553, abs=1e-4)
    assert wilson_interval(81 / 263, 263).high == pytest.approx(0.3662, abs=1e-4)
    assert wilson_interval(0, 20).low == 0
    assert wilson_interval(0, 20).high == pytest.approx(0.1611, abs=1e-4)


def test_a_resample_draws_tasks_and_then_their_episodes():
    tasks = [0, 0, 0, 1, 2, 2]
    drawn = draw_tasks_and_episodes(tasks, 500)
    assert drawn.shape == (500, 6)
    by_task = np.stack([drawn[:, :3].sum(1) / 3, drawn[:, 3], drawn[:, 4:].sum(1) / 2], axis=1)
    assert (by_task == by_task.round()).all()  # a drawn task brings as many episodes as it has
    assert (by_task.sum(1) == 3).all()
    assert (drawn[:, 0] != drawn[:, 1]).any()  # and these are drawn, too
    assert np.allclose(drawn.mean(0), 1, atol=0.15)


def test_the_order_of_episodes_does_not_matter_to_a_resample():
    scattered = draw_tasks_and_episodes([1, 0, 1, 0, 1], 300)
    assert set((scattered[:, [0, 2, 4]].sum(1) / 3).tolist()) <= {0, 1, 2}
    assert set((scattered[:, [1, 3]].sum(1) / 2).tolist()) <= {0, 1, 2}


def test_many_draws_are_made_in_pieces_that_fit():
    drawn = draw_tasks_and_episodes(list(np.repeat(np.arange(120), 50)), 1000)
    assert (drawn.sum(1) == 6000).all()
    assert drawn[-1].any()


def test_what_is_not_there_is_in_no_mean():
    drawn = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])
    values = np.array([[1.0], [np.nan], [0.5]])
    assert resampled_means(drawn, values)[:, 0].tolist() == [1.0, 0.5]


@pytest.mark.parametrize(("tasks", "seeds"), [(40, 5), (125, 3)])
def test_the_interval_holds_the_truth_as_often_as_it_says(tasks, seeds):
    rng = np.random.default_rng(7)
    numbers = list(np.repeat(np.arange(tasks), seeds))
    drawn = draw_tasks_and_episodes(numbers, 1000)
    hits, rounds = 0, 300
    for _ in range(rounds):  # tasks from Beta(0.6, 0.9), whose mean is 0.4
        values = rng.random((tasks, seeds)) < rng.beta(0.6, 0.9, size=tasks)[:, None]
        found = interval_over_tasks_and_episodes(values.ravel().astype(float).tolist(), numbers, 0, 1, drawn)
        hits += found.low <= 0.4 <= found.high
    assert 0.93 <= hits / rounds <= 0.995


def test_trials_taken_for_independent_would_hold_the_truth_too_rarely():
    rng = np.random.default_rng(8)
    hits, rounds, tasks, seeds = 0, 300, 40, 5
    for _ in range(rounds):
        values = rng.random((tasks, seeds)) < rng.beta(0.6, 0.9, size=tasks)[:, None]
        found = wilson_interval(float(values.mean()), tasks * seeds)
        hits += found.low <= 0.4 <= found.high
    assert hits / rounds < 0.9


def test_one_task_has_wilsons_interval_and_never_one_without_width():
    none = interval_over_tasks_and_episodes([0.0] * 5, [3] * 5, 0, 1)
    assert (none.kind, none.low) == ("wilson", 0)
    assert none.high == pytest.approx(0.4345, abs=1e-4)
    assert interval_over_tasks_and_episodes([-1.0, 0.5], [0, 0], -1, 1) is None
    assert interval_over_tasks_and_episodes([], [], 0, 1) is None


def test_tasks_that_all_show_the_same_count_as_one_trial_each():
    whole = interval_over_tasks_and_episodes([1.0] * 50, list(np.repeat(np.arange(10), 5)), 0, 1)
    assert whole.kind == "unanimous"
    assert (whole.low, whole.high) == (pytest.approx(wilson_interval(1, 10).low), pytest.approx(1))
    nothing = unanimous(0.0, 10, 0, 1)
    assert (nothing.low, nothing.high) == (0, pytest.approx(wilson_interval(0, 10).high))
    assert unanimous(0.0, 100, -1, 1).low == -unanimous(0.0, 100, -1, 1).high < 0


def test_the_sign_flip_test_is_the_share_of_all_choices_of_signs():
    differences, tasks = [1, 1, 0, -1, 1, 1, 0, 1, -1, 0, 1, 1], [0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 6]
    sums = [2, 0, 1, 1, -1, 0, 2]
    choices = [abs(sum(a * b for a, b in zip(sums, signs, strict=True))) for signs in product((1, -1), repeat=7)]
    by_hand = sum(each >= abs(sum(sums)) for each in choices) / len(choices)
    assert sign_flip_over_tasks(differences, tasks) == pytest.approx(by_hand)


def test_the_sign_flip_test_on_what_is_known():
    assert sign_flip_over_tasks([1] * 5, list(range(5))) == pytest.approx(2 / 2**5)
    assert sign_flip_over_tasks([1] * 25, list(np.repeat(np.arange(5), 5))) == pytest.approx(
        2 / 2**5
    )  # five tasks, not 25 trials
    assert sign_flip_over_tasks([0, 0, 0], [0, 1, 2]) == 1
    assert sign_flip_over_tasks([1, -1], [0, 1]) == 1
    assert 0 < sign_flip_over_tasks([1] * 625, list(np.repeat(np.arange(125), 5))) < 1e-30


def test_the_sign_flip_test_finds_nothing_as_rarely_as_it_says_where_there_is_nothing():
    rng = np.random.default_rng(9)
    tasks = list(np.repeat(np.arange(30), 4))
    found = 0
    for _ in range(400):  # seeds of a task go the same way: taken for independent they would be found far more often
        differences = np.repeat(rng.integers(-1, 2, size=30), 4)
        found += sign_flip_over_tasks(differences.tolist(), tasks) <= 0.05
    assert found / 400 <= 0.075


def test_the_interval_of_a_difference_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(10)
    tasks = list(np.repeat(np.arange(60), 4))
    hits = 0
    for _ in range(300):
        chance = rng.random(60)
        first = rng.random((60, 4)) < chance[:, None] * 0.6
        other = rng.random((60, 4)) < 0.2 + chance[:, None] * 0.6  # 0.2 more
        found = interval_over_tasks((other.astype(float) - first).ravel().tolist(), tasks, 1)
        hits += found.low <= 0.2 <= found.high
    assert 0.9 <= hits / 300 <= 0.99


def test_a_difference_without_spread_and_without_tasks():
    same = interval_over_tasks([0.0] * 20, list(np.repeat(np.arange(10), 2)), 1)
    assert same.low == -same.high == pytest.approx(-wilson_interval(0, 10).high)
    assert interval_over_tasks([1.0, 0.0], [0, 0], 1) is None


def test_mcnemar_counts_pairs_by_who_solved_them():
    assert mcnemar([True, True, False, False, False], [True, False, True, True, False]) == Mcnemar(1, 1, 2, 1)
