"""`selfsurf run --train`: an update of the model from the episode just played, without a browser.

The update is offline training on the episode's own states (`sdft.rows.stored`). It is short, writes a new adapter, and
leaves the adapter of the run unchanged. It doesn't depend on how the episode was played.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from selfsurf.extras import how_to_install
from selfsurf.scripts.terminal.console import VERBOSE, training_progress
from selfsurf.scripts.terminal.prompts import goal_reached

if TYPE_CHECKING:
    from selfsurf.agents.llm.llm_agent import LLMAgent
    from selfsurf.browser_env.record.verdict import Verdict
    from selfsurf.scripts.terminal.interrupts import Interrupts
    from selfsurf.sdft.settings import TrainSettings

UPDATE: dict[str, Any] = {
    "steps": 10, "learning_rate": 3e-5, "warmup_steps": 2, "episodes_per_step": 1, "max_rows": 1, "recorded_rows": 6,
    "evaluate_every": 5, "evaluate_seeds": 16, "max_success_fall": 0.0, "max_perplexity_rise": 0.02, "teacher": "ema",
}  # fmt: skip
"""Settings of an update: few small steps, and a rollback to the start if a working action is lost.

Actions are learned in variations of the page (`sdft.rows.recorded`), because training on the original page would teach
an element's number. The teacher's weights are those of the run, because the episode shows what they can do. Rows in
which the teacher doesn't follow its context are learned by cross-entropy (`sdft.teacher.following`).
"""

UNTAUGHT: dict[str, Sequence[Any]] = {
    "functions": ([], ()), "examples": ([], ()), "max_actions": (1,), "text_page": (True,), "constrained": (True,),
    "prefill": ('{"',),
}  # fmt: skip
"""Agent options that training lacks, with the values that are compatible with training."""


@dataclass(frozen=True)
class UpdateResult:
    """The result of an update."""

    adapter: str | None
    """Folder of the new adapter; None if nothing was kept."""
    why: str
    """Gains and losses, or the reason why nothing was kept."""
    verdict: str | None = None
    """Verdict on the episode: `solved`, `failed`, or None if unknown."""
    lessons: int = 0
    """Number of failed steps at which a later successful action was learned."""
    evaluation: dict[str, Any] | None = None
    """Evaluation before and after, as in `selfsurf.json`."""


def training_folder(episode: Path) -> Path:
    """Return the folder of an episode's update, beside the episode, whose manifest covers its own files."""
    return episode.with_name(f"{episode.name}-training")


def check_trainable(agent: str, options: Mapping[str, Any], episode: Path | None) -> None:
    """Refuse `--train` before the run if nothing could be learned.

    Args:
        agent: Name of the agent.
        options: Options of the agent.
        episode: Future folder of the episode; None if unknown.

    Raises:
        typer.BadParameter: The agent can't be trained here or not with these options, or the folder exists.
    """
    if agent != "transformers":
        raise typer.BadParameter(
            f"--train: only the weights of --agent transformers can be trained here, not those of {agent}."
        )
    if missing := [name for name in ("trl", "peft", "accelerate") if find_spec(name) is None]:
        raise typer.BadParameter(f"--train needs {', '.join(missing)}: {how_to_install('train')}.")
    if options.get("dtype", "auto") not in ("auto", "bf16", "fp32"):
        raise typer.BadParameter(f"--train: a model in {options['dtype']} can't be trained; give bf16 or fp32.")
    for name, own in UNTAUGHT.items():
        if name in options and options[name] not in own:
            raise typer.BadParameter(f"--train: training does not support this value of {name}; leave it out of --set.")
    if episode is not None and (folder := training_folder(episode)).exists():
        raise typer.BadParameter(f"--train: {folder} already exists; give the episode another folder.")


