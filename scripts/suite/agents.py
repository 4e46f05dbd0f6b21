"""Agents of a run: their description for the run's records, and deciders for agents given as objects."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from selfsurf import agents
from selfsurf.agents.play import AgentAdapter
from selfsurf.browser_env.classes import load_class

_SECRET = re.compile(r"(?:^|_)(?:key|token|password|secret)$", re.IGNORECASE)


def agent_about(agent: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return a run's description of its agent: `name`, `model`, `adapter`, their SHA-256 and the options.

    Args:
        agent: Name of the agent; or a class or an object, whose model options are unknown.
        options: Options of the agent.
    """
    if not isinstance(agent, str):
        return _about_object(agent, _public(options))
    about: dict[str, Any] = {"name": agent, "backend": agent, "model": None, "adapter": None}
    about["options"] = _public(options)
    if ":" in agent:  # a user's own class
        about["code_sha256"] = code_hash(load_class(agent))
    if agent in ("random", "oracle", "scripted") or ":" in agent:
        return about
    backend = agents.backend_of(agent, options)
    if ":" in backend:
        return about
    about["backend"] = backend
    model = options.get("model") or inspect.signature(agents.policy_class(backend)).parameters["model"].default
    about["model"], about["adapter"] = str(model), options.get("adapter")
    if not agents.BACKENDS[backend].remote:
        from selfsurf.agents.adapters.base import folder_hash, local_folder

        folder = local_folder(model)
        about["model_sha256"] = folder_hash(folder) if folder else None
    for name, folder in (("adapter", about["adapter"]), ("verifier_adapter", options.get("verifier_adapter"))):
        if folder:
            about[f"{name}_sha256"] = _weights_hash(Path(folder))
    return about


def public_command(words: Sequence[str]) -> list[str]:
    """Return a command line with secrets masked (`--set api_key=...`)."""
    told = []
    for word in words:
        name, given, _ = word.partition("=")
        told.append(f"{name}=<{name}>" if given and _SECRET.search(name) else word)
    return told


def _public(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with secrets masked, because a run's folder and report are shared."""
    return {name: f"<{name}>" if _SECRET.search(name) and value else value for name, value in options.items()}


def _weights_hash(adapter: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(adapter.expanduser().glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def maker_of(agent: Any, options: dict[str, Any]) -> Callable[[], AgentAdapter]:
    """Return a factory of deciders that wrap the given object, or instances of the given class.

    A class that has only `act` is instantiated for each episode, as a named agent is.

    Raises:
        ValueError: The object or class is not an agent.
    """
    if not isinstance(agent, type):
        decider = AgentAdapter(agent)
        return lambda: decider
    if hasattr(agent, "decide") or hasattr(agent, "act_batch"):
        return lambda: AgentAdapter(agent(**options))
    if not hasattr(agent, "act"):
        raise ValueError(f"{agent.__name__} is not an agent: it has neither act(obs) nor act_batch(observations).")

    def make() -> AgentAdapter:
        agent(**options)  # fails now if it can't be made, rather than in every episode
        return AgentAdapter(make=lambda job: agent(**options))

    return make


def at_once(agent: Any) -> bool:
    """Whether an agent can serve several episodes at once."""
    return isinstance(agent, (str, type)) or hasattr(agent, "decide") or hasattr(agent, "act_batch")


def code_hash(kind: Any) -> str:
    """Return the SHA-256 of a class's source file; empty if it has none."""
    try:
        return hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return ""


def _about_object(agent: Any, options: dict[str, Any]) -> dict[str, Any]:
    kind = agent if isinstance(agent, type) else type(agent)
    model = getattr(getattr(agent, "policy", None), "name", None)
    return {
        "name": kind.__name__, "backend": kind.__module__, "model": model, "adapter": None, "options": options,
        "code_sha256": code_hash(kind),
    }  # fmt: skip
