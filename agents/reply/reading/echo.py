"""Detection of actions in a reply that are only copied from the prompt.

A prompt is full of actions: the examples of the format, the handle after every element, the history, the demonstration,
the page's own text. A model that repeats a passage of the prompt has not chosen any of its actions, while a model that
answers `{"click":4}` has, though the prompt contains the same characters. So an action is judged by its surroundings.
The copied run is the longest passage of the reply around the action that occurs in the prompt, blanks within lines
ignored. The action is an echo if the run contains a word besides the action, before it or after it on its line, and

- the reply has no words of its own on that side of the run on the same line (list marks are no words), or
- a whole phrase of the prompt is copied after the action, with its punctuation (`{"click":3} to click, `), or
- the run contains another action.

An action that begins within an echo is an echo, too: an example of the prompt with a changed text.

A label such as `Action:` alone doesn't count as a word. An action at the beginning of the reply, followed by more lines
of the prompt, is the reply's own, since a copied passage would begin before the action.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from selfsurf.agents.reply.reading.raw_calls import with_json_calls

_BLANKS = re.compile(r"[^\S\n]++|\r")
_LINES = re.compile(r"\n\n++")
_LABEL = re.compile(r"\W*(?:next|final)?(?:action|answer|reply|output|json|response)\W*", re.IGNORECASE)
_ANOTHER = re.compile(r"[{｛][\"'“]?\w+[\"'”]?[:：]")
_PHRASE = re.compile(r"[^\W_][,.;]")
_MARKS = re.compile(r"(?:\d{1,3}[.)])?")
_WORD = re.compile(r"[^\W_]")


class Echo:
    """Detector of copied runs in a reply.

    Args:
        text: the reply.
        prompt: the model's whole input; if empty, nothing is an echo.
    """

    def __init__(self, text: str, prompt: str) -> None:
        self._text = text
        self._prompt = _plain(with_json_calls(prompt)[0])  # tool calls are converted as in the reply
        self._own: list[str] = []
        self._index: list[int] = []
        self._runs: list[tuple[int, int]] = []
        if self._prompt:
            self._flatten()

    def holds(self, start: int, end: int) -> bool:
        """Whether the action from `start` to `end` in the reply is an echo."""
        if not self._prompt:
            return False
        start, end = self._index[start], self._index[end]
        if any(left <= start < right for left, right in self._runs):
            return True
        whole = self._plain
        if whole[start:end] not in self._prompt:
            return False
        left = start - self._longest(start, lambda length: whole[start - length : end] in self._prompt)
        right = end + self._longest(len(whole) - end, lambda length: whole[start : end + length] in self._prompt)
        left += whole[left:start].startswith("\n")  # the run begins at the start of a line
        line = whole.find("\n", end)
        right_line = right if line < 0 else min(right, line)
        before, after = whole[left:start], whole[end:right_line]
        copied = (_tells(before) and not self._words_before(left)) or (
            _tells(after) and (_PHRASE.search(after) is not None or not self._words_after(right_line))
        )
        if not copied and (_tells(before) or _tells(after)):
            copied = bool(_ANOTHER.search(before) or _ANOTHER.search(after))
        if copied:
            self._runs.append((left if _tells(before) else start, right))
        return copied

    def _words_before(self, left: int) -> bool:
        """Whether the line has words before the run that are not part of another echo."""
        begin = self._plain.rfind("\n", 0, left) + 1
        begin = max([begin, *(min(right, left) for start, right in self._runs if start < left)])
        return _WORD.search(self._plain, _MARKS.match(self._plain, begin).end(), left) is not None  # type: ignore[union-attr]

    def _words_after(self, right: int) -> bool:
        line = self._plain.find("\n", right)
        return _WORD.search(self._plain, right, len(self._plain) if line < 0 else line) is not None

    def _longest(self, limit: int, stands: Callable[[int], bool]) -> int:
        """Return the greatest length up to `limit` for which `stands` is true; it must be true for shorter lengths."""
        size = 1
        while size <= limit and stands(size):
            size *= 2
        low, high = size // 2, min(size, limit + 1)
        return low + bisect_left(range(low + 1, high), True, key=lambda length: not stands(length))

    def _flatten(self) -> None:
        """Remove the reply's blanks, and index the new position of each of its characters."""
        kept: list[str] = []
        for character in self._text:
            self._index.append(len(kept))
            if character == "\n":
                if kept and kept[-1] != "\n":
                    kept.append(character)
            elif not character.isspace():
                kept.append(character)
        self._index.append(len(kept))
        self._plain = "".join(kept)


def _plain(text: str) -> str:
    return _LINES.sub("\n", _BLANKS.sub("", text))


def _tells(context: str) -> bool:
    """Whether the text around the action contains words other than a label for answers."""
    return _WORD.search(context) is not None and not _LABEL.fullmatch(context.rpartition("\n")[2] or context)
