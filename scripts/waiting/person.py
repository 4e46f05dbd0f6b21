"""A person's answers to a waiting run, from its terminal or from the files that `selfsurf answer` writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from rich.console import Console

from selfsurf.agents.play import EpisodeRequest, Player
from selfsurf.browser_env.human_input import HINT
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.safety.terminal import Prompt, printable
from selfsurf.scripts.terminal.live import View
from selfsurf.scripts.waiting.kept import WaitingRun


class Person:
    """The person who answers a run's questions.

    Args:
        writer: Writer of the run's episode.
        view: View that pauses while the person types at the terminal.
        run: The run whose saved answers are read as well; None to read only the terminal.
        console: Console that shows how to answer a kept run; None to show nothing, and to read the terminal only if
            `run` is None.
    """

    def __init__(self, writer: EpisodeWriter, view: View, run: WaitingRun | None, console: Console | None) -> None:
        self._writer, self._view, self._run, self._console = writer, view, run, console
        self._open: EpisodeRequest | None = None
        self._question: dict[str, Any] = {}
        self._prompt: Prompt | None = None

    @property
    def waited_for(self) -> bool:
        """Whether the run is waiting for an answer."""
        return self._open is not None

    def asked(self, ask: EpisodeRequest, question: dict[str, str]) -> None:
        """Record a question on disk, and show it."""
        self._writer.note_before("asked", **question)
        self._open = ask
        self._view.pause()
        reads = self._run is None or (self._console is not None and _has_terminal())
        self._prompt = Prompt(question["kind"], question["text"]) if reads else None
        if self._run is None:
            return
        self._question = self._run.question or {}
        if self._console is not None:
            text = "Answer here, or with" if reads else f"{with_hint(question)}\nAnswer with"
            text = f"{text}: selfsurf answer {self._run.folder} TEXT"
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def look(self, player: Player) -> None:
        """Pass the answer to the player as soon as there is one."""
        if self._open is None:
            return
        text = self._run.brought(self._question) if self._run is not None else None
        text = self._line() if text is None else text
        if text is None:
            return
        self.leave()
        if self._run is not None and not self._run.has_browser:
            self._begin_anew(self._run, text)
        ask, self._open = self._open, None
        self._writer.note_before("answered", text=text)
        self._view.go_on()
        player.answer(ask, text)

    def leave(self) -> None:
        """Close the prompt at the terminal."""
        if self._prompt is not None:
            self._prompt.close()
            self._prompt = None

    def _line(self) -> str | None:
        """Return the line typed at the terminal, or None."""
        if self._prompt is None:
            return None
        try:
            return self._prompt.line()
        except OSError:  # the terminal is gone; only `selfsurf answer` remains
            self.leave()
            return None if self._run is not None else ""

    def _begin_anew(self, run: WaitingRun, text: str) -> NoReturn:
        """Replace this process by one that opens a new browser, because the state of the old browser is lost."""
        run.bring(self._question, text)
        silent = ["--json"] if self._console is None else []
        os.execv(sys.executable, [sys.executable, "-m", "selfsurf.scripts.cli", "answer", str(run.folder), *silent])


def _has_terminal() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:  # standard input is closed
        return False


def with_hint(question: Mapping[str, Any]) -> str:
    """Return a question on one line, with the possible answers to a confirmation."""
    hint = HINT if question["kind"] == "confirmation" else ""
    return f"{printable(question['text'])}{hint}"
