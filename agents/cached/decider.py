"""Plays a flow from the cache, action by action, and hands over to an agent where it can't go on for certain.

The agent is made when it is first needed, so a flow that plays to its end loads no model. What it decides goes to the
environment as any agent's actions do: risky ones are asked about, secrets are typed by the environment, all is written
into the episode.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from selfsurf.agents.agent import Decision
from selfsurf.agents.cached.flow import Flow, FlowStep, filled
from selfsurf.agents.cached.overlays import way_out
from selfsurf.agents.cached.place import dialogs
from selfsurf.agents.cached.store import Cache, shared
from selfsurf.agents.cached.target import Found, Target, checked, find, fingerprints
from selfsurf.agents.play.decide import Decider
from selfsurf.agents.play.job import Job
from selfsurf.browser_env import Action, Click, Observation, Wait, parse_action
from selfsurf.browser_env.errors import ActionError

_log = logging.getLogger(__name__)

WAIT = 500.0
"""Milliseconds that are waited for an element at a time."""

WAITS = 2
"""So many times, or twice what was waited when the flow was recorded."""

OVERLAYS = 3
"""Most dialogs of an episode that are put away."""

ANOTHER_PAGE = 0.2
"""A page that has a smaller share of its elements in common with the recorded one is another one."""


@dataclass
class _Playing:
    """An episode under way."""

    job: Job
    goal: str
    told: dict[str, Any]
    flow: Flow | None = None
    values: tuple[str, ...] = ()
    at: int = 0
    waited: int = 0
    """Times, for the element of this step."""
    put_away: int = 0
    past: list[tuple[Observation, Action]] = field(default_factory=list)
    taken_over: bool = False
    why: str = ""
    """Why the agent has taken over."""
    noted: bool = False
    healed: int = 0


class _Refused(Exception):
    """The flow can't go on; the message says why."""


class CachedDecider(Decider):
    """An agent with a cache before it.

    Args:
        cache: the flows.
        make: makes the agent that takes over.
        needs_privileged: as `Decider.needs_privileged` of that agent.
    """

    def __init__(self, cache: Cache, make: Callable[[], Decider], *, needs_privileged: bool = False) -> None:
        self.agent: Any = None  # until one takes over
        self.cache = cache
        self._load = make
        self._inner: Decider | None = None
        self._needs = needs_privileged
        self._playing: dict[int, _Playing] = {}

    @property
    def needs_privileged(self) -> bool:
        """As `Decider.needs_privileged`."""
        return self._needs

    def did(self, slot: int = 0) -> dict[str, Any]:
        """Return what the cache did in a slot's episode: `actions`, how many were `healed`, why it `left` off."""
        one = self._playing[slot]
        return {"actions": one.at, "healed": one.healed, "left": one.why}

    def begin(self, slot: int, job: Job, goal: str, **told: Any) -> None:
        """As `Decider.begin`."""
        self._playing[slot] = _Playing(job, goal, told)

    def follow(self, slot: int, observation: Observation, action: Action) -> None:
        """As `Decider.follow`. An episode that was begun elsewhere is the agent's."""
        one = self._playing[slot]
        self._take_over(slot, one, "the episode was begun by another process")
        self._agent().follow(slot, observation, action)

    def decide(
        self, slots: Sequence[int], observations: Sequence[Observation], **options: Sequence[Any] | None
    ) -> list[Decision | BaseException]:
        """As `Decider.decide`."""
        answers: list[Any] = [self._played(slot, obs) for slot, obs in zip(slots, observations, strict=True)]
        rows = [row for row, answer in enumerate(answers) if answer is None]
        if rows:
            own: dict[str, Any] = {
                name: None if all_ is None else [all_[row] for row in rows] for name, all_ in options.items()
            }
            asked = self._agent().decide([slots[row] for row in rows], [observations[row] for row in rows], **own)
            for row, answer in zip(rows, asked, strict=True):
                answers[row] = self._noted(slots[row], answer)
        return answers

    def told(self, slot: int, answer: dict[str, Any]) -> None:
        """As `Decider.told`."""
        self._agent().told(slot, answer)

    def why_ended(self, slot: int, outcome: str, detail: str) -> str:
        """As `Decider.why_ended`, if the agent has taken over."""
        return self._agent().why_ended(slot, outcome, detail) if self._playing[slot].taken_over else ""

    def end(self, slot: int, *, reached: bool, strict: bool = False) -> None:
        """As `Decider.end`, if the agent has taken over."""
        if self._playing[slot].taken_over:
            self._agent().end(slot, reached=reached, strict=strict)

    def close(self) -> None:
        """As `Decider.close`."""
        if self._inner is not None:
            self._inner.close()

    def _agent(self) -> Decider:
        if self._inner is None:
            self._inner = self._load()
            self.agent = self._inner.agent
        return self._inner

    def _noted(self, slot: int, answer: Any) -> Any:
        """Let the agent's first decision say why it was asked."""
        one = self._playing[slot]
        if one.noted or not isinstance(answer, Decision):
            return answer
        one.noted = True
        return replace(answer, roles=(*answer.roles, {"role": "cache", "left": one.why}))

    def _played(self, slot: int, observation: Observation) -> Decision | BaseException | None:
        """As `_next`; what the agent raises that takes over is the answer."""
        try:
            return self._next(slot, observation)
        except (Exception, SystemExit) as error:
            return error

    def _next(self, slot: int, observation: Observation) -> Decision | None:
        """Return the cache's next action; None: the agent is to be asked."""
        one = self._playing[slot]
        if one.taken_over:
            return None
        try:
            if one.flow is None:
                found = self.cache.look_up(one.goal or observation["goal"], observation)
                if found is None:
                    raise _Refused("no flow is kept for this goal and page")
                one.flow, one.values = found
            elif observation["last_error"]:
                raise _Refused(f"an action did not work: {observation['last_error']}")
            put_away = one.put_away
            action, healed = _action(one, one.flow, observation)
        except _Refused as refused:
            self._take_over(slot, one, str(refused))
            return None
        one.past.append((observation, action))
        note = {"role": "cache", "flow": one.flow.id, "step": one.at, "healed": healed}
        if one.put_away > put_away:
            note["away"] = True
        return Decision(action, roles=(note,))

    def _take_over(self, slot: int, one: _Playing, why: str) -> None:
        if one.taken_over:
            return
        one.taken_over, one.why = True, why
        _log.info("After %d actions from the cache the agent goes on: %s", one.at, why)
        agent = self._agent()
        agent.begin(slot, one.job, one.goal, **one.told)
        for seen, action in one.past:
            agent.follow(slot, seen, action)


