"""What a model is shown of a turn: the parts that every prompt is made from, and what a teacher adds to one.

A prompt is written by a `PromptWriter`: `compact.py` has the small model's, `chat.py` the strong model's, and one of
your own is a class with `build`. Knows the model only through token counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from selfsurf.agents.functions import Function
from selfsurf.agents.policy import Conversation, Message
from selfsurf.agents.prompt.examples import Example
from selfsurf.agents.prompt.tokens import cut
from selfsurf.agents.prompt.vision import Picture
from selfsurf.agents.reply.compact import compact
from selfsurf.agents.reply.kinds import DEFAULT_KINDS
from selfsurf.browser_env.observation import Observation

DEMONSTRATION = "Correct action: {action}\nReply with exactly this: {action}"
"""What turns a student's prompt into the teacher's."""

LISTED_DEMONSTRATION = 'Correct action: {action}\nReply with exactly this: {"actions":[{action}]}'
"""The same where replies are lists of actions."""


class PromptTooLong(ValueError):
    """The part of the prompt that is never cut exceeds the budget."""


@dataclass(frozen=True)
class Prompt:
    """A conversation and what the model can see in it."""

    messages: tuple[Message, ...]
    visible_ids: frozenset[int]
    """Elements whose ids are in the prompt's text or drawn on its picture."""
    lines_left_out: int = 0
    """Lines of the page that did not fit."""
    examples_left_out: int = 0
    """Examples that did not fit."""


@dataclass(frozen=True)
class Turn:
    """What there is to say in one turn besides the observation."""

    goal: str
    history: Sequence[str] = ()
    """The actions so far as short texts, and what functions have said, oldest first."""
    thoughts: Sequence[str] = ()
    """What the model thought before each action, empty where it said nothing; as many as actions."""
    error: str = ""
    """What was wrong with the last reply; what went wrong on the page is `obs["last_error"]`."""
    advice: str = ""
    """What else the model should know, such as what was done instead of its last action."""
    actions: Sequence[str] = DEFAULT_KINDS
    """Kinds of actions to offer, those of them that the page allows (`agents.reply.kinds.offered`)."""
    files: Sequence[str] = ()
    """The names of those that may be uploaded."""
    max_actions: int = 1
    """Most actions of the reply."""
    constrained: bool = False
    """The reply is kept to JSON, so that its form needs no explanation."""
    calls: bool | Literal["kinds"] = False
    """The server is told of the actions, and of functions, as tools; the reply is a call of one. `"kinds"`: there is a
    tool for each kind of action."""
    functions: Sequence[Function] = ()
    """What the model may call by JSON instead; empty where the server is told of them as tools."""
    instructions: str = ""
    """The user's own words."""
    examples: Sequence[Example] = ()
    """Earlier turns in which the right action was given, the most useful first."""
    picture: Picture | None = None
    """An image of the page, for the last message."""
    text_page: bool = True
    """Show the page as text. False takes a picture with marks."""


@dataclass(frozen=True)
class Budget:
    """How long a prompt may be, in tokens of the model's own tokenizer."""

    max_tokens: int | None = None
    """Of the whole prompt; None for no limit."""
    count: Callable[[Sequence[Message]], int] | None = None
    """Counts a conversation under the model's own template; there wherever there is a limit."""
    count_text: Callable[[str], int] | None = None
    """Counts a text alone; None: by what it adds to a conversation."""

    def cut(self, text: str, share: float = 1.0) -> str:
        """Return the text if it takes at most this share of the limit, else its beginning and how much is missing."""
        return text if self.max_tokens is None else cut(text, int(share * self.max_tokens), self.measure)

    def measure(self, text: str) -> int:
        """Count the tokens of a text.

        Raises:
            ValueError: there is no count.
        """
        if self.count_text is not None:
            return self.count_text(text)
        if self.count is None:
            raise ValueError("max_tokens needs count, the tokenizer's measure.")
        return self.count((Message("user", text),)) - self.count((Message("user", ""),))


class PromptWriter(Protocol):
    """Writes prompts. A class of your own inherits the defaults, and writes `build`.

    The reply is read by `agents.reply.parse`, which knows the usual forms of actions: compact and full JSON, calls,
    labelled lines.
    """

    max_new_tokens: int = 1024
    """Room for the reply, unless the agent is told another."""
    prefill: str = ""
    """The reply's first characters, given to the model."""
    actions: Sequence[str] = DEFAULT_KINDS
    """Kinds of actions that are offered, unless the agent is told others."""
    open_actions: Sequence[str] = ()
    """Those that are offered where no task judges the goal; empty: `actions`."""
    thinks: bool = False
    """Whether a constrained reply begins with a `thought`."""

    def build(self, obs: Observation, turn: Turn, budget: Budget) -> Prompt:
        """Write the prompt of one turn; its last message is the user's.

        Args:
            obs: what the environment returned; its `dom` is a whole outline.
            turn: what else there is to say.
            budget: how long it may be.

        Raises:
            PromptTooLong: what is never cut exceeds the budget.
        """
        raise NotImplementedError


def with_demonstration(
    messages: Conversation, privileged: dict[str, Any] | None, wording: str = DEMONSTRATION
) -> tuple[Message, ...]:
    """Return the conversation with the correct action at the end of the user's last message.

    Args:
        messages: what the student sees.
        privileged: `{"action": {...}, "reason": str}`; None leaves the conversation as it is.
        wording: with `{action}` in it.

    Raises:
        ValueError: there is no user message.
        browser_env.errors.ActionError: the action is malformed.
    """
    return tuple(messages) if privileged is None else with_hint(messages, demonstration(privileged["action"], wording))


def demonstration(action: Any, wording: str = DEMONSTRATION) -> str:
    """Return the text that presents an action as the correct one.

    Args:
        action: in any form.
        wording: with `{action}` in it.

    Raises:
        browser_env.errors.ActionError: the action is malformed.
    """
    return wording.replace("{action}", compact(action))


def check_wording(wording: str) -> str:
    """Return the wording of a demonstration.

    Raises:
        ValueError: it does not contain `{action}`.
    """
    if "{action}" not in wording:
        raise ValueError(f"{wording!r} lacks {{action}}, the place of the action")
    return wording


Sight: TypeAlias = Literal["all", "page", "goal"]
"""What a teacher sees besides its hint: all that the student sees; the same without the history and without the actions
behind the page's elements; or only the goal and the instructions."""


def with_hint(messages: Conversation, hint: str, *, sight: Sight = "all") -> tuple[Message, ...]:
    """Return the conversation with a hint for the teacher at the end of the user's last message.

    Args:
        messages: what the student sees.
        hint: the text.
        sight: what else the teacher sees.

    Raises:
        ValueError: there is no user message.
    """
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            message = messages[index]
            less = {"all": None, "page": message.plain, "goal": message.goal_only}[sight]
            taught = replace(message, text=f"{message.text if less is None else less}\n\n{hint}")
            return (*messages[:index], taught, *messages[index + 1 :])
    raise ValueError("The conversation has no user message to put the demonstration in.")
