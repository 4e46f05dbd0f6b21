"""The options of an agent, from the command line to `agents.make`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import Adapter, Agent, Model, Set, read_set
from selfsurf.scripts.terminal.command import Arguments
from selfsurf.scripts.terminal.console import quiet_libraries


class AgentArguments(Arguments):
    """The arguments of a command that has one agent act."""

    agent: Agent
    model: Model = ""
    """Short name, hub id or folder of the model; the backend's own if not given."""
    adapter: Adapter = ""
    set_: Set = Field(default_factory=list)
    """Another option of the agent, name=value; the value is JSON, or text if it is none. Repeatable."""


def read_options(given: Iterable[str], model: str, adapter: str) -> dict[str, Any]:
    """Return the agent's options, as plain values.

    Raises:
        typer.BadParameter: one is not `name=value`.
    """
    named = {"model": model, "adapter": adapter}
    return {name: value for name, value in named.items() if value} | read_set(given)


def checked_options(backend: str, options: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the options, still plain, with the seed where the agent has one. Loads no model.

    Raises:
        typer.BadParameter: there is no such agent or option, a value can't be, or the adapter is missing or damaged.
    """
    from selfsurf import agents
    from selfsurf.agents.adapters.identity import check_folder
    from selfsurf.agents.adapters.prompt import read_prompt
    from selfsurf.browser_env.classes import load_class

    if backend == "oracle":
        if options:
            raise typer.BadParameter("The agent oracle has no options.")
        return {}
    errors: tuple[type[Exception], ...] = (*refusals(), TypeError)
    try:
        kind = load_class(backend) if ":" in backend else None
        if kind and not hasattr(kind, "complete"):  # an agent, no policy that `agents.make` puts an LLMAgent around
            inspect.signature(kind).bind(**options)
            return options
        agents.check_options(backend, options)
        if backend in ("transformers", "mlx", "tensorrt"):
            check_folder(options.get("adapter"))
        read_prompt(options.get("adapter"))
    except errors as error:
        raise typer.BadParameter(str(error)) from None
    if backend == "random":
        return {"seed": seed, **options}
    if backend in agents.BACKENDS and backend != "openai":
        quiet_libraries()
    return options


def refusals() -> tuple[type[Exception], ...]:
    """The errors of making an agent that speak of its options."""
    from selfsurf.agents.adapters.identity import AdapterError
    from selfsurf.agents.models import NoSuchModel

    return ValueError, ImportError, FileNotFoundError, NoSuchModel, AdapterError