def _action(one: _Playing, flow: Flow, observation: Observation) -> tuple[Action, bool]:
    """Return the next action, and whether its element was found though something has changed.

    Raises:
        _Refused: there is none, or it is not certain.
    """
    while True:
        if one.at == len(flow.steps):
            raise _Refused(f"the flow ends here: {flow.ends}" if flow.ends else "the flow has ended")
        step = flow.steps[one.at]
        if step.action["action"] == "scroll" and _is_there(one, flow, observation):
            one.at += 1
            continue
        found = {name: _find(target, step, one.values, observation) for name, target in step.targets.items()}
        hindered = next((each.why for each in found.values() if each.element is None), "") or _not_ready(step, found)
        if hindered or any("covered" in each.element["states"] for each in found.values() if each.element):
            first = _meanwhile(one, step, observation, hindered)
            if first is not None:
                return first, False
        anywhere = step.targets or step.action["action"] in ("navigate", "new_tab", "finish", "scroll")
        if not anywhere and shared(step.page, fingerprints(observation["elements"])) < ANOTHER_PAGE:
            raise _Refused("this is another page")
        one.at, one.waited = one.at + 1, 0
        if _is_done(step, found):
            continue
        healed = any(each.healed for each in found.values())
        one.healed += healed
        ids = {name: each.element["id"] for name, each in found.items() if each.element}
        try:
            return parse_action({**filled(step.action, one.values), **ids}), healed
        except ActionError as error:
            raise _Refused(f"the recorded action can't be: {error}") from None


def _find(target: Target, step: FlowStep, values: Sequence[str], observation: Observation) -> Found:
    wanted = Target.model_validate(filled(target.model_dump(), values))
    return find(wanted, observation, known=step.page, given=wanted.name != target.name)


def _is_there(one: _Playing, flow: Flow, observation: Observation) -> bool:
    """Whether what the flow scrolls for is on the page already."""
    later = next((step for step in flow.steps[one.at :] if step.targets), None)
    return later is not None and all(
        _find(target, later, one.values, observation).element for target in later.targets.values()
    )


def _not_ready(step: FlowStep, found: dict[str, Found]) -> str:
    element = found["id"].element if "id" in found else None
    if element is None:
        return ""
    if "disabled" in element["states"]:
        return f'the {element["role"]} "{element["name"]}" is disabled.'
    return ""


def _meanwhile(one: _Playing, step: FlowStep, observation: Observation, hindered: str) -> Action | None:
    """Put away what lies over the page, or wait; None: what lies over the element did so before, or is no dialog.

    Raises:
        _Refused: the element is not there, or it is behind a dialog that the flow does not know.
    """
    known, away = tuple(filled(step.dialogs, one.values)), {}
    if one.flow is not None:
        away = {filled(line, one.values): filled(name, one.values) for line, name in one.flow.away.items()}
    way = way_out(observation, known=step.page, dialogs_known=known, away=away)
    if way is not None and one.put_away < OVERLAYS:
        one.put_away += 1
        return Click(id=way["id"])
    unknown = sorted({*dialogs(observation["dom"]).values()} - {*known, ""})
    if unknown and not hindered:
        hindered = f"the element is behind {unknown[0]}, which the flow does not know"
    if not hindered:
        return None
    if one.waited < max(WAITS, 2 * step.waits / WAIT):
        one.waited += 1
        return Wait(ms=WAIT)
    raise _Refused(hindered)


def _is_done(step: FlowStep, found: dict[str, Found]) -> bool:
    """Whether a box is already as the action would leave it."""
    if step.action["action"] != "click" or "id" not in found:
        return False
    element, before = found["id"].element, step.targets["id"].checked
    return element is not None and before is not None and checked(element) != before
