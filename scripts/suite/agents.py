"""The agent in a worker: any backend, or a user's own class, acting for several episodes at a time."""

from __future__ import annotations

import hashlib
import inspect
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from selfsurf import agents
from selfsurf.agents.agent import Act, Agent
from selfsurf.browser_env.classes import load_class
from selfsurf.browser_env.observation import Observation
from selfsurf.scripts.suite.plan import Key
from selfsurf.scripts.terminal.console import quiet_libraries

Privileged = Callable[[int], Any]


@dataclass(frozen=True)
class Chosen:
    """An agent's answer for one episode."""

    action: Act | None
    """None when the agent's code raised."""
    error: str = ""
    decision: Any = None
    """How a language model came to it (`agents.llm_agent.Decision`)."""


class AgentHost:
    """Holds the agent of a worker.

    One object serves all episodes where it has `act_batch`; where chance is in the agent, or it knows only `act`,
    every episode has its own, so that what it does never depends on what runs beside it.

    Args:
        name: as `agents.make`, or `file.py:Class` or `module:Class` of anything with `act(obs)`.
        options: of the agent.
        privileged: gives the oracle's view of a slot.
    """

    def __init__(self, name: str, options: dict[str, Any], privileged: Privileged) -> None:
        self._options = dict(options)
        self._make: Callable[[Key], Agent] | None = None
        self._own: dict[int, Any] = {}
        self._shared: Any = None
        if name == "random":
            seed = self._options.pop("seed", 0)
            self._make = lambda key: agents.make("random", seed=zlib.crc32(f"{seed} {key[0]} {key[1]}".encode()))
        elif name == "oracle":
            self._shared = agents.make("oracle", privileged=privileged)
        elif name == "scripted" or name in agents.BACKENDS:
            if name in ("transformers", "mlx"):
                quiet_libraries()
            self._shared = agents.make(name, **agents.check_options(name, self._options))
        else:
            kind = load_class(name)
            if hasattr(kind, "act_batch"):
                self._shared = kind(**self._options)
            elif hasattr(kind, "act"):
                kind(**self._options)  # or it would fail in every episode
                self._make = lambda key: kind(**self._options)
            elif hasattr(kind, "complete"):
                self._shared = agents.make(name, **agents.check_options(name, self._options))
            else:
                raise ValueError(f"{name} is no agent: it has neither act(obs) nor act_batch(observations).")

    @property
    def sees_images(self) -> bool:
        """Does it look at screenshots? A user's own agent might."""
        policy = getattr(self._shared, "policy", None)
        return bool(getattr(policy, "sees_images", False)) and getattr(self._shared, "vision", "auto") != "none"

    def begin(self, slot: int, key: Key, goal: str) -> None:
        """Begin an episode."""
        if self._make is not None:
            self._own[slot] = self._make(key)
        agent = self._own.get(slot, self._shared)
        if not hasattr(agent, "reset"):
            return
        if self._make is not None:
            agent.reset(goal)
        else:
            agent.reset(goal, slot=slot)

    def act(self, observations: Sequence[Observation], slots: Sequence[int]) -> list[Chosen]:
        """Choose an action for each. An agent that raises is asked again one by one, to find for whom it does.

        Raises:
            agents.PolicyError: the model could not be asked.
        """
        if self._make is None:
            try:
                return self._ask(observations, slots)
            except agents.PolicyError:
                raise
            except (Exception, SystemExit) as error:
                if len(slots) == 1:
                    return [_raised(error)]
        chosen = []
        for observation, slot in zip(observations, slots, strict=True):
            try:
                chosen += self._ask([observation], [slot])
            except agents.PolicyError:
                raise
            except (Exception, SystemExit) as error:
                chosen.append(_raised(error))
        return chosen

    def close(self) -> None:
        """Let go of what the agent holds."""
        close = getattr(getattr(self._shared, "policy", self._shared), "close", None)
        if close is not None:
            close()

    def _ask(self, observations: Sequence[Observation], slots: Sequence[int]) -> list[Chosen]:
        if self._make is not None:
            (observation,), (slot,) = observations, slots
            action = self._own[slot].act(observation)
            if inspect.iscoroutine(action):
                action.close()
                raise TypeError("act(obs) is asynchronous; it must be a plain function")
            return [Chosen(action)]
        actions = self._shared.act_batch(observations, slots=slots)
        if len(actions) != len(slots):
            raise ValueError(f"act_batch returned {len(actions)} actions for {len(slots)} observations")
        decisions = getattr(self._shared, "decisions", None) or [None] * len(slots)
        return [Chosen(action, decision=one) for action, one in zip(actions, decisions, strict=True)]


def agent_options(name: str, given: list[str], model: str, adapter: str) -> dict[str, Any]:
    """Return the options of an agent, checked, from what a command was given.

    Raises:
        typer.BadParameter: it has no such option, or can't be had.
    """
    from selfsurf.scripts.terminal.agent_options import checked_options, read_options

    options = read_options(given, model, adapter)
    if not _is_users(name):
        return checked_options(name, options, 0)
    try:
        kind = load_class(name)
        if hasattr(kind, "complete"):  # a policy, around which `agents.make` puts an LLMAgent
            return checked_options(name, options, 0)
        inspect.signature(kind).bind(**options)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(f"--agent {name}: {error}") from None
    return options


def agent_about(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a run keeps of its agent: `name`, `model`, `adapter`, their SHA-256 and the options."""
    about: dict[str, Any] = {"name": name, "backend": name, "model": None, "adapter": None, "options": options}
    if _is_users(name):
        about["code_sha256"] = hashlib.sha256(Path(inspect.getfile(load_class(name))).read_bytes()).hexdigest()
    if name in ("random", "oracle", "scripted") or _is_users(name):
        return about
    model = options.get("model") or inspect.signature(agents.policy_class(name)).parameters["model"].default
    about["model"], about["adapter"] = str(model), options.get("adapter")
    if name != "openai":
        from selfsurf.agents.adapters.base import folder_hash, local_folder

        folder = local_folder(model)
        about["model_sha256"] = folder_hash(folder) if folder else None
    if about["adapter"]:
        digest = hashlib.sha256()
        for file in sorted(Path(about["adapter"]).glob("*.safetensors")):
            digest.update(file.read_bytes())
        about["adapter_sha256"] = digest.hexdigest()
    return about


def _is_users(name: str) -> bool:
    return ":" in name


def _raised(error: BaseException) -> Chosen:
    return Chosen(None, f"the agent raised {type(error).__name__}: {error}")
