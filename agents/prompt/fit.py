"""Composition of a prompt from its parts within a token budget, independent of their wording.

A prompt that exceeds the budget, in tokens of the model's own tokenizer, is shortened in this order: the history to a
quarter of the budget, and chat, tabs, events, error and advice to an eighth each; examples are dropped, the last one
first, until a quarter is left for the page; long lines of the page are cut, to no less than a quarter of its room;
whole lines are left out. If the prompt is too long even without the page, events, tabs, history, chat, advice and error
are dropped, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from selfsurf.agents.policy import Message
from selfsurf.agents.prompt.examples import Example
from selfsurf.agents.prompt.page import PageLine, page_lines, priority, render
from selfsurf.agents.prompt.prompt import Budget, Prompt, PromptTooLong, Turn
from selfsurf.agents.prompt.tokens import cut, most_that_fit
from selfsurf.browser_env.observation import Element, Observation

MIN_PAGE_SHARE = 0.25
"""Share of the budget that examples must leave for the page."""

HISTORY_SHARE = 0.25
"""Share of the budget for the history in a prompt that must be shortened."""

OTHER_SHARE = 0.125
"""Share of the budget for each of chat, tabs, events, error and advice in a prompt that must be shortened."""

MIN_LINE = 16
"""Minimum length, in tokens, to which a line of the page is cut."""

_MOST_CHARACTERS = 8
"""Upper bound of the characters per token; a prompt with more characters is too long without counting tokens."""

_EXPENDABLE = ("events", "tabs", "history", "chat", "advice", "error")
"""Parts to drop, in this order, if the prompt is too long even without the page."""

Measure = Callable[[str], int]


@dataclass(frozen=True)
class PageContent:
    """The content of the page that a turn may show."""

    lines: Sequence[PageLine] | None
    """Lines of the page's text; None for prompts without page text."""
    elements: Sequence[Element]
    """Elements whose ids are in the lines or on the picture."""
    drawn: frozenset[int]
    """Ids on the picture."""

    @classmethod
    def of(cls, obs: Observation, turn: Turn) -> PageContent:
        """Select the content of an observation that the turn may show."""
        drawn = turn.picture.ids if turn.picture else frozenset()
        lines = page_lines(obs, turn.actions, turn.goal or obs["goal"]) if turn.text_page else None
        ids = drawn | {line.element_id for line in lines or ()}
        return cls(lines, [element for element in obs["elements"] if element["id"] in ids], drawn)


@dataclass(frozen=True)
class PromptSection:
    """A part of the prompt between the first lines and the page."""

    kind: str
    """Kind of the part: `chat`, `tabs`, `events`, `history`, `error` or `advice`."""
    text: str
    shorten: Callable[[int, Measure], str] | None = None
    """Function that shortens the text to a token limit; None if the end is cut off."""


def went_wrong(obs: Observation, turn: Turn) -> list[PromptSection]:
    """Return the parts about the last action's error and the advice on it."""
    error = turn.error or obs["last_error"]
    told = [("error", error and f"The last action failed: {error}"), ("advice", turn.advice and f"Note: {turn.advice}")]
    return [PromptSection(kind, text) for kind, text in told if text]


def compose(
    shown: PageContent,
    turn: Turn,
    budget: Budget,
    *,
    system: str = "",
    first: Sequence[str],
    asides: Sequence[PromptSection] = (),
    heading: str = "Page:",
) -> Prompt:
    """Compose a prompt within a token budget.

    Args:
        shown: the page.
        turn: source of the picture and the examples.
        budget: limit and tokenizer.
        system: the system message; empty for none. Never cut.
        first: first lines of the user's message. Never cut.
        asides: parts between the first lines and the page.
        heading: line above the page.

    Raises:
        PromptTooLong: the part that is never cut exceeds the budget.
    """
    lines = shown.lines or ()
    draft = _Draft(
        system, list(first), list(asides), None if shown.lines is None else list(lines), heading,
        priority(lines, shown.elements), list(turn.examples), () if turn.picture is None else (turn.picture.image,),
    )  # fmt: skip
    number = len(lines) if budget.max_tokens is None else _fit(draft, budget.max_tokens, budget)
    kept = {lines[index].element_id for index in draft.order[:number]}
    return Prompt(
        draft.whole(number),
        shown.drawn | {item for item in kept if item is not None},
        len(lines) - number,
        len(turn.examples) - len(draft.examples),
    )


