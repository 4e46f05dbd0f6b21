"""`selfsurf sample`: real runs become candidates for scenarios, and those that a person accepts a suite."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from selfsurf.scripts.terminal.command import Arguments, command


class Settings(Arguments):
    """Which runs, and where the candidates and the suite are."""

    episodes: Annotated[list[Path], typer.Argument()] = Field(default_factory=list)
    """Folders of episodes, or such that have some below them. Only runs for goals of your own count."""
    out: Path = Path("candidates.toml")
    """File of candidates; those in it stay."""
    accept: tuple[str, ...] = ()
    """A candidate that becomes a scenario, by its name; repeatable."""
    into: Path = Path("scenarios")
    """Folder of accepted scenarios: `selfsurf bench run FOLDER/suite.py` runs them."""


@command
def main(settings: Settings) -> int:
    """Make candidates for scenarios of real runs, or accept some.

    Exit code 2: nothing was given, a candidate can't be accepted, or a file or an episode can't be read.
    """
    from selfsurf.browser_env.goal.spec import SpecError
    from selfsurf.browser_env.record.episode import Episode, EpisodeError
    from selfsurf.scripts.judge import episodes_in
    from selfsurf.scripts.suite import sampled

    if bool(settings.episodes) == bool(settings.accept):
        raise typer.BadParameter("Give episodes to sample, or --accept NAME.")
    try:
        known = sampled.read_candidates(settings.out)
        if settings.accept:
            return _accept(settings, known)
        found = sampled.sample(map(Episode, episodes_in(settings.episodes)), known)
    except (SpecError, EpisodeError) as error:
        raise typer.BadParameter(str(error)) from None
    sampled.write_candidates(settings.out, found.candidates)
    new = found.candidates[len(known) :]
    if settings.as_json:
        print(json.dumps(asdict(found)))
        return 0
    for one in new:
        print(f"{one.name}: {one.goal}")
    print(
        f"{len(new)} new of {len(found.candidates)} candidates in {settings.out}; {found.duplicates} episodes are like "
        f"others, {found.left_out} left out. Read them, then: selfsurf sample --accept NAME"
    )
    return 0


def _accept(settings: Settings, known: list) -> int:  # type: ignore[type-arg]
    from selfsurf.scripts.suite import sampled

    named = {one.name: one for one in known}
    for name in settings.accept:
        if name not in named:
            raise typer.BadParameter(f"--accept {name}: {settings.out} has {', '.join(named) or 'no candidates'}.")
    files = [str(path) for path in sampled.accept([named[name] for name in settings.accept], settings.into)]
    sampled.write_candidates(settings.out, [one for one in known if one.name not in settings.accept])
    print(json.dumps({"accepted": files}) if settings.as_json else "\n".join(files))
    return 0
