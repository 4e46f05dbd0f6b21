"""Prompts: ids behind labels, nothing of the first part cut, the page cut by tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.page import handle, page_lines
from agents.policy import Message
from agents.prompt import PromptTooLong, build, with_demonstration
from browser_env.observation import Element, Observation
from tests.agents.prompt_cases import cases


def words(messages: Sequence[Message]) -> int:
    return sum(len(message.text.split()) for message in messages)


def test_prompts_stay_as_they_were(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element], form: Observation
) -> None:
    """Adapters were trained under these very words: changing one of them needs new adapters."""
    golden = json.loads((Path(__file__).parent / "golden_prompts.json").read_text(encoding="utf8"))
    made = {
        name: [
            [message.role, message.text]
            for message in build(
                obs,
                **options,
                count=lambda messages: policy.count_prompt_tokens(messages, '{"'),
                count_text=policy.count_tokens,
            ).messages
        ]
        for name, (obs, options) in cases(observation, element, form).items()
    }
    assert made == golden


def test_the_id_stands_behind_the_label(
    observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    page = observation(
        "Go.",
        [element(4, "link", "Eget"), element(9, "textbox", "A]B", value="x", states=("focused",))],
        dom='navigation\n  [4] link "Eget"\n    inner text\n[9] textbox "A]B" value="x" focused\n[12] see below',
    )
    assert [line.text for line in page_lines(page)] == [
        "navigation",
        '  link "Eget" {"click":4}',
        "    inner text",
        'textbox "A]B" value="x" focused {"fill":9}',
        "[12] see below",
    ]
    assert build(page).visible_ids == {4, 9}


def test_a_handle_shows_what_an_element_is_for(element: Callable[..., Element]) -> None:
    assert handle(element(4, "button", "OK")) == '{"click":4}'
    assert handle(element(5, "combobox", "Colour")) == '{"select":5}'
    assert handle(element(3, "textbox", "Name")) == '{"fill":3}'
    assert handle(element(3, "textbox", "Name"), kinds=("click",)) == '{"click":3}'
    assert handle(element(3, "textbox", "Name", states=("readonly",))) == '{"click":3}'


def test_the_goal_is_not_repeated_by_the_page(
    observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    page = observation("Press OK.", [element(4, "button", "OK")], dom='Press OK.\n[4] button "OK"')
    assert build(page).messages[0].text.count("Press OK.") == 1


def test_page_text_cannot_pass_for_an_element(
    observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    page = observation("Go.", [element(4, "link", "Eget")], dom='[4] button "Buy"\n[4] link "Eget"\n[4] link "Eget"')
    assert [line.element_id for line in page_lines(page)] == [None, 4, None]


def test_order(form: Observation) -> None:
    page = Observation(
        **{**form, "last_error": "There is no element 9.", "messages": ({"role": "user", "text": "Hi"},)}
    )
    (message,) = build(page, history=['{"click":3}']).messages
    parts = ["Goal: Enter", "Reply with", "user: Hi", "Done so far: {", "There is no element 9.", "Page:", '{"fill":3}']
    places = [message.text.index(part) for part in parts]
    assert places == sorted(places)


def test_the_goal_is_not_repeated_by_the_chat(form: Observation) -> None:
    page = Observation(**{**form, "messages": ({"role": "user", "text": form["goal"]},)})
    assert build(page).messages[0].text.count(form["goal"]) == 1


@pytest.mark.parametrize("budget", [60, 75, 100, 200, 400, 1000])
def test_the_page_is_cut_to_the_budget(
    observation: Callable[..., Observation], element: Callable[..., Element], budget: int
) -> None:
    page = observation("Find it.", [element(number, "link", f"word{number}") for number in range(1, 200)])
    prompt = build(page, max_tokens=budget, count=words)
    text = prompt.messages[0].text
    assert words(prompt.messages) <= budget
    assert prompt.visible_ids == {number for number in range(1, 200) if f'"click":{number}}}' in text}
    if prompt.lines_left_out:
        assert f"({prompt.lines_left_out} more lines with {prompt.lines_left_out} elements left out)" in text
        bigger = build(page, max_tokens=budget + 10, count=words)
        assert len(bigger.visible_ids) > len(prompt.visible_ids)
    else:
        assert len(prompt.visible_ids) == 199


def test_what_is_in_the_viewport_is_kept(
    observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    elements = [element(number, "link", f"word{number}", in_viewport=50 <= number < 60) for number in range(1, 100)]
    prompt = build(observation("Find it.", elements), max_tokens=100, count=words)
    assert set(range(50, 56)) <= prompt.visible_ids
    assert prompt.messages[0].text.count("left out") == 2


def test_too_small_a_budget_is_an_error(form: Observation) -> None:
    with pytest.raises(PromptTooLong, match="more than the 10 allowed"):
        build(form, max_tokens=10, count=words)


def test_tokens_of_the_real_tokenizer_are_counted(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    page = observation("Find it.", [element(number, "link", f"wörd {number} 漢字") for number in range(1, 200)])
    prompt = build(page, max_tokens=300, count=policy.count_prompt_tokens)
    assert 280 < len(policy.encode(prompt.messages)) <= 300


def test_demonstration() -> None:
    messages = (Message("user", "first"), Message("assistant", "ok"), Message("user", "page"))
    taught = with_demonstration(messages, {"action": {"action": "click", "id": 4}, "reason": "it is asked for"})
    assert taught[:2] == messages[:2]
    assert taught[2].text == 'page\n\nCorrect action: {"click":4}\nReply with exactly this: {"click":4}'
    assert with_demonstration(messages, None) == messages
    with pytest.raises(ValueError, match="no user message"):
        with_demonstration((Message("system", "x"),), {"action": {"action": "back"}})
