"""Agents: observations in, actions out. Importing this loads no model library; `make` does when it has to.

agent = agents.make("transformers", model="smollm2")
agent.reset(obs["goal"])
action = agent.act(obs)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from typing import Any

from selfsurf.agents.agent import Act, Agent, Decision, Privileged
from selfsurf.agents.policy import Completion, Conversation, Message, Policy, PolicyError
from selfsurf.agents.scripted import OracleAgent, RandomAgent, ScriptedAgent
from selfsurf.bare import alias
from selfsurf.browser_env.classes import load_class

__all__ = [
    "BACKENDS", "Act", "Agent", "Backend", "Completion", "Conversation", "Decision", "Message", "Policy", "PolicyError",
    "Privileged", "check_options", "make", "names", "policy_class",
]  # fmt: skip


@dataclass(frozen=True)
class Backend:
    """Where a policy comes from."""

    where: str
    """`module:Class`; the class is called with the options that are not `LLMAgent`'s."""
    packages: tuple[str, ...] = ()
    """What must be installed."""
    extra: str = ""
    """The extra of this distribution that installs them."""


BACKENDS: dict[str, Backend] = {
    "transformers": Backend(
        "selfsurf.agents.policies.transformers.policy:TransformersPolicy",
        ("torch", "transformers", "llguidance"),
        "train",
    ),
    "openai": Backend("selfsurf.agents.policies.openai.policy:OpenAIPolicy", ("openai",), "openai"),
    "tensorrt": Backend("selfsurf.agents.policies.tensorrt.policy:TensorRTPolicy", ("tensorrt_llm",)),
    "mlx": Backend("selfsurf.agents.policies.mlx.policy:MLXPolicy", ("mlx", "mlx_lm", "mlx_vlm", "llguidance"), "mlx"),
}
"""Language models by name. One more is one line here, or none at all: `make("module:Class")`."""


def make(name: str, **options: Any) -> Agent:
    """Make an agent by name.

    With an `adapter` that was trained here, the agent has the prompt that the adapter was trained under
    (`agents.adapters.prompt`): kinds of actions, limits, vision, guards. Options that are given win.

    Args:
        name: a backend (`transformers`, `openai`, `mlx`, `tensorrt`), `module:Class` of any other `Policy`, or
            `scripted`, `random` or `oracle`.
        options: those of `LLMAgent` (`constrained`, `temperature`, ...) and of the backend's policy (`model`,
            `adapter`, `seed`, ...); the others their class's own.

    Raises:
        ValueError: there is no agent of that name.
        TypeError: it does not have such an option.
        ImportError: a package that it needs is not installed.
        agents.adapters.identity.AdapterError: what is saved beside the adapter is damaged.
    """
    if name in _SIMPLE:
        return _SIMPLE[name](**options)
    from selfsurf.agents.adapters.prompt import read_prompt
    from selfsurf.agents.llm_agent import LLMAgent

    kind = policy_class(name)
    own = signature(kind).parameters
    prompt = read_prompt(options.get("adapter"))
    given = {key: options.pop(key) for key in signature(LLMAgent).parameters if key in options and key not in own}
    policy = kind(**options)
    trained = {} if prompt is None else prompt.options(policy)
    return LLMAgent(policy, **{**trained, **given})


def policy_class(name: str) -> Callable[..., Policy]:
    """Return the class of a backend, or of `module:Class` or `file.py:Class`, importing it.

    Raises:
        ValueError: there is none.
        ImportError: a package that it needs is not installed.
    """
    if name not in BACKENDS and ":" not in name:
        raise ValueError(f"Unknown agent {name!r}: the agents are {', '.join(names())}, or module:Class of a policy.")
    backend = BACKENDS.get(name, Backend(name))
    missing = [package for package in backend.packages if find_spec(package) is None]
    if missing:
        how = f": pip install 'selfsurf[{backend.extra}]'" if backend.extra else "; see docs/agents.md"
        raise ImportError(f"The agent {name} needs {', '.join(missing)}{how}.")
    found: Callable[..., Policy] = load_class(backend.where)
    return found


def check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options for `make(name, ...)` that were given as JSON values, in their right types. Loads no model.

    Raises:
        agents.options.OptionError: one is unknown, missing or wrong; a ValueError.
        ValueError: there is no agent of that name.
        ImportError: a package that it needs is not installed.
    """
    from selfsurf.agents.options import checked

    if name in _SIMPLE:
        return checked(name, (_SIMPLE[name],), options)
    from selfsurf.agents.llm_agent import LLMAgent

    return checked(name, (policy_class(name), LLMAgent), options)


def names() -> tuple[str, ...]:
    """The names that `make` knows."""
    return (*BACKENDS, *_SIMPLE)


_SIMPLE: dict[str, Callable[..., Agent]] = {"scripted": ScriptedAgent, "random": RandomAgent, "oracle": OracleAgent}

alias(__name__)
