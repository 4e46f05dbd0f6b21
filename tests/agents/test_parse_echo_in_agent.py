"""An agent whose model only copies its prompt does nothing; one that then decides is understood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from selfsurf.agents.policy import Completion, Conversation
from selfsurf.browser_env.actions import Click
from tests.agents.said import Noting


class Copyist:
    """A policy that replies with the end of its prompt, and then with `then`."""

    name = "copyist"
    guidance = "none"
    sees_images = False
    prompt_budget = 10_000
    parameter_count = None
    context_length = None

    def __init__(self, then: str) -> None:
        self.then = then

    def complete(self, conversations: Sequence[Conversation], **options: Any) -> list[Completion]:
        """Copy."""
        return [Completion(messages[-1].text + self.then, [], [], [], None, "eos") for messages in conversations]

    def count_tokens(self, text: str) -> int:
        """One a character."""
        return len(text)

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """One a character."""
        return sum(len(message.text) for message in messages)


@pytest.mark.parametrize("hint", [None, {"action": {"action": "click", "id": 12}}])
@pytest.mark.parametrize(("then", "action"), [("", None), ('\n{"click":7}', Click(id=7))])
def test_what_the_model_copies_from_its_prompt_is_no_decision(form: Any, then: str, action: Any, hint: Any) -> None:
    agent = Noting(Copyist(then), prefill="", guards=False)
    returned = agent.act(form, privileged=hint)
    if action is None:
        assert isinstance(returned, str)
        assert "only repeats the prompt" in agent.decisions[0].error
    else:
        assert returned == action
