"""`selfsurf demo`: a small model learns to use web pages from its own episodes, measured before and after.

Reads top to bottom: measure the base model in three ways, train, measure again, report. Every stage leaves its
result in the output folder, so that a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict
from rich.table import Table

from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.scripts.learning.stages import Stages
from selfsurf.scripts.terminal.console import console, progress, quiet_libraries
from selfsurf.sdft.settings import TrainSettings

TRAINED = ("click-button", "click-link", "click-dialog-2", "click-tab", "click-option")
UNSEEN = ("click-widget", "focus-text-2")


class DemoSettings(BaseModel):
    """What the demonstration measures and trains."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    training: TrainSettings
    """The training run; its tasks are the trained ones."""
    unseen_tasks: tuple[str, ...]
    """Gymnasium ids of tasks that training never sees."""
    first_seed: int = 2_000_000
    """First evaluation seed; training uses seeds from 0 on, so none of these is ever trained on."""
    seeds: int = 40
    """Evaluation seeds a task."""
    free_seeds: int = 8
    """Evaluation seeds a task for free generation, whose every episode runs into the step limit."""
    max_episode_steps: int = 3
    """Step limit of evaluation episodes, the same for every arm; no task here needs more than 2."""
    parallel: int = 8
    """Episodes at the same time."""


def default_settings(model: str, seed: int) -> DemoSettings:
    """Return the settings of the published demonstration."""
    training = TrainSettings(model=model, tasks=tuple(map(_id, TRAINED)), seed=seed)
    return DemoSettings(training=training, unseen_tasks=tuple(map(_id, UNSEEN)))


