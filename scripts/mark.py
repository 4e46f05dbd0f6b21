"""`selfsurf mark`: record a person's verdict on a finished episode."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from selfsurf.browser_env.record.episode import EpisodeError
from selfsurf.browser_env.record.verdict import Mark, mark_episode
from selfsurf.scripts.terminal.arguments import Json


class PersonVerdict(StrEnum):
    """A person's verdict on an episode."""

    SOLVED = "solved"
    FAILED = "failed"
    UNKNOWN = "unknown"


def main(
    episode: Annotated[Path, typer.Argument(help="Folder of a finished episode.")],
    says: Annotated[PersonVerdict, typer.Argument(help="Your verdict; unknown withdraws your earlier mark.")],
    why: Annotated[str, typer.Option(help="The reason for the verdict.")] = "",
    as_json: Json = False,
) -> None:
    """Record whether an episode reached its goal. Exit code 2: the episode can't be marked.

    The mark takes precedence over the task's score and any judge's verdict; both are kept.
    """
    try:
        verdict = mark_episode(episode, Mark(says.value, "person", why))
    except EpisodeError as error:
        raise typer.BadParameter(str(error)) from None
    says_now, by = (verdict.says, verdict.by) if verdict else (None, None)
    now = {"episode": str(episode), "verdict": says_now, "by": by}
    print(json.dumps(now) if as_json else f"{episode}: {says_now or 'unknown'}" + f" ({by})" * bool(by))
