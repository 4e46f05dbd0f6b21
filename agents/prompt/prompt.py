"""From an observation to the conversation that a model is given. Knows the model only through token counts.

The goal, the reply's format and the actions come first and are never cut; then the history; the page comes last. An
element's id follows its label, in the form in which it is used (`link "Eget" {"click":4}`), since small models find it
there far more often than in front.

Where all of it exceeds the budget, in tokens of the model's own tokenizer: the history may take a quarter of it, chat,
tabs, events and error an eighth each; examples go, the last one first, until a quarter is left for the page; long lines
of the page are cut, to no less than a quarter of its room, and then whole lines are left out. If that is
still too much, events, tabs, history, chat and error are dropped, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from selfsurf.agents.policy import Conversation, Message
from selfsurf.agents.prompt.examples import Example
from selfsurf.agents.prompt.history import compacted
from selfsurf.agents.prompt.page import PageLine, page_lines, priority, render
from selfsurf.agents.prompt.tokens import cut, most_that_fit
from selfsurf.agents.prompt.vision import Picture
from selfsurf.agents.reply.compact import compact
from selfsurf.agents.reply.kinds import DEFAULT_KINDS, is_editable, offered
from selfsurf.browser_env.observation import Element, Observation

MIN_PAGE_SHARE = 0.25
"""Of the budget, what examples must leave for the page."""

HISTORY_SHARE = 0.25
"""Of the budget, what the history may take where not all fits."""

OTHER_SHARE = 0.125
"""The same for chat, tabs, events and error, each."""

MIN_LINE = 16
"""Tokens below which no line of the page is cut."""

_MOST_CHARACTERS = 8
"""Upper bound of the characters per token: a prompt beyond it is too long without counting."""

_EXPENDABLE = ("events", "tabs", "history", "chat", "advice", "error")
"""What is dropped, in this order, if the prompt is too long even without the page."""

DEMONSTRATION = "Correct action: {action}\nReply with exactly this: {action}"
"""What turns a student's prompt into the teacher's."""

_DONE = "Done so far: "

INSTRUCTIONS: dict[str, tuple[str, str]] = {
    "click": ("click an element by its id", '{{"click":{id}}} to click'),
    "fill": ("fill a field by its id with a text", '{{"fill":{field},"text":"abc"}} to enter text'),
    "type": ("type a text into a field by its id", '{{"type":{field},"text":"abc"}} to type text'),
    "select": ("select an option of a list by its id", '{{"select":{select},"option":"abc"}} to choose an option'),
    "hover": ("point at an element by its id", '{{"hover":{id}}} to point at'),
    "press": ("press a key", '{{"press":"Enter"}} to press a key'),
    "scroll": ("scroll down or up", '{{"scroll":"down"}} to scroll'),
    "navigate": ("navigate to a URL", '{{"navigate":"https://example.org"}} to open a page'),
    "back": ("go back", '{{"back":true}} to go back'),
    "forward": ("go forward", '{{"forward":true}} to go forward'),
    "new_tab": ("open a new tab", '{{"new_tab":"https://example.org"}} to open a tab'),
    "close_tab": ("close the tab", '{{"close_tab":true}} to close the tab'),
    "wait": ("wait", '{{"wait":1000}} to wait'),
    "message": ("send the user a message", '{{"message":"abc"}} to tell the user something'),
    "ask_user": ("ask the user", '{{"ask_user":"abc"}} to ask the user'),
    "finish": ("finish when the goal is reached", '{{"finish":"abc"}} when the goal is reached'),
    "infeasible": ("say that the goal is infeasible", '{{"infeasible":"abc"}} if it can\'t be reached'),
}
"""What an action does, and how it is written, by kind.