def prompt_settings(agent: LLMAgent) -> dict[str, Any]:
    """Return the training settings that reproduce an agent's prompts."""
    from selfsurf.agents.prompt.named import name_of

    names = ("labels", "texts", "instructions", "max_prompt_tokens", "max_new_tokens", "vision", "max_image_side")
    told = {name: getattr(agent, name) for name in names}
    kinds = tuple(kind for kind in agent.kinds() if kind != "upload")  # training allows no files
    return {
        "prompt": name_of(agent.prompt),
        "actions": kinds,
        **{name: value for name, value in told.items() if value is not None or name == "max_image_side"},
    }


def settings_of_update(episode: Path, options: Mapping[str, Any], prompt: Mapping[str, Any]) -> TrainSettings:
    """Return the settings of a run's update.

    Args:
        episode: Folder of the episode.
        options: Options of the agent.
        prompt: Result of `prompt_settings`.
    """
    from selfsurf.sdft.settings import TrainSettings

    named = {name: options[name] for name in ("model", "dtype", "quantization") if options.get(name)}
    start = {"start_from": Path(options["adapter"]).expanduser()} if options.get("adapter") else {}
    teaches: dict[str, Any] = {"episodes": (str(episode),), "contexts": ("demonstration", "hindsight")}
    return TrainSettings(**{**UPDATE, **teaches, **named, **start, **prompt})


def learn_from(
    episode: Path, options: Mapping[str, Any], prompt: Mapping[str, Any], interrupts: Interrupts, *, silent: bool
) -> UpdateResult:
    """Train on a finished episode, if there is something to learn from it.

    Args:
        episode: Folder of the episode.
        options: Options of the agent that played it.
        prompt: Result of `prompt_settings`.
        interrupts: Held signals, which are raised only during training; an interrupted update leaves no files.
        silent: Whether to show no progress.
    """
    from selfsurf.browser_env import Outcome
    from selfsurf.browser_env.record.episode import Episode, EpisodeError

    folder = training_folder(episode)
    found: Verdict | None = None
    learned = UpdateResult(None, "interrupted")
    try:
        interrupts.release()
        if Episode(episode).meta["outcome"] == Outcome.ENV_ERROR:
            return UpdateResult(None, "the infrastructure failed, which says nothing about the agent")
        found = _verdict(episode)
        if found is None:
            return UpdateResult(None, "nobody said whether the goal was reached (`selfsurf mark`, `selfsurf judge`)")
        lessons, reason = _lessons(episode, prompt["actions"], solved=found.solved)
        if reason:
            return UpdateResult(None, reason, found.says)
        settings = settings_of_update(episode, options, prompt)
        learned = _update(settings, folder, found, lessons, silent=silent)
    except KeyboardInterrupt:
        pass
    except EpisodeError as error:
        learned = UpdateResult(None, str(error), found.says if found else None)
    except Exception as error:  # a failed update must not change the result of the run
        logging.getLogger(__name__).debug("The update failed.", exc_info=True)
        learned = UpdateResult(
            None, f"the update failed: {error or type(error).__name__}", found.says if found else None
        )
    finally:
        interrupts.hold()
    if interrupts.seen:  # a library may have turned the interrupt into an error of its own
        learned = UpdateResult(None, "interrupted", found.says if found else None)
    _tidy(folder, keep=learned.adapter is not None)
    return learned


def said(learned: UpdateResult, options: Mapping[str, Any], again: list[str]) -> str:
    """Return the message about an update.

    Args:
        learned: Result of the update.
        options: Options of the agent.
        again: Command that runs the same agent on the same goal.
    """
    old = options.get("adapter")
    if learned.adapter is None:
        return f"Nothing was kept: {learned.why}." + f" The adapter {old} is unchanged." * bool(old)
    kept = f" {old} is unchanged." if old else ""
    return f"Learned: {learned.why}.{kept}\nContinue with: {shlex.join([*again, '--adapter', learned.adapter])}"


def _verdict(episode: Path) -> Verdict | None:
    """Return the current verdict; without one, ask the person at the terminal, if there is one."""
    from selfsurf.browser_env.record.verdict import Mark, mark_episode, verdict_of

    found = verdict_of(episode)
    if found is not None or not sys.stdin.isatty():
        return found
    says = goal_reached()
    return mark_episode(episode, Mark(says, "person")) if says else None


