"""Measures what is learned from one recording of a flow, and from three of its variations.

The scenarios' oracles make the recordings: episodes in the format that a person's have. Each is trained on as `selfsurf
train --demonstrations` does by default, or with `--live`, and tried as `selfsurf run --adapter` would, on seeds that
nothing was recorded or trained on. Every stage leaves its result in the folder, so that an interrupted measurement
resumes.
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
"""Those that the method was made on, and others."""

FIRST_TRY = 3_000_000
"""Seed of the first try."""

PARALLEL = 8
"""Tries at the same time."""

MOST_MINUTES = 10.0
"""Wall-clock that a training may take."""


@dataclass(frozen=True)
class Kind:
    """What is recorded, tried, and wanted."""

    recordings: int
    end: str
    """Of the scenario's name."""
    target: float
    """Success that is wanted of the tries."""
    apart: bool = False
    """Do the recordings choose otherwise each?"""


KINDS = {
    "known": {"again": Kind(1, "", 0.9), "varied": Kind(3, VARIED, 0.8)},
    "new": {"again": Kind(1, "", 0.8), "thrice": Kind(3, "", 0.9, apart=True)},
}
"""By sites. Those that the method was made on: the same flow again from one recording, variations of it from three.
Others, where each seed has a goal of its own: from one recording, and from three."""

OFFERED = 16
"""Seeds among which recordings that choose otherwise are looked for."""


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
        sites: whose flows.
        flows: their names.
        kinds: of `KINDS`.
        out: folder of the measurement.
        model: as `TransformersPolicy` takes it.
        seed: of training.
        tries: episodes that are tried.
        live: play the student's own episodes, too.
        changes: training settings that are not the defaults.

    Returns:
        `rows`: for each flow and kind what `_measured` returns; `missed`: the names of those that missed a target.

    Raises:
        MeasureError: the folder holds a measurement with other settings.
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
    """Record, train, try; return the figures.

    Returns:
        `flow`, `kind`, `recordings`, `actions` (recorded), `right` of them done at the recorded pages; `solved` of
        `tries`, `success` with its 95% interval `low`, `high`; `minutes` of training; `distilled`: the share of its
        rows that were learned from the teacher; `wrong`: tries that ended with another result than the goal's;
        `choices`: what the training says of each; `target`; `missed`: what of it was missed, empty if nothing.
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
    """Return episodes whose sites got what none of those before has, as far as there are such: each option once."""
    chosen: list[Result] = []
    known, left = set[tuple[str, str]](), list(offered)
    while left and len(chosen) < count:
        got = [{(key, str(value)) for key, value in (one.score.get("done") or {}).items()} for one in left]
        best = max(range(len(left)), key=lambda number: len(got[number] - known))
        known |= got[best]
        chosen.append(left.pop(best))
    return chosen


def names(sites: Sites) -> list[str]:
    """Return the names of flows."""
    return [*(FLOWS if sites == "known" else SITES)]
