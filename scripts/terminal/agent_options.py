"""The options of an agent, from the command line to `agents.make`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import Adapter, Agent, Model, Set, print_settings, read_set, read_texts
from selfsurf.scripts.terminal.command import Arguments
from selfsurf.scripts.terminal.console import quiet_libraries
from selfsurf.scripts.terminal.lazy import GIVEN


def _list_options(ctx: typer.Context, wanted: bool) -> bool:
    """Print the agent's options with defaults and descriptions, and exit."""
    if not wanted:
        return False
    from selfsurf import agents

    default = next(each.default for each in ctx.command.params if each.name == "agent")
    agent, given = ctx.meta[GIVEN].get("agent", default), read_set(ctx.meta[GIVEN].get("set_") or ())
    try:
        # the oracle's option can't be given on a command line
        kinds = () if agent == "oracle" else agents.takers(agent, given)
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None
    rows: dict[str, tuple[str, Any, str]] = {}
    if agent in agents.COMPOSED:
        backend = agents.backend_of(agent, given)
        rows["policy"] = ("policy", backend, "the model: a backend, or file.py:Class of a policy.")
    for kind in kinds:
        told = described(kind)
        for name, parameter in inspect.signature(kind).parameters.items():
            if name != "policy" and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                default = ... if parameter.default is parameter.empty else parameter.default
                rows.setdefault(name, (name, default, told.get(name, "")))
    if not rows:
        typer.echo(f"The agent {agent} has no options.", err=True)
    print_settings(rows.values())
    raise typer.Exit


def described(kind: Any) -> dict[str, str]:
    """Return the descriptions of a class's arguments from its Google-style docstring."""
    told: dict[str, str] = {}
    _, _, section = (inspect.getdoc(kind) or "").partition("Args:\n")
    for entry in re.split(r"\n(?= {4}\S)", section.partition("\n\n")[0]):
        name, _, text = entry.strip().partition(":")
        told[name.split(" ")[0]] = " ".join(text.split())
    return told


class AgentArguments(Arguments):
    """Arguments of a command that runs one agent."""

    agent: Agent
    model: Model = ""
    """Short name, hub id or folder of the model; the backend's default if not given."""
    adapter: Adapter = ""
    set_: Set = Field(default_factory=list)
    """Further option of the agent, name=value; the value is JSON, or text if it isn't valid JSON. --settings lists the
    options. Repeatable."""
    list_settings: Annotated[bool, typer.Option("--settings", is_eager=True, callback=_list_options)] = False
    """List the options of the agent that --agent names."""


def read_options(given: Iterable[str], model: str, adapter: str) -> dict[str, Any]:
    """Return the agent's options as plain values.

    Raises:
        typer.BadParameter: An item is not `name=value`.
    """
    named = {"model": model, "adapter": adapter}
    return {name: value for name, value in named.items() if value} | read_set(given)


def checked_options(backend: str, options: dict[str, Any], seed: int, given: Iterable[str] = ()) -> dict[str, Any]:
    """Return the validated options as plain values, with the seed if the agent takes one. Loads no model.

    Args:
        backend: Name of the agent.
        options: Options from `read_options`.
        seed: Seed for an agent that takes one.
        given: The `name=value` items that the options were read from, so that a text option can get the text `5`.

    Raises:
        typer.BadParameter: An unknown agent or option, an invalid value, an adapter that is missing, damaged or of
            another kind, or a model that is missing or unreachable.
    """
    from selfsurf import agents

    if backend == "oracle":
        if options:
            raise typer.BadParameter("The agent oracle has no options.")
        return {}
    try:
        written = read_texts(given)
        found = agents.check_options(backend, options, written)
        texts = [name for name, value in found.items() if isinstance(value, str | Path) and name in written]
        options = {**options, **{name: written[name] for name in texts if not isinstance(options[name], str)}}
        if agents.backend_of(backend, options) in agents.BACKENDS:
            _check_model(backend, options)
    except refusals() as error:
        raise typer.BadParameter(str(error)) from None
    if backend == "random":
        return {"seed": seed, **options}
    own = agents.backend_of(backend, options)
    if own in agents.BACKENDS and not agents.BACKENDS[own].remote:
        quiet_libraries()
    return options


def offered(agent: str, options: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    """Return options that offer the model further kinds of actions, such as `ask_user` where somebody answers.

    The options are returned unchanged if they set the kinds of actions, or if the agent has no such option.
    """
    from selfsurf import agents

    try:
        takes = any("more_actions" in inspect.signature(kind).parameters for kind in agents.takers(agent, options))
    except refusals() as error:
        raise typer.BadParameter(str(error)) from None
    if not (kinds and takes) or {"actions", "more_actions"} & {*options}:
        return options
    return {**options, "more_actions": list(kinds)}


def check_model(model: str, adapter: Path | None = None) -> None:
    """Refuse a missing base model, and an adapter that is not in PEFT's format.

    Raises:
        typer.BadParameter: The model is neither on this machine nor at the hub, or the adapter doesn't fit.
    """
    from selfsurf.agents import model_files
    from selfsurf.agents.adapters.identity import check_base_on_disk, check_peft

    try:
        model_files.check(model)
        check_peft(adapter)
        check_base_on_disk(adapter, model)
    except refusals() as error:
        raise typer.BadParameter(str(error)) from None


def refusals() -> tuple[type[Exception], ...]:
    """Return the exception types raised by invalid agent options, or by an unavailable model."""
    from selfsurf.agents import PolicyError
    from selfsurf.agents.model_files import ModelError

    return ValueError, ImportError, FileNotFoundError, ModelError, PolicyError


def _check_model(backend: str, options: dict[str, Any]) -> None:
    """Check a backend's model and adapter as far as possible without loading them; raise one of `refusals()`."""
    from selfsurf import agents
    from selfsurf.agents import model_files
    from selfsurf.agents.adapters.identity import check_base_on_disk, check_folder, check_peft
    from selfsurf.agents.adapters.prompt import read_prompt

    adapter = options.get("adapter")
    own = agents.backend_of(backend, options)
    if agents.BACKENDS[own].remote:
        agent: Any = agents.make(backend, **options)
        try:
            agent.policy.check()
        finally:
            agent.policy.close()
        return
    (check_folder if own == "mlx" else check_peft)(adapter)
    if (prompt := read_prompt(adapter)) is not None and "prompt" not in options:
        prompt.check_imported()
    default = inspect.signature(agents.policy_class(own)).parameters["model"].default
    model = options.get("model", default)
    model_files.check(model)
    check_base_on_disk(adapter, model)
    if verifier := options.get("verifier_adapter"):
        from selfsurf.agents.roles.verifier import check_trained

        check_base_on_disk(check_trained(verifier), model)
