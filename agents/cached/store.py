"""A folder of flows, one file each. Only solved episodes are added, and flows that fail are removed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from selfsurf.agents.cached.flow import FORMAT, Flow, NotCacheable, filled, flow_of
from selfsurf.agents.cached.target import Target, find, fingerprints, origin
from selfsurf.browser_env.errors import reason
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.record.episode import Episode, write_atomically
from selfsurf.browser_env.record.verdict import verdict_of
from selfsurf.browser_env.text import first_line

SAME_PAGE = 0.3
"""Minimum share of elements (role and name) that two pages have in common to count as the same page."""


class CacheError(ValueError):
    """A folder is not a cache, or contains a damaged flow."""


@dataclass(frozen=True)
class CacheUpdate:
    """The effect of an episode on the cache."""

    flow: Flow | None
    """The flow that was stored; None for none."""
    dropped: tuple[str, ...] = ()
    """Ids of the flows that were replaced or have failed."""
    why: str = ""
    """Why no flow was stored, or why the flow ends before the episode did; empty for a complete flow."""


class Cache:
    """The flows of a folder, read once.

    Args:
        folder: folder of the flows; created when the first flow is stored.

    Raises:
        CacheError: `folder` is not a folder, or a file in it is not a flow.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise CacheError(f"{self.folder} is not a folder.")
        self._flows = {flow.id: flow for flow in map(_read, sorted(self.folder.glob("*.json")))}

    def flows(self) -> list[Flow]:
        """Return all flows, the latest first."""
        return sorted(self._flows.values(), key=lambda flow: -flow.learned)

    def look_up(self, goal: str, observation: Observation) -> tuple[Flow, tuple[str, ...]] | None:
        """Return the best flow for a goal on the current page, with its parameters' values; None for none."""
        page, best = set(fingerprints(observation["elements"])), None
        for flow in self.flows():
            if origin(observation["url"]) != flow.site:
                continue
            values = flow.values(goal)
            if values is None:
                continue
            likeness = shared(flow.steps[0].page, page)
            if likeness < SAME_PAGE and not _begins(flow, values, observation):
                continue
            if best is None or likeness > best[0]:
                best = (likeness, flow, values)
        return best and best[1:]

    def keep(self, episode: Episode) -> CacheUpdate:
        """Store a solved episode's flow, replacing the flow for the same goal; drop a flow whose replay failed.

        An episode without a verdict changes nothing.

        Raises:
            EpisodeError: the episode can't be read.
        """
        verdict, played = verdict_of(episode), played_flow(episode)
        if verdict is None:
            return CacheUpdate(None, why="The episode is not judged yet: run `selfsurf mark`, then `selfsurf cache`.")
        if not verdict.solved:
            dropped = [played] if played in self._flows and all(map(_cached, episode.steps())) else []
            self._drop(dropped)
            return CacheUpdate(None, tuple(dropped), "The episode was not solved.")
        try:
            flow = flow_of(episode)
        except NotCacheable as error:
            return CacheUpdate(None, why=str(error))
        replaced = [
            old.id for old in self.flows()
            if (old.goal, old.only, old.site) == (flow.goal, flow.only, flow.site)
            and (old.id == played or shared(old.steps[0].page, flow.steps[0].page) >= SAME_PAGE)
        ]  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / f"{flow.id}.json", flow.model_dump_json(indent=1, exclude_defaults=True) + "\n")
        self._drop([id for id in replaced if id != flow.id])
        self._flows[flow.id] = flow
        return CacheUpdate(flow, tuple(replaced), flow.ends)

    def _drop(self, ids: Collection[str]) -> None:
        for id in ids:
            del self._flows[id]
            (self.folder / f"{id}.json").unlink(missing_ok=True)


def shared(one: Collection[str], other: Collection[str]) -> float:
    """Return the share of elements that two pages have in common, by fingerprint."""
    ones, others = set(one), set(other)
    return len(ones & others) / len(ones | others) if ones or others else 1.0


def played_flow(episode: Episode) -> str:
    """Return the id of the flow that an episode replayed, at least in part; empty for none."""
    for step in episode.steps():
        for role in (step["decision"] or {}).get("roles", ()):
            if role.get("role") == "cache" and "flow" in role:
                return str(role["flow"])
    return ""


def _cached(step: dict[str, Any]) -> bool:
    return any(role.get("role") == "cache" and "flow" in role for role in (step["decision"] or {}).get("roles", ()))


def _begins(flow: Flow, values: tuple[str, ...], observation: Observation) -> bool:
    """Whether the elements of the flow's first action are on the page."""
    first = flow.steps[0]
    given = [Target.model_validate(filled(one.model_dump(), values)) for one in first.targets.values()]
    return bool(given) and all(find(one, observation, known=first.page).element for one in given)


def _read(path: Path) -> Flow:
    try:
        return Flow.model_validate_json(path.read_text(encoding="utf8"))
    except (OSError, ValidationError) as error:
        raise CacheError(
            f"{path} is not a flow of format {FORMAT} (move the file away to use the other flows): "
            f"{first_line(reason(error))}"
        ) from None
