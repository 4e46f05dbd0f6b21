"""`selfsurf judge`: judge finished episodes by a goal's specification, and optionally by a model."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from selfsurf.browser_env.text import one_line, visible
from selfsurf.scripts.terminal.agent_options import checked_options, read_options
from selfsurf.scripts.terminal.arguments import Model, Set
from selfsurf.scripts.terminal.command import Arguments, command

if TYPE_CHECKING:
    from selfsurf.agents import Policy
    from selfsurf.agents.judging.judge import ModelJudge
    from selfsurf.browser_env.goal.check import SuccessChecker
    from selfsurf.browser_env.goal.spec import GoalSpec


class Settings(Arguments):
    """Options of `selfsurf judge`: the episodes, the specification, and the judge model."""

    episodes: Annotated[list[Path], typer.Argument()]
    """Folders of episodes, or folders above them."""
    spec: Path | None = None
    """TOML file of the goal's specification. Without it, MiniWoB++ episodes are judged by their own, and for others a
    judge model is asked whether the goal was reached."""
    judge: str = ""
    """Judge model: a backend (transformers, openai, ...), or module:Class of a policy."""
    model: Model = ""
    set_: Set = Field(default_factory=list)
    """Further option of the judge model, name=value. Repeatable."""
    dry_run: bool = False
    """Print the verdicts without marking the episodes."""


@command
def main(settings: Settings) -> int:
    """Mark episodes as solved, failed or unknown, and print a line for each with a summary.

    Exit code 0: all episodes were judged, whatever the verdicts; 1: some were skipped, because they can't be read or
    changed (damaged) or because the model couldn't answer (unjudged); 2: the specification, model or episode doesn't
    exist. A person's mark and a task's score take precedence.
    """
    folders = episodes_in(settings.episodes)
    spec, ask = _spec(settings), _judge(settings)
    rows = []
    for folder in folders:
        row = _judged(folder, spec, ask, dry=settings.dry_run)
        rows.append(row)
        if not settings.as_json:
            force, by_judge = row["in_force"] or "", str(row["in_force"]).endswith(" by judge")
            force = f" [in force: {force}]" * bool(force and not by_judge)
            print(f"{row['says']:<8} {folder}: {visible(one_line(row['why']))}{force}")
    counts = dict(Counter(row["says"] for row in rows))
    if settings.as_json:
        print(json.dumps({"episodes": rows, "counts": counts}))
    else:
        print(", ".join(f"{number} {says}" for says, number in sorted(counts.items())))
    return int("damaged" in counts or "unjudged" in counts)


def episodes_in(given: list[Path]) -> list[Path]:
    """Return the folders of all episodes in or below the given folders.

    Raises:
        typer.BadParameter: A folder holds no episode.
    """
    found: list[Path] = []
    for folder in given:
        below = (
            [folder]
            if (folder / "episode.json").exists()
            else sorted(one.parent for one in folder.rglob("episode.json"))
        )
        if not below:
            raise typer.BadParameter(f"There is no episode in {folder}.")
        found += below
    return found


def _spec(settings: Settings) -> GoalSpec | None:
    from selfsurf.browser_env.goal.spec import SpecError, read_spec

    try:
        return read_spec(settings.spec) if settings.spec else None
    except SpecError as error:
        raise typer.BadParameter(f"--spec: {error}") from None


def _judge(settings: Settings) -> ModelJudge | None:
    options = read_options(settings.set_, settings.model, "")
    if not settings.judge:
        if options:
            raise typer.BadParameter("--model and --set are options of the judge: add --judge.")
        return None
    return make_judge(settings.judge, options)


def make_judge(name: str, options: dict[str, Any]) -> ModelJudge:
    """Return a judge that queries a model.

    Raises:
        typer.BadParameter: The policy doesn't exist, or its options are invalid.
    """
    from selfsurf.agents.judging.judge import ModelJudge

    return ModelJudge(make_policy(name, options))


def make_policy(name: str, options: dict[str, Any]) -> Policy:
    """Return a language model by the name of its backend or class.

    Raises:
        typer.BadParameter: The policy doesn't exist, or its options are invalid.
    """
    from selfsurf import agents

    if name in ("oracle", "random", "scripted"):
        raise typer.BadParameter(f"{name} is not a language model.")
    agent = agents.make(name, **checked_options(name, options, 0))
    policy: Policy | None = getattr(agent, "policy", None)
    if policy is None:
        raise typer.BadParameter(f"{name} is an agent, not a policy.")
    return policy


def _judged(folder: Path, spec: GoalSpec | None, ask: ModelJudge | None, *, dry: bool) -> dict[str, Any]:
    from selfsurf.agents import PolicyError
    from selfsurf.browser_env.goal.evidence import evidence_of
    from selfsurf.browser_env.record.episode import Episode, EpisodeError
    from selfsurf.browser_env.record.verdict import Mark, mark_episode, verdict_of

    try:
        episode = Episode(folder)
        if (folder / "manifest.json").exists() and (damages := episode.damage()):
            raise EpisodeError(" ".join(damages))
        evidence = evidence_of(episode)
        if episode.meta["outcome"] == "running":
            raise EpisodeError("the episode is still running, or was cut off")
        # the task ended the episode, whether or not the agent claimed to be done
        evidence.ended = episode.meta["outcome"] in ("solved", "failed")
        says, details = "unknown", dict[str, Any]()
        if episode.meta["outcome"] == "env_error":
            why = f"the infrastructure failed: {episode.meta['outcome_detail']}"
        elif spec is not None and not spec.pattern and evidence.goal.split() not in ([], spec.goal.split()):
            why = f"the specification is for the goal {spec.goal!r}, not for {evidence.goal!r}"
        else:
            checker = checker_of(spec, episode.meta, ask)
            try:
                judgement = checker.judge(evidence)
                says, why, details = judgement.says, judgement.why, judgement.details()
            except PolicyError as error:
                says, why = "unjudged", f"the model could not answer: {error}"
        who = ", ".join(filter(None, (spec.name if spec else "", ask.name if ask else "")))
        if not dry and says != "unjudged":
            mark_episode(folder, Mark(says, "judge", why, who, details=details))  # type: ignore[arg-type]
        verdict = verdict_of(folder)
    except (EpisodeError, OSError) as error:
        return {"episode": str(folder), "says": "damaged", "why": str(error), "in_force": None}
    force = None if verdict is None else f"{verdict.says} by {verdict.by}"
    return {"episode": str(folder), "says": says, "why": why, "in_force": force, **details}


def checker_of(spec: GoalSpec | None, meta: dict[str, Any], ask: ModelJudge | None) -> SuccessChecker:
    """Return the checker of an episode: by the given or its MiniWoB++ task's specification, else by its goal."""
    from selfsurf.browser_env.goal.check import SuccessChecker
    from selfsurf.browser_env.goal.spec import Criterion, GoalSpec
    from selfsurf.tasks.miniwob.goals import goal_specs

    own = goal_specs().get(str(meta["env_id"]).removeprefix("MiniWoB/").removesuffix("-v0"))
    asking = GoalSpec(goal=meta["goal"] or "?", criteria=(Criterion(question="Was the goal reached?"),))
    return SuccessChecker(spec or own or asking, ask)
