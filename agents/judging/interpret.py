"""Drafts of a goal's specification, written by a model from a sentence, for a person to correct."""

from __future__ import annotations

import json

from selfsurf.agents.policy import Message, Policy
from selfsurf.browser_env.goal.spec import GoalSpec, SpecError, spec_of

LONGEST_REPLY = 600
"""Token limit of a draft."""

TRIES = 2
"""Number of attempts; the second prompt includes the error of the first."""

SYSTEM = """You turn a user's goal in a web browser into criteria of success. Reply with one JSON object:
{"goal": "...", "start": "https://...", "criteria": [...]}
A criterion has exactly one of these keys:
"url": what the last page's address contains; "text": what the last page says;
"element": {"role": "checkbox", "name": "Gift", "value": "...", "states": ["checked"]}: an element on the last page;
"answer": what the agent's answer must contain;
"request": {"method": "POST", "url": "/orders", "status": 201}: a request that was sent;
"question": a question for a judge, where nothing else can tell.
Give few criteria, only such as follow from the goal. Leave "start" empty if the goal names no address."""


class GoalInterpreter:
    """Interpreter of goals that drafts their specifications with a model.

    Args:
        policy: the model.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def draft(self, sentence: str) -> GoalSpec:
        """Return a draft of a goal's specification. The goal's text remains the user's sentence.

        Raises:
            SpecError: neither reply contains a valid specification.
            PolicyError: the model could not answer.
        """
        messages = [Message("system", SYSTEM), Message("user", sentence)]
        for attempt in range(TRIES):
            (completion,) = self._policy.complete([messages], max_new_tokens=LONGEST_REPLY)
            try:
                return _read(completion.text, sentence)
            except SpecError as error:
                if attempt == TRIES - 1:
                    raise
                messages += [Message("assistant", completion.text), Message("user", f"That can't be: {error}")]
        raise AssertionError


def _read(text: str, sentence: str) -> GoalSpec:
    start, end = text.find("{"), text.rfind("}")
    try:
        data = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        raise SpecError("The model's draft is not a JSON object.") from None
    if isinstance(data, dict):
        data = {key: data[key] for key in ("start", "criteria") if key in data} | {"goal": sentence}
    return spec_of(data, "The model's draft")
