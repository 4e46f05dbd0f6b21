"""Input of a shell, line by line: a terminal with completion and history, or any other standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from selfsurf.browser_env.safety.terminal import printable
from selfsurf.scripts.terminal.console import console

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import FileHistory

PROMPT = "selfsurf> "


class Reader(Protocol):
    """Interface of input that provides lines and answers."""

    def line(self) -> str:
        """Return the next line.

        Raises:
            EOFError: The input has ended.
            KeyboardInterrupt: Ctrl-C was pressed.
        """

    def answer(self, kind: str, text: str) -> str:
        """Ask a question (`info["waiting"]`) and return the answer; raises like `line`."""


class Lines:
    """Reader of an input that is not a terminal."""

    def line(self) -> str:
        """Return the next line."""
        text = sys.stdin.readline()
        if not text:
            raise EOFError
        return text.rstrip("\r\n")

    def answer(self, kind: str, text: str) -> str:
        """Print the question, and return the next line as its answer."""
        console.print(_question(kind, text), markup=False, highlight=False, soft_wrap=True)
        return self.line()


class Terminal:
    """Reader of a terminal, by prompt_toolkit.

    Args:
        history: File of earlier lines. Lines that begin with a space, and answers, are not stored.
        below: Returns the text of the toolbar below the prompt.
        commands: Description of each command, by name.
        words: Returns completions for the argument of a command.

    Raises:
        ModuleNotFoundError: prompt_toolkit is not installed.
    """

    def __init__(
        self,
        history: Path,
        below: Callable[[], str],
        commands: Mapping[str, str],
        words: Callable[[str], Iterable[str]],
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
        from prompt_toolkit.output import create_output

        screen = create_output(always_prefer_tty=True)  # stdout may be redirected to a file
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=_history(history),
            completer=completer(commands, words),
            auto_suggest=AutoSuggestFromHistory(),
            enable_history_search=True,
            bottom_toolbar=lambda: printable(below()),
            output=screen,
        )
        self._asking: PromptSession[str] = PromptSession(output=screen)

    def line(self) -> str:
        """Prompt for the next line."""
        return self._session.prompt()

    def answer(self, kind: str, text: str) -> str:
        """Prompt for an answer, discarding what was typed before the question."""
        import termios

        from prompt_toolkit.input.typeahead import clear_typeahead

        typing = self._asking.app.input
        termios.tcflush(typing.fileno(), termios.TCIFLUSH)
        clear_typeahead(typing)
        return self._asking.prompt(_question(kind, text))


def completer(commands: Mapping[str, str], words: Callable[[str], Iterable[str]]) -> Completer:
    """Return a completer of commands and their arguments; goals have no completion."""
    from prompt_toolkit.completion import Completer, Completion

    class Commands(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
            text = document.text_before_cursor
            name, space, rest = text.partition(" ")
            if not text.startswith("/"):
                return
            if not space:
                for each, what in commands.items():
                    if each.startswith(name):
                        yield Completion(each, start_position=-len(name), display_meta=what)
            else:
                for word in words(name):
                    if word.startswith(rest):
                        yield Completion(word, start_position=-len(rest))

    return Commands()


def _history(path: Path) -> FileHistory:
    from prompt_toolkit.history import FileHistory

    class Kept(FileHistory):
        def store_string(self, string: str) -> None:
            if string.strip() and not string.startswith(" "):
                super().store_string(string)

    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return Kept(path)


def _question(kind: str, text: str) -> str:
    said = printable(text)
    return f"{said}\nGo ahead? [y/N] " if kind == "confirmation" else f"The agent asks: {said}\nYour answer: "
