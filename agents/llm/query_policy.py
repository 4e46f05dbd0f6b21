"""Asks a policy for the replies of several episodes in one call, and runs the functions that the replies call."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from selfsurf.agents.agent import UNASKED, Privileged
from selfsurf.agents.llm.memory import Memory
from selfsurf.agents.policy import Call, Completion, Message, PolicyError, summed
from selfsurf.agents.reply.functions import MAX_CALLS, Function, FunctionCall, call_in
from selfsurf.browser_env import Observation

_TOLD = 200
"""Maximum length, in characters, of a function's result in the history."""


@dataclass(eq=False)
class PendingRequest:
    """A pending request for an episode's next action."""

    obs: Observation
    memory: Memory
    hint: Privileged | None
    seed: int | None
    messages: tuple[Message, ...]
    """The prompt, extended by function calls and their results."""
    visible_ids: frozenset[int]
    guide: Any
    """Grammar or schema of the reply; None for a free reply."""
    completion: Completion = UNASKED
    replies: int = 0
    error: BaseException | None = None
    """The error that prevented a reply; None for none."""

    def take(self, answer: Completion | BaseException) -> None:
        """Store the policy's completion or error."""
        if isinstance(answer, BaseException):
            self.error = answer
            return
        usage = summed(self.completion.usage, answer.usage) if self.replies else answer.usage
        self.completion, self.replies = replace(answer, usage=usage), self.replies + 1


def ask(
    rows: Sequence[PendingRequest],
    complete: Callable[[Sequence[PendingRequest]], Sequence[Completion]],
    functions: Sequence[Function],
    *,
    tools: bool,
) -> None:
    """Get a reply for each row, running the functions that replies call until a reply calls none.

    Args:
        rows: requests; each receives its reply or its error.
        complete: asks the policy for the replies of several rows in one call.
        functions: functions that the model may call.
        tools: whether results are passed as `tool` messages rather than as text of the user.
    """
    _answer(rows, complete)
    for _ in range(MAX_CALLS if functions else 0):
        calling = []
        for row in rows:
            shown = "\n".join(message.text for message in row.messages)
            called = None if row.error is not None else call_in(row.completion.text, functions, shown)
            if called is None:
                continue
            try:
                row.messages = _told(row, called, tools=tools)
                calling.append(row)
            except (Exception, SystemExit) as error:
                row.error = error
        if not calling:
            return
        _answer(calling, complete)


def _answer(
    rows: Sequence[PendingRequest], complete: Callable[[Sequence[PendingRequest]], Sequence[Completion]]
) -> None:
    """Ask for all rows in one call; after an error that can't be assigned to a row, ask again row by row."""
    if not rows:
        return
    try:
        answers: Sequence[Completion | BaseException] = complete(rows)
    except PolicyError as error:
        answers = error.of_each(len(rows))
    except (Exception, SystemExit) as error:
        if len(rows) > 1:
            for row in rows:
                _answer([row], complete)
            return
        answers = [error]
    for row, answer in zip(rows, answers, strict=True):
        row.take(answer)


def _told(row: PendingRequest, called: FunctionCall, *, tools: bool) -> tuple[Message, ...]:
    """Call the function and return the conversation extended by the call and its result."""
    result, messages = called.function(called.arguments), row.messages
    row.memory.note(f"{called} said: {result if len(result) <= _TOLD else f'{result[:_TOLD]}…'}")
    if not tools:
        said = f"{called.function.name} says:\n{result}\n\nGo on."
        return (*messages, Message("assistant", row.completion.text), Message("user", said))
    call = Call(f"call{len(messages):05d}", called.function.name, json.dumps(called.arguments, ensure_ascii=False))
    return (*messages, Message("assistant", str(called), call=call), Message("tool", result, call=call))
