"""Episodes that a run trains on, and settings derived from recordings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfsurf.agents.kinds import KINDS, Labels, Texts
from selfsurf.agents.reply.said import said_in
from selfsurf.browser_env import Action, Fill, Type
from selfsurf.browser_env.record.episode import EpisodeError
from selfsurf.envs_registry import is_open, task_of
from selfsurf.sdft.rollouts import Job
from selfsurf.sdft.rows.stored import State, divide, load_stored, recordings_of, states_of, turns
from selfsurf.sdft.rows.stored_states import StateJob
from selfsurf.sdft.rows.variation import labelled_alike, turns_of
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.recording import Recording, load_recordings

_AS_DONE = {"episodes_per_step": 2, "max_rows": 4, "rehearsal": 0.1}
"""Settings of a run with demonstrations, which learns mostly from recorded steps and little from the student's own.
Includes rehearsal, because learning recorded actions causes as much forgetting as SFT."""

_RECORDED = {
    "episodes_per_step": 1, "max_rows": 2, "rehearsal": 0.3, "rehearsal_rows": 1, "evaluate_every": 20,
}  # fmt: skip
"""Settings of a run that learns demonstrations without playing."""

LABELS: tuple[Labels, Labels] = ("fields", True)
"""Values of `labels` in runs without playing: `"fields"`, or True if the recordings are `labelled_alike`. A model fills
a field more reliably after writing its label, and finds an element that the goal names more reliably by name than by
number. If labels vary, however, it tends to write a recorded name instead of a new one."""

ROWS, ROWS_A_STEP = (8, 12), 0.4
"""Minimum and maximum number of recorded rows in an optimizer step, and rows per recorded step, in runs without
playing."""

STEPS, TIMES = (36, 64), (25, 10)
"""Minimum and maximum number of optimizer steps in runs without playing, and repetitions of each recorded step (fewer
if the recordings are `labelled_alike`). If they are, more important steps (`variation.TURNS`, `CHOSEN`) are repeated
more often, and several recordings share the repetitions of one."""

WRITTEN = 64
"""Minimum token budget of a reply in runs without playing, since labels take tokens."""

BESIDE_TEXT = 24
"""Number of reply tokens allowed in addition to one per character of the typed text."""


def training_jobs(settings: TrainSettings) -> list[Job]:
    """Return the episodes of a run in order: every batch cycles through the tasks or the demonstrations."""
    count = settings.steps * settings.episodes_per_step
    tasks = settings.tasks
    if settings.offline:
        return [*state_jobs(settings, offline_states(settings)[0])]
    if not tasks:
        shown = [Job(recording.env_id, recording.seed) for recording in load_recordings(settings.demonstrations)]
        return [shown[i % len(shown)] for i in range(count)]
    return [Job(tasks[i % len(tasks)], settings.first_episode_seed + i // len(tasks)) for i in range(count)]


def state_jobs(settings: TrainSettings, states: Sequence[State]) -> list[StateJob]:
    """Return the jobs of an offline run in order, evenly over the tasks of the states."""
    places = {id(state): place for place, state in enumerate(states)}
    drawn = turns(states, settings.steps * settings.episodes_per_step, settings.seed)
    return [StateJob(state.episode.env_id, state.episode.seed, places[id(state)]) for state in drawn]


def site_of(job: Job) -> str:
    """Return the start page of an open-ended episode; empty for a task, whose environment provides the site."""
    return task_of(job.env_id).start_url or "a blank page" if is_open(job.env_id) else ""


def check_live(settings: TrainSettings, jobs: Sequence[Job]) -> None:
    """Refuse to play on a site only because a recording names it: the site may be real, or a service on this machine.

    Raises:
        ValueError: episodes would be played there.
    """
    played = not (settings.live or settings.tasks or settings.offline)
    sites = sorted({site_of(job) for job in jobs} - {""}) if played else []
    if sites:
        raise ValueError(
            f"A recording alone doesn't permit playing on {', '.join(sites[:3])}. Set live=True to permit it, or give "
            "episodes=(FOLDER, ...) instead of demonstrations to learn without playing."
        )


def offline_states(settings: TrainSettings, *, images: bool = False) -> tuple[list[State], list[State]]:
    """Return the recorded states that a run learns from, and the states held out for its evaluations.

    A held-out state is dropped if the same action on the same page is also learned, because runs of one task and seed
    begin alike.

    Args:
        settings: settings of the run.
        images: whether to load screenshots, for a vision model.

    Raises:
        EpisodeError: there are no states to learn from.
    """
    kinds = settings.actions
    stored = load_stored(settings.episodes, images=images, hindsight=settings.looks_back)
    teaching = stored.teaching(kinds)
    learned, held = divide(teaching) if settings.evaluate_every else (teaching, [])
    if not learned:
        raise EpisodeError(f"None of the recorded actions is of a kind offered to the student: {', '.join(kinds)}.")
    states = states_of(learned, kinds)
    known = {one.place for one in states}
    return states, [one for one in states_of(held, kinds) if one.place not in known]


def trained_tasks(settings: TrainSettings) -> list[str]:
    """Return the tasks that a run trains on: its own, or those of its demonstrations."""
    return list(dict.fromkeys(settings.tasks or (job.env_id for job in training_jobs(settings))))


def learned_offline(episodes: Sequence[str | Path], *, hindsight: bool = False) -> dict[str, Any]:
    """Return the settings of an offline run on recorded episodes, with their kinds of actions and length.

    Args:
        episodes: folders of the episodes.
        hindsight: whether the run also learns in hindsight.

    Raises:
        EpisodeError: there is nothing to learn from in these folders.
    """
    teaching = load_stored(episodes, hindsight=hindsight).teaching()
    longest = max(len(one.steps) for one in teaching)
    done = _as_long_and_of_the_kinds([state.shown for state in states_of(teaching)], longest)
    return {"steps": 40, "episodes": tuple(map(str, episodes)), **done}


def as_recorded(demonstrations: Sequence[str | Path], *, hindsight: bool = False) -> dict[str, Any]:
    """Return the settings of a run that learns demonstrations as they were recorded, without playing.

    Args:
        demonstrations: folders of the demonstrations.
        hindsight: whether to learn from failed runs among them, as in `learned_offline`.

    Raises:
        EpisodeError: there is nothing to learn from in these folders.
    """
    learned = learned_offline(demonstrations, hindsight=hindsight)
    teaching = load_stored(demonstrations, hindsight=hindsight).teaching()
    recordings = recordings_of(teaching)
    alike = labelled_alike(recordings)
    shared = len(recordings) if alike else 1
    rows = _between(ROWS, ROWS_A_STEP * len(states_of(teaching)) / shared)
    steps = _between(STEPS, TIMES[alike] * len(turns_of(recordings)) / shared / rows)
    more = {
        "labels": LABELS[alike],
        "texts": texts_of(recordings),
        "max_new_tokens": max(learned["max_new_tokens"], WRITTEN),
    }
    return {**learned, **_RECORDED, **more, "recorded_rows": rows, "steps": steps}


def texts_of(recordings: Sequence[Recording]) -> Texts:
    """Return the value of `texts` for recordings: "goal" if the goals quote all typed texts, else "free"."""
    typed = [
        (shown.action.text, recording.goal)
        for recording in recordings
        for shown in recording.steps
        if isinstance(shown.action, Fill | Type)
    ]
    return "goal" if typed and all(text in said_in(goal) for text, goal in typed) else "free"


def _between(bounds: tuple[int, int], wanted: float) -> int:
    return min(bounds[1], max(bounds[0], round(wanted)))


def learned_from(demonstrations: Sequence[str | Path]) -> dict[str, Any]:
    """Return the settings of a run that learns from recorded episodes, with their kinds of actions and length.

    Most of it is learned from the recorded steps; few episodes of the student's own are played.

    Raises:
        EpisodeError: one of the folders contains no usable episode.
    """
    recordings = load_recordings(demonstrations)
    done = [shown.action for recording in recordings for shown in recording.steps if shown.sayable]
    longest = max(len(recording.steps) for recording in recordings)
    return {
        "steps": 40,
        **_AS_DONE,
        "contexts": ("demonstration",),
        "demonstrations": tuple(str(folder) for folder in demonstrations),
        **_as_long_and_of_the_kinds(done, longest),
    }


def _as_long_and_of_the_kinds(done: Sequence[Action], longest: int) -> dict[str, Any]:
    fields = TrainSettings.model_fields
    known = fields["actions"].default
    kinds = sorted({one.name for one in done} - {*known, "upload"})
    texts = [len(getattr(one, name, "")) for one in done for name in ("text", "answer")]
    return {
        "actions": (*known, *(name for name in kinds if name in KINDS)),
        "max_episode_steps": max(fields["max_episode_steps"].default, longest),
        "max_new_tokens": max(fields["max_new_tokens"].default, max(texts, default=0) + BESIDE_TEXT),
    }
