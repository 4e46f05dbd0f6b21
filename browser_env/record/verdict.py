"""Whether a finished episode counts as solved, by its task's score and the marks of persons and judges.

Marks are added to `verdict` in `episode.json` and never removed; the task's own outcome and score are left unchanged.
This module doesn't depend on how a judge works.
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
    """Assessment of an episode by a person or a judge."""

    says: Says
    by: Literal["person", "judge"]
    why: str = ""
    who: str = ""
    """Identity of the judge: the name or file of its specification, and the model that was asked."""
    when: float = field(default_factory=time.time)
    """Time of the mark in Unix seconds."""
    details: dict[str, Any] = field(default_factory=dict)
    """Findings of the judge: its criteria one by one, and the model's rubric."""


@dataclass(frozen=True)
class Verdict:
    """Whether an episode counts as solved, and who decided that."""

    says: Literal["solved", "failed"]
    by: Literal["person", "task", "judge"]
    why: str = ""
    when: float | None = None
    """Time of the verdict in Unix seconds; None if it is unknown."""

    @property
    def solved(self) -> bool:
        """Whether the episode counts as solved."""
        return self.says == "solved"


def verdict_of(episode: Episode | str | Path) -> Verdict | None:
    """Return the verdict in force; None if there is none.

    A person's latest mark takes precedence over the score of the episode's task, and the score over the latest mark of
    a judge. A judge's `unknown` cancels earlier marks by judges. A person who recorded an episode and called it solved
    or failed has thereby marked it. Marks count even if the infrastructure failed the episode: a person who marks such
    an episode knows better.

    Args:
        episode: an episode, or its folder.

    Raises:
        EpisodeError: the folder contains no episode, or its marks can't be read.
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
        EpisodeError: the marks are malformed.
    """
    verdict = episode.meta["verdict"]
    if verdict is None:
        return []
    try:
        marks = [Mark(**{key: one[key] for key in Mark.__dataclass_fields__ if key in one}) for one in verdict["marks"]]
    except (TypeError, KeyError):
        marks = None
    if marks is None or not all(map(_sound, marks)):
        raise EpisodeError(f"{episode.folder / 'episode.json'} is damaged: its verdict is malformed.")
    return marks


def mark_episode(folder: str | Path, mark: Mark) -> Verdict | None:
    """Add a mark to a finished episode; return the verdict that is now in force.

    Raises:
        EpisodeError: the episode is missing, unfinished, being written, or was changed or damaged since it ended.
    """

    def add(meta: dict[str, Any]) -> None:
        before = (meta.get("verdict") or {}).get("marks", [])
        meta["verdict"] = {"marks": [*before, asdict(mark)]}

    marks_of(Episode(folder))  # raises if the marks are damaged, before anything is changed
    change_meta(Path(folder), add)
    return verdict_of(folder)


def _own(meta: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict recorded in the episode when it ended; None if there is none."""
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
