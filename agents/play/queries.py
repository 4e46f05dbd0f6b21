"""Answers an agent's queries to the environment between two steps (`agents.agent.Query`) with plain data."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Any

from selfsurf.agents.agent import Query
from selfsurf.agents.graph.reasons import normalized, terminal_fields
from selfsurf.agents.play.job import Step
from selfsurf.browser_env import AsyncBrowserEnv, EnvError, Outcome
from selfsurf.browser_env.outline import ElementText, OutlineLine, parse_outline
from selfsurf.browser_env.text import clip

SCREENS, PASSAGES = 10, 200
"""Maximum numbers of screens in a scan and of passages in its answer."""

PARTS, LONGEST = 6, 100
"""Maximum numbers of parts of a passage and of characters of its static texts."""


async def answered(env: AsyncBrowserEnv, query: Query) -> dict[str, Any]:
    """Answer a query by asking the environment.

    Returns:
        For `risk`: the `risk` (`kind`, `why`, and `asks`: whether a step with the action asks for confirmation), or
        None.
        For `look`: the `risk`, if the query has an action, and the current `page`, an observation that is not recorded
        in the episode; absent if the page can't be observed.
        For `scan`: the `lines` of the whole page, as `passages` makes them.
        For `screenshot`: `shown`, and the `screenshot`, which is added to the observation but not recorded.
    """
    if query.ask == "screenshot":
        try:
            picture = await env.screenshot()
        except EnvError:  # reported by the next step
            picture = None
        return {"shown": picture is not None, "screenshot": picture}
    if query.ask == "scan":
        scan = await env.paged_scan(SCREENS)
        return {"lines": passages(scan.dom)[:PASSAGES]}
    said: dict[str, Any] = {}
    if query.action is not None:
        risk, asks = await env.judge(query.action)
        said["risk"] = None if risk is None else {**asdict(risk), "asks": asks}
    if query.ask == "look":
        with contextlib.suppress(EnvError):
            said["page"] = await env.core.peek()
    return said


def passages(dom: str) -> list[str]:
    """Return the texts of an outline as passages in reading order, without ids and values.

    A small container, such as a row of a table, is one passage. Elsewhere an element or a heading begins a passage, and
    the static text after it belongs to it, so that a price stays with its product.
    """
    rows = parse_outline(dom)
    indents = [row.indent for row in rows]
    holds = [after > indent for indent, after in zip(indents, [*indents[1:], 0], strict=True)]
    texts = [_said(row, held) for row, held in zip(rows, holds, strict=True)]
    found: list[list[str]] = []
    place, joins = 0, -1  # joins: indentation of text that continues the last passage
    while place < len(rows):
        end = next((after for after in range(place + 1, len(rows)) if indents[after] <= indents[place]), len(rows))
        inside = [text for text in texts[place:end] if text]
        if holds[place] and 0 < len(inside) <= PARTS:
            found.append(inside)
            place, joins = end, -1
            continue
        if text := texts[place]:
            begins = holds[place] or rows[place].id is not None or text.startswith('heading "')
            if begins or joins != indents[place]:
                found.append([text])
            elif len(found[-1]) < PARTS:
                found[-1].append(text)
        place, joins = place + 1, -1 if holds[place] else indents[place]
    return [", ".join(parts) for parts in found]


def _said(row: OutlineLine, holds: bool) -> str:
    element = row.element
    if element is not None:
        return str(ElementText(element.role, element.name)) if element.name else ""
    return "" if holds and '"' not in row.text else clip(row.text, LONGEST)


def note_reason(step: Step) -> None:
    """Add the terminal reason and type of a graph agent to the info of an episode's last step."""
    if step.decision.graph:
        claim = step.decision.graph["claim"]
        step.info.update(terminal_fields(str(normalized(step.info["outcome"], claim) or "")))


def gave_up(step: Step) -> bool:
    """Whether the agent gives up with this step. If so, the step's info is changed to a failed episode."""
    why = step.decision.gives_up
    if why:
        outcome = Outcome.FAILED if step.info.get("judged", True) else Outcome.STOPPED
        step.info = {**step.info, "outcome": outcome, "outcome_detail": why, "trainable": outcome.trainable}
    return bool(why)
