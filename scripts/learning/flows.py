"""Measurement of learning from one recording of a flow, and from three of its variations.

The scenarios' oracles make the recordings: episodes in the same format as a person's. Training uses the defaults of
`selfsurf train --demonstrations`, or `--live`. The adapter is tried as by `selfsurf run --adapter`, on seeds that were
neither recorded nor trained on. Every stage saves its result in the folder, so that an interrupted measurement resumes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from selfsurf.browser_env import Outcome
from selfsurf.scripts.learning.stages import MeasureError, Stages
from selfsurf.scripts.terminal.console import progress, training_progress
from selfsurf.sdft.measure.agreement import Agreement
from selfsurf.sdft.measure.statistics import wilson_interval
from selfsurf.tasks.scenarios import FLOWS, SITES, VARIED

if TYPE_CHECKING:
    from selfsurf.sdft.rollouts import Result

Sites: TypeAlias = Literal["known", "new"]
"""Group of sites: `known` ones, on which the method was developed, and `new` ones."""

FIRST_TRY = 3_000_000
"""Seed of the first try."""

PARALLEL = 8
"""Number of concurrent tries."""

MOST_MINUTES = 10.0
"""Target for the wall-clock minutes of a training."""


@dataclass(frozen=True)
class Kind:
    """A kind of measurement: its recordings, its tries, and its target."""

    recordings: int
    end: str
    """Suffix of the scenario's name."""
    target: float
    """Target success rate of the tries."""
    apart: bool = False
    """Whether each recording must make a different choice."""


KINDS = {
    "known": {"again": Kind(1, "", 0.9), "varied": Kind(3, VARIED, 0.8)},
    "new": {"again": Kind(1, "", 0.8), "thrice": Kind(3, "", 0.9, apart=True)},
}
"""Kinds by group of sites. On known sites, the same flow is repeated from one recording, and varied from three. On new
sites, where each seed has its own goal, the flow is learned from one recording, and from three."""

OFFERED = 16
"""Number of seeds searched for recordings with different choices."""


def measure(
    sites: Sites,
    flows: Sequence[str],
    kinds: Sequence[str],
    out: Path,
    *,
    model: str,
    seed: int,
    tries: int,
    live: bool,
    changes: dict[str, Any],
) -> dict[str, Any]:
    """Measure flows.

    Args:
        sites: Group of sites.
        flows: Names of the flows.
        kinds: Names from `KINDS`.
        out: Folder of the measurement.
        model: Model, as for `TransformersPolicy`.
        seed: Seed of training.
        tries: Number of episodes played with the adapter.
        live: Whether training also plays the student's own episodes.
        changes: Training settings that differ from the defaults.

    Returns:
        `rows`: the figures of `_measured` for each flow and kind; `missed`: the names of those that missed a target.

    Raises:
        MeasureError: The folder holds a measurement with other settings.
    """
    rows = []
    for flow in flows:
        for kind in kinds:
            stages = Stages(out / f"{flow}-{kind}")
            how: dict[str, Any] = {"model": model, "seed": seed, "tries": tries, "live": live, "changes": changes}
            stages.settle(how)
            work = partial(_measured, flow, kind, KINDS[sites][kind], stages, **how)
            rows.append(stages.once("figures", work))
    return {"model": model, "rows": rows, "missed": [f"{row['flow']}, {row['kind']}" for row in rows if row["missed"]]}


def _measured(
    flow: str,
    kind: str,
    wanted: Kind,
    stages: Stages,
    *,
    model: str,
    seed: int,
    tries: int,
    live: bool,
    changes: dict[str, Any],
) -> dict[str, Any]:
    """Record, train and try a flow; return the figures.

    Returns:
        `flow`, `kind`, `recordings`, `actions` (recorded), and `right`, the number of them reproduced at the recorded
        pages; `solved` of `tries`, `success` with its 95% interval `low`, `high`; `minutes` of training; `distilled`,
        the
        share of rows learned from the teacher; `wrong`, the number of tries with another result than the goal's;
        `choices`, the training's report on each choice; `target`; `missed`, the missed targets, empty if none.
    """
    from selfsurf import agents
    from selfsurf.scripts.learning.oracles import record
    from selfsurf.sdft import TrainSettings, train
    from selfsurf.sdft.rollouts import Job, Rollouts
    from selfsurf.sdft.rows.jobs import as_recorded, learned_from

    env_id, out = f"Scenario/{flow}{wanted.end}-v0", stages.folder.parent
    with Rollouts(PARALLEL) as rollouts:

        def recorded() -> int:
            jobs = [Job(env_id, number) for number in range(OFFERED if wanted.apart else wanted.recordings)]
            if wanted.apart:
                offered = record(rollouts, jobs, out / "offered")
                jobs = [one.job for one in differing(offered, wanted.recordings)]
            played = record(rollouts, jobs, out / "recordings")
            if missed := [one for one in played if not one.solved]:
                raise MeasureError(
                    f"{env_id}: the oracle solved {len(played) - len(missed)} of {len(played)} episodes to be recorded "
                    f"({missed[0].outcome}: {missed[0].detail}). The same command tries again."
                )
            return len(played)

        stages.once("recorded", recorded)
        learned = (learned_from if live else as_recorded)([out / "recordings"])
        settings = TrainSettings(**{"model": model, "seed": seed, **learned, **changes})
        with training_progress(f"{flow}, {kind}", settings.steps) as update:
            summary = train(settings, out / "training", resume=True, progress=update)
        agent: Any = agents.make("transformers", model=model, adapter=summary["adapter"])
        tried = [Job(env_id, number) for number in range(FIRST_TRY, FIRST_TRY + tries)]
        shutil.rmtree(out / "tries", ignore_errors=True)
        with progress("Tries", tries) as told:
            results = rollouts.run(agent, tried, folder=out / "tries", progress=told)
    judged = [one for one in results if not one.masked]
    solved, done = sum(one.solved for one in judged), Agreement.model_validate(summary["recorded"])
    wrong = sum(one.outcome == Outcome.FAILED for one in judged)
    success, minutes = solved / max(1, len(judged)), summary["seconds"]["total"] / 60
    low, high = wilson_interval(success, len(judged)).ends
    missed = [
        *([f"success {success:.2f}, wanted {wanted.target:g}"] if success < wanted.target else []),
        *([f"{minutes:.1f} minutes, wanted {MOST_MINUTES:g}"] if minutes > MOST_MINUTES else []),
    ]
    return {
        "flow": flow, "kind": kind, "recordings": wanted.recordings, "actions": done.of, "right": done.right,
        "solved": solved, "tries": len(judged), "success": success, "low": low, "high": high, "minutes": minutes,
        "distilled": summary.get("distilled"), "wrong": wrong, "choices": [one.text() for one in done.choices],
        "target": wanted.target, "missed": "; ".join(missed),
    }  # fmt: skip


def differing(offered: Sequence[Result], count: int) -> list[Result]:
    """Choose up to `count` episodes whose results differ as much as possible, so that each option occurs."""
    chosen: list[Result] = []
    known, left = set[tuple[str, str]](), list(offered)
    while left and len(chosen) < count:
        got = [{(key, str(value)) for key, value in (one.score.get("done") or {}).items()} for one in left]
        best = max(range(len(left)), key=lambda number: len(got[number] - known))
        known |= got[best]
        chosen.append(left.pop(best))
    return chosen


def names(sites: Sites) -> list[str]:
    """Return the names of the flows of a group of sites."""
    return [*(FLOWS if sites == "known" else SITES)]
