"""Replays a cached flow action by action, and falls back to an agent when the next action is uncertain.

The agent is made on first use, so a complete replay loads no model. The environment treats replayed actions like any
agent's: risky actions are confirmed, secrets are filled in by the environment, and all actions are recorded.
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
from selfsurf.agents.cached.target import Target, TargetMatch, checked, find, fingerprints
from selfsurf.agents.play.agent_adapter import AgentAdapter
from selfsurf.agents.play.job import Job
from selfsurf.browser_env import Action, Click, Observation, Wait, parse_action
from selfsurf.browser_env.errors import ActionError

_log = logging.getLogger(__name__)

WAIT = 500.0
"""Duration of one wait for an element, in milliseconds."""

WAITS = 2
"""Limit on the number of waits for an element, raised to twice the recorded wait if that is longer."""

OVERLAYS = 3
"""Maximum number of overlays dismissed in an episode."""

ANOTHER_PAGE = 0.2
"""Minimum share of elements in common with the recorded page; with less, the page counts as another page."""


@dataclass
class _ReplayState:
    """The replay state of a running episode."""

    job: Job
    goal: str
    told: dict[str, Any]
    flow: Flow | None = None
    values: tuple[str, ...] = ()
    at: int = 0
    waited: int = 0
    """Number of waits for the current step's element."""
    put_away: int = 0
    past: list[tuple[Observation, Action]] = field(default_factory=list)
    taken_over: bool = False
    why: str = ""
    """Why the agent took over; empty before."""
    noted: bool = False
    healed: int = 0


class _ReplayStopped(Exception):
    """The replay can't continue; the message gives the reason."""


class CachedAgentAdapter(AgentAdapter):
    """A decider that replays cached flows before it falls back to an agent.

    Args:
        cache: the flows.
        make: makes the fallback agent.
        needs_privileged: `AgentAdapter.needs_privileged` of the fallback agent.
    """

    def __init__(self, cache: Cache, make: Callable[[], AgentAdapter], *, needs_privileged: bool = False) -> None:
        self.agent: Any = None  # None until it takes over
        self.cache = cache
        self._load = make
        self._inner: AgentAdapter | None = None
        self._needs = needs_privileged
        self._playing: dict[int, _ReplayState] = {}

    @property
    def needs_privileged(self) -> bool:
        """Whether the fallback agent decides by the oracle's view."""
        return self._needs

    def did(self, slot: int = 0) -> dict[str, Any]:
        """Return the cache's share of an episode: replayed `actions`, `healed` actions, and why the cache `left`."""
        one = self._playing[slot]
        return {"actions": one.at, "healed": one.healed, "left": one.why}

    def begin(self, slot: int, job: Job, goal: str, **told: Any) -> None:
        """Begin an episode; its flow is looked up at the first decision."""
        self._playing[slot] = _ReplayState(job, goal, told)

    def follow(self, slot: int, observation: Observation, action: Action) -> None:
        """Pass an action that was already executed to the agent, which takes over the episode."""
        one = self._playing[slot]
        self._take_over(slot, one, "another process began the episode")
        self._agent().follow(slot, observation, action)

    def decide(
        self, slots: Sequence[int], observations: Sequence[Observation], **options: Sequence[Any] | None
    ) -> list[Decision | BaseException]:
        """Return the next replayed action of each episode, or else the agent's decision."""
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
        """Pass the answer to a query to the agent."""
        self._agent().told(slot, answer)

    def why_ended(self, slot: int, outcome: str, detail: str) -> str:
        """Return the agent's reason for the end if the agent has taken over, else an empty string."""
        return self._agent().why_ended(slot, outcome, detail) if self._playing[slot].taken_over else ""

    def close(self) -> None:
        """Close the agent if it was made."""
        if self._inner is not None:
            self._inner.close()

    def _agent(self) -> AgentAdapter:
        if self._inner is None:
            self._inner = self._load()
            self.agent = self._inner.agent
        return self._inner

    def _noted(self, slot: int, answer: Any) -> Any:
        """Add the reason for the fallback to the agent's first decision."""
        one = self._playing[slot]
        if one.noted or not isinstance(answer, Decision):
            return answer
        one.noted = True
        return replace(answer, roles=(*answer.roles, {"role": "cache", "left": one.why}))

    def _played(self, slot: int, observation: Observation) -> Decision | BaseException | None:
        """Return the cache's next action, an error of the agent taking over, or None if the agent is to be asked."""
        try:
            return self._next(slot, observation)
        except (Exception, SystemExit) as error:
            return error

    def _next(self, slot: int, observation: Observation) -> Decision | None:
        """Return the cache's next action; None if the agent is to be asked."""
        one = self._playing[slot]
        if one.taken_over:
            return None
        try:
            if one.flow is None:
                found = self.cache.look_up(one.goal or observation["goal"], observation)
                if found is None:
                    raise _ReplayStopped("no flow is stored for this goal and page")
                one.flow, one.values = found
            elif observation["last_error"]:
                raise _ReplayStopped(f"an action failed: {observation['last_error']}")
            put_away = one.put_away
            action, healed = _action(one, one.flow, observation)
        except _ReplayStopped as refused:
            self._take_over(slot, one, str(refused))
            return None
        one.past.append((observation, action))
        note = {"role": "cache", "flow": one.flow.id, "step": one.at, "healed": healed}
        if one.put_away > put_away:
            note["away"] = True
        return Decision(action, roles=(note,))

    def _take_over(self, slot: int, one: _ReplayState, why: str) -> None:
        if one.taken_over:
            return
        one.taken_over, one.why = True, why
        _log.info("After %d cached actions, the agent continues: %s", one.at, why)
        agent = self._agent()
        agent.begin(slot, one.job, one.goal, **one.told)
        for seen, action in one.past:
            agent.follow(slot, seen, action)


