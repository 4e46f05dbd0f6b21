"""`selfsurf draft`: draft a goal's specification from a sentence, for a person to review."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from selfsurf.scripts.judge import make_policy
from selfsurf.scripts.terminal.agent_options import read_options
from selfsurf.scripts.terminal.arguments import Agent, Model, Set
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.toml import as_toml


class Settings(Arguments):
    """Options of `selfsurf draft`: the goal, the model, and the output file."""

    sentence: Annotated[str, typer.Argument()]
    """Goal in words."""
    agent: Agent = "openai"
    model: Model = ""
    set_: Set = Field(default_factory=list)
    """Further option of the model, name=value. Repeatable."""
    out: Path | None = None
    """File to write; printed if not given."""


@command
def main(settings: Settings) -> int:
    """Draft a specification by a model. Exit code 1: no reply is valid; 2: an unknown model, or an existing file."""
    from selfsurf.agents.judging.interpret import GoalInterpreter
    from selfsurf.browser_env.goal.spec import SpecError

    if settings.out is not None and settings.out.exists():
        raise typer.BadParameter(f"--out: {settings.out} already exists; give another file.")
    if not settings.sentence.strip():
        raise typer.BadParameter("Give the goal as a sentence.")
    policy = make_policy(settings.agent, read_options(settings.set_, settings.model, ""))
    try:
        spec = GoalInterpreter(policy).draft(settings.sentence)
    except SpecError as error:
        typer.echo(str(error), err=True)
        return 1
    data = spec.model_dump(exclude_defaults=True)
    text = json.dumps(data, indent=1) if settings.as_json else as_toml(data)
    if settings.out is None:
        print(text)
    else:
        settings.out.write_text(text + "\n", encoding="utf8")
    return 0
