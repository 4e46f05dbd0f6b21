"""Pictures in prompts: marks that stay legible, tokens that count."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policy import Message
from selfsurf.agents.prompt.prompt import PromptTooLong
from selfsurf.agents.prompt.vision import picture
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.observe import marks
from tests.agents.said import IMAGE_TOKENS, saying, seeing


@pytest.fixture
def seen(observation: Callable[..., Observation], element: Callable[..., Element]) -> Observation:
    """A page of 400 by 300 with a screenshot, an element in it, one covered and one below."""
    return observation(
        "Go.",
        [
            element(1, "link", "One", bbox=(100.0, 40.0, 80.0, 20.0)),
            element(2, "link", "Two", bbox=(100.0, 90.0, 80.0, 20.0), states=("covered",)),
            element(3, "link", "Three", bbox=(100.0, 900.0, 80.0, 20.0), in_viewport=False),
        ],
        screenshot=np.full((300, 400, 3), 255, dtype=np.uint8),
    )


def test_it_needs_no_browser() -> None:
    code = "import sys, agents.prompt.vision; assert 'playwright' not in sys.modules and 'PIL' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_marks_are_those_of_the_environment(seen: Observation) -> None:
    made = picture(seen, marked=True)
    assert np.array_equal(made.image, marks.draw(seen["screenshot"], seen["elements"]))
    assert made.ids == {1}
    assert (seen["screenshot"] == 255).all()


def test_marks_are_drawn_after_scaling(seen: Observation) -> None:
    made = picture(seen, marked=True, max_side=200)
    assert made.image.shape == (150, 200, 3)
    rows, columns = np.nonzero((made.image != 255).any(axis=2))
    assert (columns.min(), columns.max()) == (50, 89)
    assert rows.max() == 29
    plain = picture(seen, marked=False, max_side=200)
    assert plain.image.shape == (150, 200, 3)
    assert (plain.image == 255).all()
    assert plain.ids == frozenset()


def test_by_default_what_sees_is_shown_marks(policy: Any, seen: Observation) -> None:
    agent = seeing(policy)
    agent.act(seen)
    (message,) = agent.decisions[0].messages
    assert np.array_equal(message.images[0], marks.draw(seen["screenshot"], seen["elements"]))
    assert "each element's id beside it" in message.text
    assert 'link "Three" {"click":3}' in message.text
    without = Observation(**{key: value for key, value in seen.items() if key != "screenshot"})  # type: ignore[typeddict-item]
    agent.act(without)
    assert agent.decisions[0].messages[0].images == ()
    blind_agent = saying(policy, '{"click":1}')
    blind_agent.act(seen)
    assert blind_agent.decisions[0].messages[0].images == ()
    assert "screenshot" not in blind_agent.decisions[0].messages[0].text


def test_other_ways_to_be_shown(policy: Any, seen: Observation) -> None:
    agent = seeing(policy, vision="screenshot", max_image_side=100)
    agent.act(seen, privileged={"action": {"action": "click", "id": 1}})
    (message,) = agent.decisions[0].messages
    assert message.images[0].shape == (75, 100, 3)
    assert "beside it" not in message.text
    assert "Correct action" in message.text
    none = seeing(policy, vision="none")
    none.act(seen)
    assert none.decisions[0].messages[0].images == ()


def test_marks_alone(policy: Any, seen: Observation) -> None:
    agent = seeing(policy, text_page=False, actions=("click",))
    assert agent.constrained
    agent.act(seen)
    (decision,) = agent.decisions
    assert decision.visible_ids == {1}
    assert "Page:" not in decision.messages[0].text
    assert '"click"' not in decision.messages[0].text


def test_the_picture_counts(policy: Any, observation: Callable[..., Observation], seen: Observation) -> None:
    elements = [{**seen["elements"][0], "id": number} for number in range(1, 100)]
    page = observation("Go.", elements, screenshot=seen["screenshot"])
    agent = seeing(policy, vision="screenshot", max_prompt_tokens=500)
    agent.act(page)
    text = agent.decisions[0].messages[0].text
    assert 250 < policy.count_prompt_tokens([Message("user", text)], '{"') <= 500 - IMAGE_TOKENS
    with pytest.raises(PromptTooLong, match="max_image_side"):
        seeing(policy, max_prompt_tokens=IMAGE_TOKENS).act(page)


def test_what_does_not_go_together_is_refused(policy: Any, form: Observation) -> None:
    for options in ({"vision": "marks"}, {"vision": "screenshot"}, {"text_page": False}):
        with pytest.raises(ValueError, match=r"accepts? images"):
            LLMAgent(policy, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="marks"):
        seeing(policy, vision="screenshot", text_page=False)
    with pytest.raises(ValueError, match="auto, none, screenshot, marks"):
        LLMAgent(policy, vision="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_image_side"):
        LLMAgent(policy, max_image_side=0)
    with pytest.raises(ValueError, match="screenshot=True"):
        seeing(policy, vision="marks").act(form)
