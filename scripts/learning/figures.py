"""Figures of a comparison, computed from the finished stages of all processes.

A training seed counts once all of its measurements exist; until then it is listed as unfinished.

Success is averaged over tasks and counts every judged episode, which excludes infrastructure failures. Its 95% interval
treats tasks as fixed and resamples training seeds and evaluation seeds (`interval_over_seeds`). The spread of training
seeds is given as their lowest and highest mean. Two arms are compared on the same episodes, with the task as the unit
(`interval_over_tasks`, `sign_flip_over_tasks`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfsurf.scripts.learning.arms import KINDS, SEQUENCES, START, STARTED, UNTRAINED, start_of
from selfsurf.scripts.learning.settings import RATES, LearnSettings, demonstrations, short
from selfsurf.scripts.learning.stages import Stages
from selfsurf.sdft.measure.statistics import (
    Episodes,
    interval_over_seeds,
    interval_over_tasks,
    sign_flip_over_tasks,
    wilson_interval,
)

_SDFT = ("sdft", "sdft-ungated", "sdft-offline", STARTED)


def figures(settings: LearnSettings, out: Path) -> dict[str, Any]:
    """Return the content of `report.json`."""
    stages = Stages(out)
    begun = _arms(out)
    names = {
        name: [seed for seed in seeds if _is_measured(settings, stages, name, seed)] for name, seeds in begun.items()
    }
    episodes = {name: _of_all_seeds(stages, name, settings.tasks, seeds) for name, seeds in names.items()}
    base = _retention(stages, "base")
    arms = {}
    for name, seeds in names.items():
        groups = {"trained": settings.training.tasks, "unseen": settings.unseen_tasks}
        arms[name] = {
            "seeds": seeds,
            "unfinished": [seed for seed in begun[name] if seed not in seeds],
            "tasks": {short(task): _rate({task: episodes[name][task]}) for task in settings.tasks},
            **{group: _rate({task: episodes[name][task] for task in tasks}) for group, tasks in groups.items()},
            "retention": [_change(_retention(stages, _at(name, seed)), base) for seed in seeds],
            "training": [_training(out, stages, _at(name, seed)) for seed in seeds] if name not in UNTRAINED else [],
            "snapshots": [_snapshots(settings, stages, name, seed, base) for seed in seeds],
        }
    return {
        "settings": settings.model_dump(mode="json"),
        "arms": arms,
        "differences": _differences(settings, episodes),
        "sft_learning_rates": stages.done(RATES),
        "sequences": _sequences(settings, out, stages, base),
    }


def _arms(out: Path) -> dict[str, tuple[int, ...]]:
    """Return the training seeds of each arm that was begun; untrained arms have the single seed 0."""
    found: dict[str, tuple[int, ...]] = {}
    for kind in KINDS:
        for folder in sorted((out / "stages").glob(f"{kind}*")):
            if folder.name.partition("+")[0] != kind or kind in SEQUENCES:
                continue
            if seeds := (0,) if kind in UNTRAINED else _seeds(folder):
                found[folder.name] = seeds
    return found


def _seeds(folder: Path) -> tuple[int, ...]:
    return tuple(sorted(int(path.name.removeprefix("seed-")) for path in folder.glob("seed-*")))


def _is_measured(settings: LearnSettings, stages: Stages, name: str, seed: int) -> bool:
    """Whether a training seed is fully measured: success in all tasks and, except for `demonstrated`, retention."""
    wanted = [f"test/{short(task)}" for task in settings.tasks]
    if name != "demonstrated":
        wanted += ["perplexity", "questions"]
    return all(stages.done(f"{_at(name, seed)}/{stage}") is not None for stage in wanted)


def _at(name: str, seed: int) -> str:
    return name if name in UNTRAINED else f"{name}/seed-{seed}"


def _episodes(stages: Stages, at: str, tasks: Sequence[str], seed: int = 0, which: str = "test") -> Episodes:
    """Return the judged episodes of a training seed's stages."""
    results = {task: stages.done(f"{at}/{which}/{short(task)}") or {"episodes": []} for task in tasks}
    return {
        task: {(seed, one["seed"]): one["solved"] for one in result["episodes"] if one["judged"]}
        for task, result in results.items()
    }


def _of_all_seeds(stages: Stages, name: str, tasks: Sequence[str], seeds: Sequence[int]) -> Episodes:
    each = [_episodes(stages, _at(name, seed), tasks, seed) for seed in seeds]
    return {task: {key: solved for one in each for key, solved in one[task].items()} for task in tasks}


