"""Prompts by name: the two of this package, and classes of one's own."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator

from selfsurf.agents.prompt.chat import Chat
from selfsurf.agents.prompt.compact import Compact
from selfsurf.agents.prompt.prompt import PromptWriter
from selfsurf.browser_env.classes import load_class

WRITERS: dict[str, type[PromptWriter]] = {"compact": Compact, "chat": Chat}
"""The small model's prompt, and the strong model's."""

AUTO = "auto"
"""`compact` for small models, `chat` for large ones and those of unknown size, which are behind servers."""


def check_prompt(name: str) -> str:
    """Return the name of a prompt.

    Raises:
        ValueError: there is none of that name.
    """
    if name != AUTO:
        _class(name)
    return name


PromptName: TypeAlias = Annotated[str, AfterValidator(check_prompt)]
"""`auto`, `compact`, `chat`, or `file.py:Class` or `module:Class` of a `PromptWriter`."""


def writer_of(prompt: Any, *, small: bool) -> PromptWriter:
    """Return what writes the prompts.

    Args:
        prompt: a `PromptName`, or a writer.
        small: of the model: decides for `auto`.

    Raises:
        ValueError: there is none of that name.
        TypeError: it is no writer.
    """
    if isinstance(prompt, str):
        prompt = _class("compact" if small else "chat")() if prompt == AUTO else _class(prompt)()
    needed = ("build", "max_new_tokens", "prefill", "actions", "thinks")
    lacking = [name for name in needed if not hasattr(prompt, name)]
    if lacking:
        raise TypeError(
            f"{type(prompt).__name__} writes no prompts: it lacks {', '.join(lacking)}. Let it inherit from "
            "agents.prompt.prompt.PromptWriter."
        )
    writer: PromptWriter = prompt
    return writer


def name_of(writer: PromptName | PromptWriter) -> PromptName:
    """Return the name by which the class of a writer is found again; a name stays as it is."""
    if isinstance(writer, str):
        return writer
    kind = type(writer)
    return next((name for name, one in WRITERS.items() if one is kind), f"{kind.__module__}:{kind.__qualname__}")


def _class(name: str) -> Any:
    if name in WRITERS:
        return WRITERS[name]
    if ":" not in name:
        known = ", ".join([AUTO, *WRITERS])
        raise ValueError(f"There is no prompt {name!r}: choose {known}, or give file.py:Class of your own.")
    found = load_class(name)
    if not hasattr(found, "build"):
        raise ValueError(f"{name} writes no prompts: it has no build(obs, turn, budget).")
    return found
