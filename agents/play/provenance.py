"""Records of the agent in an episode: the origin of each action, and the versions of the packages involved."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from selfsurf.agents.model_files import installed
from selfsurf.browser_env import ActionError, parse_action

if TYPE_CHECKING:
    from selfsurf.agents.agent import Act, Decision
    from selfsurf.agents.policy import Completion, Message

PACKAGES = (
    "selfsurf", "gymnasium", "playwright", "miniwob", "torch", "transformers", "trl", "peft", "llguidance",
    "bitsandbytes", "openai", "mlx", "mlx-lm", "mlx-vlm", "tensorrt-llm",
)  # fmt: skip
"""Packages that may affect a result."""


def policy_record(decision: Decision) -> dict[str, Any]:
    """Return a decision's record for the episode: the exact prompt and completion, usage, and guard reports."""
    sampled = sampled_record(decision.completion, decision.messages)
    return {**sampled, "error": decision.error, **decision_record(decision)}


def sampled_record(completion: Completion, messages: Sequence[Message]) -> dict[str, Any]:
    """Return a completion's record for the episode: the exact prompt, sampled tokens and usage."""
    record = {
        "prompt": [{"role": message.role, "text": message.text} for message in messages],
        **{name: value for name, value in vars(completion).items() if name != "usage"},
        "logprobs": [round(value, 6) for value in completion.logprobs],
    }
    return record if completion.usage is None else {**record, "usage": asdict(completion.usage)}


def intended(action: Act) -> Any:
    """Return the journal's form of an action before execution. Invalid actions are returned as text."""
    if not isinstance(action, str):
        with contextlib.suppress(ActionError):
            return parse_action(action).to_dict()
    return str(action)


def decision_record(decision: Decision) -> dict[str, Any]:
    """Return the record of the agent's further processing of a reply: guards, remaining actions, roles, graph."""
    return {
        "guard": decision.guard_note,
        "guards": decision.guard_counts,
        "demonstrated": decision.privileged is not None,
        "more": [action.to_dict() for action in decision.more],
        "place": decision.place,
        "left": decision.left,
        "roles": list(decision.roles),
        "graph": decision.graph,
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and all `PACKAGES`, cached per process."""
    return {"python": platform.python_version(), **{name: installed(name) or "absent" for name in PACKAGES}}
