import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsurf.browser_env.outline import render


def tokens(text):
    """Counts like a tokenizer: words, punctuation, and blanks in runs; so lines measure more alone than together."""
    return len(re.findall(r"\w{1,6}|[^\w\s]|\s+", text))


some_lines = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.text(st.characters(exclude_characters="\n"), max_size=30) | st.integers(1, 99).map(lambda n: f"[{n}] link"),
        st.sampled_from([0.0, 10.0, 250.5, 9000.0]),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(some_lines, st.integers(0, 400), st.sampled_from([len, tokens]))
def test_a_budget_is_never_exceeded_and_what_is_left_is_what_was_there(lines, budget, count):
    rows = ["  " * depth + text for depth, text, _ in lines]
    text = render(lines, budget, count)
    assert count(text) <= budget
    if text == "\n".join(rows):
        return
    assert count("\n".join(rows)) > budget
    shown = text.split("\n")[:-1]
    rest = iter(rows)
    assert all(row in rest for row in shown)  # a subsequence


def test_what_fits_is_not_cut():
    lines = [(0, "one", 0.0), (1, "two", 900.0)]
    assert render(lines, 9) == "one\n  two"
    assert render(lines, 9, tokens) == "one\n  two"


def test_the_farthest_goes_first_and_the_last_line_says_what_is_missing_and_where():
    lines = [(0, f"[{i}] link" if i % 2 else f"text {i}", abs(i - 30) * 40.0) for i in range(100)]
    shown = render(lines, 200).split("\n")
    assert (
        shown[-1] == "... left out, 240 px away or farther: 25 lines (12 elements) above, 64 lines (32 elements) below"
    )
    assert len(shown) == 1 + 100 - 25 - 64
    assert all(abs(int(re.search(r"\d+", row)[0]) - 30) * 40 <= 240 for row in shown[:-1])
    assert render([(0, "x" * 9, 0.0)] * 20, 99).endswith("... left out, some of it in view: 15 lines below")
    assert render(lines[:1] * 50, 25) == "... 50 lines left out"
    assert render(lines[:1] * 50, 5) == "..."


def test_what_holds_a_near_line_stays():
    lines = [(0, "list", 5000.0), (1, "listitem", 4000.0), (2, "[1] link", 0.0)]
    lines += [(0, f"far away {i}", 1000.0) for i in range(30)]
    assert render(lines, 120).split("\n")[:3] == ["list", "  listitem", "    [1] link"]


@pytest.mark.parametrize("count", [len, tokens])
def test_a_tokenizer_is_asked_about_little_more_than_what_fits(count):
    lines = [(i % 4, f'[{i}] link "Entry number {i}"', float(i)) for i in range(50_000)]
    asked = 0

    def counted(text):
        nonlocal asked
        asked += len(text)
        return count(text)

    start = time.perf_counter()
    text = render(lines, 2000, counted)
    assert time.perf_counter() - start < 2  # 0.1 s on an idle machine
    assert 1900 <= count(text) <= 2000
    assert asked < 8 * len(text)
