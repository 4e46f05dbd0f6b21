"""Whether a finished episode counts as solved: what its task scored, a person marked, and a judge said.

Marks are added to `verdict` in `episode.json`; none is taken away, and the task's own outcome and score stay as they
are. Knows nothing of how a judge judges.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.record.episode import Episode, EpisodeError, change_meta

Says: TypeAlias = Literal["solved", "failed", "unknown"]


@dataclass(frozen=True)
class Mark:
    """What a person or a judge says of an episode."""

    says: Says
    by: Literal["person", "judge"]
    why: str = ""
    who: str = ""
    """The judge: the specification's name or its file, and the model that was asked."""
    when: float = field(default_factory=time.time)
    """Unix seconds."""
    details: dict[str, Any] = field(default_factory=dict)
    """What the judge found: its criteria one by one, and the model's rubric."""


@dataclass(frozen=True)
class Verdict:
    """Whether an episode counts as solved, and who said so."""

    says: Literal["solved", "failed"]
    by: Literal["person", "task", "judge"]
    why: str = ""
    when: float | None = None
    """Unix seconds; None: not known."""

    @property
    def solved(self) -> bool:
        """Does it count as solved?"""
        return self.says == "solved"


def verdict_of(episode: Episode | str | Path) -> Verdict | None:
    """Return the verdict in force, or None: nobody knows.

    A person's latest mark comes before the score of the episode's task, and that before the latest mark of a judge. A
    judge who could not tell takes back what judges said before. An episode that a person recorded and called solved or
    failed was marked by that person. It is not asked whether the infrastructure failed the episode: a person who marks
    such a one knows better.

    Args:
        episode: one that was read, or its folder.

    Raises:
        EpisodeError: there is none in the folder, or what it says of marks can't be read.
    """
    episode = episode if isinstance(episode, Episode) else Episode(episode)
    meta, marks = episode.meta, marks_of(episode)
    own = _own(meta)
    by_persons = [mark for mark in marks if mark.by == "person"]
    if by_persons and by_persons[-1].says != "unknown":
        return _verdict(by_persons[-1])
    if own is not None:
        return own
    by_judges = [mark for mark in marks if mark.by == "judge"]
    return _verdict(by_judges[-1]) if by_judges else None


def marks_of(episode: Episode) -> list[Mark]:
    """Return an episode's marks, the oldest first.

    Raises:
        EpisodeError: what stands there is something else.
    """
    verdict = episode.meta["verdict"]
    if verdict is None:
        return []
    try:
        marks = [Mark(**{key: one[key] for key in Mark.__dataclass_fields__ if key in one}) for one in verdict["marks"]]
    except (TypeError, KeyError):
        marks = None
    if marks is None or not all(map(_sound, marks)):
        raise EpisodeError(f"{episode.folder / 'episode.json'} is damaged: its verdict is not one.")
    return marks


def mark_episode(folder: str | Path, mark: Mark) -> Verdict | None:
    """Add a mark to a finished episode; return the verdict that is in force now.

    Raises:
        EpisodeError: there is none, it has not ended, it was changed or damaged since, or another process writes it.
    """

    def add(meta: dict[str, Any]) -> None:
        before = (meta.get("verdict") or {}).get("marks", [])
        meta["verdict"] = {"marks": [*before, asdict(mark)]}

    marks_of(Episode(folder))  # what is damaged stays as it is
    change_meta(Path(folder), add)
    return verdict_of(folder)


def _own(meta: Mapping[str, Any]) -> Verdict | None:
    """What the episode said of itself when it ended."""
    outcome, totals, ended = meta["outcome"], meta["totals"], meta["ended"]
    detail = str(meta["outcome_detail"] or "")
    if meta["recorded"] is True and totals.get("judged") is not True:
        if outcome in (Outcome.SOLVED, Outcome.FAILED):
            return Verdict(outcome, "person", detail or "recorded it", ended)
        return None
    if outcome in (Outcome.ENV_ERROR, Outcome.STOPPED, Outcome.RUNNING) or totals.get("judged") is False:
        return None
    return Verdict("solved" if outcome == Outcome.SOLVED else "failed", "task", detail or str(outcome), ended)


def _verdict(mark: Mark) -> Verdict | None:
    return None if mark.says == "unknown" else Verdict(mark.says, mark.by, mark.why, mark.when)


def _sound(mark: Mark) -> bool:
    texts = all(isinstance(text, str) for text in (mark.says, mark.by, mark.why, mark.who))
    return (
        texts
        and mark.says in ("solved", "failed", "unknown")
        and mark.by in ("person", "judge")
        and isinstance(mark.when, (int, float))
        and isinstance(mark.details, dict)
    )
