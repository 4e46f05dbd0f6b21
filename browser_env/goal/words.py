"""What a goal and the actions that reached it have in common, word for word: the values that another day may differ.

Pure: it compares texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from selfsurf.browser_env.actions import Action


def bounded(text: str) -> str:
    """Return a regular expression for a text where no word begins or ends inside it."""
    return rf"(?<!\w){re.escape(text)}(?!\w)"


def texts_of_goal(goal: str, steps: Iterable[tuple[Action, Sequence[Mapping[str, Any]]]]) -> list[str]:
    """Return what was typed, chosen or clicked that stands in the goal, word for word.

    Args:
        goal: in words.
        steps: each action, with the elements of the page that it was done on.
    """
    found: list[str] = []
    for action, elements in steps:
        done: Any = action
        names = {one["id"]: one["name"] for one in elements}
        if done.name in ("fill", "type"):
            found.append(done.text)
        elif done.name == "select":
            found += done.options
        elif done.name == "click":
            found.append(names.get(done.id, ""))
    return [text for text in dict.fromkeys(found) if text.strip() and re.search(bounded(text), goal)]
