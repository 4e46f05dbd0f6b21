"""Guards that compare an action with the goal: a text to type, or an answer to give."""

from __future__ import annotations

import re

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.browser_env import Action, Fill, Finish, Message, Observation, Type, Wait
from selfsurf.browser_env.environment.confirm import target_of

FEEDBACK = "The goal asks for an answer: give it as the text of finish."

_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)")
_TYPING = re.compile(r"\b(enter|type|fill|write|input|search for|named|called)\b", re.IGNORECASE)
_ASKED = re.compile(
    r"(?i)\?(?:\s|$)"
    r"|^\W*(?:what|which|who|whom|whose|when|where|why|how (?:many|much|long|old|far|often|big|tall|high))\b"
    r"|\b(?:tell me|let me know|report back|give me the (?:name|number|price|date|answer))\b"
)


def asks(goal: str) -> bool:
    """Whether the goal asks a question that `finish` must answer. Text in quotation marks doesn't count."""
    return bool(_ASKED.search(_QUOTED.sub(" ", goal)))


class EmptyText(Guard):
    """Guard that fills in the goal's only quoted text when the model types an empty text into an empty field.

    It acts only if the goal asks to type something.
    """

    name = "empty_text"

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Fill in the quoted text, or only note that the text is empty if the goal doesn't quote exactly one."""
        if not isinstance(action, (Fill, Type)) or action.text.strip() or not _TYPING.search(goal):
            return Verdict(action)
        field = target_of(action, obs)
        if field is not None and field["value"]:  # the field is to be cleared
            return Verdict(action)
        texts = [next(group for group in found if group) for found in _QUOTED.findall(goal)]
        if len(texts) != 1:
            return Verdict(action, "The text is empty, but the goal asks to type something.")
        typed = action.model_copy(update={"text": texts[0]})
        return Verdict(typed, f"The text was empty; typed {texts[0]!r} from the goal.")


class MissingAnswer(Guard):
    """Guard that asks for the answer when the model finishes without text although the goal asks a question.

    No answer is invented: the step waits 0 ms, and the next prompt reports what is missing.
    """

    name = "answer"
    limit = 2
    """Maximum number of requests for an answer per episode; after that, or after a message to the user, `finish`
    passes."""

    def reset(self) -> None:
        """Forget the requests and answers of the last episode."""
        self._asked = 0
        self._answered = False

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Replace a `finish` without an answer with a wait of 0 ms and feedback to the model."""
        self._answered = self._answered or isinstance(action, Message)
        if not isinstance(action, Finish) or action.answer.strip() or self._answered or not asks(goal):
            return Verdict(action)
        missing = "It finished without the answer that the goal asks for"
        if self._asked == self.limit:
            return Verdict(action, f"{missing}.")
        self._asked += 1
        return Verdict(Wait(ms=0), f"{missing}, and was asked for it.", FEEDBACK)
