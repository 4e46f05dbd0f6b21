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
    """Return the options, still plain, with what the adapter's training and the backend need. Loads no model.

    Raises:
        typer.BadParameter: there is no such agent or option, a value can't be, or the adapter is not there.
    """
    from selfsurf import agents
    from selfsurf.agents.adapters.identity import check_folder

    if backend == "oracle":
        if options:
            raise typer.BadParameter("The agent oracle has no options.")
        return {}
    try:
        agents.check_options(backend, options)
        if backend in ("transformers", "mlx", "tensorrt"):
            check_folder(options.get("adapter"))
    except refusals() as error:
        raise typer.BadParameter(str(error)) from None
    if backend == "random":
        return {"seed": seed, **options}
    if backend in agents.BACKENDS and backend != "openai":
        quiet_libraries()
    if "adapter" in options:
        from selfsurf.agents.adapters.identity import read_about
        from selfsurf.sdft.settings import TrainSettings

        # An adapter was trained under a prompt; the same prompt is used with it.
        about = read_about(options["adapter"])
        if "settings" in about:
            trained = TrainSettings(**about["settings"])
            return {
                "actions": trained.actions, "max_prompt_tokens": trained.max_prompt_tokens, "guards": False, **options
            }  # fmt: skip
    return options


def refusals() -> tuple[type[Exception], ...]:
    """The errors of making an agent that speak of its options."""
    from selfsurf.agents.adapters.identity import AdapterError
    from selfsurf.agents.models import NoSuchModel

    return ValueError, ImportError, FileNotFoundError, NoSuchModel, AdapterError
