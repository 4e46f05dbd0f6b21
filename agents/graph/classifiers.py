"""Keyword classifiers of goals, tasks and pages: hints for the planner and for scoring, never verdicts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from selfsurf.browser_env import Element, Observation

_QUESTION = re.compile(
    r"(?i)\?\s*$|^\W*(?:what|which|who|when|where|why|how|is|are|does|do|can|tell|find out|report|count|compare)\b"
)
_RISKY = re.compile(
    r"(?i)\b(?:buy|order|pay|purchase|delete|remove|send|publish|transfer|book|cancel|sign|log) ?(?:in)?\b"
)
_FIND = re.compile(r"(?i)\b(?:find|search|look for|open|go to|show|navigate|visit|locate)\b")
_FORM = re.compile(r"(?i)\b(?:fill|enter|type|register|sign up|submit|choose|select|upload|apply|change|update)\b")
_SUCCESS = re.compile(
    r"(?i)\b(?:thank you|thanks for|success(?:fully)?|has been (?:sent|saved|placed|received|deleted|archived|reserved)"
    r"|(?:order|booking|registration|reservation) (?:placed|confirmed|complete|received)|is reserved|all done)\b"
)
_BLANK, _LISTED = ("", "about:blank"), 6
_STOP = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "for",
        "to",
        "in",
        "on",
        "at",
        "and",
        "or",
        "with",
        "by",
        "from",
        "this",
        "that",
        "it",
        "its",
        "is",
        "are",
        "be",
        "do",
        "as",
        "your",
        "you",
        "me",
        "my",
        "i",
        "please",
        "them",
        "then",
        "into",
        "out",
        "find",
        "open",
        "go",
        "click",
        "press",
    ]
)


def goal_kind(goal: str) -> str:
    """Return the kind of goal: `answer` (a question), `commit` (a binding effect), `form`, `find`, or `act`."""
    for kind, pattern in (("answer", _QUESTION), ("commit", _RISKY), ("form", _FORM), ("find", _FIND)):
        if pattern.search(goal):
            return kind
    return "act"


def task_kind(goal: str, open_ended: bool) -> str:
    """Return `judged` (by a task), `open` (judged by nobody), or `none` (no goal)."""
    return "none" if not goal.strip() else "open" if open_ended else "judged"


def page_kind(obs: Observation) -> str:
    """Return the kind of page: `blank`, `error`, `login`, `dialog`, `form`, `listing`, or `article`."""
    elements, text = obs["elements"], obs["page_text"]
    if obs["url"] in _BLANK and not text.strip():
        return "blank"
    if re.search(
        r"(?i)^\W*(?:4\d\d|5\d\d)\b|\b(?:page not found|this site can.t be reached)\b", obs["title"] + " " + text[:200]
    ):
        return "error"
    if any("password" in element["states"] or element["name"].lower().startswith("password") for element in elements):
        return "login"
    if any(element["role"] in ("dialog", "alertdialog") for element in elements) or "covered" in _states(elements):
        return "dialog"
    links = [element for element in elements if element["role"] == "link"]
    if len(links) >= _LISTED:
        return "listing"
    if any(element["role"] in ("textbox", "combobox", "checkbox", "radio", "searchbox") for element in elements):
        return "form"
    return "article"


def _states(elements: Sequence[Element]) -> set[str]:
    return {state for element in elements for state in element["states"]}


def words(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, without stop words."""
    return frozenset(re.findall(r"[^\W_]{2,}|\d", text.lower())) - _STOP


def covered(goal: str, obs: Observation) -> float:
    """Return the share of the goal's words that the page shows, from 0 to 1."""
    wanted = words(goal)
    shown = words(f"{obs['title']} {obs['page_text']} {' '.join(element['name'] for element in obs['elements'])}")
    return len(wanted & shown) / len(wanted) if wanted else 0.0


def says_success(obs: Observation) -> bool:
    """Whether the page's text reports a success, such as "thank you" or "has been sent"."""
    return bool(_SUCCESS.search(obs["page_text"]))


def candidates(goal: str, obs: Observation, most: int = 6) -> list[Element]:
    """Return the elements whose names share words with the goal, those with the most shared words first."""
    wanted = words(goal)
    scored = [(len(wanted & words(element["name"])), element) for element in obs["elements"]]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
    return [element for _, element in best[:most]]


def named(goal: str) -> set[str]:
    """Return the words of a goal that may be names: capitalized words after the first character."""
    return {word.lower() for word in re.findall(r"\b[A-Z][^\W_]+", goal[1:])} - _STOP


def is_sparse(goal: str, obs: Observation) -> bool:
    """Whether the visible part of a page with several elements mentions none of the goal's names."""
    names = named(goal)
    return bool(names) and len(obs["elements"]) >= _LISTED and not names & words(obs["page_text"])


def naming_first(goal: str, lines: Sequence[str]) -> tuple[list[str], int]:
    """Return lines, those with most of the goal's names first, and the number of lines with any of the names."""
    names = named(goal)
    shared = {line: len(names & words(line)) for line in lines}
    return sorted(lines, key=lambda line: -shared[line]), sum(shared[line] > 0 for line in lines)
