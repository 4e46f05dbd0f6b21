"""`selfsurf bench verifier`: how well a verifier distinguishes true claims from false ones."""

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
"""Number of claims verified in one call of the model."""


class Settings(Arguments):
    """Options of `selfsurf bench verifier`: the episodes, and the verifier."""

    folders: Annotated[list[Path], typer.Argument()]
    """Judged episodes, or folders of many, that the verifier was not trained on."""
    adapter: Adapter = ""
    """Folder of an adapter from `train --verifier`; the base model if not given."""
    model: Model = "smollm2"
    most: int = Field(default=400, ge=1)
    """Maximum number of claims, with equal numbers of true and false ones if there are enough."""
    seed: int = 0
    """Seed for drawing the claims, and the steps of premature claims."""


@command
def main(settings: Settings) -> int:
    """Query a verifier about claims at the ends of episodes, and about premature ones.

    Two more rows are baselines that a verifier has to beat: a prediction from the other claims with the same goal, and
    from those of the same task after the same number of steps.
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
        raise typer.BadParameter("No task of these episodes has both true and false claims.")
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
