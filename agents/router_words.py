"""What the router's providers are handed: an agent that carries out an instruction, a policy that answers a prompt.

`browser_env` knows no agents; these functions are the callables that it takes (`browser_env.router.provider`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from selfsurf.agents.policy import Message, Policy
from selfsurf.browser_env.observation import Observation

REPLY_TOKENS = 512
"""Most tokens of a reply: what is read from a page, or an action with its description."""


def decide_by(agent: Any) -> Callable[[str, Observation], Any]:
    """Return a function that has an agent choose the next action for an instruction."""

    def decide(instruction: str, seen: Observation) -> Any:
        agent.reset(instruction)
        return agent.act({**seen, "goal": instruction, "messages": (), "last_action": "", "last_error": ""})

    return decide


def complete_by(policy: Policy) -> Callable[[Sequence[Mapping[str, str]], Mapping[str, Any] | None], str]:
    """Return a function that has a policy complete messages, kept to a JSON schema where the policy can be."""

    def complete(messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None) -> str:
        conversation = [Message(message["role"], message["text"]) for message in messages]
        guided: dict[str, Any] = {}
        if schema is not None and policy.guidance == "grammar":
            guided["grammars"] = [f"start: %json {json.dumps(schema)}"]
        elif schema is not None and policy.guidance == "schema":
            guided["schemas"] = [dict(schema)]
        return policy.complete([conversation], max_new_tokens=REPLY_TOKENS, **guided)[0].text

    return complete
