"""Guards: what each overrides, what it only notes, what it lets pass, and what is counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from selfsurf.agents.guards import (
    EmptyText,
    Guard,
    Loop,
    LowConfidence,
    MissingAnswer,
    Repetition,
    Submit,
    VanishedElement,
    apply,
    counts,
    guard_names,
    make_guards,
)
from selfsurf.agents.guards.goal import asks
from selfsurf.agents.policy import Completion
from selfsurf.browser_env.actions import (
    Action,
    AskUser,
    Click,
    Fill,
    Finish,
    Infeasible,
    Message,
    Press,
    Scroll,
    Select,
    Type,
    Wait,
)
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.observe.delta import NO_CHANGE, make_delta
from selfsurf.browser_env.observe.outlines import Outlines

Make = Callable[..., Observation]
MakeElement = Callable[..., Element]


def with_values(form: Observation, **values: str) -> Observation:
    """The form with these values in its fields, by name."""
    elements = tuple({**item, "value": values.get(item["name"], item["value"])} for item in form["elements"])
    return Observation(**{**form, "elements": elements})


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


@pytest.mark.parametrize("kind", [Fill, Type])
def test_a_field_that_holds_a_text_may_be_cleared(form: Observation, kind: Any) -> None:
    held = with_values(form, Name="old")
    assert EmptyText().check(kind(id=3, text=""), held, 'Clear the field called "Name".').action.text == ""


def test_third_repetition_is_overridden(form: Observation) -> None:
    guard = Repetition()
    assert [guard.check(Click(id=7), form, "").note for _ in range(2)] == ["", ""]
    verdict = guard.check(Click(id=7), form, "")
    assert verdict.action == Press(key="Escape")
    assert "changed nothing 2 times" in verdict.note
    assert "Do something else" in verdict.feedback
    changed = Observation(**{**form, "page_text": "more"})
    assert guard.check(Click(id=7), changed, "").note == ""


def test_repetition_goes_by_the_page_where_the_outline_tells_changes(form: Observation) -> None:
    guard, whole = Repetition(), Outlines().whole
    more = f"{form['dom']}\nMore"
    for dom in (form["dom"], make_delta(form["dom"], more), NO_CHANGE):
        assert guard.check(Click(id=7), whole(Observation(**{**form, "dom": dom})), "").note == ""
    same = whole(Observation(**{**form, "dom": NO_CHANGE}))
    assert guard.check(Click(id=7), same, "").action == Press(key="Escape")


def test_scrolling_is_a_change(form: Observation) -> None:
    guard = Repetition()
    for step in range(5):
        moved = tuple({**item, "bbox": (0.0, -400.0 * step, 10.0, 10.0)} for item in form["elements"])
        page = Observation(**{**form, "elements": moved})
        assert guard.check(Scroll(dy=400), page, "").note == ""


def test_escape_scrolls_where_there_is_more(form: Observation) -> None:
    below = {**form["elements"][0], "in_viewport": False}
    page = Observation(**{**form, "elements": (*form["elements"][1:], below)})
    guard = Repetition()
    guard.limit = 1
    guard.check(Click(id=7), page, "")
    assert guard.check(Click(id=7), page, "").action == Scroll(dy=400)
    assert guard.check(Click(id=7), page, "").action == Scroll(dy=-400)
    assert guard.check(Click(id=7), page, "").action == Press(key="Escape")
    assert guard.check(Click(id=7), page, "").action == Wait(ms=1000)
    last = guard.check(Click(id=7), page, "")
    assert last.action == Click(id=7)
    assert "nor did anything else" in last.note
    assert guard.check(Click(id=7), page, "").action == Scroll(dy=400), "it does not give up"


@pytest.mark.parametrize("length", [2, 3, 4])
def test_circles_are_left(observation: Make, element: MakeElement, length: int) -> None:
    """Going from page to page and back; elements have other ids whenever a page is opened again."""
    guard = Loop()
    notes = []
    for step in range(2 * length + 1):
        place = step % length
        page = observation("Go.", [element(step + 1, "link", f"to {place + 1}")], page_text=f"page {place}")
        verdict = guard.check(Click(id=step + 1), page, "")
        notes.append(verdict.note)
    assert notes[:-1] == [""] * (2 * length)
    assert verdict.action == Press(key="Escape")
    assert f"same {length} actions" in notes[-1]
    assert "Do something else" in verdict.feedback
    assert guard.check(Click(id=step + 1), page, "").action == Wait(ms=1000), "Escape changed nothing"
    assert guard.check(Click(id=step + 1), page, "").action == Click(id=step + 1), "all was tried"
    assert guard.check(Press(key="Enter"), page, "").note == "", "something else"


def test_a_circle_is_seen_behind_a_clock_and_moving_focus(observation: Make, element: MakeElement) -> None:
    guard = Loop()
    notes = []
    clock = "It is 10:00:0{}, sale ends in {} minutes left"
    for step, before in ((-3, ""), (-2, Wait(ms=10).to_json())):
        elements = [element(1, "button", "A"), element(2, "button", "B")]
        guard.check(
            Wait(ms=10), observation("Go.", elements, page_text=clock.format(step, step), last_action=before), ""
        )
    for step in range(5):
        focused = [("focused",) if step and step % 2 == other else () for other in (1, 0)]
        elements = [element(1, "button", "A", states=focused[0]), element(2, "button", "B", states=focused[1])]
        page = observation("Go.", elements, page_text=clock.format(step, 9 - step))
        notes.append(guard.check(Click(id=1 + step % 2), page, "").note)
    assert notes[:4] == [""] * 4
    assert "same 2 actions" in notes[4]


def test_a_new_state_breaks_the_circle(observation: Make, element: MakeElement) -> None:
    guard = Loop()
    elements = [element(1, "button", "A"), element(2, "button", "B")]
    for step in range(20):
        page = observation("Go.", elements, page_text=f"{step} done")
        assert guard.check(Click(id=1 + step % 2), page, "").note == ""


@pytest.mark.parametrize(
    ("goal", "name", "pressed"),
    [
        ('Type "hello" into the comment box.', "Post", False),
        ('Write a reply to Bob that says "hi" and leave it as a draft.', "Send", False),
        ('Send "hi" to Bob.', "Send message", True),
        ('Type "hi" and press "Post".', "Post", True),
        ('Type "hello" into the box.', "Save", True),
    ],
)
def test_what_the_goal_does_not_name_is_not_sent(
    observation: Make, element: MakeElement, goal: str, name: str, pressed: bool
) -> None:
    guard = Submit()
    page = observation(goal, [element(1, "textbox", "Text", value="hi"), element(2, "button", name)])
    guard.check(Fill(id=1, text="hi"), page, goal)
    assert guard.check(Finish(), page, goal).action == (Click(id=2) if pressed else Finish())


def test_typed_text_is_submitted_before_the_end(form: Observation) -> None:
    guard = Submit()
    assert guard.check(Fill(id=3, text="Ada"), form, form["goal"]).note == ""
    typed = with_values(form, Name="Ada")
    verdict = guard.check(Finish(), typed, form["goal"])
    assert verdict.action == Click(id=7)
    assert "Submit" in verdict.note
    assert guard.check(Finish(), typed, form["goal"]).action == Finish()


@pytest.mark.parametrize(
    ("between", "page", "goal"),
    [
        ([Click(id=7)], {"Name": "Ada"}, "Enter it."),
        ([Press(key="Enter")], {"Name": "Ada"}, "Enter it."),
        ([Press(key="return")], {"Name": "Ada"}, "Enter it."),
        ([Type(id=3, text="Ada\n")], {"Name": "Ada"}, "Enter it."),
        ([], {"Name": ""}, "Enter it."),
        ([], {"Name": "Ada"}, "Enter it, but do not submit."),
    ],
    ids=["pressed", "Enter", "return", "typed Enter", "field is empty", "not wanted"],
)
def test_nothing_is_submitted(form: Observation, between: list[Action], page: dict[str, str], goal: str) -> None:
    guard = Submit()
    for action in [Fill(id=3, text="Ada"), *between]:
        guard.check(action, with_values(form, **page), goal)
    assert guard.check(Finish(), with_values(form, **page), goal).action == Finish()


def test_the_button_of_the_field_is_pressed(observation: Make, element: MakeElement) -> None:
    """Not the search of the page's head, not what buys, not what is disabled; typing without an id is where the focus is."""
    page = observation(
        "Log in.",
        [
            element(1, "button", "Search"),
            element(2, "textbox", "Password", value="x", states=("focused",)),
            element(3, "button", "Buy now"),
            element(4, "button", "Save", states=("disabled",)),
            element(5, "button", "Continue", frame="http://other/"),
            element(6, "button", "Log in"),
        ],
    )
    guard = Submit()
    guard.check(Type(text="x"), page, "")
    assert guard.check(Finish(), page, "").action == Click(id=6)


