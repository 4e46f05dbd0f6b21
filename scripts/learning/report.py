"""Report of a comparison as Markdown, with tables that the terminal shows, too."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.scripts.learning.arms import UNTRAINED
from selfsurf.scripts.learning.curves import draw
from selfsurf.scripts.learning.figures import figures
from selfsurf.scripts.learning.settings import LearnSettings, short
from selfsurf.scripts.report.formats import NONE
from selfsurf.scripts.report.markdown import table

ARM_HEADS = ("arm", "training seeds", "trained tasks", "spread", "unseen tasks", "perplexity", "questions", "minutes",
             "steps", "rows", "tokens")  # fmt: skip


def write_report(settings: LearnSettings, out: Path) -> dict[str, Any]:
    """Write `report.json`, `report.md` and the plots of the finished measurements, and return the figures."""
    found = figures(settings, out)
    found["curves"] = [path.name for path in draw(found, out)]
    write_atomically(out / "report.json", json.dumps(found, indent=1))
    write_atomically(out / "report.md", markdown(found))
    return found


def markdown(found: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    settings = found["settings"]
    training = settings["training"]
    lines = [
        "# Ways to learn, compared",
        "",
        f"{training['model']}; {len(training['tasks'])} trained and {len(settings['unseen_tasks'])} unseen tasks; "
        f"{settings['seeds']} evaluation seeds per task from {settings['first_seed']} on, greedy, at most "
        f"{settings['evaluation_steps']} steps. Success has a 95% interval from resampling evaluation seeds and, if "
        "there are several, training seeds; with two or three training seeds their variation is poorly known. The "
        "spread is the range of the means of the training seeds. Perplexity is that of general text, with its rise "
        "over the base model. Minutes are per training (*: the limit on minutes ended one). They include SFT's "
        "demonstrations and sft-sdft's SFT, but neither the choice of SFT's learning rate nor the recordings of "
        "offline arms. The limit applies to training alone.",
        *table(ARM_HEADS, arm_rows(found)),
        "## By task",
        *table(("task", *found["arms"]), _task_rows(found)),
    ]
    if found["differences"]:
        lines += [
            "## Differences",
            "",
            "Arms are compared on the same episodes, with the task as the unit: the interval comes from resampling "
            "tasks, p from flipping signs. With one training seed, a difference says nothing about other trainings.",
            *table(("arms", "tasks", "pairs", "difference", "95% interval", "p"), _difference_rows(found)),
        ]
    if found["sft_learning_rates"]:
        rates = found["sft_learning_rates"]
        tried = ", ".join(f"{rate}: {success:.3f}" for rate, success in rates["success"].items())
        lines += [
            "## Learning rate of SFT",
            "",
            f"Success on validation seeds: {tried}. Chosen: {rates['best']:g}.",
            "",
        ]
    if found["sequences"]:
        heads = (
            "arm",
            "seed",
            "when",
            "first group",
            "second group",
            "perplexity",
            "questions",
            "first group retained",
        )
        lines += ["## Groups learned in sequence", *table(heads, _sequence_rows(found))]
    lines += [f"![{name}]({name})" for name in found["curves"]]
    return "\n".join(lines).rstrip() + "\n"


def arm_rows(found: dict[str, Any]) -> list[list[str]]:
    """Return one row per arm, under `ARM_HEADS`."""
    rows = []
    for name, arm in found["arms"].items():
        trainings = [training for training in arm["training"] if training]
        by_seed = list(arm["trained"]["by_seed"].values())
        minutes = _number([training["seconds"]["total"] / 60 for training in trainings], "{:.1f}")
        rows.append(
            [
                name,
                _seeds(name, arm),
                _rate(arm["trained"]),
                f"{min(by_seed):.2f} to {max(by_seed):.2f}" if len(by_seed) > 1 else NONE,
                _rate(arm["unseen"]),
                _perplexity(arm["retention"]),
                _number([kept["accuracy"] for kept in arm["retention"]], "{:.2f}"),
                minutes + "*" * any(training["cut_off"] for training in trainings),
                *(_number([one[what] for one in trainings], "{:,.0f}") for what in ("steps", "rows", "tokens")),
            ]
        )
    return rows


def _seeds(name: str, arm: dict[str, Any]) -> str:
    """Return the counted and unfinished training seeds; a dash for an untrained arm."""
    if name in UNTRAINED:
        return "unfinished" if arm["unfinished"] else NONE
    counted, unfinished = (", ".join(map(str, arm[which])) for which in ("seeds", "unfinished"))
    return "; ".join(part for part in (counted, unfinished and f"unfinished: {unfinished}") if part)


def _task_rows(found: dict[str, Any]) -> list[list[str]]:
    settings, arms = found["settings"], found["arms"].values()
    titles = {short(task): short(task) for task in settings["training"]["tasks"]}
    titles |= {short(task): f"{short(task)} (unseen)" for task in settings["unseen_tasks"]}
    return [[title, *(_rate(arm["tasks"][task]) for arm in arms)] for task, title in titles.items()]


def _difference_rows(found: dict[str, Any]) -> list[list[str]]:
    rows = []
    for one in found["differences"]:
        interval = NONE if one["low"] is None else f"{one['low']:+.3f} to {one['high']:+.3f}"
        names, difference = f"{one['first']} less {one['other']}", f"{one['difference']:+.3f}"
        rows.append([names, one["tasks"], str(one["pairs"]), difference, interval, f"{one['p']:.3g}"])
    return rows


def _sequence_rows(found: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name, runs in found["sequences"].items():
        for run, when in itertools.product(runs, ("before", "between", "after")):
            at, kept = run[when], run["kept"]
            knows = [_perplexity([at["retention"]]), _number([at["retention"]["accuracy"]], "{:.2f}")]
            of_first = f"{kept:.0%}" if when == "after" and kept is not None else ""
            rows.append([name, str(run["seed"]), when, _rate(at["first"]), _rate(at["second"]), *knows, of_first])
    return rows


def _rate(rate: dict[str, Any]) -> str:
    if rate["success"] is None:
        return NONE
    missing = f" ({len(rate['missing_tasks'])} tasks missing)" if rate["missing_tasks"] else ""
    return f"{rate['success']:.2f} [{rate['low']:.2f}, {rate['high']:.2f}]{missing}"


def _perplexity(kept: Sequence[dict[str, Any]]) -> str:
    known = [one for one in kept if one["rise"] is not None]
    if not known:
        return _number([one["perplexity"] for one in kept], "{:.2f}")
    rises = [one["rise"] for one in known]
    rise = f"{sum(rises) / len(rises):+.1%}"
    if len(rises) > 1:
        rise += f", {min(rises):+.1%} to {max(rises):+.1%}"
    return f"{_number([one['perplexity'] for one in known], '{:.2f}')} ({rise})"


def _number(values: Sequence[float | None], write: str) -> str:
    known = [value for value in values if value is not None]
    return write.format(sum(known) / len(known)) if known else NONE
