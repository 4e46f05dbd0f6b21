"""The small model's prompt: one user message, with goal and reply format first and the page last.

The goal, the reply format and the actions come first and are never cut; the history follows; the page comes last. An
element's id follows its label, in the form of an action (`link "Eget" {"click":4}`), since small models find it there
far more often than in front. The wording must not change, because adapters were trained on it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from selfsurf.agents.kinds import OPEN_KINDS, is_editable, offered, takes_files
from selfsurf.agents.prompt.fit import Measure, PageContent, PromptSection, compose, went_wrong
from selfsurf.agents.prompt.history import compacted
from selfsurf.agents.prompt.page import listed
from selfsurf.agents.prompt.prompt import Budget, Prompt, PromptWriter, Turn
from selfsurf.agents.reply.functions import described
from selfsurf.browser_env.observation import Element, Observation

_DONE = "Done so far: "

INSTRUCTIONS: dict[str, tuple[str, str]] = {
    "click": ("click an element by its id", '{{"click":{id}}} to click'),
    "fill": ("fill a field by its id with a text", '{{"fill":{field},"text":"abc"}} to enter text'),
    "type": ("type a text into a field by its id", '{{"type":{field},"text":"abc"}} to type text'),
    "select": ("select an option of a list by its id", '{{"select":{select},"option":"abc"}} to choose an option'),
    "hover": ("point at an element by its id", '{{"hover":{id}}} to point at'),
    "press": ("press a key", '{{"press":"Enter"}} to press a key'),
    "scroll": ("scroll down or up", '{{"scroll":"down"}} to scroll'),
    "drag": ("drag an element to another by their ids", '{{"drag":{id},"to":{other}}} to drag'),
    "upload": ("upload a file for an element by its id", '{{"upload":{chooser},"file":{file}}} to upload a file'),
    "navigate": ("navigate to a URL", '{{"navigate":"https://example.org"}} to open a page'),
    "back": ("go back", '{{"back":true}} to go back'),
    "forward": ("go forward", '{{"forward":true}} to go forward'),
    "reload": ("reload", '{{"reload":true}} to load the page again'),
    "new_tab": ("open a new tab", '{{"new_tab":"https://example.org"}} to open a tab'),
    "focus_tab": ("go to another tab by its number", '{{"focus_tab":0}} to go to the first tab'),
    "close_tab": ("close the tab", '{{"close_tab":true}} to close the tab'),
    "wait": ("wait", '{{"wait":1000}} to wait'),
    "message": ("send the user a message", '{{"message":"abc"}} to tell the user something'),
    "ask_user": ("ask the user", '{{"ask_user":"abc"}} to ask the user'),
    "finish": ("finish when the goal is reached", '{{"finish":"abc"}} when the goal is reached'),
    "infeasible": ("say that the goal is infeasible", '{{"infeasible":"abc"}} if it can\'t be reached'),
}
"""Descriptions of actions by kind: effect and notation.

The first is for replies under a grammar, whose format needs no explanation: a small model follows a demonstration far
better after these words than after examples, which it copies. The second is for free replies; it is filled with real
ids of the page, since a placeholder would be copied.
"""


class Compact(PromptWriter):
    """Writer of the small model's prompt."""

    max_new_tokens = 64
    prefill = '{"'
    open_actions = OPEN_KINDS

    def build(self, obs: Observation, turn: Turn, budget: Budget) -> Prompt:
        """Write the prompt of one turn as a single user message."""
        goal = turn.goal or obs["goal"]
        shown = PageContent.of(obs, turn)
        kinds = offered(turn.actions, shown.elements)
        form = _words(kinds, turn) if turn.constrained else _forms(shown.elements, kinds, turn)
        more = [*described(turn.functions), turn.instructions, turn.picture.note if turn.picture else ""]
        first = [f"Goal: {goal}", form, *filter(None, more)]
        return compose(shown, turn, budget, first=first, asides=_asides(goal, obs, turn))


def _asides(goal: str, obs: Observation, turn: Turn) -> list[PromptSection]:
    chat = [message for message in obs["messages"] if message["text"] != goal]
    asides = [PromptSection("chat", f"{message['role']}: {message['text']}") for message in chat[-4:]]
    if len(obs["tabs"]) > 1:
        titles = [f"{'*' if tab['active'] else ''}{tab['title']}" for tab in obs["tabs"]]
        if "focus_tab" in turn.actions:
            titles = [f"{number} {title}" for number, title in enumerate(titles)]
        asides.append(PromptSection("tabs", "Tabs: " + listed(titles, ", ")))
    if obs["events"]:
        asides.append(PromptSection("events", "Events: " + listed(obs["events"][-4:], "; ")))
    if turn.history:
        asides.append(PromptSection("history", _DONE + compacted(turn.history), partial(_done, turn.history)))
    return [*asides, *went_wrong(obs, turn)]


def _done(history: Sequence[str], limit: int, count_text: Measure) -> str:
    past = compacted(history, limit, count_text)
    return f"{_DONE}{past}" if past else ""


def _words(kinds: Sequence[str], turn: Turn) -> str:
    words = ", ".join(_with_files(INSTRUCTIONS[kind][0], kind, turn) for kind in kinds)
    most = turn.max_actions
    wanted = "action" if most == 1 else f"actions in their order, {most} at most,"
    return f"You can {words}. Reply with the next {wanted} as JSON."


def _forms(seen: Sequence[Element], kinds: Sequence[str], turn: Turn) -> str:
    selects = (element for element in seen if element["tag"] == "select")
    known = {"id": iter(seen), "field": filter(is_editable, seen), "select": selects, "other": reversed(seen),
             "chooser": filter(takes_files, seen)}  # fmt: skip
    ids: dict[str, Any] = {name: next((one["id"] for one in elements), 1) for name, elements in known.items()}
    ids["file"] = json.dumps(next(iter(turn.files), ""), ensure_ascii=False)
    forms = [_with_files(INSTRUCTIONS[kind][1].format(**ids), kind, turn) for kind in kinds]
    wanted = "one action as JSON" if turn.max_actions == 1 else f"1 to {turn.max_actions} actions as JSON, a line each"
    return f"Reply with {wanted}: " + ", ".join(forms) + "."


def _with_files(text: str, kind: str, turn: Turn) -> str:
    return f"{text} (there are {'; '.join(turn.files)})" if kind == "upload" else text
