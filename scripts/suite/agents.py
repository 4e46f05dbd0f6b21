"""The agent of a run: its options, checked, and what the run's records say of it."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path
from typing import Any

import typer

from selfsurf import agents
from selfsurf.browser_env.classes import load_class


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
