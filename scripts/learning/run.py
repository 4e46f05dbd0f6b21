"""Steps of an arm: data, learning rate, training and measurement, each done once (`scripts.learning.stages`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from selfsurf.scripts.learning.arms import OFFLINE, SEQUENCES, STARTED, UNTRAINED, Arm, start_of
from selfsurf.scripts.learning.measure import AdapterMeasurements
from selfsurf.scripts.learning.settings import (
    ALL_GATES_OFF,
    EQUAL_FOR_ALL,
    RATES,
    LearnSettings,
    demonstrations,
    short,
)
from selfsurf.scripts.learning.stages import Stages
from selfsurf.scripts.terminal.console import console, progress, quiet_libraries, training_progress
from selfsurf.sdft.settings import GOING_ON, GRPOSettings, TrainSettings

SFT = Arm("sft")


def check(arm: Arm, settings: LearnSettings, seeds: Iterable[int]) -> None:
    """Check that an arm can be run with these training seeds.

    Raises:
        ValueError: The arm's settings conflict with the comparison, or the seeds overlap with those of evaluation.
    """
    kind = GRPOSettings if arm.kind == "grpo" else TrainSettings
    of_all = {*EQUAL_FOR_ALL, *(LearnSettings.model_fields.keys() - kind.model_fields.keys())}
    if shared := [name for name in arm.training if name in of_all]:
        raise ValueError(f"{arm.name}: {', '.join(shared)} must be equal for all arms; begin another comparison.")
    if arm.kind in SEQUENCES and not settings.first_group:
        raise ValueError(f"{arm.name}: learning in sequence needs at least two tasks; name more.")
    if arm.kind == "sdft-ungated" and all(
        getattr(settings.training, gate) == off for gate, off in ALL_GATES_OFF.items()
    ):
        raise ValueError(
            "These settings switch on no gate, so sdft-ungated would equal sdft: begin a comparison with, for example, "
            "--set min_confidence=0.5."
        )
    settings = settings.changed(**arm.comparison)
    settings.training_for(0, {**(_grpo(settings) if arm.kind == "grpo" else {}), **arm.training}, kind)
    if arm.kind in UNTRAINED:
        return
    groups = (settings.first_group, settings.second_group) if arm.kind in SEQUENCES else (settings.training.tasks,)
    for tasks in groups:
        # The learning rate of SFT is chosen by trainings with seed 0.
        for seed in {*seeds, 0} if arm.asks_for_rate else seeds:
            settings.check_training_seed(seed, tasks)


class Comparison:
    """Runner of a comparison's arms, which trains and measures the unfinished ones.

    Args:
        settings: Settings that all arms share.
        out: Folder of the comparison.
    """

    def __init__(self, settings: LearnSettings, out: Path) -> None:
        self.settings = settings
        self.out = out
        self.stages = Stages(out)
        self.measures = AdapterMeasurements(settings, self.stages)

    def run(self, arm: Arm, seed: int) -> None:
        """Train and measure an arm with a training seed, which untrained arms ignore."""
        quiet_libraries()
        console.print(f"[bold]{arm.name}[/bold], training seed {seed}", highlight=False)
        if arm.kind in UNTRAINED:
            self._untrained(arm)
        elif arm.kind in SEQUENCES:
            self._sequence(arm, seed)
        else:
            self._trained(arm, seed)

    def _untrained(self, arm: Arm) -> None:
        tasks = self.settings.tasks
        self.measures.success(arm.folder, None, tasks, demonstrate=arm.kind == "demonstrated")
        if arm.kind == "base":
            self.measures.retention(arm.folder, None)

    def _trained(self, arm: Arm, seed: int) -> None:
        name = f"{arm.folder}/seed-{seed}"
        if arm == SFT and seed == 0 and len(self.settings.sft_learning_rates) > 1:
            # The training was done when the learning rate was chosen.
            chosen = f"{RATES}/{self._sft_learning_rate():g}"
            self.stages.once(f"{name}/training", lambda: self.stages.done(f"{chosen}/training"))
            adapter = self._folder(chosen) / "adapter"
        else:
            adapter = self._train(name, arm, seed, {**self._changes(arm), **self._data(name, arm, seed)})
        self.measures.success(name, adapter, self.settings.tasks)
        self.measures.retention(name, adapter)
        for snapshot in sorted((adapter.parent / "snapshots").glob("step-*"), key=lambda path: int(path.name[5:])):
            self.measures.success(f"{name}/{snapshot.name}", snapshot, self.settings.training.tasks, validation=True)
            self.measures.retention(f"{name}/{snapshot.name}", snapshot)

    def _sequence(self, arm: Arm, seed: int) -> None:
        changes = self._changes(arm)
        adapter: Path | None = None
        for turn, tasks in (("first", self.settings.first_group), ("second", self.settings.second_group)):
            name = f"{arm.folder}/seed-{seed}/{turn}"
            adapter = self._train(name, arm, seed, {**changes, "tasks": tasks, "start_from": adapter})
            self.measures.success(name, adapter, self.settings.training.tasks)
            self.measures.retention(name, adapter)

    def _data(self, name: str, arm: Arm, seed: int) -> dict[str, Any]:
        """Return the training settings for an arm's initial data: recordings, or an adapter."""
        settings = self.settings.changed(**arm.comparison)
        if arm.kind in OFFLINE:
            recorded = ("demonstration",)
            return {"tasks": (), "episodes": (str(self._recordings(settings, seed)),), "contexts": recorded}
        if arm.kind == STARTED:
            rate = self._sft_learning_rate()
            start = {"steps": settings.start_steps, "learning_rate": rate, "snapshot_every": 0}
            return {"start_from": self._train(start_of(name), SFT, seed, start)}
        return {}

    def _changes(self, arm: Arm) -> dict[str, Any]:
        """Return the training settings that define an arm."""
        own: dict[str, Any] = {"recorded_rows": 0} if arm.kind in OFFLINE else {}
        if arm.is_sft and arm.asks_for_rate:
            own["learning_rate"] = self._sft_learning_rate()
        elif arm.kind == STARTED:
            own = {**GOING_ON, "teacher": "ema", "practice": 0.0}
        elif arm.kind == "sdft-ungated":
            own = ALL_GATES_OFF
        elif arm.kind == "grpo":
            own = _grpo(self.settings)
        return {**own, **arm.training}

    def _sft_learning_rate(self) -> float:
        """Return the learning rate of SFT with the best success on the validation seeds, with training seed 0."""
        rates = self.settings.sft_learning_rates
        if len(rates) == 1:
            return rates[0]
        if self.stages.done(RATES) is None:
            for rate in rates:
                name = f"{RATES}/{rate:g}"
                adapter = self._train(name, SFT, 0, {"learning_rate": rate})
                self.measures.success(name, adapter, self.settings.training.tasks, validation=True)
                self.measures.retention(name, adapter)
        return float(self.stages.once(RATES, self._best_rate)["best"])

    def _best_rate(self) -> dict[str, Any]:
        success = {
            rate: mean_success(
                self.stages.done(f"{RATES}/{rate:g}/validation/{short(task)}") for task in self.settings.training.tasks
            )
            for rate in self.settings.sft_learning_rates
        }
        # A tie goes to the lowest rate, which forgets least.
        best = max(success, key=lambda rate: (success[rate], -rate))
        return {"best": best, "success": {f"{rate:g}": value for rate, value in success.items()}}

    def _train(self, name: str, arm: Arm, seed: int, changes: dict[str, Any]) -> Path:
        """Train an adapter and return its folder."""
        folder = self._folder(name)
        settings = self.settings.training_for(seed, changes, GRPOSettings if arm.kind == "grpo" else TrainSettings)

        def work() -> Any:
            from selfsurf.sdft import train
            from selfsurf.sdft.trainers.grpo import train_grpo
            from selfsurf.sdft.trainers.sft import train_sft

            learn: Callable[..., Any] = train_sft if arm.is_sft else train_grpo if arm.kind == "grpo" else train
            with training_progress(f"{name}: training", settings.steps) as update:
                more = {"rows": self._demonstrations(settings)} if arm.is_sft and not settings.offline else {}
                summary = learn(settings, folder, resume=True, progress=update, **more)
            del summary["model"]
            return summary

        self.stages.once(f"{name}/training", work)
        return folder / "adapter"

    def _demonstrations(self, settings: TrainSettings) -> Path:
        """Return the file with the demonstrations for these settings, collected once."""
        from selfsurf.sdft.trainers.sft import collect

        name = demonstrations(settings.model_dump(mode="json"))
        path = self.out / f"{name}.jsonl"
        self.stages.once(name, lambda: collect(settings, self.measures.model(None), path))
        return path

    def _recordings(self, settings: LearnSettings, seed: int) -> Path:
        """Return the folder with the oracles' episodes for a training seed, recorded once."""
        from selfsurf.scripts.learning.oracles import record
        from selfsurf.sdft.rollouts import Job, Rollouts

        name = f"recordings/seed-{seed}-{settings.recordings}"
        folder, training = self.out / name, settings.training
        jobs = [Job(task, number) for task in training.tasks for number in settings.recorded_range(seed)]

        def recorded() -> dict[str, int]:
            around = training.environment.options()
            with (
                Rollouts(settings.parallel, max_episode_steps=training.max_episode_steps, **around) as rollouts,
                progress(name, len(jobs)) as update,
            ):
                results = record(rollouts, jobs, folder, update)
            return {"episodes": len(jobs), "solved": sum(one.solved for one in results)}

        self.stages.once(name, recorded)
        return folder

    def _folder(self, name: str) -> Path:
        return self.out / "arms" / name


def _grpo(settings: LearnSettings) -> dict[str, Any]:
    return {"learning_rate": settings.grpo_learning_rate, "group_size": settings.group_size}


def mean_success(results: Iterable[dict[str, Any]]) -> float:
    """Return the success rate averaged over tasks, without infrastructure failures."""
    shares = [
        sum(one["solved"] for one in judged) / len(judged)
        for result in results
        if (judged := [one for one in result["episodes"] if one["judged"]])
    ]
    return sum(shares) / len(shares) if shares else 0.0
