"""The context `feedback`: the outcome of the student's action, which only the teacher can know beforehand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from selfsurf.agents.play.job import Result, Step
from selfsurf.agents.prompt.page import label
from selfsurf.browser_env import Outcome
from selfsurf.sdft.teacher.context import PrivilegedContext, TeacherContext

if TYPE_CHECKING:
    from selfsurf.browser_env.observation import Element, Observation

MOST, LONGEST = 4, 60
"""Maximum number of changes of each kind in a text, and maximum length of a change in characters."""

_MISSED = {Outcome.FAILED: "the goal is missed", Outcome.INFEASIBLE: "the goal was given up"}


class FeedbackContext(TeacherContext):
    """Verdict on the student's action (an error, the episode's outcome), or else the changes on the page.

    The action is described in words, because the teacher would copy its JSON, right or wrong.
    """

    name: ClassVar[str] = "feedback"

    def tell(self, result: Result, index: int) -> PrivilegedContext | None:
        """Return the outcome of the step, or None if the resulting page is unknown."""
        step = result.steps[index]
        if step.after is None:
            return None
        did, last = _words(step), index + 1 == len(result.steps)
        missed = step.error or (_MISSED.get(Outcome(result.outcome), "") if last else "")
        if missed:
            text = f"{did} is wrong: {missed.removesuffix('.')}. Choose another."
        elif last and result.solved:
            text = f"{did} is right: the goal is reached."
        else:
            text = f"After {did}: {' '.join(changes(step.observation, step.after))}"
        return PrivilegedContext(f"{text} Reward: {step.reward:g}." if step.reward else text)


def _words(step: Step) -> str:
    """Describe the action in words, such as `click button "OK"`."""
    action = step.decision.action
    if isinstance(action, str):
        return "The reply"
    target = next((one for one in step.observation["elements"] if one["id"] == getattr(action, "id", None)), None)
    element = "" if target is None else f" {label({**target, 'value': '', 'states': ()})}"
    rest = {key: value for key, value in action.to_dict().items() if key not in ("action", "id")}
    return f"{action.name}{element}" + "".join(f" {_cut(str(value))}" for value in rest.values())


def changes(before: Observation, after: Observation) -> list[str]:
    """Return the differences between two observations, in sentences."""
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
    """Return an element's line in the outline without its focus, which moves with every action."""
    return label({**element, "states": tuple(state for state in element["states"] if state != "focused")})


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
