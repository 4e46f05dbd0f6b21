"""What is known of an episode when it is judged: the same from disk as while it goes on. Never its task's score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from selfsurf.browser_env.observe.outlines import Outlines
from selfsurf.browser_env.record.episode import Episode

SAYS = frozenset({"finish", "infeasible", "message", "ask_user"})
"""Actions that do nothing to a page."""


@dataclass(frozen=True)
class Moment:
    """A step."""

    seen: Mapping[str, Any]
    """The observation."""
    actions: Sequence[Mapping[str, Any]]
    error: str = ""
    """Why the action did not work."""
    requests: Sequence[Mapping[str, Any]] | None = None
    """`method`, `url` and `status` of what was requested in the step; None: it was not recorded."""


@dataclass
class Evidence:
    """The steps of an episode so far, and the page after them."""

    goal: str
    moments: list[Moment] = field(default_factory=list)
    final: Mapping[str, Any] | None = None
    """The last observation; None: it was not recorded."""
    ended: bool = False
    """Did the page itself end the episode, as soon as something was submitted? That counts as the agent's claim."""

    @property
    def last_action(self) -> Mapping[str, Any]:
        """What the agent did last; empty if it did nothing."""
        actions = self.moments[-1].actions if self.moments else ()
        return actions[-1] if actions else {}

    @property
    def claims(self) -> bool:
        """Does the agent say that it is done?"""
        return self.ended or self.last_action.get("action") == "finish"

    @property
    def answer(self) -> str | None:
        """The agent's final answer; None if it did not finish."""
        finished = self.last_action.get("action") == "finish"
        return str(self.last_action.get("answer", "")) if finished else None

    @property
    def acting(self) -> list[Moment]:
        """The steps that did something to a page; one that failed did nothing."""
        return [
            one for one in self.moments if not one.error and any(act.get("action") not in SAYS for act in one.actions)
        ]


def evidence_of(episode: Episode) -> Evidence:
    """Return what an episode on disk shows.

    Raises:
        EpisodeError: it can't be read.
    """
    outlines = Outlines()
    moments = [
        Moment(_whole(step["observation"], outlines), [act for act in step["actions"] if isinstance(act, Mapping)],
               step["error"], step.get("requests"))
        for step in episode.steps()
    ]  # fmt: skip
    final = episode.meta["final"]
    return Evidence(episode.meta["goal"], moments, final and _whole(final, outlines))


def _whole(seen: Mapping[str, Any], outlines: Outlines) -> Mapping[str, Any]:
    """The observation with its whole outline; as it is where that can't be told."""
    try:
        return outlines.whole(seen)  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError):
        return seen
