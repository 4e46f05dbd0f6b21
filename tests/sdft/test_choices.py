"""What the goal decides among several: nothing but the goal may tell the right one, in any of thousands of variations."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policy import Completion, Policy
from selfsurf.agents.scripted import OracleAgent
from selfsurf.browser_env.actions import Click, Fill, Select
from selfsurf.browser_env.goal.words import said_as, shared_words
from selfsurf.browser_env.outline import element_line, parse_outline
from selfsurf.sdft.measure.agreement import ChoiceAgreement
from selfsurf.sdft.measure.following import TRIES, followed, untold
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.choices import choices_of
from selfsurf.sdft.rows.dates import days_in
from selfsurf.sdft.rows.variation import varied
from selfsurf.sdft.teacher.recording import RecordedStep, Recording, load_recordings
from selfsurf.tasks.scenarios import SITES
from tests.few import few
from tests.sdft.test_variation import element, page

GOAL = "Book the Seaview hotel in Porto for two guests, a double room, arriving on 6 May 2027."
HOTELS = {"Harbour Inn": "90 EUR", "Seaview": "120 EUR", "Alpine Lodge": "70 EUR", "Old Mill": "65 EUR"}
ROOMS, GUESTS = ("Single room", "Double room", "Family suite", "Suite"), ("1", "2", "3", "4")
COUNT = 2000
TOLERATED = 0.05


def select(id, name, value, options):
    return {**element(id, "combobox", name, value, tag="select"), "options": options}


def options(field):
    return [f'  option "{one}"' + " selected" * (one == field["value"]) for one in field["options"]]


def hotel():
    """A recorded flow: a hotel of a list, a room and the guests of two selects, a date."""
    rows = [line for n, (name, price) in enumerate(HOTELS.items(), 10) for line in (
        name, price, element(n, "link", f"Book {name}"))]  # fmt: skip
    found = page(
        element(1, "link", "Home"), element(2, "link", "Log out"), 'heading "Hotels" level=2', *rows, "Since 1987"
    )
    steps, room, guests, date = [(found, Click(id=11))], "Single room", "1", ""

    def form():
        fields = [select(20, "Room", room, ROOMS), select(21, "Guests", guests, GUESTS)]
        rows = [row for field in fields for row in (element_line(field), *options(field))]
        arrival = element(22, "textbox", "Arrival", date, tag="input")
        seen = page('heading "Seaview" level=2', "Seaview in Porto, 120 EUR", *rows, arrival)
        return {**seen, "elements": [*fields, *seen["elements"]]}

    steps.append((form(), Select(id=20, options=("Double room",))))
    room = "Double room"
    steps.append((form(), Select(id=21, options=("2",))))
    guests = "2"
    steps.append((form(), Fill(id=22, text="2027-05-06")))
    return Recording("Browser-v0", GOAL, 0, tuple(RecordedStep({**seen, "goal": GOAL}, done) for seen, done in steps))


def rows():
    """A recorded choice of one of several like rows, by two of their columns."""
    flights = [("Oslo", "14:00"), ("Oslo", "15:30"), ("Rome", "14:00"), ("Turin", "17:45")]
    lines = [line for n, (city, time) in enumerate(flights, 5) for line in (
        "  row", f"    {city}", f"    {time}", f'    [{n}] button "Choose"')]  # fmt: skip
    seen = page("table", *lines)
    seen = {**seen, "elements": [element(n, "button", "Choose", tag="button") for n in range(5, 9)]}
    goal = "Fly to Oslo at 15:30."
    return Recording("Browser-v0", goal, 0, (RecordedStep({**seen, "goal": goal}, Click(id=6)),))


@pytest.fixture(scope="module")
def variations():
    """Variations of the hotel's flow."""
    recording = hotel()
    return [varied(recording, np.random.default_rng(seed), invented=seed % 10 > 2) for seed in range(COUNT)]


def offered(shown):
    """What might be chosen at a step, in the order of the outline and of the elements; what is, and what is shown."""
    elements = {one["id"]: one for one in shown.observation["elements"]}
    if shown.action.name == "select":
        field = elements[shown.action.id]
        lines = [line._replace(id=0).element.name for line in parse_outline(shown.observation["dom"])
                 if line.text.startswith("option ")]  # fmt: skip
        return (
            [one for one in lines if one in field["options"]],
            [*field["options"]],
            shown.action.options[0],
            field["value"],
        )
    form = elements[shown.action.id]["name"].split()[0]
    lines = [line.element.name for line in parse_outline(shown.observation["dom"]) if line.element]
    ordered = [one["name"] for one in shown.observation["elements"]]
    return (
        *([one for one in names if one.split()[0] == form] for names in (lines, ordered)),
        elements[shown.action.id]["name"],
        "",
    )


