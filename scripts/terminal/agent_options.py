"""The options of an agent, from the command line to `agents.make`."""

from __future__ import annotations

import json
from typing import Any

import typer

from selfsurf.scripts.terminal.console import quiet_libraries


def read_options(given: list[str], model: str, adapter: str) -> dict[str, Any]:
    """Return the agent's options: values are JSON, and what is no JSON is text.

    Raises:
        typer.BadParameter: one is not `name=value`.
    """
    options: dict[str, Any] = {"model": model} if model else {}
    if adapter:
        options["adapter"] = adapter
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--set {item}: give name=value.")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def checked_options(backend: str, options: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the options, still plain, with the seed where the agent has one. Loads no model.

    Raises:
        typer.BadParameter: there is no such agent or option, a value can't be, or the adapter is missing or damaged.
    """
    from selfsurf import agents
    from selfsurf.agents.adapters.identity import check_folder
    from selfsurf.agents.adapters.prompt import read_prompt

    if backend == "oracle":
        if options:
            raise typer.BadParameter("The agent oracle has no options.")
        return {}
    try:
        agents.check_options(backend, options)
        if backend in ("transformers", "mlx", "tensorrt"):
            check_folder(options.get("adapter"))
        read_prompt(options.get("adapter"))
    except refusals() as error:
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
