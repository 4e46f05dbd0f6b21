"""Agents: observations in, actions out. Importing this loads no model library; `make` does when it has to.

agent = agents.make("transformers", model="smollm2")
agent.reset(obs["goal"])
action = agent.act(obs)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.agent import Act, Agent, Privileged
from agents.policy import Completion, Message, Policy

if TYPE_CHECKING:
    from agents.llm_agent import LLMAgent
    from agents.scripted import OracleAgent, RandomAgent, ScriptedAgent

__all__ = ["Act", "Agent", "Completion", "Message", "Policy", "Privileged", "make", "names"]


def make(name: str, **options: Any) -> Agent:
    """Make an agent by name.

    Args:
        name: `transformers`, `scripted`, `random` or `oracle`.
        options: `transformers` takes those of `TransformersPolicy` (`model`, `tokenizer`, `adapter`, `dtype`,
            `device`, `seed`) and of `LLMAgent` (`constrained`, `temperature`, ...); the others their class's own.

    Raises:
        ValueError: there is no agent of that name.
        TypeError: it does not have such an option.
        ImportError: a package that it needs is not installed.
    """
    if name not in _MAKERS:
        raise ValueError(f"Unknown agent {name!r}: the agents are {', '.join(_MAKERS)}.")
    return _MAKERS[name](**options)


def names() -> tuple[str, ...]:
    """The names that `make` knows."""
    return tuple(_MAKERS)


def _transformers(
    model: Any = "smollm2",
    tokenizer: Any = None,
    adapter: str | Path | None = None,
    dtype: Any = "auto",
    device: Any = "auto",
    seed: int = 0,
    **agent_options: Any,
) -> LLMAgent:
    missing = [package for package in ("torch", "transformers", "llguidance") if find_spec(package) is None]
    if missing:
        raise ImportError(f"The agent transformers needs {', '.join(missing)}: pip install 'selfsurf[train]'.")
    from agents.llm_agent import LLMAgent
    from agents.policies.transformers import TransformersPolicy

    policy = TransformersPolicy(model, tokenizer, adapter, dtype=dtype, device=device, seed=seed)
    return LLMAgent(policy, **agent_options)


def _scripted(actions: Sequence[Any]) -> ScriptedAgent:
    from agents.scripted import ScriptedAgent

    return ScriptedAgent(actions)


def _random(seed: int = 0) -> RandomAgent:
    from agents.scripted import RandomAgent

    return RandomAgent(seed)


def _oracle(privileged: Callable[[int], Privileged | None]) -> OracleAgent:
    from agents.scripted import OracleAgent

    return OracleAgent(privileged)


_MAKERS: dict[str, Callable[..., Agent]] = {
    "transformers": _transformers,
    "scripted": _scripted,
    "random": _random,
    "oracle": _oracle,
}