@pytest.mark.parametrize(
    ("goal", "asked"),
    [
        ("What is the price of the lamp?", True),
        ("Find the lamp and tell me its price.", True),
        ("how many links are there", True),
        ("Which is cheaper, A or B", True),
        ("Click on the link.", False),
        ('Enter "What is it?" into the field.', False),
        ("Open the page on how many birds there are.", False),
        ("Go to http://a/?q=1 and press OK.", False),
    ],
)
def test_questions(goal: str, asked: bool) -> None:
    assert asks(goal) is asked


def test_an_answer_is_asked_for_twice(form: Observation) -> None:
    goal = "What is the price?"
    guard = MissingAnswer()
    for _ in range(2):
        verdict = guard.check(Finish(answer=" "), form, goal)
        assert verdict.action == Wait(ms=0)
        assert "answer" in verdict.feedback
    last = guard.check(Finish(), form, goal)
    assert last.action == Finish()
    assert last.note
    assert guard.check(Finish(answer="9"), form, goal).note == ""


def test_no_answer_is_asked_for(form: Observation) -> None:
    assert MissingAnswer().check(Finish(), form, "Press OK.").note == ""
    guard = MissingAnswer()
    guard.check(Message(text="It costs 9."), form, "What is the price?")
    assert guard.check(Finish(), form, "What is the price?").note == ""


