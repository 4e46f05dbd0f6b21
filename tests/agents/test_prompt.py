"""Prompts: ids behind labels, nothing of the first part cut, the page cut by tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selfsurf.agents.policy import Message
from selfsurf.agents.prompt.examples import Example
from selfsurf.agents.prompt.page import handle, page_lines
from selfsurf.agents.prompt.prompt import PromptTooLong, with_demonstration
from selfsurf.browser_env.actions import Click
from selfsurf.browser_env.observation import Element, Observation
from tests.agents.prompt_cases import build, cases


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


@pytest.mark.parametrize("spare", [100, -10])
def test_what_a_teacher_may_be_shown_has_neither_history_nor_handles(
    spare: int, observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    page = observation(
        "Go.",
        [element(4, "link", "Eget"), element(9, "textbox", "A", value="x"), element(10, "link", "far " * 20)],
        dom='[4] link "Eget"\n  {"click":4} in a text\n[9] textbox "A" value="x"\n[10] link "' + "far " * 20 + '"',
    )
    said: Any = {"history": ['{"click":4}'], "error": "Nothing happened."}
    room = words(build(page, **said).messages) + spare
    (message,) = build(page, **said, max_tokens=room, count=words).messages
    assert message.text.startswith(f'{message.goal_only}\nDone so far: {{"click":4}}\nThe last action failed: ')
    assert ("left out)" in message.text) == (spare < 0)
    assert message.plain == message.text.replace('Done so far: {"click":4}\n', "").replace(
        ' {"click":4}\n', "\n"
    ).replace(' {"fill":9}', "").removesuffix(' {"click":10}')
    assert '"\n  {"click":4} in a text\n' in message.plain


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


def test_a_header_that_stays_hides_nothing_of_what_was_scrolled_to(
    observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    elements = [element(number, "link", f"word{number}", in_viewport=number <= 3 or 50 <= number < 60)
                for number in range(1, 100)]  # fmt: skip
    prompt = build(observation("Find it.", elements), max_tokens=110, count=words)
    assert {1, 2, 3, *range(50, 56)} <= prompt.visible_ids


def test_where_nothing_to_act_on_is_in_view_the_page_begins_there(
    observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    elements = [element(number, "link", f"word{number}", in_viewport=False, bbox=(0.0, (number - 50) * 900.0, 9.0, 9.0))
                for number in range(1, 100)]  # fmt: skip
    prompt = build(observation("Find it.", elements), max_tokens=100, count=words)
    assert set(range(50, 56)) <= prompt.visible_ids


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


def rooms(policy: Any) -> dict[str, Any]:
    """The real tokenizer's measures for `build`."""
    return {
        "count": lambda messages: policy.count_prompt_tokens(messages, '{"'),
        "count_text": policy.count_tokens,
    }


TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet='ab é漢🙂[]{}":1\n\u2028', max_size=300),
    st.sampled_from(["word " * 400, "x" * 3000, "漢字" * 500, "<|im_end|>", '{"click":4}', "(3 more lines)"]),
)


@given(
    goal=st.text(max_size=60),
    texts=st.lists(TEXTS, max_size=12),
    names=st.lists(TEXTS, max_size=12),
    history=st.lists(TEXTS, max_size=12),
    error=TEXTS,
    chat=st.lists(TEXTS, max_size=3),
    shots=st.integers(0, 3),
    budget=st.integers(150, 700),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_budget_is_kept_whatever_the_page(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element],
    goal: str, texts: list[str], names: list[str], history: list[str], error: str, chat: list[str], shots: int,
    budget: int,
) -> None:  # fmt: skip
    elements = [element(number, "link", name, in_viewport=number % 3 > 0) for number, name in enumerate(names, 900)]
    page = observation(goal, elements, messages=tuple({"role": "user", "text": text} for text in chat))
    page = Observation(**{**page, "dom": "\n".join([*texts, page["dom"]])})
    shown = [Example("Press OK.", 'button "OK" {"click":1}', Click(id=1))] * shots
    try:
        prompt = build(page, history=history, error=error, examples=shown, max_tokens=budget, **rooms(policy))
    except PromptTooLong:
        bare = Observation(**{**page, "messages": (), "dom": "x" * 20_000})  # even with nothing but the first part
        with pytest.raises(PromptTooLong):
            build(bare, max_tokens=budget, **rooms(policy))
        return
    assert len(policy.encode(prompt.messages, '{"')) <= budget
    text = prompt.messages[-1].text
    assert text.startswith(f"Goal: {goal}\nYou can ")
    assert "Reply with the next action as JSON." in text
    for number in prompt.visible_ids:
        assert f'{{"click":{number}}}' in text


