"""`selfsurf deploy`: train an adapter from recorded episodes on a server."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from pydantic import Field, ValidationError

from selfsurf.scripts.terminal.arguments import Model, Set, read_set, wrong_settings
from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.console import console, progress, quiet_libraries, training_progress
from selfsurf.scripts.terminal.interrupts import Interrupts
from selfsurf.scripts.terminal.server import ServerArguments

if TYPE_CHECKING:
    pass


class Settings(ServerArguments):
    """Options of `selfsurf deploy`: the episodes, the training, and the adapter's folder."""

    episodes: tuple[Path, ...] = ()
    """Folder of one or more episodes, uploaded with their pages and screenshots. Repeatable."""
    adapter_name: str = "adapter"
    """Name of the adapter on the server: lowercase letters, digits, - and _."""
    model: Model = "smollm2"
    steps: int | None = Field(default=None, ge=1)
    """Number of optimizer steps; 40 if not given."""
    seed: int = Field(default=0, ge=0)
    """Seed of all random numbers."""
    set_: Set = Field(default_factory=list)
    """Further training setting that the server accepts from clients, name=value, such as ema_alpha=0.01. Repeatable."""
    enrich: bool = False
    """Let the server's large model explain the demonstrations; page contents are sent to it."""
    to: Literal["peft", "mlx"] = "peft"
    """Format of the adapter: PEFT's, or MLX's for a Mac."""
    out: Path | None = None
    """Folder of the adapter; adapters/NAME if not given."""


@command
def main(settings: Settings) -> int:
    """Upload episodes, follow the training of an adapter on them, download the adapter and check it.

    After an interruption at any point, the same command resumes. Exit code 0: the adapter is complete, and acts as it
    did on the server; 1: the server can't be reached or refuses, or the training failed; 130 after Ctrl-C: the training
    continues on the server.
    """
    quiet_libraries()
    from selfsurf.sdft.rows.stored import load_stored
    from selfsurf.sdft.service.archive import ArchiveError
    from selfsurf.sdft.service.client import ServiceError, episode_id
    from selfsurf.sdft.service.deploy import deploy
    from selfsurf.sdft.service.schemas import MOST_EPISODES, Hyperparameters, TrainRequest

    if not settings.episodes:
        raise typer.BadParameter("--episodes: name the folders of the recorded episodes to learn from.")
    given = read_set(settings.set_)
    for name in ("seed", "steps"):
        if name in given:
            raise typer.BadParameter(f"--set {name}: give --{name} instead.")
    given["seed"] = settings.seed
    if settings.steps is not None:
        given["steps"] = settings.steps
    try:
        chosen = Hyperparameters.model_validate(given)
        TrainRequest(episodes=(f"ep-{'0' * 32}",), adapter=settings.adapter_name)
    except ValidationError as error:
        raise typer.BadParameter(wrong_settings(error, Hyperparameters.model_fields)) from None
    stored = load_stored(settings.episodes, hindsight=chosen.hindsight)
    console.print(stored.text(), markup=False, highlight=False)
    folders = [one.folder for one in stored.episodes]
    if len(folders) > MOST_EPISODES:
        raise typer.BadParameter(
            f"--episodes: {len(folders):,} episodes are given; one training takes at most {MOST_EPISODES:,}."
        )
    try:
        for folder in folders:
            episode_id(folder)
    except ArchiveError as error:
        raise typer.BadParameter(f"--episodes: {error}") from None
    here = Path(settings.model).expanduser()
    model = (here.resolve().name, str(here)) if here.is_dir() else (settings.model, settings.model)
    out = settings.out or Path("adapters", settings.adapter_name)
    with Interrupts() as interrupts, settings.client() as client, _DeploymentProgress() as shown:
        try:
            done = deploy(
                client, folders, settings.adapter_name, out, shown, model=model, settings=chosen, form=settings.to,
                enrich=settings.enrich,
            )  # fmt: skip
        except (ServiceError, ArchiveError) as error:
            shown.close()
            console.print(str(error), style="red", markup=False)
            return 1
        except KeyboardInterrupt:
            shown.close()
            console.print("Interrupted. The training continues on the server; the same command follows it again.")
            return interrupts.exit_code or 130
    done["run"] = shlex.join(_run_command(settings, folders[0], out))
    if settings.as_json:
        print(json.dumps(done, indent=1))
    else:
        print(f"Adapter: {done['adapter']}. {done['probe']}\nRun it: {done['run']}")
    return 0


def _run_command(settings: Settings, folder: Path, out: Path) -> list[str]:
    """Return the command that runs the adapter on the goal or task of the first episode."""
    from selfsurf.browser_env.record.episode import Episode

    meta = Episode(folder).meta
    if meta["env_id"] == "Browser-v0":
        what = ["--goal", meta["goal"], *(["--url", meta["url"]] if meta["url"] else [])]
    else:
        what = ["--task", meta["task"] or meta["env_id"]]
    backend = ["--backend", "mlx"] if settings.to == "mlx" else []
    model = [] if settings.model == Settings.model_fields["model"].default else ["--model", settings.model]
    return ["selfsurf", "run", *what, *backend, *model, "--adapter", str(out)]


class _DeploymentProgress(contextlib.ExitStack):
    """Progress bars of a deployment, one at a time."""

    def stage(self, title: str, total: int) -> Callable[..., None]:
        """Close the current bar and open the next; return its update callback."""
        self.close()
        if title != "Training":
            return self.enter_context(progress(title, total))
        update = self.enter_context(training_progress(title, total))
        return lambda step, figures: update(step, _figures(figures))

    def said(self, text: str) -> None:
        """Print a message from the server to stderr."""
        print(f"Server: {text}", file=sys.stderr)


def _figures(figures: Mapping[str, Any]) -> dict[str, float]:
    return {"loss": float("nan"), **figures}
