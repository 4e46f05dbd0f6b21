"""Reads a model's reply in an episode: the action in it, with what was there before and what it was shown in mind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from selfsurf.agents.functions import MAX_CALLS, Function, call_in
from selfsurf.agents.policy import Completion, Conversation
from selfsurf.agents.reply.parse import Parsed, parse
from selfsurf.browser_env import Observation

EXHAUSTED = f"{MAX_CALLS} functions were called without an action; reply with an action now."


def read_reply(
    completion: Completion,
    messages: Conversation,
    obs: Observation,
    known: Iterable[int],
    functions: Sequence[Function],
    most: int = 1,
) -> Parsed:
    """Read the reply; an element that was there before is left to the guard that may find it again.

    Args:
        completion: the reply.
        messages: what the model was shown, which it may have copied.
        obs: the page.
        known: elements that were there before, and may be found again.
        functions: that may be called.
        most: most actions.
    """
    text = completion.text
    prompt = "\n".join(message.text for message in messages)
    if call_in(text, functions, prompt) is not None:
        return Parsed(None, EXHAUSTED)
    if completion.thinking and not text.strip():
        return Parsed(None, "The reply ends inside its thinking; think less and reply with an action.")
    present = {element["id"] for element in obs["elements"]}
    parsed = parse(text, present, prompt, most=most)
    known = set(known)
    if parsed.action is None and not known <= present:
        again = parse(text, present | known, prompt, most=most)
        return parsed if again.action is None else again
    return parsed


def unread(parsed: Parsed) -> str:
    """Say what of a reply was not read."""
    return parsed.unread and f"The rest of your last reply was not read: {parsed.unread}"
