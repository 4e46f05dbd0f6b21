"""Callables for the router's providers: an agent that carries out an instruction, a policy that answers a prompt.

`browser_env` doesn't import agents and takes these callables instead (`browser_env.router.provider`). An abandoned call
continues in its thread, so a model that is still busy with a call is not asked again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from selfsurf.agents.policy import Message, Policy
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.router.provider import ProviderError

REPLY_TOKENS = 512
"""Maximum length of a reply, in tokens: content read from a page, or an action with its description."""


def decide_by(agent: Any, asking: Lock | None = None) -> Callable[[str, Observation], Any]:
    """Return a function that has an agent choose the next action for an instruction.

    Args:
        agent: chooses the action.
        asking: lock held during the call; shared with `complete_by` if both ask the same policy.
    """
    lock = asking or Lock()

    def decide(instruction: str, seen: Observation) -> Any:
        with _held(lock):
            agent.reset(instruction)
            return agent.act({**seen, "goal": instruction, "messages": (), "last_action": "", "last_error": ""})

    return decide


def complete_by(
    policy: Policy, asking: Lock | None = None
) -> Callable[[Sequence[Mapping[str, str]], Mapping[str, Any] | None], str]:
    """Return a function that has a policy complete messages, under a JSON schema if the policy supports one.

    Args:
        policy: answers the messages.
        asking: as for `decide_by`.
    """
    lock = asking or Lock()

    def complete(messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None) -> str:
        conversation = [Message(message["role"], message["text"]) for message in messages]
        guided: dict[str, Any] = {}
        if schema is not None and policy.guidance == "grammar":
            guided["grammars"] = [f"start: %json {json.dumps(schema)}"]
        elif schema is not None and policy.guidance == "schema":
            guided["schemas"] = [dict(schema)]
        with _held(lock):
            return policy.complete([conversation], max_new_tokens=REPLY_TOKENS, **guided)[0].text

    return complete


@contextlib.contextmanager
def _held(lock: Lock) -> Iterator[None]:
    """Hold a lock within the context.

    Raises:
        ProviderError: the lock is held elsewhere.
    """
    if not lock.acquire(blocking=False):
        raise ProviderError(
            "model", "The model is still busy with the last call; try again in a moment.", retryable=True
        )
    try:
        yield
    finally:
        lock.release()
