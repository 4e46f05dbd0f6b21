"""`selfsurf train`: train an adapter by SDFT on tasks, or on recorded episodes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer
from pydantic import Field, ValidationError

from selfsurf.scripts.terminal.agent_options import check_model
from selfsurf.scripts.terminal.arguments import (
    Model,
    Set,
    check_browser,
    check_tasks,
    import_trusted,
    make_folder,
    print_settings,
    read_set,
    settings_of,
    wrong_settings,
)
from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.console import console, quiet_libraries, remarks, training_progress
from selfsurf.scripts.terminal.environment import EnvironmentArguments, environment_options, tell_confirmation
from selfsurf.scripts.terminal.interrupts import Interrupts

ELSEWHERE = {"tasks": "arguments", "model": "--model", "steps": "--steps", "seed": "--seed",
             "environment": "--profile, --secret and the like"}  # fmt: skip
"""Settings that `--set` refuses, with the option to use instead."""

PERPLEXITY_RISE = 0.05
"""Relative rise of perplexity above which a warning is printed; chosen, not measured."""


def _list_settings(wanted: bool) -> bool:
    """Print the settings with their defaults and descriptions, and exit."""
    if not wanted:
        return False
    from selfsurf.sdft.settings import fields

    print_settings(
        (name, field.default, field.description or "") for name, field in fields().items() if name not in ELSEWHERE
    )
    raise typer.Exit


class Settings(EnvironmentArguments):
    """Options of `selfsurf train`: the training data, the model, and the output."""

    table: ClassVar[str] = "train"

    tasks: Annotated[tuple[str, ...], typer.Argument()] = ()
    """Ids such as MiniWoB/click-link-v0, file.py:Class, or a suite; the tasks of --demonstrations if not given."""
    out: Path = Path("runs/train")
    """Folder for adapter, checkpoints and metrics."""
    demonstrations: tuple[Path, ...] = ()
    """Folder of one or more recorded episodes that reached their goal, to learn from and to play."""
    episodes: tuple[Path, ...] = ()
    """Folder of one or more episodes by any player; those judged solved are learned from. With --offline."""
    offline: bool = False
    """Train on the states recorded in --episodes or --demonstrations, without a browser or a site."""
    trust: tuple[str, ...] = ()
    """Trusted file or module that the tasks of recorded episodes may be imported from; importing it runs its code. By
    default nothing is imported for an episode. Repeatable."""
    verifier: bool = False
    """Train the verifier of an agent of roles, which checks the agent's claim to be done, on the outcomes of
    --episodes."""
    live: bool = False
    """Allow --demonstrations to be played on the site where they were recorded."""
    backend: Literal["auto", "torch", "mlx"] = "auto"
    """Training library; auto for the one that began the run, else MLX on Apple silicon, torch elsewhere."""
    adapter_path: Path | None = None
    """Folder for the adapter in MLX's format as well; with MLX adapters/local if not given. An existing adapter is
    replaced."""
    model: Model = "smollm2"
    steps: int | None = Field(default=None, ge=1)
    """Number of optimizer steps; if not given 28, and with recordings 36 to 64, depending on their content."""
    seed: int = 0
    """Seed of all random numbers."""
    set_: Set = Field(default_factory=list)
    """Further setting, name=value; the value is JSON, or text if it isn't valid JSON. --settings lists the settings.
    Repeatable."""
    enrich: bool | None = None
    """Let Nemotron Ultra 253B explain demonstrations to the teacher, over NVIDIA NIM with NVIDIA_API_KEY, or the model
    in `--set enrich=...`; page contents are sent there."""
    export: Path | None = None
    """Folder of a killed training: its last checkpoint is exported as the adapter, and nothing is trained."""
    resume: bool = False
    """Resume from the last checkpoint in --out."""
    push_to_hub: str = ""
    """Repository on the Hugging Face hub, such as me/links, for the adapter; a new one is private."""
    list_settings: Annotated[bool, typer.Option("--settings", is_eager=True, callback=_list_settings)] = False
    """List the settings that --set can change."""


@command
def main(settings: Settings) -> int:
    """Train an adapter on the model's own episodes, taught by oracles, recorded episodes, or their outcomes.

    Exit code 0: the adapter is complete; 1: the run failed with a message; 2: an option is invalid; 130 after Ctrl-C
    and 143 after a SIGTERM: the adapter is that of the last checkpoint, from which --resume resumes.
    """
    if settings.export is not None:
        code = _exported(settings.export, as_json=settings.as_json)
        if not code:
            console.print("To resume the training from there, repeat its command with --resume.")
        return code
    settings = _with_all_folders(settings)
    _check_out(settings)
    quiet_libraries()
    tasks = check_tasks(settings.tasks)
    import_trusted(settings.trust)
    from selfsurf.agents.adapters.hub import HubError, check_push, push
    from selfsurf.agents.model_files import ModelError
    from selfsurf.browser_env.record.episode import EpisodeError
    from selfsurf.scripts.training.backends import LOCAL, check_replaceable, chosen_backend, write_mlx_form
    from selfsurf.sdft.mlx.library import check_mlx
    from selfsurf.sdft.rows.jobs import trained_tasks
    from selfsurf.sdft.run.contexts import make_contexts
    from selfsurf.sdft.settings import TrainSettings, fields
    from selfsurf.sdft.teacher.enrich import Enricher

    more = read_set(settings.set_)
    for name, instead in ELSEWHERE.items():
        if name in more:
            raise typer.BadParameter(f"--set {name}: give {instead} instead.")
    if settings.enrich:
        more.setdefault("enrich", {})
    elif settings.enrich is False:
        more.pop("enrich", None)
    try:
        named = settings.model_dump(include={"model", "steps", "seed"}, exclude_none=True)
        try:
            shown = _shown(settings, hindsight="hindsight" in str(more.get("contexts")))
        except EpisodeError as error:
            option = "--episodes" if settings.episodes else "--demonstrations"
            raise typer.BadParameter(f"{option}: {error}") from None
        environment = {} if shown.get("episodes") else settings.environment.given()
        common = {"tasks": tasks, **named, "environment": environment}
        training = settings_of(TrainSettings, {**shown, **common, **more}, settings.set_)
    except ValidationError as error:
        raise typer.BadParameter(wrong_settings(error, fields())) from None
    elsewhere = bool(training.rollouts.workers)
    if not training.offline:
        around = environment_options(training.environment, elsewhere=elsewhere)
        if not elsewhere:
            check_browser(headless=True, around=around)
    check_tasks((*training.evaluate_tasks, *(() if training.offline else trained_tasks(training))))
    try:
        make_contexts(training)
        if training.enrich is not None:
            Enricher(training.enrich).close()
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None
    check_model(training.model, training.start_from)
    asked = "torch" if settings.verifier and settings.backend == "auto" else settings.backend
    backend, why = chosen_backend(asked, settings.out if settings.resume else None)
    mlx_form = settings.adapter_path or (LOCAL if backend == "mlx" else None)
    try:
        check_replaceable(mlx_form)
        if backend == "mlx":
            check_mlx(training)
    except (ValueError, ModelError) as error:
        raise typer.BadParameter(str(error)) from None
    out, steps, repo = settings.out, training.steps, settings.push_to_hub
    if repo:
        try:
            check_push(repo)
        except HubError as error:
            raise typer.BadParameter(f"--push-to-hub: {error}") from None
    if not training.offline:
        tell_confirmation(settings)
    make_folder(out)
    from selfsurf.sdft import train
    from selfsurf.sdft.processes import is_first
    from selfsurf.sdft.rollouts import RolloutError
    from selfsurf.sdft.run.checkpoint_files import last_step
    from selfsurf.sdft.run.folder import OtherRun

    if is_first():
        console.print(f"Learning with {'MLX' if backend == 'mlx' else backend}: {why}.", highlight=False, markup=False)
    spoken = remarks("selfsurf.sdft") if is_first() else nullcontext()  # on several ranks, only the first prints
    with Interrupts() as interrupts:
        try:
            with spoken, training_progress("Training", steps, still=bool(training.environment.asks)) as update:
                summary = train(training, out, backend=backend, resume=settings.resume, progress=update)
        except OtherRun as error:
            raise typer.BadParameter(f"--out: {error}") from None
        except (ValueError, RolloutError) as error:
            console.print(str(error), style="red")
            return 1
        except KeyboardInterrupt:
            last = last_step(out)
            if last is None:
                console.print("Interrupted in the first step. The same command starts again from the beginning.")
            else:
                if is_first():
                    _exported(out)
                console.print(f"Interrupted. The same command with --resume resumes from step {last} of {steps}.")
            return interrupts.exit_code or 130
    if not is_first():
        return 0
    del summary["model"]
    code = 0
    if mlx_form is not None:
        summary["mlx_adapter"] = str(write_mlx_form(Path(summary["adapter"]), mlx_form, training.model))
    if repo:
        try:
            summary["hub"] = push(summary["adapter"], repo)
        except HubError as error:
            console.print(str(error), style="red", markup=False)
            code = 1
    print(json.dumps(summary, indent=1) if settings.as_json else _summary_text(summary))
    if "recorded" in summary:
        _warn_of(summary["recorded"])
    if "evaluation" in summary:
        _warn_of_perplexity(summary["evaluation"])
    return code


def _exported(run: Path, *, as_json: bool = False) -> int:
    """Export the last checkpoint of a training as its adapter, and return the exit code; JSON is printed to stdout."""
    from selfsurf.agents.model_files import ModelError
    from selfsurf.sdft.run.export import export

    try:
        adapter, step = export(run)
    except (ValueError, OSError, ModelError) as error:
        console.print(f"No adapter was written: {error}", style="red", markup=False)
        return 1
    told = f"Adapter of step {step}: {adapter} (selfsurf run --adapter)"
    console.print(told, highlight=False, markup=False, soft_wrap=True)
    if as_json:
        print(json.dumps({"adapter": str(adapter), "step": step}))
    return 0


def _with_all_folders(settings: Settings) -> Settings:
    """Return the settings with folders among `tasks` moved to --episodes or --demonstrations."""
    folders = tuple(Path(name) for name in settings.tasks if Path(name).is_dir())
    given = [name for name in ("episodes", "demonstrations") if getattr(settings, name)]
    if not folders or len(given) != 1:
        return settings
    tasks = tuple(name for name in settings.tasks if not Path(name).is_dir())
    return settings.model_copy(update={"tasks": tasks, given[0]: (*getattr(settings, given[0]), *folders)})


def _check_out(settings: Settings) -> None:
    """Refuse an output folder with another run before slow libraries are imported."""
    from selfsurf.sdft.processes import is_first
    from selfsurf.sdft.run.folder import resume_step

    if settings.resume or not is_first() or not settings.out.is_dir():
        return
    try:
        resume_step(settings.out, resume=False)
    except ValueError as error:
        raise typer.BadParameter(f"--out: {error}") from None


def _shown(settings: Settings, *, hindsight: bool) -> dict[str, Any]:
    """Return the training settings that recorded episodes imply.

    The recordings are learned from offline, unless tasks are named or `live` is set.

    Raises:
        EpisodeError: A folder holds no episodes.
    """
    from selfsurf.sdft.rows.jobs import as_recorded, learned_from, learned_offline

    shown = settings.demonstrations
    if settings.verifier and not settings.episodes:
        raise typer.BadParameter("--verifier learns from recorded episodes: give their folders as --episodes.")
    if settings.offline and settings.live:
        raise typer.BadParameter("Give --live or --offline, not both: --live plays in a browser, --offline doesn't.")
    if settings.episodes:
        if not settings.offline:
            raise typer.BadParameter("Add --offline: learning from --episodes opens no browser.")
        if shown:
            raise typer.BadParameter("Give --episodes or --demonstrations, not both.")
        _check_unplayed(settings)
        role = {"role": "verifier"} if settings.verifier else {}
        return {**learned_offline(settings.episodes, hindsight=hindsight), **role}
    if settings.offline:
        if not shown:
            raise typer.BadParameter("--offline learns from recorded episodes: give their folders as --episodes.")
        _check_unplayed(settings)
        return as_recorded(shown, hindsight=hindsight)
    if not shown:
        return {}
    if settings.live or settings.tasks:
        return {**learned_from(shown), "live": settings.live}
    _check_unplayed(settings)
    console.print("Learning from the recordings without a browser. Add --live to play as well.", highlight=False)
    return as_recorded(shown, hindsight=hindsight)


def _check_unplayed(settings: Settings) -> None:
    """Refuse browser options on the command line if no browser is opened; those in a file may serve other runs."""
    from selfsurf.browser_env.environment.env_options import EnvironmentSettings

    given = settings._typed & EnvironmentSettings.model_fields.keys()
    if names := sorted(f"--{name.replace('_', '-')}" for name in given):
        raise typer.BadParameter(f"{', '.join(names)}: not allowed here, because no browser is opened.")


def _warn_of(recorded: dict[str, Any]) -> None:
    """Print a warning if the adapter has not learned all recorded actions."""
    from selfsurf.sdft.measure.agreement import Agreement

    learned = Agreement.model_validate(recorded)
    if not learned.enough:
        text = f"The adapter has not learned all recorded actions. {learned.text()}"
        console.print(f"{text} Give more --steps, or more recordings.", style="yellow", markup=False, highlight=False)
    elif learned.choices:
        console.print(learned.choices_text(), markup=False, highlight=False)


def _warn_of_perplexity(found: dict[str, Any]) -> None:
    """Print a warning if perplexity on general text rose by more than `PERPLEXITY_RISE`."""
    before, after = found["base"]["perplexity"], found["best"]["perplexity"]
    if after > before * (1 + PERPLEXITY_RISE):
        text = f"Perplexity on general text rose by {after / before - 1:.0%}: the adapter may do worse elsewhere."
        console.print(text, style="yellow", markup=False, highlight=False)


def _summary_text(summary: dict[str, Any]) -> str:
    """Return a sentence on the adapter and how it was evaluated."""
    from selfsurf.sdft.measure.heldout import extent

    text = ", ".join(f"{summary[name]}" for name in ("adapter", "hub", "mlx_adapter") if name in summary)
    text = f"Adapter: {text}"
    if "recorded" in summary:
        one = summary["recorded"]
        text += f" (reproduces {one['right']} of {one['of']} {'held-out ' * one['held_out']}recorded actions)"
    if "distilled" in summary:
        share = f"{summary['distilled']:.0%} of the rows with a recorded action"
        text += f", {share} learned from the teacher, the others from the recorded action"
    if "evaluation" not in summary:
        return text
    found = summary["evaluation"]
    (best, base), times = (found["best"], found["base"]), found["rollbacks"]
    rates = ["unknown" if one["success"] is None else f"{one['success']:.2f}" for one in (base, best)]
    what = f"held-out {found['measure']}" if found["held_out"] else "agreement on trained states (no gain shown)"
    told = extent(found)
    state = (
        f"the state after step {best['step']}"
        if best["step"]
        else "the state at the start, because no later state did better"
    )
    return (
        f"{text}, {state}: "
        f"{what} {rates[0]} before, {rates[1]} after" + f" ({told})" * bool(told)
        + f"; perplexity {base['perplexity']:.2f} before, {best['perplexity']:.2f} after"
        + f"; the training returned to the best state {times} time{'s' * (times != 1)}" * bool(times)
    )  # fmt: skip
