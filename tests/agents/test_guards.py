"""Guards: what each overrides, what it only notes, and what it lets pass."""

from __future__ import annotations

from agents.guards import EmptyText, Repetition, Vanished, apply, default_guards
from browser_env.actions import Click, Fill, Press, Scroll
from browser_env.observation import Observation


def test_empty_text_is_taken_from_the_goal(form: Observation) -> None:
    verdict = EmptyText().check(Fill(id=3, text=" "), form, form["goal"])
    assert verdict.action == Fill(id=3, text="Ada")
    assert "Ada" in verdict.note


def test_empty_text_is_noted_when_the_goal_quotes_nothing(form: Observation) -> None:
    verdict = EmptyText().check(Fill(id=3, text=""), form, "Type your name.")
    assert verdict.action == Fill(id=3, text="")
    assert verdict.note


def test_empty_text_may_clear(form: Observation) -> None:
    assert EmptyText().check(Fill(id=3, text=""), form, "Clear the field.").note == ""


def test_third_repetition_is_overridden(form: Observation) -> None:
    guard = Repetition()
    assert [guard.check(Click(id=7), form, "").note for _ in range(2)] == ["", ""]
    verdict = guard.check(Click(id=7), form, "")
    assert verdict.action == Press(key="Escape")
    assert "changed nothing 2 times" in verdict.note
    changed = Observation(**{**form, "dom": form["dom"] + "\nmore"})
    assert guard.check(Click(id=7), changed, "").note == ""


def test_scrolling_is_a_change(form: Observation) -> None:
    guard = Repetition()
    for step in range(5):
        moved = tuple({**item, "bbox": (0.0, -400.0 * step, 10.0, 10.0)} for item in form["elements"])
        page = Observation(**{**form, "elements": moved})
        assert guard.check(Scroll(dy=400), page, "").note == ""


def test_escape_scrolls_where_there_is_more(form: Observation) -> None:
    below = {**form["elements"][0], "in_viewport": False}
    page = Observation(**{**form, "elements": (*form["elements"][1:], below)})
    guard = Repetition(limit=1)
    guard.check(Click(id=7), page, "")
    assert guard.check(Click(id=7), page, "").action == Scroll(dy=400)
    assert guard.check(Click(id=7), page, "").action == Scroll(dy=-400)
    assert guard.check(Click(id=7), page, "").action == Press(key="Escape")
    last = guard.check(Click(id=7), page, "")
    assert last.action == Click(id=7)
    assert last.note


def test_vanished_and_disabled_are_noted(form: Observation) -> None:
    assert "99" in Vanished().check(Click(id=99), form, "").note
    page = Observation(**{**form, "elements": ({**form["elements"][0], "states": ("disabled",)},)})
    assert "disabled" in Vanished().check(Click(id=3), page, "").note


def test_notes_are_joined(form: Observation) -> None:
    verdict = apply(default_guards(), Fill(id=99, text=""), form, form["goal"])
    assert verdict.action == Fill(id=99, text="Ada")
    assert "typed" in verdict.note
    assert "99" in verdict.note
