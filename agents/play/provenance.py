"""What an episode keeps about the agent: how each action came about, and which versions of what were at work."""

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
"""The packages that a result depends on."""


def policy_record(decision: Decision) -> dict[str, Any]:
    """Return what an episode keeps of a decision: exactly what was shown and sampled, and what it cost."""
    sampled = sampled_record(decision.completion, decision.messages)
    return {**sampled, "error": decision.error, **decision_record(decision)}


def sampled_record(completion: Completion, messages: Sequence[Message]) -> dict[str, Any]:
    """Return what an episode keeps of a completion: exactly what was shown and sampled, and what it cost."""
    record = {
        "prompt": [{"role": message.role, "text": message.text} for message in messages],
        **{name: value for name, value in vars(completion).items() if name != "usage"},
        "logprobs": [round(value, 6) for value in completion.logprobs],
    }
    return record if completion.usage is None else {**record, "usage": asdict(completion.usage)}


def intended(action: Act) -> Any:
    """Return what a journal keeps of an action before it is sent; what is none stays, for the environment to say so."""
    if not isinstance(action, str):
        with contextlib.suppress(ActionError):
            return parse_action(action).to_dict()
    return str(action)


def decision_record(decision: Decision) -> dict[str, Any]:
    """Return what an episode keeps of what an agent made of a reply."""
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
    """Return the versions of what a result depends on. They are looked up once a process: episodes ask often."""
    return {"python": platform.python_version(), **{name: installed(name) or "absent" for name in PACKAGES}}