def _rate(episodes: Episodes) -> dict[str, Any]:
    """Return the mean success over tasks, its interval, and the mean of every training seed."""
    flags = {task: list(solved.values()) for task, solved in episodes.items() if solved}
    missing = [short(task) for task in episodes if task not in flags]
    if not flags:
        return {"success": None, "low": None, "high": None, "episodes": 0, "missing_tasks": missing, "by_seed": {}}
    seeds = sorted({seed for solved in episodes.values() for seed, _ in solved})
    if len(episodes) == len(seeds) == 1:
        (only,) = flags.values()
        interval = wilson_interval(_mean(only), len(only))
    else:
        interval = interval_over_seeds(episodes)
    by_seed = {}
    for seed in seeds:
        of_seed = [[done for (s, _), done in solved.items() if s == seed] for solved in episodes.values()]
        by_seed[str(seed)] = _mean([_mean(each) for each in of_seed if each])
    return {
        "success": _mean([_mean(each) for each in flags.values()]),
        "low": interval.low,
        "high": interval.high,
        "episodes": sum(map(len, flags.values())),
        "missing_tasks": missing,
        "by_seed": by_seed,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _retention(stages: Stages, name: str) -> dict[str, Any]:
    text, asked = stages.done(f"{name}/perplexity"), stages.done(f"{name}/questions")
    return {
        "perplexity": text and text["perplexity"],
        "accuracy": asked and asked["accuracy"],
        "probability": asked and asked["probability"],
        "questions": asked and len(asked["right"]),
    }


def _change(found: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    known = found["perplexity"] and base["perplexity"]
    return {**found, "rise": found["perplexity"] / base["perplexity"] - 1 if known else None}


def _training(out: Path, stages: Stages, name: str) -> dict[str, Any] | None:
    """Return the figures of a training with its curve; None if it isn't finished."""
    done = stages.done(f"{name}/training")
    if done is None:
        return None
    rates = stages.done(RATES)
    # the folder that `Comparison` reuses for this training
    where = f"{RATES}/{rates['best']:g}" if name == "sft/seed-0" and rates else name
    path = out / "arms" / where / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    rows = [line for line in lines if "loss" in line]  # an evaluation before the first step has a line without a loss
    seconds, before = done["seconds"], _before(stages, name)
    if before:
        seconds = {**seconds, "total": seconds["total"] + before, "before": before}
    return {
        "steps": done["steps"],
        "cut_off": done["cut_off"],
        "learning_rate": done["settings"]["learning_rate"],
        "seconds": seconds,
        "rows": sum(row["rows"] for row in rows),
        "tokens": round(sum(row["rows"] * row["rows/prompt_tokens"] + row["tokens/learned"] for row in rows)),
        "curve": [
            {
                "step": row["step"],
                "seconds": row["seconds"]["total"] + before,
                "loss": row["loss"],
                "success": row.get("episodes/success"),
            }
            for row in rows
        ],
    }


def _before(stages: Stages, name: str) -> float:
    """Return the seconds spent before a training: collecting demonstrations, or training the adapter it continues."""
    kind = name.partition("/")[0].partition("+")[0]
    if kind == STARTED and START not in name:
        start = start_of(name)
        return float(stages.done(f"{start}/training")["seconds"]["total"]) + _before(stages, start)
    if kind not in ("sft", STARTED):
        return 0.0
    collected = demonstrations(stages.done(f"{name}/training")["settings"])
    return stages.seconds[collected] if stages.done(collected) is not None else 0.0


def _snapshots(
    settings: LearnSettings, stages: Stages, name: str, seed: int, base: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return success on validation seeds and retention of a training's snapshots, by step."""
    found = []
    for folder in (stages.folder / _at(name, seed)).glob("step-*"):
        at = f"{_at(name, seed)}/{folder.name}"
        rate = _rate(_episodes(stages, at, settings.training.tasks, which="validation"))
        if rate["success"] is not None and not rate["missing_tasks"]:
            kept = _change(_retention(stages, at), base)
            found.append({"step": int(folder.name.removeprefix("step-")), "success": rate["success"], **kept})
    return sorted(found, key=lambda one: int(one["step"]))


def _differences(settings: LearnSettings, episodes: Mapping[str, Episodes]) -> list[dict[str, Any]]:
    """Compare every kind of SDFT with the other arms, and with `sdft`, on the same episodes of the same seeds."""
    found = []
    of_sdft = [name for name in episodes if name.partition("+")[0] in _SDFT]
    others = [name for name in episodes if name not in of_sdft and name != "demonstrated"]
    groups = {"trained": settings.training.tasks, "unseen": settings.unseen_tasks}
    pairs_of = [
        (first, other) for first in of_sdft for other in [*others, "sdft"] if other != first and other in episodes
    ]
    for (first, other), (group, tasks) in itertools.product(pairs_of, groups.items()):
        pairs = [
            (number, int(solved) - int(beside))
            for number, task in enumerate(tasks)
            for (seed, episode), solved in episodes[first][task].items()
            if (beside := episodes[other][task].get((0 if other == "base" else seed, episode))) is not None
        ]
        if not pairs:
            continue
        numbers, differences = [number for number, _ in pairs], [difference for _, difference in pairs]
        interval = interval_over_tasks(differences, numbers, 1)
        found.append(
            {
                "first": first,
                "other": other,
                "tasks": group,
                "pairs": len(pairs),
                "difference": _mean(differences),
                "low": interval and interval.low,
                "high": interval and interval.high,
                "p": sign_flip_over_tasks(differences, numbers),
            }
        )
    return found


def _sequences(settings: LearnSettings, out: Path, stages: Stages, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return success on both groups of tasks, and retention, before, between and after the two trainings."""
    groups = {"first": settings.first_group, "second": settings.second_group}

    def at(name: str, seed: int) -> dict[str, Any]:
        measured = {group: _rate(_episodes(stages, name, tasks, seed)) for group, tasks in groups.items()}
        return {**measured, "retention": _change(_retention(stages, name), base)}

    found: dict[str, Any] = {}
    for folder in sorted((out / "stages").glob("sequence-*")):
        found[folder.name] = []
        for seed in _seeds(folder):
            turns = {"before": at("base", 0)}
            for when, turn in (("between", "first"), ("after", "second")):
                turns[when] = at(f"{folder.name}/seed-{seed}/{turn}", seed)
            between, after = turns["between"]["first"]["success"], turns["after"]["first"]["success"]
            whole = not any(turns[when]["first"]["missing_tasks"] for when in ("between", "after"))
            kept = after / between if whole and between else None
            found[folder.name].append({"seed": seed, "kept": kept, **turns})
    return found
