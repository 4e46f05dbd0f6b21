"""What another day's page may differ in, on pages written by hand: lists to choose from, answers to be read, alike rows."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from selfsurf.browser_env.actions import Click, Fill, Finish, Select
from selfsurf.browser_env.outline import element_line, parse_outline
from selfsurf.sdft.rows.variation import turns_of, varied
from selfsurf.sdft.teacher.recording import RecordedStep, Recording

SHOP = ("Mug", "Lamp", "Chair", "Clock", "Scarf")


def element(id, role, name, value="", tag="a"):
    placed = {"bbox": (0.0, 0.0, 9.0, 9.0), "in_viewport": True, "frame": ""}
    return {"id": id, "role": role, "name": name, "value": value, "tag": tag, "states": (), **placed}


def page(*lines):
    """An observation of elements and lines of text; its text is all of them."""
    elements = [line for line in lines if isinstance(line, dict)]
    rows = [element_line(line) if isinstance(line, dict) else line for line in lines]
    text = "\n".join(line["name"] if isinstance(line, dict) else line for line in lines)
    told = {"goal": "", "last_action": "", "last_error": "", "title": "", "url": "http://shop.test/"}
    lists = {"messages": [], "tabs": [], "events": []}
    return {**told, **lists, "dom": "\n".join(rows), "page_text": text, "elements": elements}


def variations(goal, *steps, count=60):
    recording = Recording(
        "Browser-v0", goal, 0, tuple(RecordedStep({**seen, "goal": goal}, done) for seen, done in steps)
    )
    return [varied(recording, np.random.default_rng(seed)) for seed in range(count)]


def name_of(shown):
    return next(one["name"] for one in shown.observation["elements"] if one["id"] == shown.action.id)


@pytest.mark.parametrize("goal", ["Order three Mugs.", "Order a mug.", "Order the Mug."])
def test_what_was_chosen_stays_what_the_goal_says_in_any_case_and_number(goal):
    links = page(*(element(number, "link", name) for number, name in enumerate(SHOP, 1)))
    others = variations(goal, (links, Click(id=1)))
    for one in others:
        (shown,) = one.steps
        names = Counter(each["name"].lower() for each in shown.observation["elements"])
        assert re.search(rf"\b{name_of(shown)}(e?s)?\b", one.goal, re.IGNORECASE), (one.goal, name_of(shown))
        assert set(names.values()) == {1}, "no drawn word is another one's name"
    chosen = {name_of(one.steps[0]) for one in others}
    assert chosen & set(SHOP[1:]), "it trades places"
    assert chosen - set(SHOP), "or has another name"


def test_what_the_goal_names_stands_anywhere_among_its_kind():
    radios = [element(number, "radio", name, tag="input") for number, name in enumerate(SHOP[:3], 1)]
    form = page("group", *(f"  {element_line(one)}" for one in radios), element(4, "button", "Order", tag="button"))
    form["elements"] = [*radios, *form["elements"]]
    places, alone = Counter(), 0
    for one in variations("Order the Lamp.", (form, Click(id=2)), count=200):
        (shown,) = one.steps
        ids = [line.id for line in parse_outline(shown.observation["dom"]) if line.text.startswith("radio")]
        places[ids.index(shown.action.id)] += 1
        names = {each["id"]: each["name"] for each in shown.observation["elements"]}
        alone += len(ids) == 3 and {names[id] for id in ids if id != shown.action.id} == {"Mug", "Chair"}
    assert min(places[place] for place in range(3)) > 30, "its place tells nothing"
    assert alone < 60, "nor does a new name among those that were there"


def test_options_stand_anywhere():
    field = {**element(1, "combobox", "Delivery", "Post", tag="select"), "options": ("Post", "Courier", "Pick up")}
    form = page(field, '  option "Post" selected', '  option "Courier"', '  option "Pick up"')
    places, shown_first = Counter(), 0
    for one in variations("Send it by Courier.", (form, Select(id=1, options=("Courier",))), count=300):
        (shown,) = one.steps
        rows = [line._replace(id=0).element for line in parse_outline(shown.observation["dom"]) if line.id is None]
        (chosen,) = [place for place, row in enumerate(rows) if row.name == shown.action.options[0]]
        places[chosen] += 1
        shown_first += rows[chosen].states == "selected"
    assert min(places[place] for place in range(3)) > 80, "its place tells nothing"
    assert 70 < shown_first < 130, "nor that another one is shown"


def test_a_secret_stays_what_it_is_called():
    form = page(element(1, "textbox", "User", tag="input"), element(2, "textbox", "Password", tag="input"))
    said = "<secret:password>"
    steps = [(form, Fill(id=1, text="ada")), (form, Fill(id=2, text=said))]
    for one in variations(f'Log in as "ada" with {said}, the password.', *steps):
        typed = {shown.action.text for shown in one.steps}  # the fields may have changed places
        assert said in typed
        assert all(text in one.goal for text in typed)


def test_a_value_is_not_put_into_what_only_looks_like_it():
    field = element(1, "textbox", "Quantity", tag="input")
    for one in variations("Order 2 of them.", (page('heading "Cart for 2" level=2', field), Fill(id=1, text="2"))):
        (shown,) = one.steps
        heading = next((row for row in shown.observation["dom"].split("\n") if row.startswith("heading")), None)
        assert shown.action.text in one.goal
        assert heading == f'heading "Cart for {shown.action.text}" level=2'


def test_an_answer_that_the_page_said_is_read_from_it():
    points = page("You have 417 points.", element(1, "link", "Home"), "Thank you")
    others = variations("How many points are there?", (points, Finish(answer="417")))
    assert len({one.steps[0].action.answer for one in others}) > 10
    for one in others:
        assert f"You have {one.steps[0].action.answer} points." in one.steps[0].observation["dom"]


def test_what_tells_alike_buttons_apart_is_not_left_out():
    rows = [line for number, name in enumerate(SHOP, 1) for line in (name, element(number, "button", "Add"))]
    for one in variations("Put the Lamp into the cart.", (page("News", *rows), Click(id=2))):
        lines = parse_outline(one.steps[0].observation["dom"])
        place = next(at for at, line in enumerate(lines) if line.id == one.steps[0].action.id)
        assert lines[place - 1].text in one.goal


def test_fields_change_places_with_those_of_their_role():
    fields = [
        element(1, "textbox", "City", tag="input"), element(2, "spinbutton", "Pieces", tag="input"),
        element(3, "textbox", "Note", tag="input"), element(4, "textbox", "Password", tag="input"),
    ]  # fmt: skip
    typed = ["Oslo", "3", "soon", "secret"]
    steps = []
    for place, text in enumerate(typed):
        values = [*typed[:place], *[""] * (4 - place)]
        shown = [{**one, "value": value} for one, value in zip(fields, values, strict=True)]
        if place == 3:
            steps.append((page(*shown), Fill(id=4, text=text)))
            shown = [*shown[:3], {**shown[3], "value": "••••••"}]
            steps.append((page(*shown), Finish()))
        else:
            steps.append((page(*shown), Fill(id=place + 1, text=text)))
    orders = set()
    for one in variations("Fill it in.", *steps):
        first = [(each["role"], each["name"]) for each in one.steps[0].observation["elements"]]
        assert first[1][0] == "spinbutton"
        assert "Pieces" in first[1][1] or first[1][1] not in ("City", "Note", "Password")
        orders.add(tuple(name for _, name in first if name in ("City", "Note")))
    assert {("City", "Note"), ("Note", "City")} <= orders


@pytest.mark.parametrize(
    ("after", "turns"),
    [
        ({}, [8, 3]),
        ({"url": "http://shop.test/cart"}, [8, 1]),
        ({"elements": [element(number, "link", "Help") for number in (4, 6, 7)]}, [8, 1]),
    ],
    ids=["the same page", "another address", "other elements"],
)
def test_a_choice_is_learned_most_often_and_what_comes_after_it_on_its_page_oftener_than_the_rest(after, turns):
    radios = [element(number, "radio", name, tag="input") for number, name in enumerate(SHOP[:3], 1)]
    form = page(*radios, element(4, "button", "Order", tag="button"), element(5, "button", "Back", tag="button"))
    steps = (RecordedStep(form, Click(id=2)), RecordedStep({**form, **after}, Click(id=4)))
    recording = Recording("Browser-v0", "Buy the Lamp.", 0, steps)
    assert Counter(index for _, index in turns_of([recording])) == dict(enumerate(turns))


def test_what_the_goal_names_to_click_is_learned_oftener():
    form = page(element(1, "button", "Log in", tag="button"), element(2, "button", "Next", tag="button"))
    steps = (RecordedStep(form, Click(id=1)), RecordedStep({**form, "url": "http://shop.test/next"}, Click(id=2)))
    recording = Recording("Browser-v0", "Log in and look around.", 0, steps)
    assert Counter(index for _, index in turns_of([recording])) == {0: 3, 1: 1}
    assert Counter(index for _, index in turns_of([recording, recording])) == {0: 6, 1: 2}
    other = replace(recording, goal="Log in, then look around.")
    assert Counter(index for _, index in turns_of([recording, other])) == {0: 6, 1: 2}
    form = page(element(1, "button", "Log in", tag="button"), element(2, "button", "Continue", tag="button"))
    elsewhere = replace(
        other, steps=tuple(RecordedStep({**form, "url": one.observation["url"]}, one.action) for one in steps)
    )
    assert Counter(index for _, index in turns_of([recording, elsewhere])) == {0: 2, 1: 2}, "they show what changes"