RULES = {
    "first": lambda names, shown, known: names[0],
    "second": lambda names, shown, known: names[min(1, len(names) - 1)],
    "last": lambda names, shown, known: names[-1],
    "longest": lambda names, shown, known: max(names, key=len),
    "shortest": lambda names, shown, known: min(names, key=len),
    "most words": lambda names, shown, known: max(names, key=lambda one: len(one.split())),
    "first that is not shown": lambda names, shown, known: next(one for one in names if one != shown),
    "first that was recorded": lambda names, shown, known: next((one for one in names if one in known), names[0]),
    "first that is new": lambda names, shown, known: next((one for one in names if one not in known), names[0]),
    "the recorded one": lambda names, shown, known: next((one for one in names if one == known[1]), names[0]),
    "first of the alphabet": lambda names, shown, known: min(names),
    "the odd one": lambda names, shown, known: min(
        names, key=lambda one: sum((one in known) == (other in known) for other in names)
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("step", "known"),
    [(0, [f"Book {one}" for one in HOTELS]), (1, ROOMS), (2, GUESTS)],
    ids=["hotel", "room", "guests"],
)
def test_no_rule_that_does_not_read_the_goal_is_right_more_often_than_chance(variations, step, known, rule):
    right, chance = Counter(), 0.0
    for one in variations:
        outline, structure, chosen, shown = offered(one.steps[step])
        assert sorted(outline) == sorted(structure), "both say the same"
        chance += 1 / len(outline)
        for view, names in (("outline", outline), ("structure", structure)):
            right[view] += RULES[rule](names, shown, known) == chosen
    assert max(right.values()) / COUNT <= chance / COUNT + TOLERATED


def test_goal_page_and_action_never_contradict_one_another(variations):
    for one in variations:
        assert all(shown.observation["goal"] == one.goal for shown in one.steps)
        _, room, guests, arrival = one.steps
        value = next(choice.value for choice in choices_of(one) if choice.step == 0)
        assert f'heading "{value}"' in room.observation["dom"], "the next page is about it"
        assert f"{value} in " in room.observation["page_text"]
        (chosen,), (number,) = room.action.options, guests.action.options
        assert shared_words(chosen, one.goal, [each for each in offered(room)[0] if each != chosen]), (one.goal, chosen)
        assert said_as(number, one.goal), (one.goal, number)
        field = next(each for each in guests.observation["elements"] if each["id"] == room.action.id)
        assert field["value"] == chosen, "what was chosen is shown"
        assert f'option "{chosen}" selected' in guests.observation["dom"]
        (wanted,), (typed,) = days_in(one.goal), days_in(arrival.action.text)
        assert wanted.day == typed.day


def test_a_row_moves_with_all_that_is_in_it():
    recording = rows()
    (choice,) = choices_of(recording)
    assert choice.columns == (("Oslo", "Oslo", "Rome", "Turin"), ("14:00", "15:30", "14:00", "17:45"))
    places = Counter()
    for seed in range(400):
        one = varied(recording, np.random.default_rng(seed))
        (again,) = choices_of(one)
        assert again.columns, one.goal
        assert all(re.search(re.escape(column[again.chosen]), one.goal) for column in again.columns)
        places[again.chosen] += 1
    assert min(places[place] for place in range(4)) > 70


@pytest.mark.parametrize(
    ("text", "goal", "others", "shared"),
    [
        ("Book Seaview", "Book the Seaview hotel.", ["Book Harbour"], "Seaview"),
        ("Germany (+49)", "Call the office in Germany.", ["Greece (+30)"], "Germany"),
        ("Mugs", "Order one mug.", ["Lamps"], "Mugs"),
        ("2", "A room for two.", ["1", "3"], "2"),
        ("double ROOM", "A Double Room, please", ["Suite"], "double ROOM"),
        ("The end", "The book", ["The start"], ""),
        ("Log in", "Log in as ada.", ["Help"], "Log in"),
    ],
)
def test_what_a_name_shares_with_a_goal(text, goal, others, shared):
    assert shared_words(text, goal, others) == shared


class Chooser(Policy):
    """Clicks a link "Book NAME": the one of the goal, or the first."""

    name, guidance, sees_images = "chooser", "none", False
    prompt_budget, parameter_count, context_length = 4000, None, None

    def __init__(self, reads: bool) -> None:
        self._reads = reads

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def count_prompt_tokens(self, messages: Any, prefill: str = "") -> int:
        return sum(self.count_tokens(message.text) for message in messages)

    def complete(self, conversations: Any, **options: Any) -> list[Completion]:
        return [Completion(self._reply(each[-1].text), [], [], [], None, "eos") for each in conversations]

    def _reply(self, prompt: str) -> str:
        links = {id: name for name, id in re.findall(r'link "Book ([^"]+)" \{"click":(\d+)\}', prompt)}
        goal = prompt.partition("\n")[0]
        said = [id for id, name in links.items() if name.lower() in goal.lower()]
        return f'{{"click":{(said if self._reads and said else [*links])[0]}}}'


@pytest.mark.parametrize("reads", [True, False])
def test_an_adapter_that_reads_the_goal_is_told_from_one_that_does_not(reads):
    recording = replace(hotel(), steps=hotel().steps[:1])
    agent = LLMAgent(Chooser(reads), constrained=False, vision="none", prompt="compact")
    (found,) = followed(agent, [recording])
    assert (found.label, found.of) == ("Book", TRIES)
    assert found.enough is reads
    assert (found.right == TRIES) if reads else (found.right < TRIES / 2)


def ticked(recording, *, tick):
    """The recording with a checkbox on its last page, ticked or not."""
    *before, last = recording.steps
    box = element(30, "checkbox", "Breakfast", tag="input")
    page = {**last.observation, "elements": [*last.observation["elements"], box]}
    return replace(
        recording, steps=(*before, RecordedStep(page, Click(id=30)) if tick else RecordedStep(page, last.action))
    )


def test_what_no_recording_teaches_is_named():
    always = ticked(hotel(), tick=True)
    assert untold([hotel()]) == []
    assert untold([always, always]) == [ChoiceAgreement(label="Breakfast", recorded="ticked")]
    assert untold([always, ticked(hotel(), tick=False)]) == []
    silent = replace(hotel(), goal=GOAL.replace("a double room, ", ""))
    (room,) = untold([silent])
    assert room.text() == "Room: always Double room; record another episode whose goal asks for a different choice"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Returns the recording of a site that its oracle made."""
    folder = tmp_path_factory.mktemp("sites")

    def made(site):
        with Rollouts(1) as rollouts:
            rollouts.run(OracleAgent(), [Job(f"Scenario/{site}-v0", 0)], folder=folder / site)
        (recording,) = load_recordings([folder / site])
        return recording

    return made


@pytest.mark.parametrize(
    "site", few(2, ["trains", "clinic", *(one for one in SITES if one not in ("trains", "clinic"))])
)
def test_in_every_variation_of_a_site_the_goal_alone_tells_what_to_choose(recorded, site):
    recording, count = recorded(site), 400
    shown = {one.step: one for one in choices_of(recording) if one.columns}
    right, chance = Counter(), Counter()
    for seed in range(count):
        other = varied(recording, np.random.default_rng(seed), invented=seed % 10 > 2)
        found = {one.step: one for one in choices_of(other) if one.columns}
        assert found.keys() == shown.keys(), "the goal says which"
        for step, one in found.items():
            seen, known = views(one), views(shown[step])
            for view in seen.keys() & known.keys():
                chance[step, view] += 1 / len(seen[view])
                was = [known[view][0], known[view][shown[step].chosen], *known[view][1:]]
                for rule, choose in RULES.items():
                    right[step, view, rule] += choose(seen[view], "", was) == seen[view][one.chosen]
    for (step, view, rule), number in right.items():
        assert number <= chance[step, view] + 1.5 * TOLERATED * count, (shown[step].label, view, rule)


def views(choice):
    """What may tell the members of a choice apart: their names, and each column of their rows."""
    found = {"name": choice.names, **dict(enumerate(zip(*choice.rows, strict=True)))}
    return {view: texts for view, texts in found.items() if len({*texts}) == len(texts)}
