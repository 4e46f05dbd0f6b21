"""From an observation to the conversation that a model is given. Knows the model only through token counts.

The goal, the reply's format and the history come first and are never cut; the page comes last and is cut to the
budget, whole lines at a time. An element's id stands after its label, in the form in which it is to be used
(`link "Eget" {"click":4}`), since small models find it there far more often than in front.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.compact import compact
from agents.constraint import DEFAULT_KINDS, is_editable, offered
from agents.policy import Conversation, Message
from browser_env.observation import Element, Observation

DEMONSTRATION = "Correct action: {action}\nReply with exactly this: {action}"
"""What turns a student's prompt into the teacher's. The wording decides how well the teacher does."""

MAX_HISTORY = 5
"""Most past actions shown."""

WORDS: dict[str, str] = {
    "click": "click an element by its id",
    "fill": "fill a field by its id with a text",
    "type": "type a text into a field by its id",
    "select": "select an option of a list by its id",
    "hover": "point at an element by its id",
    "press": "press a key",
    "scroll": "scroll down or up",
    "navigate": "navigate to a URL",
    "back": "go back",
    "forward": "go forward",
    "new_tab": "open a new tab",
    "close_tab": "close the tab",
    "wait": "wait",
    "message": "send the user a message",
    "ask_user": "ask the user",
    "finish": "finish when the goal is reached",
    "infeasible": "say that the goal is infeasible",
}
"""What an action does, by kind: for replies under a grammar, which needs no telling how they are written. A small
model follows a demonstration far better after these words than after examples, which it copies."""

FORMATS: dict[str, str] = {
    "click": '{{"click":{id}}} to click',
    "fill": '{{"fill":{field},"text":"abc"}} to enter text',
    "type": '{{"type":{field},"text":"abc"}} to type text',
    "select": '{{"select":{select},"option":"abc"}} to choose an option',
    "hover": '{{"hover":{id}}} to point at',
    "press": '{{"press":"Enter"}} to press a key',
    "scroll": '{{"scroll":"down"}} to scroll',
    "navigate": '{{"navigate":"https://example.org"}} to open a page',
    "back": '{{"back":true}} to go back',
    "forward": '{{"forward":true}} to go forward',
    "new_tab": '{{"new_tab":"https://example.org"}} to open a tab',
    "close_tab": '{{"close_tab":true}} to close the tab',
    "wait": '{{"wait":1000}} to wait',
    "message": '{{"message":"abc"}} to tell the user something',
    "ask_user": '{{"ask_user":"abc"}} to ask the user',
    "finish": '{{"finish":"abc"}} when the goal is reached',
    "infeasible": '{{"infeasible":"abc"}} if it can\'t be reached',
}
"""How an action is written, by kind: for free replies. Real ids of the page are put in, since a placeholder would be
copied."""

_ELEMENT_LINE = re.compile(r"^(\s*)\[(\d+)\] (.+)$")


class PromptTooLong(ValueError):
    """The part of the prompt that is never cut exceeds the budget."""


@dataclass(frozen=True)
class Prompt:
    """A conversation and what the model can see in it."""

    messages: tuple[Message, ...]
    visible_ids: frozenset[int]
    """Elements whose ids stand in the prompt."""
    lines_left_out: int = 0
    """Lines of the page that did not fit."""


@dataclass(frozen=True)
class PageLine:
    """One line of the page's outline."""

    text: str
    element_id: int | None = None


def build(
    obs: Observation,
    *,
    goal: str = "",
    history: Sequence[str] = (),
    error: str = "",
    kinds: Sequence[str] = DEFAULT_KINDS,
    spelled: bool = False,
    max_tokens: int | None = None,
    count: Callable[[Sequence[Message]], int] | None = None,
) -> Prompt:
    """Write the prompt for one observation.

    Args:
        obs: what the environment returned.
        goal: what is wanted; `obs["goal"]` if empty.
        history: this episode's actions so far, as short texts, oldest first.
        error: what went wrong with the last action; `obs["last_error"]` if empty.
        kinds: the actions to offer, those of them that the page allows.
        spelled: show how each action is written in JSON, not only what it does: for replies without a grammar.
        max_tokens: most tokens of the whole prompt; None for no limit.
        count: number of tokens of a conversation under the model's own tokenizer and template; needed with
            `max_tokens`.

    Raises:
        PromptTooLong: everything but the page exceeds the budget.
    """
    lines = page_lines(obs, kinds, goal or obs["goal"])
    shown = {line.element_id for line in lines if line.element_id is not None}
    seen = [element for element in obs["elements"] if element["id"] in shown]
    form = _forms(seen, kinds) if spelled else _words(seen, kinds)
    head = _head(goal or obs["goal"], form, history, error or obs["last_error"], obs)

    def render(number: int) -> tuple[Message, ...]:
        return (Message("user", f"{head}\n\nPage:\n{_page(lines, order, number)}"),)

    order = _priority(lines, seen)
    number = len(lines)
    if max_tokens is not None:
        if count is None:
            raise ValueError("max_tokens needs count, the tokenizer's measure.")
        number = _most(len(lines), lambda some: count(render(some)) <= max_tokens)
        if number < 0:
            raise PromptTooLong(
                f"The prompt without the page has {count(render(0))} tokens, more than the {max_tokens} allowed: "
                "raise max_prompt_tokens, or offer fewer actions."
            )
    kept = {lines[index].element_id for index in order[:number]}
    return Prompt(render(number), frozenset(item for item in kept if item is not None), len(lines) - number)


