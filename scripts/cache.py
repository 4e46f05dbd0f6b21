"""`selfsurf cache`: list the flows of an action cache, and add those of solved episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from selfsurf.scripts.terminal.arguments import Json


def main(
    folder: Annotated[Path, typer.Argument(help="Folder of the cache.", show_default=False)],
    episodes: Annotated[
        list[Path] | None, typer.Argument(help="Episodes to keep, or folders that contain episodes.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List a cache's flows, after adding those of solved episodes. Exit code 2: the cache or an episode is invalid."""
    from selfsurf.agents.cached import Cache, CacheError
    from selfsurf.browser_env.record.episode import Episode, EpisodeError
    from selfsurf.scripts.judge import episodes_in

    try:
        cache = Cache(folder)
        for one in episodes_in(episodes or []):
            kept = cache.keep(Episode(one))
            if kept.why:
                typer.echo(f"{one}: {kept.why}", err=True)
    except (CacheError, EpisodeError) as error:
        raise typer.BadParameter(str(error)) from None
    flows = cache.flows()
    if as_json:
        print(json.dumps([{"id": one.id, **json.loads(one.model_dump_json(exclude={"steps"}))} for one in flows]))
        return
    for flow in flows:
        ends = f" (then an agent: {flow.ends})" if flow.ends else ""
        print(f"{flow.id}  {len(flow.steps)} actions on {flow.site}: {flow.goal}{ends}")
