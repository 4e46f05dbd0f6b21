"""What the router's providers are handed: an agent that carries out an instruction, a policy that answers a prompt.

`browser_env` knows no agents; these functions are the callables that it takes (`browser_env.router.provider`). A call
that was given up goes on in its thread, so they ask nobody who is still asked.
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
"""Most tokens of a reply: what is read from a page, or an action with its description."""


def decide_by(agent: Any, asking: Lock | None = None) -> Callable[[str, Observation], Any]:
    """Return a function that has an agent choose the next action for an instruction.

    Args:
        agent: who chooses.
        asking: held meanwhile; the same one as for `complete_by` where both ask the same policy.
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
    """Return a function that has a policy complete messages, kept to a JSON schema where the policy can be.

    Args:
        policy: who answers.
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
    """Hold a lock.

    Raises:
        ProviderError: it is held elsewhere.
    """
    if not lock.acquire(blocking=False):
        raise ProviderError("model", "The model is still busy with the last call; wait a moment.", retryable=True)
    try:
        yield
    finally:
        lock.release()
