"""What oracles make of a goal's words, where that takes more than a pattern."""

from __future__ import annotations

import json
from typing import Any

import pytest

from selfsurf.tasks.miniwob.oracles.booking import clock, half_hour
from selfsurf.tasks.miniwob.oracles.email import Wish, mentioned, wish
from selfsurf.tasks.miniwob.task import html_root

NAMES = {"Ada", "Bo", "Em"}
ACTIONS = {"forward": "forward", "reply": "reply", "important": "star", "delete": "trash"}


@pytest.fixture(scope="module")
def sentences() -> dict[str, dict[str, list[str]]]:
    """Return what people wrote for the -nl-turk tasks, by action and split."""
    text = (html_root() / "common/special/email-inbox-nl/templates.js").read_text(encoding="utf8")
    found: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return found


@pytest.mark.parametrize("action", ACTIONS)
def test_every_sentence_that_people_wrote_is_understood(sentences, action):
    misread = []
    for sentence in sentences[action]["train"] + sentences[action]["test"]:
        goal = sentence.replace("NAME", "Ada", 1).replace("DEST", "Bo", 1).replace("MSG", "Sed id.", 1)
        meant = wish(goal, NAMES)
        expected = {"forward": "Bo", "reply": "Sed id."}.get(action, "")
        if meant is None or meant[:3] != (ACTIONS[action], "Ada", expected):
            misread.append(sentence)
    # Of this one there is the opposite, too, word for word.
    assert misread == (["Find the email from DEST and forward it to NAME."] if action == "forward" else [])


def test_the_plain_tasks_forward_to_people_who_sent_nothing():
    goal = "Find the email by Dee Dee and forward that email to Jo Ann."
    assert wish(goal, {"Dee Dee", "Ada"}) == Wish("forward", "Dee Dee", "Jo Ann")


def test_a_name_within_a_word_is_nobody_unless_there_is_no_other():
    assert mentioned("Email Ada about Em", NAMES) == ["Ada", "Em"]
    assert mentioned("AnswerAda now", NAMES) == ["Ada"]
    assert mentioned("Ask Bo's sister", NAMES) == ["Bo"]
    assert mentioned("Ask nobody", set()) == []


@pytest.mark.parametrize(("time", "number"), [("12am", 0), ("8AM", 16), ("12PM", 24), ("4:30pm", 33), ("11:30pm", 47)])
def test_half_hours_have_numbers(time, number):
    assert half_hour(time) == number
    assert clock(number) == time.lower()
