"""`selfsurf bench report` and `bench leaderboard`: results folders as JSON, Markdown and HTML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from selfsurf.scripts.terminal.arguments import Figures, Json
from selfsurf.scripts.terminal.results import written


def report(
    folders: Annotated[
        list[Path], typer.Argument(help="Results folder. If several are given, each is compared with the first.")
    ],
    out: Figures = None,
    as_json: Json = False,
) -> int:
    """Report on a results folder, or compare several, as JSON, Markdown and HTML.

    Exit code 0: no episode is missing; episodes that ended as env_error count as present, and are reported as lacking a
    verdict. The files are written into --out; by default a report into its results folder, and a comparison into a new
    folder beside it.
    """
    from selfsurf.scripts.report.report import headline, write_comparison, write_report

    figures, paths = write_report(folders[0], out) if len(folders) == 1 else write_comparison(folders, out)
    print(json.dumps(figures.as_json(), indent=1) if as_json else "\n".join(headline(figures)))
    written(*paths)
    return int(not figures.complete)


def leaderboard(
    folders: Annotated[list[Path], typer.Argument(help="Results folders.")],
    out: Annotated[Path, typer.Option(help="Folder for leaderboard.html and leaderboard.md.", file_okay=False)],
    as_json: Json = False,
) -> None:
    """Rank runs by strict success, in a table per suite and seeds."""
    from selfsurf.scripts.report.leaderboard import listed, write_leaderboard

    if out.suffix in (".html", ".md"):
        raise typer.BadParameter(f"--out: {out} looks like a file; give the folder for leaderboard.html.")
    boards, paths = write_leaderboard(folders, out)
    print(json.dumps(listed(boards), indent=1) if as_json else paths[0].read_text(encoding="utf-8"))
    written(*paths)
