"""`selfsurf sample`: turn real runs into candidate scenarios, and accepted candidates into a suite."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.moments import Since, moment

if TYPE_CHECKING:
    from selfsurf.scripts.report.sampled import CandidateFile


class Settings(Arguments):
    """Options of `selfsurf sample`: the runs, the file of candidates, and the suite."""

    episodes: Annotated[list[Path], typer.Argument()] = Field(default_factory=list)
    """Folders of episodes, or folders above them. Only runs of user-defined goals count."""
    since: Since = None
    """Start of the period from which episodes are taken: a date, a time, or a duration such as 30m, 36h or 7d; all
    episodes if not given."""
    out: Path = Path("candidates.toml")
    """File of candidates; existing ones are kept."""
    accept: tuple[str, ...] = ()
    """Name of a candidate to accept as a scenario; repeatable."""
    into: Path = Path("scenarios")
    """Folder of accepted scenarios, run by `selfsurf bench run FOLDER/suite.py`. Runs that resemble an accepted
    scenario are left out."""


@command
def main(settings: Settings) -> int:
    """Turn real runs into candidate scenarios, or accept candidates.

    Exit code 2: no arguments were given, a candidate can't be accepted, or the file of candidates can't be read.
    """
    from selfsurf.browser_env.goal.spec import SpecError
    from selfsurf.scripts.judge import episodes_in
    from selfsurf.scripts.report import sampled

    if bool(settings.episodes) == bool(settings.accept):
        raise typer.BadParameter("Give episodes to sample, or --accept NAME.")
    try:
        known = sampled.read_samples(settings.out)
        if settings.accept:
            return _accept(settings, known)
    except SpecError as error:
        raise typer.BadParameter(str(error)) from None
    before = len(known.candidates)
    since = moment(settings.since).timestamp() if settings.since else 0.0
    found = sampled.sample(episodes_in(settings.episodes), known, since, settings.into)
    sampled.write_samples(settings.out, found)
    if settings.as_json:
        print(json.dumps(found.as_json()))
        return 0
    new = {one.name for one in found.candidates[before:]}
    for handle, one in sampled.by_handle(found.candidates).items():
        if one.name in new:
            print(f"{handle}: {one.goal}")
    print(
        f"{len(found.candidates) - before} new of {len(found.candidates)} candidates in {settings.out}; "
        f"{found.duplicates} episodes resemble others. Review the candidates, then: selfsurf sample --accept NAME"
    )
    for why, number in found.reasons.items():
        print(f"Left out because {why}: {number}")
    return 0


def _accept(settings: Settings, known: CandidateFile) -> int:
    from selfsurf.scripts.report import sampled

    named = sampled.by_handle(known.candidates)
    for name in settings.accept:
        if name in named:
            continue
        if same := [handle for handle in named if handle.startswith(f"{name}#")]:
            listed = "; ".join(f"{handle}: {named[handle].described}" for handle in same)
            raise typer.BadParameter(f"--accept {name}: which? {listed}")
        raise typer.BadParameter(f"--accept {name}: {settings.out} has {', '.join(named) or 'no candidates'}.")
    chosen = {name: named[name] for name in settings.accept}
    files = [str(path) for path in sampled.accept(chosen, settings.into)]
    known.candidates = [one for handle, one in named.items() if handle not in chosen]
    known.accepted += chosen.values()
    sampled.write_samples(settings.out, known)
    print(json.dumps({"accepted": files}) if settings.as_json else "\n".join(files))
    for name, one in chosen.items():
        if all("question" in criterion for criterion in one.criteria):
            told = "only questions for a model, so `bench run` can't judge it: add another criterion, such as text"
            print(f"{name} has {told}, or judge its episodes with `selfsurf judge`.", file=sys.stderr)
    return 0