@dataclass
class _Draft:
    """A prompt that is being shortened to its budget."""

    system: str
    first: list[str]
    asides: list[PromptSection]
    lines: list[PageLine] | None
    heading: str
    order: list[int]
    """Indices of the lines, the most important first."""
    examples: list[Example]
    images: tuple[Any, ...]

    def messages(self, number: int) -> tuple[Message, ...]:
        """Return the conversation with the `number` most important lines of the page."""
        rules = [Message("system", self.system)] if self.system else []
        turns = [turn for example in self.examples for turn in example.turns()]
        return (*rules, *turns, Message("user", self._text(number), self.images))

    def whole(self, number: int) -> tuple[Message, ...]:
        """Return the conversation, and in its last message the reduced texts for teachers (`goal_only`, `plain`)."""
        *turns, last = self.messages(number)
        return (*turns, replace(last, goal_only="\n".join(self.first), plain=self._text(number, plain=True)))

    def _text(self, number: int, *, plain: bool = False) -> str:
        asides = (aside.text for aside in self.asides if not (plain and aside.kind == "history"))
        text = "\n".join([*self.first, *asides])
        if self.lines is None:
            return text
        return f"{text}\n\n{self.heading}\n{render(self.lines, self.order, number, handles=not plain)}"


def _fit(draft: _Draft, limit: int, budget: Budget) -> int:
    """Shorten the draft to the limit, and return the number of page lines that fit."""
    if budget.count is None:
        raise ValueError("max_tokens needs count, a function that counts tokens.")
    lines, count = draft.lines or [], budget.count

    def all_fits() -> bool:
        whole = draft.messages(len(lines))
        short = sum(len(message.text) for message in whole) <= _MOST_CHARACTERS * limit
        return short and count(whole) <= limit

    if all_fits():
        return len(lines)
    draft.asides = _shortened(draft.asides, limit, budget.measure)
    none = count(draft.messages(0))
    while none > limit or (draft.examples and limit - none < MIN_PAGE_SHARE * limit and not all_fits()):
        if draft.examples:
            draft.examples.pop()
        elif draft.asides:
            draft.asides.remove(min(draft.asides, key=lambda aside: _EXPENDABLE.index(aside.kind)))
        else:
            picture = ", including its picture," if draft.images else ""
            raise PromptTooLong(
                f"The prompt without the page{picture} has {none} tokens, more than the {limit} allowed: "
                f"raise max_prompt_tokens, {'lower max_image_side, ' if picture else ''}or offer fewer actions."
            )
        none = count(draft.messages(0))
    room, whole = limit - none, list(lines)
    for most in (room * 9 // 10, room * 2 // 5, room // 4):
        lines[:] = _cut_lines(whole, draft.order, max(MIN_LINE, most), room, budget.measure)
        if lines != whole and all_fits():
            break
    sizes = [len(lines[index].text) + 1 for index in draft.order]
    return most_that_fit(sizes, lambda number: count(draft.messages(number)), limit, none)


def _cut_lines(
    lines: Sequence[PageLine], order: Sequence[int], most: int, room: int, count_text: Measure
) -> list[PageLine]:
    """Return the lines, with those that may fit into `room` tokens cut to `most` tokens each."""
    short, reach = list(lines), 0
    for index in order:
        short[index] = short[index].shortened(most, count_text)
        reach += len(short[index].text)
        if reach > _MOST_CHARACTERS * room:
            break
    return short


def _shortened(asides: Sequence[PromptSection], limit: int, count_text: Measure) -> list[PromptSection]:
    """Return the parts, each cut to its share of the budget."""
    chat = sum(aside.kind == "chat" for aside in asides)
    short = []
    for aside in asides:
        most = int(limit * (HISTORY_SHARE if aside.kind == "history" else OTHER_SHARE))
        if aside.shorten is not None:
            text = aside.shorten(most, count_text)
        else:
            text = cut(aside.text, most // (chat if aside.kind == "chat" else 1), count_text)
        if text:
            short.append(replace(aside, text=text))
    return short
