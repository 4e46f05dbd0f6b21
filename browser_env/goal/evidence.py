"""Evidence by which an episode is judged, the same on disk as while it runs. It never includes the task's score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from selfsurf.browser_env.observe.outlines import Outlines
from selfsurf.browser_env.record.episode import Episode

SAYS = frozenset({"finish", "infeasible", "message", "ask_user"})
"""Actions that don't affect a page."""


@dataclass(frozen=True)
class Moment:
    """A step of an episode."""

    seen: Mapping[str, Any]
    """Observation before the step's actions."""
    actions: Sequence[Mapping[str, Any]]
    error: str = ""
    """Reason why the action failed; empty if it worked."""
    requests: Sequence[Mapping[str, Any]] | None = None
    """Requests made during the step, each with `method`, `url` and `status`; None if they were not recorded."""


@dataclass
class Evidence:
    """The steps of an episode so far, and the page after them."""

    goal: str
    moments: list[Moment] = field(default_factory=list)
    final: Mapping[str, Any] | None = None
    """Last observation; None if it was not recorded."""
    ended: bool = False
    """Whether the page itself ended the episode after a submission, which counts as the agent's claim to be done."""

    @property
    def last_action(self) -> Mapping[str, Any]:
        """Last action of the agent; empty if there is none."""
        actions = self.moments[-1].actions if self.moments else ()
        return actions[-1] if actions else {}

    @property
    def claims(self) -> bool:
        """Whether the agent claims to be done."""
        return self.ended or self.last_action.get("action") == "finish"

    @property
    def answer(self) -> str | None:
        """The agent's final answer; None if it did not finish."""
        finished = self.last_action.get("action") == "finish"
        return str(self.last_action.get("answer", "")) if finished else None

    @property
    def acting(self) -> list[Moment]:
        """Steps without an error whose actions affect a page."""
        return [
            one for one in self.moments if not one.error and any(act.get("action") not in SAYS for act in one.actions)
        ]


def evidence_of(episode: Episode) -> Evidence:
    """Return the evidence from an episode on disk.

    Raises:
        EpisodeError: the episode can't be read.
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
    """Return the observation with its complete outline, or unchanged if the outline can't be reconstructed."""
    try:
        return outlines.whole(seen)  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError):
        return seen