The first is for replies under a grammar, whose format needs no explanation: a small model follows a demonstration far
better after these words than after examples, which it copies. The second is for free replies; it is filled with real
ids of the page, since a placeholder would be copied."""


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


def build(
    obs: Observation,
    *,
    goal: str = "",
    history: Sequence[str] = (),
    error: str = "",
    advice: str = "",
    kinds: Sequence[str] = DEFAULT_KINDS,
    spelled: bool = False,
    examples: Sequence[Example] = (),
    picture: Picture | None = None,
    text_page: bool = True,
    max_tokens: int | None = None,
    count: Callable[[Sequence[Message]], int] | None = None,
    count_text: Callable[[str], int] | None = None,
) -> Prompt:
    """Write the prompt for one observation.

    Args:
        obs: what the environment returned; its `dom` is a whole outline, not a delta (see `agents.prompt.outlines`).
        goal: what is wanted; `obs["goal"]` if empty.
        history: this episode's actions so far, as short texts, oldest first; compacted (`agents.prompt.history`).
        error: what went wrong with the last action; `obs["last_error"]` if empty.
        advice: what else the model should know, such as what was done instead of its last action.
        kinds: the actions to offer, those of them that the page allows.
        spelled: show how each action is written in JSON, not only what it does: for replies without a grammar.
        examples: earlier turns in which the right action was given, the most useful first.
        picture: an image of the page, put into the last message.
        text_page: show the page as text. False takes a picture with marks.
        max_tokens: most tokens of the whole prompt; None for no limit.
        count: number of tokens of a conversation under the model's own tokenizer and template; needed with
            `max_tokens`.
        count_text: number of tokens of a text alone; by default what it adds to a conversation.

    Raises:
        PromptTooLong: the part that is never cut exceeds the budget.
    """
    goal = goal or obs["goal"]
    drawn = picture.ids if picture else frozenset()
    lines = page_lines(obs, kinds, goal) if text_page else []
    shown = drawn | {line.element_id for line in lines}
    seen = [element for element in obs["elements"] if element["id"] in shown]
    form = _forms(seen, kinds) if spelled else _words(seen, kinds)
    draft = _Draft(
        [f"Goal: {goal}", form, *([picture.note] if picture else [])],
        _asides(goal, history, error, advice, obs),
        lines if text_page else None,
        priority(lines, seen),
        list(examples),
        () if picture is None else (picture.image,),
    )
    number = len(lines)
    if max_tokens is not None:
        if count is None:
            raise ValueError("max_tokens needs count, the tokenizer's measure.")
        number = _fit(draft, history, max_tokens, count, count_text or _texts(count))
    kept = {lines[index].element_id for index in draft.order[:number]}
    return Prompt(
        draft.whole(number),
        drawn | {item for item in kept if item is not None},
        len(lines) - number,
        len(examples) - len(draft.examples),
    )


def with_demonstration(messages: Conversation, privileged: dict[str, Any] | None) -> tuple[Message, ...]:
    """Return the conversation with the correct action at the end of the user's last message.

    Args:
        messages: what the student sees.
        privileged: `{"action": {...}, "reason": str}`; None leaves the conversation as it is.

    Raises:
        ValueError: there is no user message.
        browser_env.errors.ActionError: the action is malformed.
    """
    return tuple(messages) if privileged is None else with_hint(messages, demonstration(privileged["action"]))


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


@dataclass
class _Draft:
    """A prompt that is being fitted into its budget."""

    first: list[str]
    """Never cut."""
    asides: list[tuple[str, str]]
    """Kind and text of the parts between the first and the page."""
    lines: list[PageLine] | None
    """None for no text page."""
    order: list[int]
    """Of the lines, the most important first."""
    examples: list[Example]
    images: tuple[Any, ...]

    def messages(self, number: int) -> tuple[Message, ...]:
        """The conversation with the `number` most important lines of the page."""
        turns = [turn for example in self.examples for turn in example.turns()]
        return (*turns, Message("user", self._text(number), self.images))

    def whole(self, number: int) -> tuple[Message, ...]:
        """The same, with the parts that a teacher may see."""
        *turns, last = self.messages(number)
        return (*turns, replace(last, goal_only="\n".join(self.first), plain=self._text(number, plain=True)))

    def _text(self, number: int, *, plain: bool = False) -> str:
        asides = (aside for kind, aside in self.asides if not (plain and kind == "history"))
        text = "\n".join([*self.first, *asides])
        if self.lines is None:
            return text
        return f"{text}\n\nPage:\n{render(self.lines, self.order, number, handles=not plain)}"


def _fit(
    draft: _Draft,
    history: Sequence[str],
    limit: int,
    count: Callable[[Sequence[Message]], int],
    count_text: Callable[[str], int],
) -> int:
    """Make the draft fit, and return how many lines of the page it may show."""
    lines = draft.lines or []

    def all_fits() -> bool:
        whole = draft.messages(len(lines))
        short = sum(len(message.text) for message in whole) <= _MOST_CHARACTERS * limit
        return short and count(whole) <= limit

    if all_fits():
        return len(lines)
    draft.asides = _shortened(draft.asides, history, limit, count_text)
    none = count(draft.messages(0))
    while none > limit or (draft.examples and limit - none < MIN_PAGE_SHARE * limit and not all_fits()):
        if draft.examples:
            draft.examples.pop()
        elif draft.asides:
            draft.asides.remove(min(draft.asides, key=lambda aside: _EXPENDABLE.index(aside[0])))
        else:
            picture = ", its picture included," if draft.images else ""
            raise PromptTooLong(
                f"The prompt without the page{picture} has {none} tokens, more than the {limit} allowed: "
                f"raise max_prompt_tokens, {'lower max_image_side, ' if picture else ''}or offer fewer actions."
            )
        none = count(draft.messages(0))
    room, whole = limit - none, list(lines)
    for most in (room * 9 // 10, room * 2 // 5, room // 4):
        lines[:] = _cut_lines(whole, draft.order, max(MIN_LINE, most), room, count_text)
        if lines != whole and all_fits():
            break
    sizes = [len(lines[index].text) + 1 for index in draft.order]
    return most_that_fit(sizes, lambda number: count(draft.messages(number)), limit, none)


def _cut_lines(
    lines: Sequence[PageLine], order: Sequence[int], most: int, room: int, count_text: Callable[[str], int]
) -> list[PageLine]:
    """The lines, with those that may fit into `room` tokens cut to `most` tokens each."""
    short, reach = list(lines), 0
    for index in order:
        short[index] = short[index].shortened(most, count_text)
        reach += len(short[index].text)
        if reach > _MOST_CHARACTERS * room:
            break
    return short


def _shortened(
    asides: Sequence[tuple[str, str]], history: Sequence[str], limit: int, count_text: Callable[[str], int]
) -> list[tuple[str, str]]:
    """The asides, each within its share of the budget."""
    chat = sum(kind == "chat" for kind, _ in asides)
    short = []
    for kind, text in asides:
        if kind == "history":
            past = compacted(history, int(limit * HISTORY_SHARE), count_text)
            text = f"{_DONE}{past}" if past else ""
        else:
            text = cut(text, int(limit * OTHER_SHARE) // (chat if kind == "chat" else 1), count_text)
        if text:
            short.append((kind, text))
    return short


def _texts(count: Callable[[Sequence[Message]], int]) -> Callable[[str], int]:
    empty = count((Message("user", ""),))
    return lambda text: count((Message("user", text),)) - empty


def _asides(goal: str, history: Sequence[str], error: str, advice: str, obs: Observation) -> list[tuple[str, str]]:
    chat = [message for message in obs["messages"] if message["text"] != goal]
    asides = [("chat", f"{message['role']}: {message['text']}") for message in chat[-4:]]
    if len(obs["tabs"]) > 1:
        titles = (f"{'*' if tab['active'] else ''}{tab['title']}" for tab in obs["tabs"])
        asides.append(("tabs", "Tabs: " + ", ".join(titles)))
    if obs["events"]:
        asides.append(("events", "Events: " + "; ".join(obs["events"][-4:])))
    if history:
        asides.append(("history", _DONE + compacted(history)))
    error = error or obs["last_error"]
    if error:
        asides.append(("error", f"The last action failed: {error}"))
    if advice:
        asides.append(("advice", f"Note: {advice}"))
    return asides


def _words(seen: Sequence[Element], kinds: Sequence[str]) -> str:
    words = ", ".join(INSTRUCTIONS[kind][0] for kind in offered(kinds, seen))
    return f"You can {words}. Reply with the next action as JSON."


def _forms(seen: Sequence[Element], kinds: Sequence[str]) -> str:
    selects = (element for element in seen if element["tag"] == "select")
    known = {"id": iter(seen), "field": filter(is_editable, seen), "select": selects}
    ids = {name: next((element["id"] for element in elements), 1) for name, elements in known.items()}
    forms = [INSTRUCTIONS[kind][1].format(**ids) for kind in offered(kinds, seen)]
    return "Reply with one action as JSON: " + ", ".join(forms) + "."
