"""Answers what an agent asks of the environment between two steps (`agents.agent.Query`): plain data, for records."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Any

from selfsurf.agents.agent import Query
from selfsurf.agents.graph.reasons import normalized
from selfsurf.agents.play.job import Step
from selfsurf.browser_env import AsyncBrowserEnv, EnvError, Outcome

SCREENS, LINES = 10, 200
"""Most screens of a scan, and most elements that it tells of."""


async def answered(env: AsyncBrowserEnv, query: Query) -> dict[str, Any]:
    """Ask the environment.

    Returns:
        For `risk`: the `risk` (`kind`, `why`, and `asks`: a step with the action has somebody asked), or None.
        For `look`: that, and the `page` as it is now, an observation that is none of the episode's and belongs to no
        record; there is none where the page can't be observed.
        For `scan`: the `lines`, an element each, `role "name"`, of what is not in the viewport.
        For `screenshot`: `shown`, and the `screenshot`, which belongs to the observation and to no record.
    """
    if query.ask == "screenshot":
        try:
            picture = await env.screenshot()
        except EnvError:  # the next step says what has become of the page
            picture = None
        return {"shown": picture is not None, "screenshot": picture}
    if query.action is not None:
        risk, asks = await env.judge(query.action)
        said: dict[str, Any] = {"risk": None if risk is None else {**asdict(risk), "asks": asks}}
        if query.ask == "look":
            with contextlib.suppress(EnvError):
                said["page"] = await env.core.peek()
        return said
    scan = await env.paged_scan(SCREENS)
    return {"lines": [f'{one["role"]} "{one["name"]}"' for one in scan.elements if one["name"]][:LINES]}


def note_reason(step: Step) -> None:
    """Say in a last step's info why the graph of its agent ended, where it has one."""
    if step.decision.graph:
        claim = step.decision.graph["claim"]
        step.info["terminal_reason"] = str(normalized(step.info["outcome"], claim) or "")


def gave_up(step: Step) -> bool:
    """Has the agent given up with this step? Its info says then that the episode has failed."""
    why = step.decision.gives_up
    if why:
        outcome = Outcome.FAILED if step.info.get("judged", True) else Outcome.STOPPED
        step.info = {**step.info, "outcome": outcome, "outcome_detail": why, "trainable": outcome.trainable}
    return bool(why)
