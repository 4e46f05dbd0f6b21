"""The context `feedback`: what came of the student's action. It is known only afterwards, so to the teacher alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from agents.page import label
from browser_env import Outcome
from sdft.contexts.context import Context, Told

if TYPE_CHECKING:
    from browser_env.observation import Element, Observation
    from sdft.rollout import Result

MOST, LONGEST = 4, 60
"""Changes of each sort that are told, and characters of one."""

_VERDICTS = {
    Outcome.SOLVED: "The goal is reached.",
    Outcome.FAILED: "The goal is missed.",
    Outcome.INFEASIBLE: "The goal was given up.",
}


class Feedback(Context):
    """The error, or what changed on the page, and the verdict where the episode ended."""

    name: ClassVar[str] = "feedback"

    def tell(self, result: Result, index: int) -> Told | None:
        """Tell it; nothing where the page afterwards is not known."""
        step = result.steps[index]
        if step.after is None:
            return None
        came = [f"It failed: {step.error}"] if step.error else changes(step.observation, step.after)
        if index + 1 == len(result.steps) and result.outcome in _VERDICTS:
            came.append(_VERDICTS[Outcome(result.outcome)])
        came.append(f"Reward: {step.reward:g}.")
        return Told(f"What came of the reply {step.decision.completion.text}: {' '.join(came)}")


def changes(before: Observation, after: Observation) -> list[str]:
    """Return what is different on the page, in sentences."""
    found = []
    if before["url"] != after["url"]:
        found.append(f"The page is now {_cut(after['title'] or after['url'])}.")
    then, now = (Counter(map(_named, observation["elements"])) for observation in (before, after))
    for word, labels in (("New", now - then), ("Gone", then - now)):
        some = [_cut(one) for one in list(labels)[:MOST]]
        if some:
            found.append(f"{word}: {', '.join(some)}{', and more' if len(labels) > MOST else ''}.")
    if after["events"]:
        found.append(f"Events: {'; '.join(map(_cut, after['events'][:MOST]))}.")
    return found or ["Nothing changed on the page."]


def _named(element: Element) -> str:
    """An element as the outline shows it, where the focus is left aside: it moves with every action."""
    return label({**element, "states": tuple(state for state in element["states"] if state != "focused")})


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
