"""Automatic answers to alerts, confirmations, prompts and `beforeunload` dialogs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from playwright.async_api import Dialog

KINDS = ("alert", "confirm", "prompt", "beforeunload")
"""Kinds of dialogs, as the browser names them."""

DialogPolicy: TypeAlias = str | Mapping[str, str] | Callable[[str, str], str]
"""Answers to dialogs: `"accept"` or `"dismiss"` for all, `"leave"` to leave them to the person at the window, a mapping
from kind to answer (kinds left out are accepted), or a function of kind and message that returns an answer. An answer
is `"accept"`, `"dismiss"`, or, to a prompt, the text to enter."""


def check_dialogs(policy: DialogPolicy) -> None:
    """Check a dialog policy before the first dialog opens.

    Raises:
        ValueError: the policy is invalid.
    """
    if callable(policy) or policy in ("accept", "dismiss", "leave"):
        return
    if not isinstance(policy, Mapping):
        raise ValueError(f"dialogs must be 'accept', 'dismiss', a mapping or a function, not {policy!r}.")
    for kind, answer in policy.items():
        if kind not in KINDS:
            raise ValueError(f"dialogs: there are no {kind!r} dialogs, only {', '.join(KINDS)}.")
        if not isinstance(answer, str) or (kind != "prompt" and answer not in ("accept", "dismiss")):
            raise ValueError(f"dialogs: the answer to {kind} must be 'accept' or 'dismiss', not {answer!r}.")


def accepts(kind: str, policy: DialogPolicy) -> bool:
    """Whether a dialog that decides something (`confirm` or `prompt`) is accepted without asking anybody."""
    answer = policy.get(kind, "accept") if isinstance(policy, Mapping) else policy
    return kind in ("confirm", "prompt") and isinstance(answer, str) and answer not in ("dismiss", "leave")


async def answer_dialog(dialog: Dialog, policy: DialogPolicy) -> str:
    """Answer a dialog and return the outcome for the event: `accepted`, `dismissed` or `answered "..."`.

    A function is called in a thread, since it may wait for a person. If it fails, the dialog is dismissed.
    """
    answer = await _answer(dialog.type, dialog.message, policy)
    if answer == "dismiss":
        await dialog.dismiss()
        return "dismissed"
    if dialog.type != "prompt" or answer == "accept":
        await (dialog.accept(dialog.default_value) if dialog.type == "prompt" else dialog.accept())
        return "accepted"
    await dialog.accept(answer)
    return f'answered "{answer}"'


async def _answer(kind: str, message: str, policy: DialogPolicy) -> str:
    if isinstance(policy, str):
        return policy
    if isinstance(policy, Mapping):
        return policy.get(kind, "accept")
    try:
        return str(await asyncio.to_thread(policy, kind, message))
    except Exception:
        return "dismiss"
