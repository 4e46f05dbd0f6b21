"""Plays the actions of an episode again, in a fresh environment: recorded ones and those of agents alike.

Element ids may differ from run to run, so elements are matched by what they are.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from selfsurf.browser_env.actions import Action, Finish, Infeasible, Upload, parse_action
from selfsurf.browser_env.env import AsyncBrowserEnv
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.observe.outline import without_focus
from selfsurf.browser_env.record.episode import Episode

_ELEMENT = ("id", "from_", "to")
_DIALOG = re.compile(r'(alert|confirm|prompt|beforeunload) dialog (accepted|dismissed|answered "(.*?)")(?:: |$)')


@dataclass(frozen=True)
class ReplayedStep:
    """What became of one recorded action."""

    step: int
    action: str
    """As it was carried out, or as it was recorded when its element was not found."""
    done: bool
    matched: str
    """How its element was found: `id`, `name`, `position`, or empty where there is none or none was found."""
    error: str


@dataclass
class Replay:
    """What became of an episode."""

    steps: list[ReplayedStep] = field(default_factory=list)
    outcome: str = "running"
    reward: float = 0.0
    same_outcome: bool = False
    """Does it end as it did? Where a task judges: outcome and reward. Else: address and outline of the last page."""
    difference: str = ""
    """What differs at the end, in one sentence."""

    @property
    def complete(self) -> bool:
        """Could every action be done?"""
        return all(step.done for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "complete": self.complete}


async def replay(
    episode: Episode,
    env: AsyncBrowserEnv,
    *,
    files: Path | None = None,
    shown: Callable[[ReplayedStep], None] | None = None,
) -> Replay:
    """Reset an environment and play an episode's actions in it.

    An action whose element is not there is left out, and the next one is tried.

    Args:
        episode: what to play.
        env: of the same task or start page. Secrets in the episode need those of the same name in `Safety.secrets`.
        files: folder in which uploaded files are looked for by their names.
        shown: called with every step.
    """
    observation, info = await env.reset(seed=episode.meta.get("seed"))
    result = Replay(outcome=info["outcome"])
    last: Observation | None = None
    for record in episode.steps():
        try:
            action = parse_action(record["action"])
        except ActionError as failure:  # an agent's reply that was none
            step = ReplayedStep(record["step"], record["action"], False, "", str(failure))
            result.steps.append(step)
            if shown is not None:
                shown(step)
            continue
        if isinstance(action, Finish | Infeasible) and episode.meta.get("recorded"):
            last = observation  # what the person said of it is no part of the page
        found, matched, missing = matching(action, record["observation"]["elements"], observation["elements"])
        error = missing
        if isinstance(found, Upload) and files is not None:
            found = found.model_copy(update={"files": tuple(str(files / name) for name in found.files)})
        if not missing:
            observation, reward, terminated, truncated, info = await env.step(found)
            error = observation["last_error"]
            result.reward += reward
            result.outcome = info["outcome"]
        step = ReplayedStep(record["step"], found.to_json(), not error, matched, error)
        result.steps.append(step)
        if shown is not None:
            shown(step)
        if not missing and (terminated or truncated):
            break
    _compare(result, episode, last or observation)
    return result


def recorded_answers(episode: Episode) -> Callable[[str, str], str]:
    """Return a `dialogs` policy that answers as the episode's events tell, kind by kind, and then accepts."""
    answers: dict[str, deque[str]] = {}
    for step in episode.steps():
        for event in step["events"]:
            if told := _DIALOG.match(event):
                said = {"accepted": "accept", "dismissed": "dismiss"}.get(told[2], told[3])
                answers.setdefault(told[1], deque()).append(said)

    def answer(kind: str, message: str) -> str:
        left = answers.get(kind)
        return left.popleft() if left else "accept"

    return answer


def matching(action: Action, then: Sequence[Element], now: Sequence[Element]) -> tuple[Action, str, str]:
    """Return an action with the ids of now, how they were found, and what is missing.

    An element is the same if its role and name are; its id decides among several, then its place among them.
    """
    changes: dict[str, int] = {}
    ways: list[str] = []
    for key in _ELEMENT:
        id = getattr(action, key, None)
        if not isinstance(id, int):
            continue
        old = next((element for element in then if element["id"] == id), None)
        if old is None:
            return action, "", f"The episode does not say what element {id} was."
        new, way = _same(old, then, now)
        if new is None:
            return action, "", f"There is no {old['role']} named {old['name']!r} here."
        changes[key] = new["id"]
        ways.append(way)
    worst = next((way for way in ("position", "name", "id") if way in ways), "")
    return action.model_copy(update=changes), worst, ""


def _same(old: Element, then: Sequence[Element], now: Sequence[Element]) -> tuple[Element | None, str]:
    alike = [element for element in now if _kind(element) == _kind(old)]
    if not alike:
        return None, ""
    for element in alike:
        if element["id"] == old["id"]:
            return element, "id"
    if len(alike) == 1:
        return alike[0], "name"
    before = sorted((element for element in then if _kind(element) == _kind(old)), key=_place)
    alike.sort(key=_place)
    if len(before) == len(alike):
        return alike[[element["id"] for element in before].index(old["id"])], "position"
    top, left = _place(old)
    return min(alike, key=lambda element: abs(element["bbox"][1] - top) + abs(element["bbox"][0] - left)), "position"


def _kind(element: Element) -> tuple[str, str]:
    return element["role"], element["name"]


def _place(element: Element) -> tuple[float, float]:
    return element["bbox"][1], element["bbox"][0]


def _compare(result: Replay, episode: Episode, last: Observation) -> None:
    then = episode.meta.get("final") or {}
    totals = episode.meta.get("totals") or {}
    if totals.get("judged", episode.meta["outcome"] not in ("stopped", "running")):
        was = (episode.meta["outcome"], totals.get("reward", 0.0))
        if (result.outcome, result.reward) != was:
            result.difference = f"It ended {result.outcome} ({result.reward:g}), not {was[0]} ({was[1]:g})."
    elif then.get("url") != last["url"]:
        result.difference = f"It ended at {last['url']}, not at {then.get('url')}."
    elif without_focus(then.get("dom", ""), ids=False) != without_focus(last["dom"], ids=False):
        result.difference = "The page at the end shows something else."
    result.same_outcome = not result.difference