def with_demonstration(messages: Conversation, privileged: dict[str, Any] | None) -> tuple[Message, ...]:
    """Return the conversation with the correct action told at the end of the user's last message.

    Args:
        messages: what the student sees.
        privileged: `{"action": {...}, "reason": str}`; None leaves the conversation as it is.

    Raises:
        ValueError: there is no user message.
        browser_env.errors.ActionError: the action is malformed.
    """
    if privileged is None:
        return tuple(messages)
    told = DEMONSTRATION.format(action=compact(privileged["action"]))
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            taught = replace(messages[index], text=f"{messages[index].text}\n\n{told}")
            return (*messages[:index], taught, *messages[index + 1 :])
    raise ValueError("The conversation has no user message to put the demonstration in.")


def page_lines(obs: Observation, kinds: Sequence[str] = DEFAULT_KINDS, goal: str = "") -> list[PageLine]:
    """The page's outline with each element's handle behind its label, and without lines that only repeat the goal.

    Text of the page that only looks like an element (`[3] see below`) keeps its form and gives no id.
    """
    by_id = {element["id"]: element for element in obs["elements"]}
    lines, used = [], set()
    for text in obs["dom"].splitlines():
        found = _ELEMENT_LINE.match(text)
        element = by_id.get(int(found[2])) if found else None
        if found and element and element["id"] not in used and found[3].startswith(element["role"]):
            used.add(element["id"])
            lines.append(PageLine(f"{found[1]}{found[3].rstrip()} {handle(element, kinds)}", element["id"]))
        elif text.strip() and text.strip() != goal.strip():
            lines.append(PageLine(text.rstrip()))
    if not obs["dom"].strip():
        lines += [PageLine(f"{label(element)} {handle(element, kinds)}", element["id"]) for element in obs["elements"]]
    return lines


def handle(element: Element, kinds: Sequence[str] = DEFAULT_KINDS) -> str:
    """The element's id in the form of the action that it is there for: `{"click":4}`, `{"fill":3}`, `{"select":5}`.

    What follows a label is what a small model writes once it has found the label: copying is the first thing that it
    learns, and the bare id (`link "Eget" id 4`) is copied far less often.
    """
    if "select" in kinds and element["tag"] == "select":
        kind = "select"
    elif "fill" in kinds and is_editable(element):
        kind = "fill"
    else:
        kind = "click"
    return f'{{"{kind}":{element["id"]}}}'


def label(element: Element) -> str:
    """An element as the outline shows it, without its id: `button "OK" disabled`."""
    value = f' value="{element["value"]}"' if element["value"] else ""
    return " ".join([f'{element["role"]} "{element["name"]}"{value}', *element["states"]])


def _head(goal: str, form: str, history: Sequence[str], error: str, obs: Observation) -> str:
    parts = [f"Goal: {goal}", form]
    chat = [message for message in obs["messages"] if message["text"] != goal]
    parts += [f"{message['role']}: {message['text']}" for message in chat[-4:]]
    if len(obs["tabs"]) > 1:
        titles = (f"{'*' if tab['active'] else ''}{tab['title']}" for tab in obs["tabs"])
        parts.append("Tabs: " + ", ".join(titles))
    if obs["events"]:
        parts.append("Events: " + "; ".join(obs["events"][-4:]))
    if history:
        parts.append("Done so far: " + "; ".join(history[-MAX_HISTORY:]))
    if error:
        parts.append(f"The last action failed: {error}")
    return "\n".join(parts)


def _words(seen: Sequence[Element], kinds: Sequence[str]) -> str:
    return f"You can {', '.join(WORDS[kind] for kind in offered(kinds, seen))}. Reply with the next action as JSON."


def _forms(seen: Sequence[Element], kinds: Sequence[str]) -> str:
    fields = [element["id"] for element in seen if is_editable(element)]
    selects = [element["id"] for element in seen if element["tag"] == "select"]
    ids = {
        "id": seen[0]["id"] if seen else 1,
        "field": fields[0] if fields else 1,
        "select": selects[0] if selects else 1,
    }
    forms = [FORMATS[kind].format(**ids) for kind in offered(kinds, seen)]
    return "Reply with one action as JSON: " + ", ".join(forms) + "."


def _priority(lines: Sequence[PageLine], seen: Sequence[Element]) -> list[int]:
    """Line numbers in the order in which they are worth showing: the viewport, what is below, what is above."""
    visible = {element["id"] for element in seen if element["in_viewport"]}
    inside = [index for index, line in enumerate(lines) if line.element_id in visible]
    elements = [index for index, line in enumerate(lines) if line.element_id is not None]
    start = inside[0] if inside and inside[0] != elements[0] else 0
    return [*range(start, len(lines)), *range(start - 1, -1, -1)]


def _page(lines: Sequence[PageLine], order: Sequence[int], number: int) -> str:
    """The `number` most important lines in the page's order, with a note wherever some are left out."""
    kept = set(order[:number])
    parts: list[str] = []
    gap: list[PageLine] = []

    def close() -> None:
        if gap:
            elements = sum(line.element_id is not None for line in gap)
            parts.append(f"({len(gap)} more lines with {elements} elements left out)")
            gap.clear()

    for index, line in enumerate(lines):
        if index in kept:
            close()
            parts.append(line.text)
        else:
            gap.append(line)
    close()
    return "\n".join(parts) if parts else "(empty)"


def _most(highest: int, fits: Callable[[int], bool]) -> int:
    """The greatest number up to `highest` that fits, by bisection; -1 if not even 0 does."""
    if fits(highest):
        return highest
    low, high = -1, highest  # low fits (or is -1), high does not
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
