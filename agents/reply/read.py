"""Reading of a model's reply in an episode, with the known elements and the prompt taken into account."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from selfsurf.agents.policy import Completion, Conversation
from selfsurf.agents.reply.functions import MAX_CALLS, Function, call_in
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
    """Parse the reply. Actions on vanished elements are accepted, since a guard may find the element again.

    Args:
        completion: the reply.
        messages: the prompt, which the model may have copied.
        obs: the page.
        known: ids of elements of earlier pages, which a guard may find again.
        functions: functions that the model may call.
        most: maximum number of actions.
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
    """Return a message to the model about the unread rest of its reply; empty if everything was read."""
    return parsed.unread and f"The rest of your last reply was not read: {parsed.unread}"
