"""Prompt writers by name: those of this package, and custom classes."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator

from selfsurf.agents.prompt.chat import Chat
from selfsurf.agents.prompt.compact import Compact
from selfsurf.agents.prompt.prompt import PromptWriter
from selfsurf.browser_env.classes import load_class

WRITERS: dict[str, type[PromptWriter]] = {"compact": Compact, "chat": Chat}
"""Prompt writers of this package by name: the small model's and the strong model's."""

AUTO = "auto"
"""Name that selects `compact` for small models, and `chat` for large models and remote models of unknown size."""


def check_prompt(name: str) -> str:
    """Return the name of a prompt if it is valid.

    Raises:
        ValueError: no prompt has this name.
    """
    if name != AUTO:
        _class(name)
    return name


PromptName: TypeAlias = Annotated[str, AfterValidator(check_prompt)]
"""Name of a prompt: `auto`, `compact`, `chat`, or `file.py:Class` or `module:Class` of a `PromptWriter`."""


def writer_of(prompt: Any, *, small: bool) -> PromptWriter:
    """Return a prompt writer by name.

    Args:
        prompt: a `PromptName`, or a writer, which is returned unchanged.
        small: whether the model is small, which decides between the prompts for `auto`.

    Raises:
        ValueError: no prompt has this name.
        TypeError: the object is not a prompt writer.
    """
    if isinstance(prompt, str):
        prompt = _class("compact" if small else "chat")() if prompt == AUTO else _class(prompt)()
    needed = ("build", "max_new_tokens", "prefill", "actions", "thinks")
    lacking = [name for name in needed if not hasattr(prompt, name)]
    if lacking:
        raise TypeError(
            f"{type(prompt).__name__} is not a prompt writer: it lacks {', '.join(lacking)}. Inherit from "
            "agents.prompt.prompt.PromptWriter."
        )
    writer: PromptWriter = prompt
    return writer


def name_of(writer: PromptName | PromptWriter) -> PromptName:
    """Return the name from which a writer's class can be loaded again; names are returned unchanged."""
    if isinstance(writer, str):
        return writer
    kind = type(writer)
    return next((name for name, one in WRITERS.items() if one is kind), f"{kind.__module__}:{kind.__qualname__}")


def _class(name: str) -> Any:
    if name in WRITERS:
        return WRITERS[name]
    if ":" not in name:
        known = ", ".join([AUTO, *WRITERS])
        raise ValueError(f"Unknown prompt {name!r}: choose from {known}, or give file.py:Class.")
    found = load_class(name)
    if not hasattr(found, "build"):
        raise ValueError(f"{name} is not a prompt writer: it has no build(obs, turn, budget).")
    return found