def _lessons(episode: Path, kinds: tuple[str, ...], *, solved: bool) -> tuple[int, str]:
    """Return the number of steps with a later solution to learn, and the reason if there is nothing to learn."""
    from selfsurf.browser_env.record.episode import EpisodeError
    from selfsurf.browser_env.record.untrusted import UntrustedEpisode
    from selfsurf.sdft.rows.stored import load_stored, states_of

    UntrustedEpisode(episode)
    try:
        (stored,) = load_stored([episode], hindsight=True).episodes
    except EpisodeError:
        if solved:
            raise
        return 0, "the goal was not reached, no step earned a reward, and no failure was corrected later"
    if not states_of([stored], kinds):
        return 0, f"the episode holds only actions of other kinds than {', '.join(kinds)}"
    return len(stored.hindsight.later) if stored.hindsight else 0, ""


def _update(settings: TrainSettings, folder: Path, found: Verdict, lessons: int, *, silent: bool) -> UpdateResult:
    from selfsurf.sdft import train
    from selfsurf.sdft.run.batches import NothingToTeach

    gc.collect()  # frees the model that played the episode
    shown = nullcontext(None) if silent else training_progress("Learning from the run", settings.steps)
    try:
        with _calm(), shown as update:
            summary = train(settings, folder, progress=update)
    except NothingToTeach:
        return UpdateResult(None, "the model would act the same if it were told what was done", found.says, lessons)
    evaluation, recorded = summary["evaluation"], summary["recorded"]
    best, base = evaluation["best"], evaluation["base"]
    sampled = summary["learning"].get("steps/right")
    if best["step"] == 0:
        return UpdateResult(None, f"every update was undone ({_undone(folder)})", found.says, lessons, evaluation)
    if not found.solved and not recorded["right"]:
        return UpdateResult(
            None, "the adapter does none of the actions that were taught", found.says, lessons, evaluation
        )
    if sampled and sampled["first"] - sampled["last"] > 0.5:  # averaged over three steps each
        fell = f"taught actions were sampled less often ({sampled['first']:.2f} before, {sampled['last']:.2f} after)"
        return UpdateResult(None, fell, found.says, lessons, evaluation)
    what = (
        "the actions that reached the goal"
        if found.solved
        else "the actions that later corrected a failure, and those that earned a reward"
    )
    why = f"{what}. The adapter does {recorded['right']} of {recorded['of']} such actions"
    if sampled:
        why += (
            f"; when sampled, {sampled['first']:.2f} of them in the first steps and {sampled['last']:.2f} in the last"
        )
    if (share := summary.get("distilled")) is not None:
        why += f"; {share:.0%} of the rows were learned from the teacher, the others from the recorded action"
    why += (
        f"; share of its earlier actions: {base['success']:.2f} before and {best['success']:.2f} after; perplexity "
        f"{base['perplexity']:.2f} before and {best['perplexity']:.2f} after. One episode shows neither a gain nor a "
        "loss elsewhere: measure the adapter before you rely on it"
    )
    return UpdateResult(summary["adapter"], why, found.says, lessons, evaluation)


def _undone(folder: Path) -> str:
    """Return the reason for the last rollback."""
    lines = (json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf8").splitlines())
    reasons = [str(line["rollback"]).partition(": back")[0] for line in lines if line.get("rollback")]
    return reasons[-1] if reasons else "it repeated fewer of its earlier actions"


def _tidy(folder: Path, *, keep: bool) -> None:
    """Delete the checkpoints; without a new adapter, delete the whole folder."""
    if keep:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _calm() -> Iterator[None]:
    """Suppress the trainers' warnings about a short run within this context."""
    logger = logging.getLogger("selfsurf.sdft")
    before = logger.level
    if not os.environ.get(VERBOSE):
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
