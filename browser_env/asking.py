"""Asking a person: what a step waits for, and who answers. It knows nothing of pages.

A step that needs a person returns at once, with `info["waiting"]`, and the answer completes it, minutes or days later:
no deadline runs and no thread waits meanwhile. A program that answers runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from selfsurf.browser_env.errors import EnvError, reason, traceback_of
from selfsurf.browser_env.safety.policy import Risk

YES = ("yes", "y", "ok", "okay", "allow", "true")
"""The answers that allow an action; every other one refuses it."""

WANTED = " The agent wants to "
"""In the text of a confirmation: between why it is asked for, and the action."""

HINT = " (yes allows it, anything else does not)"
"""Behind a confirmation that a person reads."""

Kind = Literal["question", "confirmation"]
User = Callable[[str], str] | Literal["later"] | None
"""Who answers: a function of the question, a person (`LATER`), or nobody."""


@dataclass(frozen=True)
class Answer:
    """A person's answer, as a step takes it.

    It has a type of its own so that nothing that a model writes can be taken for it.
    """

    text: str


@dataclass
class Question:
    """What a step waits for."""

    kind: Kind
    text: str
    action: Any
    """The action that asks, or that is to be confirmed."""
    risk: Risk | None = None
    """Why it is to be confirmed."""
    program: Program | None = None
    """What answers; None: a person, later."""

    @property
    def waiting(self) -> dict[str, str]:
        """As it stands in `info["waiting"]`: `kind`, `text`, and for a confirmation `risk`, its kind."""
        risk = {} if self.risk is None else {"risk": self.risk.kind}
        return {"kind": self.kind, "text": self.text, **risk}


class Asks(Exception):
    """An action can't be carried out before a person has answered."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.text)
        self.question = question


class Program:
    """A function that answers in the place of a person, in a thread of its own. Made on an event loop.

    Args:
        call: returns the answer.
        name: of the thread.
        timeout: seconds after which the answer is `late`.
        late: what counts as the answer then, and where the function raises; None: it may take any time, and its
            exception is the answer.
    """

    def __init__(
        self, call: Callable[[], str], *, name: str, timeout: float | None = None, late: str | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[str | Exception] = self._loop.create_future()
        self._call, self._late = call, late
        if timeout is not None and late is not None:
            self._loop.call_later(timeout, self._settle, late)
        threading.Thread(target=self._ask, name=name, daemon=True).start()

    def _ask(self) -> None:
        try:
            said: Any = self._call()
            if not isinstance(said, str):
                raise TypeError(f"the user's function returned {said!r}, which is no text")
        except Exception as error:
            said = _failure(error) if self._late is None else self._late
        with contextlib.suppress(RuntimeError):  # the loop has stopped: nobody waits for the answer
            self._loop.call_soon_threadsafe(self._settle, said)

    def _settle(self, said: str | Exception) -> None:
        if not self._answer.done():
            self._answer.set_result(said)

    @property
    def done(self) -> bool:
        """Has it answered?"""
        return self._answer.done()

    async def said(self) -> str | Exception:
        """Wait for the answer: a text, or what the function raised."""
        return await asyncio.shield(self._answer)


def _failure(error: Exception) -> EnvError:
    failure = EnvError(f"the function that answers for the user raised {reason(error)}")
    failure.traceback = traceback_of(error)
    failure.__cause__ = error
    return failure


def checked_answer(said: object) -> str:
    """Return a person's answer.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(said, str):
        raise TypeError(f"An answer is a text, not {type(said).__name__}.")
    return said


def allows(text: str) -> bool:
    """Does an answer to a confirmation allow the action?"""
    return text.strip().rstrip(".!").casefold() in YES