def test_vanished_and_disabled_are_noted(form: Observation) -> None:
    assert "99" in VanishedElement().check(Click(id=99), form, "").note
    page = Observation(**{**form, "elements": ({**form["elements"][0], "states": ("disabled",)},)})
    assert "disabled" in VanishedElement().check(Click(id=3), page, "").note


def test_a_vanished_element_is_found_again(observation: Make, element: MakeElement) -> None:
    guard = VanishedElement()
    guard.check(Click(id=1), observation("Go.", [element(1, "link", "Next"), element(2, "link", "Help")]), "")
    again = observation("Go.", [element(11, "link", "Next"), element(12, "link", "Help"), element(13, "link", "Help")])
    verdict = guard.check(Click(id=1, count=2), again, "")
    assert verdict.action == Click(id=11, count=2)
    assert "11" in verdict.note
    twice = guard.check(Click(id=2), again, "")
    assert twice.action == Click(id=2)
    assert "not on the page" in twice.note


def test_notes_are_joined_and_counted(form: Observation) -> None:
    guards = make_guards()
    verdict = apply(guards, Fill(id=99, text=""), form, form["goal"])
    assert verdict.action == Fill(id=99, text="Ada")
    assert "typed" in verdict.note
    assert "99" in verdict.note
    assert counts(guards) == {"vanished.noticed": 1, "empty_text.overridden": 1}
    assert apply(guards, Click(id=7), form, form["goal"]).note == ""
    assert counts(guards) == {"vanished.noticed": 1, "empty_text.overridden": 1}


def test_every_guard_has_its_name_and_a_count() -> None:
    names = [guard.name for guard in make_guards()]
    assert len(names) == len(set(names)) == 7
    guard: Any
    for guard in make_guards():
        assert isinstance(guard, Guard)
        assert not guard.counts


def test_guards_are_chosen_by_name() -> None:
    assert [guard.name for guard in make_guards(["loop", "submit"])] == ["submit", "loop"]
    assert make_guards(False) == [] == make_guards([])
    assert guard_names(True) == tuple(guard.name for guard in make_guards())
    with pytest.raises(ValueError, match=r"Unknown guards \['lop'\]: choose from vanished, "):
        guard_names(["lop"])


@pytest.fixture
def booking(observation: Make, element: MakeElement) -> Observation:
    names = (("combobox", "Room"), ("textbox", "Guest"), ("link", "Prices"), ("button", "Confirm booking"))
    elements = [element(number, role, name) for number, (role, name) in enumerate(names, 1)]
    return observation("Book a double room for Ada.", elements)


def told(guard: Guard, action: Action, obs: Observation, *likely: float) -> Action:
    guard.heard(Completion("", [], [1] * len(likely), [math.log(one) for one in likely], None, "eos"))
    return guard.check(action, obs, obs["goal"]).action


CONFIRM = Click(id=4)


def test_what_cannot_be_undone_is_asked_about_where_a_choice_was_unsure(booking: Observation) -> None:
    guard = LowConfidence()
    assert told(guard, Select(id=1, options=("Double",)), booking, 0.99, 0.5, 0.9) == Select(id=1, options=("Double",))
    assert told(guard, Click(id=3), booking, 0.99) == Click(id=3), "a link does no harm"
    asked = told(guard, CONFIRM, booking, 0.99)
    assert isinstance(asked, AskUser)
    assert "only 45% sure of 'Double in Room'" in asked.question
    assert CONFIRM.to_json() in asked.question
    for said, expected in (("yes", CONFIRM), ("no", Infeasible)):
        other = LowConfidence()
        told(other, Select(id=1, options=("Double",)), booking, 0.45)
        question = told(other, CONFIRM, booking, 0.99)
        assert isinstance(question, AskUser)
        messages = ({"role": "assistant", "text": question.question}, {"role": "user", "text": said})
        answered = Observation(**{**booking, "messages": messages})  # type: ignore[typeddict-item]
        action = told(other, CONFIRM, answered, 0.99)
        assert action == expected if said == "yes" else isinstance(action, Infeasible), said


def test_where_nobody_answers_the_agent_gives_up(booking: Observation) -> None:
    guard = LowConfidence()
    told(guard, Click(id=3), booking, 0.3)
    assert isinstance(told(guard, CONFIRM, booking, 1.0), AskUser)
    given_up = told(guard, CONFIRM, booking, 1.0)
    assert isinstance(given_up, Infeasible)
    assert "30% sure of 'Prices'" in given_up.reason


def test_a_sure_choice_and_what_nobody_heard_pass(booking: Observation) -> None:
    guard = LowConfidence()
    assert told(guard, Click(id=3), booking, 0.9) == Click(id=3)
    assert told(guard, Fill(id=2, text="Ada"), booking, 0.3) == Fill(id=2, text="Ada"), "a text is copied in many ways"
    assert told(guard, CONFIRM, booking, 0.8) == CONFIRM
    assert LowConfidence().check(CONFIRM, booking, booking["goal"]).action == CONFIRM
