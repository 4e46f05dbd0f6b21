"""Parts from which every prompt is made, the interface of prompt writers, and hints for teachers.

Prompts are written by a `PromptWriter`: `compact.py` has the small model's, `chat.py` the strong model's, and a custom
writer is a class with `build`. The model is known only through token counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from selfsurf.agents.kinds import DEFAULT_KINDS
from selfsurf.agents.policy import Conversation, Message
from selfsurf.agents.prompt.examples import Example
from selfsurf.agents.prompt.tokens import cut
from selfsurf.agents.prompt.vision import Picture
from selfsurf.agents.reply.compact import compact
from selfsurf.agents.reply.functions import Function
from selfsurf.browser_env.observation import Observation

DEMONSTRATION = "Correct action: {action}\nReply with exactly this: {action}"
"""Text that turns a student's prompt into the teacher's."""

LISTED_DEMONSTRATION = 'Correct action: {action}\nReply with exactly this: {"actions":[{action}]}'
"""Text that turns a student's prompt into the teacher's, for replies with a list of actions."""


class PromptTooLong(ValueError):
    """The part of the prompt that is never cut exceeds the budget."""


@dataclass(frozen=True)
class Prompt:
    """A conversation, and the ids that the model can see in it."""

    messages: tuple[Message, ...]
    visible_ids: frozenset[int]
    """Elements whose ids are in the prompt's text or drawn on its picture."""
    lines_left_out: int = 0
    """Number of page lines that did not fit."""
    examples_left_out: int = 0
    """Number of examples that did not fit."""


@dataclass(frozen=True)
class Turn:
    """The content of a prompt besides the observation."""

    goal: str
    history: Sequence[str] = ()
    """Past actions as short texts, and results of functions, oldest first."""
    thoughts: Sequence[str] = ()
    """The model's thoughts, one before each entry of the history; empty texts for none."""
    error: str = ""
    """Error in the last reply; errors on the page are in `obs["last_error"]`."""
    advice: str = ""
    """Further information for the model, such as a guard's replacement of its last action."""
    actions: Sequence[str] = DEFAULT_KINDS
    """Kinds of actions to offer, as far as the page allows them (`agents.kinds.offered`)."""
    files: Sequence[str] = ()
    """Names of the files that may be uploaded."""
    max_actions: int = 1
    """Maximum number of actions in the reply."""
    constrained: bool = False
    """Whether the reply is constrained to JSON, so that its form needs no explanation."""
    calls: bool | Literal["kinds"] = False
    """Whether actions and functions are offered as tools, so that the reply is a tool call; `"kinds"` for one tool per
    kind of action."""
    functions: Sequence[Function] = ()
    """Functions that the model may call by JSON; empty if the server offers them as tools."""
    instructions: str = ""
    """The user's own instructions."""
    examples: Sequence[Example] = ()
    """Few-shot examples, the most useful first."""
    picture: Picture | None = None
    """Image of the page, for the last message."""
    text_page: bool = True
    """Whether to show the page as text; without text, a picture with marks is required."""


@dataclass(frozen=True)
class Budget:
    """Length limit of a prompt, in tokens of the model's own tokenizer."""

    max_tokens: int | None = None
    """Token limit of the whole prompt; None for no limit."""
    count: Callable[[Sequence[Message]], int] | None = None
    """Function that counts the tokens of a conversation under the model's own template; required with a limit."""
    count_text: Callable[[str], int] | None = None
    """Function that counts the tokens of a text alone; None to count what the text adds to a conversation."""

    def cut(self, text: str, share: float = 1.0) -> str:
        """Return the text if it takes at most this share of the limit, else its beginning with a note of its length."""
        return text if self.max_tokens is None else cut(text, int(share * self.max_tokens), self.measure)

    def measure(self, text: str) -> int:
        """Count the tokens of a text.

        Raises:
            ValueError: the budget has no function to count tokens.
        """
        if self.count_text is not None:
            return self.count_text(text)
        if self.count is None:
            raise ValueError("max_tokens needs count, a function that counts tokens.")
        return self.count((Message("user", text),)) - self.count((Message("user", ""),))


class PromptWriter(Protocol):
    """Interface of prompt writers. A custom class inherits the defaults and implements `build`.

    Replies are parsed by `agents.reply.parse`, which accepts the usual forms of actions: compact and full JSON, calls,
    and labelled lines.
    """

    max_new_tokens: int = 1024
    """Default token limit of a reply."""
    prefill: str = ""
    """First characters of the reply, given to the model."""
    actions: Sequence[str] = DEFAULT_KINDS
    """Kinds of actions that are offered by default."""
    open_actions: Sequence[str] = ()
    """Kinds of actions that are offered by default where no task judges the goal; empty to offer `actions`."""
    thinks: bool = False
    """Whether a constrained reply begins with a `thought`."""

    def build(self, obs: Observation, turn: Turn, budget: Budget) -> Prompt:
        """Write the prompt of one turn; its last message is the user's.

        Args:
            obs: an observation of the environment, with a whole outline as `dom`.
            turn: the content besides the observation.
            budget: the length limit.

        Raises:
            PromptTooLong: the part that is never cut exceeds the budget.
        """
        raise NotImplementedError


def with_demonstration(
    messages: Conversation, privileged: dict[str, Any] | None, wording: str = DEMONSTRATION
) -> tuple[Message, ...]:
    """Return the conversation with the correct action at the end of the user's last message.

    Args:
        messages: the student's conversation.
        privileged: `{"action": {...}, "reason": str}`; None leaves the conversation unchanged.
        wording: text with `{action}` in it.

    Raises:
        ValueError: the conversation has no user message.
        browser_env.errors.ActionError: the action is malformed.
    """
    return tuple(messages) if privileged is None else with_hint(messages, demonstration(privileged["action"], wording))


def demonstration(action: Any, wording: str = DEMONSTRATION) -> str:
    """Return the text that presents an action as the correct one.

    Args:
        action: the action, in any form.
        wording: text with `{action}` in it.

    Raises:
        browser_env.errors.ActionError: the action is malformed.
    """
    return wording.replace("{action}", compact(action))


def check_wording(wording: str) -> str:
    """Return the wording of a demonstration if it is valid.

    Raises:
        ValueError: the wording does not contain `{action}`.
    """
    if "{action}" not in wording:
        raise ValueError(f"{wording!r} lacks {{action}}, the placeholder for the action")
    return wording


Sight: TypeAlias = Literal["all", "page", "goal"]
"""The teacher's view besides its hint: all of the student's prompt; the same without history and element handles; or
only the goal and the instructions."""


def with_hint(messages: Conversation, hint: str, *, sight: Sight = "all") -> tuple[Message, ...]:
    """Return the conversation with a hint for the teacher at the end of the user's last message.

    Args:
        messages: the student's conversation.
        hint: the text to add.
        sight: how much of the student's last message the teacher sees.

    Raises:
        ValueError: the conversation has no user message.
    """
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            message = messages[index]
            less = {"all": None, "page": message.plain, "goal": message.goal_only}[sight]
            taught = replace(message, text=f"{message.text if less is None else less}\n\n{hint}")
            return (*messages[:index], taught, *messages[index + 1 :])
    raise ValueError("The conversation has no user message to put the demonstration in.")