def _action(one: _ReplayState, flow: Flow, observation: Observation) -> tuple[Action, bool]:
    """Return the next action, and whether it was healed, i.e. its element was found despite changes.

    Raises:
        _ReplayStopped: the flow has ended, or its next action is uncertain.
    """
    while True:
        if one.at == len(flow.steps):
            raise _ReplayStopped(f"the flow ends here: {flow.ends}" if flow.ends else "the flow has ended")
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
            raise _ReplayStopped("the page is not the recorded page")
        one.at, one.waited = one.at + 1, 0
        if _is_done(step, found):
            continue
        healed = any(each.healed for each in found.values())
        one.healed += healed
        ids = {name: each.element["id"] for name, each in found.items() if each.element}
        try:
            return parse_action({**filled(step.action, one.values), **ids}), healed
        except ActionError as error:
            raise _ReplayStopped(f"the recorded action is not possible: {error}") from None


def _find(target: Target, step: FlowStep, values: Sequence[str], observation: Observation) -> TargetMatch:
    wanted = Target.model_validate(filled(target.model_dump(), values))
    return find(wanted, observation, known=step.page, given=wanted.name != target.name)


def _is_there(one: _ReplayState, flow: Flow, observation: Observation) -> bool:
    """Whether the element that the flow scrolls to is already on the page."""
    later = next((step for step in flow.steps[one.at :] if step.targets), None)
    return later is not None and all(
        _find(target, later, one.values, observation).element for target in later.targets.values()
    )


def _not_ready(step: FlowStep, found: dict[str, TargetMatch]) -> str:
    element = found["id"].element if "id" in found else None
    if element is None:
        return ""
    if "disabled" in element["states"]:
        return f'the {element["role"]} "{element["name"]}" is disabled.'
    return ""


def _meanwhile(one: _ReplayState, step: FlowStep, observation: Observation, hindered: str) -> Action | None:
    """Return an action that dismisses an overlay or waits for the element; None if nothing hinders the step.

    Raises:
        _ReplayStopped: the element is missing, or behind a dialog that the flow doesn't know.
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
        hindered = f"the element is behind {unknown[0]}, which is not part of the flow"
    if not hindered:
        return None
    if one.waited < max(WAITS, 2 * step.waits / WAIT):
        one.waited += 1
        return Wait(ms=WAIT)
    raise _ReplayStopped(hindered)


def _is_done(step: FlowStep, found: dict[str, TargetMatch]) -> bool:
    """Whether a checkbox already has the state that the recorded click led to."""
    if step.action["action"] != "click" or "id" not in found:
        return False
    element, before = found["id"].element, step.targets["id"].checked
    return element is not None and before is not None and checked(element) != before
