"""Questions to a person: the question that a step waits for, and who answers. Independent of pages.

A step that needs a person returns at once, with `info["waiting"]`, and the answer completes it, minutes or days later.
Meanwhile no deadline runs and no thread waits. A program that answers runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from selfsurf.browser_env.errors import EnvError, reason, traceback_of

YES = ("yes", "y", "ok", "okay", "allow", "true")
"""Answers that allow an action; every other answer refuses it."""

WANTED = " The agent wants to "
"""Words in a confirmation's text between the reason for asking and the action."""

HINT = " (yes allows it, anything else does not)"
"""Hint at the end of a confirmation that a person reads."""

Kind = Literal["question", "confirmation"]
User = Callable[[str], str] | Literal["later"] | None
"""Who answers the agent's questions: a function of the question, a person later (`LATER`), or nobody (None)."""


RiskKind = Literal["purchase", "payment", "transfer", "delete", "send", "publish", "credentials", "unknown"]


@dataclass(frozen=True)
class Risk:
    """The reason why an action needs confirmation."""

    kind: RiskKind
    why: str
    """Explanation in one sentence, which quotes what was recognized."""


@dataclass(frozen=True)
class Answer:
    """A person's answer, passed to `step` in place of an action.

    A separate type, so that text written by a model can't be taken for a person's answer.
    """

    text: str


@dataclass
class Question:
    """A question that a step waits for."""

    kind: Kind
    text: str
    action: Any
    """The action that asks the question or needs confirmation."""
    risk: Risk | None = None
    """Risk that the confirmation is about; None for a question."""
    program: Program | None = None
    """Program that answers; None if a person answers later."""

    @property
    def waiting(self) -> dict[str, str]:
        """Content of `info["waiting"]`: `kind`, `text` and, for a confirmation, the kind of `risk`, and `why`."""
        risk = {} if self.risk is None else {"risk": self.risk.kind, "why": self.risk.why}
        return {"kind": self.kind, "text": self.text, **risk}


class AnswerNeeded(Exception):
    """An action needs a person's answer before it can be carried out."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.text)
        self.question = question


class Program:
    """A function that answers in a person's place, in a thread of its own. Created on an event loop.

    Args:
        call: returns the answer.
        name: name of the thread.
        timeout: seconds after which `late` becomes the answer.
        late: the answer after a timeout or an exception of `call`. None: no time limit, and an exception is the answer.
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
                raise TypeError(f"the user's function returned {said!r}, not a string")
        except Exception as error:
            said = _failure(error) if self._late is None else self._late
        with contextlib.suppress(RuntimeError):  # the loop has stopped, so nobody waits for the answer
            self._loop.call_soon_threadsafe(self._settle, said)

    def _settle(self, said: str | Exception) -> None:
        if not self._answer.done():
            self._answer.set_result(said)

    @property
    def done(self) -> bool:
        """Whether the function has answered."""
        return self._answer.done()

    async def said(self) -> str | Exception:
        """Wait for the answer and return it: a text, or an error if the function raised."""
        return await asyncio.shield(self._answer)


def _failure(error: Exception) -> EnvError:
    failure = EnvError(f"the function that answers for the user raised {reason(error)}")
    failure.traceback = traceback_of(error)
    failure.__cause__ = error
    return failure


def checked_answer(said: object) -> str:
    """Return a person's answer if it is a text.

    Raises:
        TypeError: the answer is not a text.
    """
    if not isinstance(said, str):
        raise TypeError(f"An answer must be a string, not {type(said).__name__}.")
    return said


def allows(text: str) -> bool:
    """Whether an answer to a confirmation allows the action."""
    return text.strip().rstrip(".!").casefold() in YES
