"""`selfsurf bench verifier`: how well a verifier tells claims that are true from others, where that is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from selfsurf.scripts.bench.judge import confusion_figures, confusion_table
from selfsurf.scripts.terminal.agent_options import check_model
from selfsurf.scripts.terminal.arguments import Adapter, Model
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.console import progress, quiet_libraries

TOGETHER = 8
"""Claims that the model is asked about in one call."""


class Settings(Arguments):
    """Which claims, and who verifies."""

    folders: Annotated[list[Path], typer.Argument()]
    """Episodes that were judged, or folders of many; none that it was trained on."""
    adapter: Adapter = ""
    """Folder of an adapter that `train --verifier` made; the base model if not given."""
    model: Model = "smollm2"
    most: int = Field(default=400, ge=1)
    """Most claims, as many true ones as others where there are enough."""
    seed: int = 0
    """By which claims are drawn, and the steps at which some come too early."""


@command
def main(settings: Settings) -> int:
    """Ask a verifier about claims at the ends of episodes, and about some that come too early.

    Two more lines say how far the other claims with the same goal get, and those of the task after as many steps: a
    verifier has to beat both.
    """
    from selfsurf.browser_env.record.episode import EpisodeError
    from selfsurf.sdft.rows.stored import load_stored

    quiet_libraries()
    check_model(settings.model, None)
    try:
        stored = load_stored(settings.folders)
    except EpisodeError as error:
        raise typer.BadParameter(str(error)) from None
    import numpy as np

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.agents.roles.verifier import Verifier, verifying_policy
    from selfsurf.sdft.measure.statistics import Confusion
    from selfsurf.sdft.rows.verdicts import balanced, by_others, claims_of

    rng = np.random.default_rng(settings.seed)
    claims = balanced(claims_of(stored.episodes, rng), settings.most, rng)
    if not claims:
        raise typer.BadParameter("There are no claims of both kinds in these episodes.")
    policy = TransformersPolicy(settings.model)
    try:
        used = verifying_policy(policy, settings.adapter or None)
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(f"--adapter: {error}") from None
    verifier = Verifier(used, vision="none")
    pairs: dict[str, list[tuple[bool, bool | None]]] = {"all claims": [], "at an episode's end": [], "too early": []}
    with progress("Verifying", len(claims)) as update:
        for first in range(0, len(claims), TOGETHER):
            some = claims[first : first + TOGETHER]
            for claim, proposal in zip(some, verifier.propose([one.task for one in some]), strict=True):
                said = verifier.accepts(proposal)
                pairs["all claims"].append((claim.true, said))
                pairs["too early" if claim.early else "at an episode's end"].append((claim.true, said))
            update(min(first + TOGETHER, len(claims)))
    true = [claim.true for claim in claims]
    pairs["by the goal alone"] = list(zip(true, by_others(claims, lambda claim: claim.task.goal), strict=True))
    by_steps = by_others(claims, lambda claim: (claim.env_id, len(claim.task.history)))
    pairs["by the number of steps alone"] = list(zip(true, by_steps, strict=True))
    found = {name: Confusion.of(some) for name, some in pairs.items() if some}
    if settings.as_json:
        print(json.dumps({name: confusion_figures(one) for name, one in found.items()}, indent=1))
    else:
        print("\n".join(confusion_table(found)))
    return 0