def test_a_goal_that_is_too_long_is_an_error(policy: Any, form: Observation) -> None:
    with pytest.raises(PromptTooLong, match="more than the 512 allowed"):
        build(form, goal="word " * 600, max_tokens=512, **rooms(policy))


@pytest.mark.parametrize("part", ["history", "error", "messages", "events", "tabs"])
def test_nothing_else_pushes_the_page_out(policy: Any, form: Observation, part: str) -> None:
    long = "many words " * 400
    told: dict[str, Any] = {
        "history": {"history": [f'{{"fill":3,"text":"{long}"}} textbox "Name"'] * 3},
        "error": {"error": long},
    }
    seen = {
        "messages": ({"role": "user", "text": long}, {"role": "user", "text": "No, the blue one."}),
        "events": (long, "dialog: alert"),
        "tabs": ({"url": "", "title": long, "active": True}, {"url": "", "title": "B", "active": False}),
    }
    page = Observation(**{**form, **{key: value for key, value in seen.items() if key == part}})
    prompt = build(page, max_tokens=300, **told.get(part, {}), **rooms(policy))
    assert prompt.visible_ids == {3, 5, 7, 12, 71}
    assert "many words many words" in prompt.messages[0].text
    if part == "messages":
        assert "No, the blue one." in prompt.messages[0].text


def test_history_alone_is_no_error(policy: Any, form: Observation) -> None:
    least = policy.count_prompt_tokens(build(observation_without_page(form)).messages, '{"')
    prompt = build(form, history=["many words " * 100] * 30, max_tokens=least + 30, **rooms(policy))
    assert "Done so far" not in prompt.messages[0].text


def observation_without_page(form: Observation) -> Observation:
    return Observation(**{**form, "dom": "(5 more lines with 5 elements left out)"})


def test_long_lines_are_cut_not_dropped(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    page = observation(
        "Go.",
        [element(4, "link", "name " * 2000), element(5, "link", "Eget")],
        dom="\n".join(["before", "word " * 5000, f'[4] link "{"name " * 2000}"', '[5] link "Eget"']),
    )
    prompt = build(page, max_tokens=600, **rooms(policy))
    text = prompt.messages[0].text
    assert prompt.visible_ids == {4, 5}
    assert prompt.lines_left_out == 0
    assert "before\nword word" in text
    assert "… (5000 tokens, cut)\nlink" in text
    assert 'tokens, cut) {"click":4}\nlink "Eget" {"click":5}' in text
    assert 400 < len(policy.encode(prompt.messages)) <= 600


def test_a_long_page_takes_few_counts(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element]
) -> None:
    page = observation("Find it.", [element(number, "link", f"words of link {number}") for number in range(2000)])
    counted: list[int] = []

    def count(messages: Sequence[Message]) -> int:
        counted.append(sum(len(message.text) for message in messages))
        return int(policy.count_prompt_tokens(messages))

    prompt = build(page, max_tokens=1024, count=count, count_text=policy.count_tokens)
    assert len(prompt.visible_ids) > 40
    assert len(counted) <= 8
    assert sum(counted) < 20_000  # the page has 90,000 characters


def test_examples_are_earlier_turns(form: Observation) -> None:
    other = Example.of(Observation(**{**form, "goal": "Press Cancel."}), Click(id=12))
    messages = build(form, examples=[other, Example("Go back.", "(empty)", {"action": "back"})]).messages
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[0].text.startswith('Goal: Press Cancel.\n\nPage:\ntextbox "Name" {"fill":3}')
    assert messages[1].text == '{"click":12}'
    assert messages[3].text == '{"back":true}'
    assert messages[4:] == build(form).messages


def test_examples_leave_room_for_the_page(
    policy: Any, observation: Callable[..., Observation], element: Callable[..., Element], form: Observation
) -> None:
    page = observation("Find it.", [element(number, "link", f"word {number}") for number in range(1, 200)])
    examples = [Example(f"Press {number}.", form["dom"], Click(id=7)) for number in range(8)]
    prompts = [build(page, examples=examples, max_tokens=budget, **rooms(policy)) for budget in (150, 400, 700)]
    assert [8 - prompt.examples_left_out for prompt in prompts] == [0, 2, 5]
    for prompt, budget in zip(prompts, (150, 400, 700), strict=True):
        head = prompt.messages[-1].text.split("Page:\n")[0]
        bare = policy.count_prompt_tokens((*prompt.messages[:-1], Message("user", head)))
        assert budget - bare > budget / 4 - 20 or prompt.examples_left_out == 8
        assert [message.text[:14] for message in prompt.messages[:-1:2]] == [
            f"Goal: Press {number}." for number in range(8 - prompt.examples_left_out)
        ]
    small = build(form, examples=examples[:1], max_tokens=300, **rooms(policy))
    assert small.examples_left_out == 0
    assert small.visible_ids == {3, 5, 7, 12, 71}
