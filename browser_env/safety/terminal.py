"""Questions to a person at the terminal, and the confirmation of risky actions there.

Uses the terminal device instead of standard input and output, because the worker processes of a command share it. A
`Prompt` is polled; `answer` and `confirm` wait, in threads of an environment.
"""

from __future__ import annotations

import os
import select
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from selfsurf.browser_env.human_input import WANTED, allows
from selfsurf.browser_env.text import one_line

if TYPE_CHECKING:
    from selfsurf.browser_env.human_input import Risk

TERMINAL = "/dev/tty"

POLL = 0.2
"""Seconds between two checks of whether the command is being ended."""

ended = threading.Event()
"""Event that ends all waiting for answers."""


class Prompt:
    """A question at the terminal, as a context manager that frees the terminal for the next question.

    Processes and threads that ask at the same time take turns.

    Args:
        kind: as `info["waiting"]["kind"]`.
        text: text of the question.
    """

    def __init__(self, kind: str, text: str) -> None:
        said = f"{printable(text)}\nGo ahead? [y/N] "
        self._text = said if kind == "confirmation" else f"The agent asks: {printable(text)}\nYour answer: "
        self._terminal: BinaryIO | None = None
        self._shown = False

    def line(self, patience: float = 0.0) -> str | None:
        """Return the line typed as an answer; None if there is none within `patience` seconds.

        Raises:
            OSError: the terminal is gone, or was closed by Ctrl-D.
        """
        import termios

        if self._terminal is None:
            self._terminal = open(TERMINAL, "r+b", buffering=0)  # noqa: SIM115
        if not self._shown:
            if not _locked(self._terminal):
                ended.wait(patience)
                return None
            termios.tcflush(self._terminal, termios.TCIFLUSH)  # input typed before the question is not an answer
            self._terminal.write(f"\n{self._text}".encode())
            self._shown = True
        if not select.select([self._terminal], [], [], patience)[0]:
            return None
        said = os.read(self._terminal.fileno(), 65536)
        if not said:
            raise OSError("The terminal is closed.")
        return said.decode(errors="replace").rstrip("\r\n")

    def __enter__(self) -> Prompt:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the terminal for other questions."""
        if self._terminal is not None:
            self._terminal.close()


def answer(question: str) -> str:
    """Return the person's answer; empty if the terminal is gone."""
    return _ask("question", question)


def confirm(action: Any, element: Any, risk: Risk) -> bool:
    """Return whether the person allows a risky action."""
    return allows(_ask("confirmation", f"{risk.why}{WANTED}{action.to_json()}"))


def printable(text: str) -> str:
    """Return a text from a page or an agent on one line, without characters that move the cursor or reverse text."""
    return "".join(char if char.isprintable() else "\ufffd" for char in one_line(text, 2000))


def _ask(kind: str, text: str) -> str:
    with Prompt(kind, text) as prompt:
        while not ended.is_set():
            try:
                line = prompt.line(POLL)
            except OSError:
                return ""
            if line is not None:
                return line
    return ""


def _locked(terminal: BinaryIO) -> bool:
    import fcntl

    try:
        fcntl.flock(terminal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
