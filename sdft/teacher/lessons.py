"""Combination of the contexts into one text about a step, at the end of the teacher's prompt and never truncated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from selfsurf.agents.play.job import Result
from selfsurf.sdft.teacher.context import PrivilegedContext, TeacherContext
from selfsurf.sdft.teacher.enrich import Enricher


class LessonContext:
    """The teacher's context for the steps of episodes.

    Every context contributes its text, but only the first context with an action presents it, because a teacher with
    two different actions follows neither. The action comes last, where a model attends to it most.

    Args:
        contexts: contexts in order of precedence.
        enricher: source of explanations; None for none.
    """

    def __init__(self, contexts: Sequence[TeacherContext], enricher: Enricher | None = None) -> None:
        self.contexts = tuple(contexts)
        self._enricher = enricher
        self._counts: Counter[str] = Counter()

    @property
    def come_later(self) -> bool:
        """Whether the contexts may be empty at first and get information later in the run."""
        return any(context.comes_later for context in self.contexts)

    def of(self, results: Sequence[Result], batch: int = 0) -> list[list[PrivilegedContext | None]]:
        """Return the teacher's context of every step of every episode; None for a step without any.

        Args:
            results: episodes of a batch.
            batch: number of the batch, from 0.
        """
        for context in self.contexts:
            context.learn(results, batch)
        lessons = [[self._told(result, index) for index in range(len(result.steps))] for result in results]
        if self._enricher is not None:
            lessons = self._enricher.enrich(results, lessons)
        return [[_joined(said) for said in steps] for steps in lessons]

    def take_counts(self) -> dict[str, int]:
        """Return each context's number of steps since the last call, and the counts of the enricher."""
        counts = {f"told/{context.name}": self._counts[context.name] for context in self.contexts}
        self._counts.clear()
        return counts if self._enricher is None else {**counts, **self._enricher.take_counts()}

    def _told(self, result: Result, index: int) -> dict[str, PrivilegedContext]:
        """Return a step's information by context, with at most one action, placed last; empty for an unsampled step."""
        if not result.steps[index].decision.completion.token_ids:
            return {}
        said: dict[str, PrivilegedContext] = {}
        named: dict[str, PrivilegedContext] = {}
        for context in self.contexts:
            told = context.tell(result, index)
            if told is None or (told.action is not None and named):
                continue
            (said if told.action is None else named)[context.name] = told
        self._counts.update([*said, *named])
        return {**said, **named}


def _joined(said: dict[str, PrivilegedContext]) -> PrivilegedContext | None:
    if not said:
        return None
    parts = list(said.values())
    return PrivilegedContext("\n".join(part.text for part in parts), parts[-1].action)
