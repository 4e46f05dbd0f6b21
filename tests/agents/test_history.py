"""History: word for word while it is short, then counted, and always within its tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsurf.agents.prompt.history import MAX_HISTORY, compacted
from selfsurf.agents.prompt.tokens import cut


def words(text: str) -> int:
    return len(text.split())


def test_a_short_history_stands_as_it_is() -> None:
    assert compacted(["a", "a", "a"]) == "a; a; a"
    assert compacted([]) == ""


def test_earlier_steps_are_counted_and_repetitions_folded() -> None:
    following = [f'{{"click":{number}}} link "Next"' for number in range(1, 5)]
    filling = ['{"fill":9,"text":"a"} textbox "A"', '{"fill":9,"text":"b"} textbox "B"']
    recent = [
        '{"press":"Enter"}',
        '{"scroll":"down"}',
        '{"scroll":"down"}',
        '{"click":1} link "A"',
        '{"back":true}',
        "x",
    ]
    assert compacted([*following, "an unreadable reply", *filling, *recent]) == (
        'earlier: 7 steps (click x4: link "Next" x4; fill x2; an unreadable reply x1); '
        '{"press":"Enter"}; {"scroll":"down"} x2; {"click":1} link "A"; {"back":true}; x'
    )
    assert compacted(["a"] * 9) == "a x9"


def test_a_full_form_counts_by_its_kind() -> None:
    history = ['{"action":"click","x":1.0,"y":2.0}', "b", "c", "d", "e", "f"]
    assert compacted(history).startswith("earlier: 1 step (click x1); b; c")


def test_less_is_shown_where_there_is_less_room() -> None:
    history = [f'{{"click":{number}}} link "word {number % 2}"' for number in range(20)]
    shown = [compacted(history, limit, words) for limit in (30, 20, 14, 6, 3, 0)]
    assert [words(text) for text in shown] == sorted((words(text) for text in shown), reverse=True)
    assert shown[0].count('{"click"') == 5
    assert 0 < shown[2].count('{"click"') < 5
    assert shown[3] == "earlier: 19 steps (click x19); click"
    assert shown[5] == ""


@settings(max_examples=50, deadline=None)
@given(
    history=st.lists(
        st.one_of(st.text(max_size=30), st.sampled_from(['{"click":4} link "Eget"', '{"a":', "{}", '{"back":true}']))
    ),
    limit=st.integers(0, 40),
)
def test_it_keeps_to_its_limit(history: list[str], limit: int) -> None:
    assert words(compacted(history, limit, words)) <= limit


def test_a_limit_needs_a_measure() -> None:
    with pytest.raises(ValueError, match="count"):
        compacted(["a"] * (MAX_HISTORY + 1), 10)


@given(text=st.text(alphabet="ab  é漢\n", max_size=400), limit=st.integers(0, 60))
def test_cut_texts_keep_to_their_limit(text: str, limit: int) -> None:
    def count(part: str) -> int:
        return len(part.encode())  # a tokenizer of bytes

    short = cut(text, limit, count)
    assert count(short) <= limit
    if count(text) <= limit:
        assert short == text
    elif short:
        kept, _, note = short.rpartition("… (")
        assert text.startswith(kept)
        assert note == f"{count(text)} tokens, cut)"
        assert count(short) > limit - 12 or kept == text[: len(kept) + 1].rstrip()
