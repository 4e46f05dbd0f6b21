"""Training of a verifier, the role that checks an agent's finished work (`agents.roles`), on judged episodes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.browser_env.record.episode import EpisodeError
from selfsurf.sdft.processes import check_alone
from selfsurf.sdft.rows.samples import Sample
from selfsurf.sdft.rows.stored import load_stored
from selfsurf.sdft.rows.verdicts import balanced, claims_of, verdict_rows
from selfsurf.sdft.run.run import TrainOptions, run_training
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.trainers.sft import row_trainer, write_rows


def collect_verdicts(settings: TrainSettings, policy: TransformersPolicy, path: Path) -> dict[str, int]:
    """Write a verifier's rows from recorded episodes to `path`, one per line; return the number of `rows`.

    Raises:
        EpisodeError: no episode was judged solved, or no false claim can be made of the episodes.
    """
    rng = np.random.default_rng(settings.seed)
    episodes, count = load_stored(settings.episodes).episodes, settings.steps * settings.max_rows
    rows: list[Sample] = []
    while len(rows) < count:  # repeated if claims are few, with other premature steps
        claims = claims_of(episodes, rng)
        if not (some := balanced(claims, count - len(rows), rng)):
            break
        rows += verdict_rows(some, policy)
    if not rows:
        raise EpisodeError(
            f"{', '.join(settings.episodes)}: these episodes lack true or false claims "
            f"({sum(one.true for one in claims)} of {len(claims)} claims are true). A verifier learns from both: add "
            "episodes of several steps that were judged solved."
        )
    write_rows(rows, path)
    return {"rows": len(rows)}


def train_verifier(settings: TrainSettings, out: str | Path, **options: Unpack[TrainOptions]) -> dict[str, Any]:
    """Train a verifier's adapter. Files in `out` and the return value are those of `sdft.train`.

    Args:
        settings: `episodes`, `steps`, `max_rows`, the learning rate and its schedule, and the adapter; settings of the
            agent, the teacher and sampling have no effect.
        out: folder of the run.
        options: as with `sdft.train`.

    Raises:
        EpisodeError: the episodes can't teach a verifier.
        ValueError: as with `sdft.train`; or the settings name no `episodes`.
    """
    if not settings.offline:
        raise ValueError("A verifier learns from recorded episodes: give their folders as `episodes`.")
    check_alone("A verifier")
    settings = settings.model_copy(update={"role": "verifier", "evaluate_every": 0})
    made = partial(row_trainer, rows=None, collect=collect_verdicts)
    return run_training(settings, out, lambda *_: made, **options)