def main(
    out: Annotated[Path, typer.Option(help="Folder for everything that the run leaves.")] = Path("runs/demo"),
    model: Annotated[str, typer.Option(help="Short name, hub id or folder of the model.")] = "smollm2",
    seed: Annotated[int, typer.Option(help="Seed of the training run.")] = 0,
    seeds: Annotated[int, typer.Option(help="Evaluation seeds a task.", min=1)] = 40,
    steps: Annotated[
        int | None, typer.Option(help="Optimizer steps; the measured default if not given.", min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Evaluate the base model, train it on its own episodes, evaluate again."""
    settings = default_settings(model, seed)
    settings = settings.model_copy(update={"seeds": seeds, "free_seeds": min(seeds, settings.free_seeds)})
    if steps is not None:
        training = settings.training.model_copy(update={"steps": steps})
        settings = settings.model_copy(update={"training": training})
    report = run(settings, out)
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        show(report)
    return 0


def run(settings: DemoSettings, out: Path) -> dict[str, Any]:
    """Run the demonstration, or what is left of it, and return the report that is saved as `report.json`.

    A finished run in `out` is moved aside, as is one with other settings; a half-finished one is gone on with.
    """
    quiet_libraries()
    out = prepare_folder(settings, out)
    stages = Stages(out)

    import torch

    from selfsurf.agents.play.record import versions
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft import train
    from selfsurf.sdft.agent import make_agent
    from selfsurf.sdft.measure.evaluate import evaluate
    from selfsurf.sdft.measure.retention import perplexity
    from selfsurf.sdft.rollouts import Rollouts

    start = time.time()
    with stages.timed("load"):
        policy = TransformersPolicy(settings.training.model)
    trained, tasks = list(settings.training.tasks), [*settings.training.tasks, *settings.unseen_tasks]

    def measure(arm: str, title: str, *, constrained: bool = True, demonstrate: bool = False, seeds: int) -> Any:
        def work() -> Any:
            agent = make_agent(policy, settings.training, sampling=False, constrained=constrained)
            chosen = range(settings.first_seed, settings.first_seed + seeds)
            with (
                progress(title, len(tasks) * seeds) as update,
                Rollouts(settings.parallel, max_episode_steps=settings.max_episode_steps) as rollouts,
            ):
                meta = {"model": settings.training.model, "adapter": "adapter" if arm == "trained" else None}
                return evaluate(
                    agent, rollouts, tasks, chosen, demonstrate=demonstrate, groups={"trained": trained},
                    folder=stages.fresh(out / "episodes" / arm), meta={**meta, "tags": [arm]}, progress=update,
                )  # fmt: skip

        return stages.once(arm, work)

    count = settings.seeds
    before = stages.once("perplexity_before", lambda: perplexity(policy))
    arms = {
        "base, free": measure("free", "Base model, free", constrained=False, seeds=settings.free_seeds),
        "base, constrained": measure("base", "Base model, constrained", seeds=count),
        "base with demonstration": measure(
            "demonstration", "Base model with demonstration", demonstrate=True, seeds=count
        ),
    }

    def learn() -> Any:
        with progress("Training", settings.training.steps) as update:
            summary = train(
                settings.training, out / "training", policy=policy, resume=True,
                progress=lambda step, logs: update(step, note=f"loss {logs['loss']:.3f}"),
            )  # fmt: skip
        del summary["model"]
        return summary

    training = stages.once("training", learn)
    if policy.adapter is None and not hasattr(policy.model, "peft_config"):  # training was done by an earlier start
        policy.set_adapter(out / "training" / "adapter")
    arms["trained"] = measure("trained", "Trained model", seeds=count)
    after = stages.once("perplexity_after", lambda: perplexity(policy))

    gain = arms["trained"]["groups"]["trained"]["success"] - arms["base, constrained"]["groups"]["trained"]["success"]
    report = {
        "settings": settings.model_dump(mode="json"),
        "arms": arms,
        "gain": gain,
        "perplexity": {
            "before": before["perplexity"],
            "after": after["perplexity"],
            "rise": after["perplexity"] / before["perplexity"] - 1,
            "tokens": before["tokens"],
        },
        "training": training,
        "versions": versions(),
        "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "torch_threads": torch.get_num_threads()},
        "seconds": {**stages.seconds, "this_start": round(time.time() - start, 1)},
        "curve": str(draw_curve(out, arms)),
    }
    write_atomically(out / "report.json", json.dumps(report, indent=1))
    return report


def prepare_folder(settings: DemoSettings, out: Path) -> Path:
    """Return `out`, ready for this run: new, or half-finished with the same settings. Nothing is ever deleted."""
    text = settings.model_dump_json(indent=1)
    mark = out / "settings.json"
    if out.exists() and any(out.iterdir()):
        if not mark.exists():
            raise typer.BadParameter(f"{out} holds something else; choose another folder with --out.")
        finished = (out / "report.json").exists()
        if finished or mark.read_text(encoding="utf8") != text:
            stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(mark.stat().st_mtime))
            kept = out.with_name(f"{out.name}-{stamp}-{hashlib.sha256(os.urandom(8)).hexdigest()[:4]}")
            out.rename(kept)
            console.print(f"The earlier run is kept in {kept}.")
        else:
            console.print(f"Going on with the unfinished run in {out}.")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(mark, text)
    return out


def draw_curve(out: Path, arms: dict[str, Any]) -> Path:
    """Draw success and divergence over the training steps, and return the PNG's path."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    lines = (out / "training" / "metrics.jsonl").read_text(encoding="utf8").splitlines()
    rows = [row for row in map(json.loads, lines) if "episodes/success" in row]
    steps = [row["step"] for row in rows]
    success = np.array([row["episodes/success"] for row in rows])
    window = 5
    smooth = [float(success[max(0, i - window + 1) : i + 1].mean()) for i in range(len(success))]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 6), sharex=True)
    top.plot(steps, success, ".", color="tab:blue", alpha=0.4, label="a batch's episodes, sampled")
    top.plot(steps, smooth, color="tab:blue", label=f"mean of {window} batches")
    for arm, colour in (
        ("base, constrained", "tab:gray"),
        ("base with demonstration", "tab:green"),
        ("trained", "tab:red"),
    ):
        level = arms[arm]["groups"]["trained"]["success"]
        top.axhline(level, color=colour, linestyle="--", linewidth=1, label=f"{arm}, greedy, unseen seeds: {level:.2f}")
    top.set_ylabel("success on trained tasks")
    top.set_ylim(-0.03, 1.03)
    top.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)  # above the plot, not over its points
    bottom.plot(steps, [row["loss"] for row in rows], color="tab:orange")
    bottom.set_ylabel("divergence (nats a token)")
    bottom.set_xlabel("optimizer step")
    bottom.set_yscale("log")
    figure.tight_layout()
    path = out / "learning_curve.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def show(report: dict[str, Any]) -> None:
    """Print the table and what it means."""
    arms = report["arms"]
    trained = report["settings"]["training"]["tasks"]
    table = Table(title="Success (raw reward 1) on seeds that training never saw, with 95% intervals")
    table.add_column("task")
    for arm in arms:
        table.add_column(arm, justify="right")
    for task in arms["trained"]["tasks"]:
        cells = [_cell(arm["tasks"][task]) for arm in arms.values()]
        table.add_row(_name(task) + ("" if task in trained else " (never trained)"), *cells)
    table.add_section()
    table.add_row("mean of trained tasks", *(_cell(arm["groups"]["trained"]) for arm in arms.values()))
    text = report["perplexity"]
    empty = [""] * (len(arms) - 2)
    table.add_row(
        "perplexity, general text", f"{text['before']:.2f}", *empty, f"{text['after']:.2f} ({text['rise']:+.1%})"
    )
    from rich.console import Console

    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 150).print(table)
    seconds = report["seconds"]
    print(f"Gain over the constrained base on the trained tasks: {report['gain']:+.2f}")
    print(f"Wall-clock: {sum(v for k, v in seconds.items() if k != 'this_start'):.0f} s, "
          f"of which training {seconds['training']:.0f} s")  # fmt: skip
    folder = Path(report["curve"]).parent
    print(f"Curve: {report['curve']}\nReport: {folder / 'report.json'}\nAdapter: {report['training']['adapter']}")
    print(f"Replay one: {sys.argv[0]} view {folder}/episodes/trained/{trained[0].replace('/', '_')}_"
          f"{report['settings']['first_seed']}")  # fmt: skip


def _cell(rate: dict[str, Any]) -> str:
    if rate["success"] is None:
        return "no data"
    return f"{rate['success']:.2f} [{rate['low']:.2f}, {rate['high']:.2f}]"


def _id(name: str) -> str:
    return f"MiniWoB/{name}-v0"


def _name(task: str) -> str:
    return task.removeprefix("MiniWoB/").removesuffix("-v0")
