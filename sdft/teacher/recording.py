"""Successful episodes, and the search for the recorded step that matches an agent's current page.

Element ids differ between episodes: elements match if role and name do (`browser_env.record.matching`). The matching
step follows from the page (its elements, the values of its fields) and from the agent's actions so far.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from selfsurf.agents.play.job import Result, Step
from selfsurf.agents.reply.compact import as_written
from selfsurf.agents.roles.task import rejected_in
from selfsurf.browser_env import Action, ActionError
from selfsurf.browser_env.observe.outlines import Outlines
from selfsurf.browser_env.record.episode import Episode, EpisodeError
from selfsurf.browser_env.record.format import recorded_action
from selfsurf.browser_env.record.matching import matching
from selfsurf.browser_env.record.verdict import verdict_of
from selfsurf.envs_registry.loading import recorded_name, unloaded

if TYPE_CHECKING:
    from selfsurf.browser_env.observation import Observation

TOLERANCE = 0.1
"""Maximum gap in similarity to the most similar recorded page, for pages that count as the same page."""

ALIKE = 0.5
"""Minimum similarity of a page that counts as the recorded page. Below it, only an unambiguous element is matched."""


@dataclass(frozen=True)
class RecordedStep:
    """A recorded step."""

    observation: Mapping[str, Any]
    """Observation with at least `url` and `elements`."""
    action: Action
    """Action in the form of a reply, if a reply can express it (`as_written`)."""

    @property
    def sayable(self) -> bool:
        """Whether a reply can express the action."""
        return as_written(self.action, self.observation) is not None


@dataclass(frozen=True)
class Recording:
    """A successful episode."""

    env_id: str
    """Environment id as in jobs; that of an open-ended task contains start page and goal."""
    goal: str
    seed: int
    steps: tuple[RecordedStep, ...]


def load_recordings(folders: Iterable[str | Path]) -> list[Recording]:
    """Read all episodes judged solved in the folders and their subfolders, in the order of their paths.

    Raises:
        EpisodeError: a folder has no such episode, or an unreadable one; or an episode's task is in a file or module
            that has not been imported, because an episode alone never runs code.
    """
    found = []
    for folder in folders:
        if not Path(folder).is_dir():
            raise EpisodeError(f"There is no folder {Path(folder).resolve()}.")
        paths = sorted(path.parent for path in Path(folder).rglob("episode.json"))
        episodes = [Episode(path) for path in paths]
        verdicts = [verdict_of(episode) for episode in episodes]
        whole = [one for one in zip(episodes, verdicts, strict=True) if one[0].meta["redacted"] != "full"]
        solved = [recording_of(one) for one, said in whole if said and said.solved]
        usable = [recording for recording in solved if recording.steps]
        if not usable and (writing := [str(one.folder) for one in episodes if one.being_written]):
            raise EpisodeError(f"{', '.join(writing)} is still being recorded: end the recording first.")
        if not usable:
            outcomes = ", ".join(sorted({str(episode.meta["outcome"]) for episode in episodes}))
            raise EpisodeError(
                f"There is no solved episode in {folder}"
                + (f", only episodes that ended as {outcomes}. At the end of `selfsurf record`, confirm that the goal "
                   "was reached, or give --outcome solved; for a finished episode, use `selfsurf mark EPISODE solved`."
                   if episodes else ": make one with `selfsurf record`.")
            )  # fmt: skip
        if foreign := next((name for one in {each.env_id for each in usable} if (name := unloaded(one))), ""):
            raise EpisodeError(
                f"Episodes in {folder} are of tasks in {foreign}, which is not imported automatically: if you trust "
                f"that code, add --trust {foreign}, or in Python import it or make one of its tasks first."
            )
        found += usable
    return found


def fingerprint(recordings: Iterable[Recording]) -> str:
    """Return the SHA-256 of recordings in order: their tasks, goals, seeds, page addresses and actions."""
    digest = hashlib.sha256()
    for one in recordings:
        steps = [[shown.observation["url"], shown.action.to_dict()] for shown in one.steps]
        digest.update(json.dumps([one.env_id, one.goal, one.seed, steps], sort_keys=True).encode())
    return digest.hexdigest()


def recording_of(episode: Episode) -> Recording:
    """Return an episode from disk as a recording, without steps that teach nothing.

    Steps are left out if their action failed or was invalid, was a rejected claim of success, or was a graph's rather
    than the model's.

    Raises:
        EpisodeError: the episode is unreadable, or records only the changes to a page that is missing.
    """
    outlines, steps = Outlines(), []
    for index, record in enumerate(episode.steps()):
        try:
            seen = outlines.whole(record["observation"])
        except ValueError:
            told = f"{episode.folder}: step {index} records only the changes to a page that is missing."
            raise EpisodeError(told) from None
        decision = record["decision"] or {}
        graph = decision.get("graph")
        instead = isinstance(graph, dict) and graph.get("instead")  # the graph's action replaced the model's
        if record["error"] or instead or rejected_in(decision.get("roles", ())):
            continue
        with suppress(ActionError):
            done = map(recorded_action, record["actions"])
            steps += [RecordedStep(seen, as_written(action, seen) or action) for action in done]
    meta = episode.meta
    name = recorded_name(meta, steps[0].observation["url"] if steps else "")
    return Recording(name, meta["goal"], meta["seed"] or 0, tuple(steps))


def recording_of_result(result: Result) -> Recording:
    """Return an episode of this process as a recording, without steps whose action failed or was invalid."""
    steps = tuple(
        RecordedStep({name: step.observation[name] for name in ("url", "elements", "tabs")}, step.decision.action)  # type: ignore[literal-required]
        for step in result.steps
        if not isinstance(step.decision.action, str) and not step.error
    )
    return Recording(result.job.env_id, goal_of(result), result.job.seed, steps)


def goal_of(result: Result) -> str:
    """Return the goal of an episode that has steps."""
    return result.steps[0].observation["goal"]


def advise(recording: Recording, steps: Sequence[Step]) -> tuple[Action, float] | None:
    """Return the recorded action for the agent's current page, and the similarity (0 to 1) of the two pages.

    The action has the element ids of the agent's page. Among the recorded steps on the most similar page, the first one
    not yet done is chosen, or else the last. None if the page is too different, or lacks the element of the recorded
    action.

    Args:
        recording: an episode for the same goal.
        steps: the agent's steps so far; the action of the last one is ignored.
    """
    now = steps[-1].observation
    alike = [likeness(shown.observation, now) for shown in recording.steps]
    here = [index for index, value in enumerate(alike) if value >= max(alike) - TOLERANCE]
    done = _done(recording, steps[:-1], now)
    following = next((index for index in here if index not in done), here[-1])
    shown = recording.steps[following]
    action, _, missing = matching(shown.action, shown.observation["elements"], now["elements"])
    if missing or not (alike[following] >= ALIKE or _unmistakable(action, now["elements"])):
        return None
    return action, alike[following]


def likeness(then: Mapping[str, Any], now: Mapping[str, Any]) -> float:
    """Return the similarity of two pages: the share of their elements that both contain."""
    before, after = _features(then), _features(now)
    return (before & after).total() / (before | after).total()


def _features(observation: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    features = Counter((element["role"], element["name"]) for element in observation["elements"])
    address = urlsplit(observation["url"])
    features["page", address.path if address.scheme in ("http", "https", "file") else ""] += 1
    return features


def _done(recording: Recording, steps: Sequence[Step], now: Observation) -> set[int]:
    """Return the indices of the recorded steps that are done.

    A step that changes the state of an element still on the page is done if the element has that state, whoever changed
    it; of several steps on one element, an earlier one is done if a later one is. Any other step is done if the agent
    took it.
    """
    done = _acted(recording, steps)
    marked: dict[int | None, int] = {}  # by element, the last step whose resulting state is present
    for index, (shown, following) in enumerate(pairwise(recording.steps)):
        then, number = shown.observation["elements"], getattr(shown.action, "id", None)
        mark = _mark(number, following.observation["elements"])
        found, _, missing = matching(shown.action, then, now["elements"])
        if missing or mark in (None, _mark(number, then)):
            continue
        done.discard(index)
        if _mark(getattr(found, "id", None), now["elements"]) == mark:
            marked[number] = index
    for index, shown in enumerate(recording.steps):
        if index <= marked.get(getattr(shown.action, "id", None), -1):
            done.add(index)
    return done


def _acted(recording: Recording, steps: Sequence[Step]) -> set[int]:
    """Return the indices of the recorded steps that the agent has taken; each of its steps counts once."""
    done: set[int] = set()
    for step in steps:
        action = step.decision.action
        if isinstance(action, str) or step.error:
            continue
        for index, shown in enumerate(recording.steps):
            meant, _, missing = matching(shown.action, shown.observation["elements"], step.observation["elements"])
            if index not in done and not missing and meant.to_dict() == action.to_dict():
                done.add(index)
                break
    return done


def _mark(number: int | None, elements: Sequence[Mapping[str, Any]]) -> tuple[str, frozenset[str]] | None:
    """Return the state of an element: its value, and whether it is checked or selected."""
    element = next((element for element in elements if element["id"] == number), None)
    return None if element is None else (element["value"], frozenset(element["states"]) & {"checked", "selected"})


def _unmistakable(action: Action, elements: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the action's element has a name and is the only element of its role with that name."""
    target = next((element for element in elements if element["id"] == getattr(action, "id", None)), None)
    if target is None or not target["name"]:
        return False
    return sum((element["role"], element["name"]) == (target["role"], target["name"]) for element in elements) == 1
