"""One run of the graph, for one episode. The run pauses at each request and resumes with the answer."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from selfsurf.agents.agent import UNASKED, Decision, Query
from selfsurf.agents.graph.answers import answer_to, answered
from selfsurf.agents.graph.checkpoints import THREAD, Checkpoints
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.reasons import TerminalReason, normalized
from selfsurf.agents.graph.state import GraphState, Stage, extended, first_state
from selfsurf.agents.graph.trace import Trace
from selfsurf.agents.graph.wiring import build
from selfsurf.agents.policy import PolicyError
from selfsurf.browser_env import Infeasible, Observation, Wait, parse_action
from selfsurf.browser_env.human_input import allows

CLAIMS = {"finish": TerminalReason.GOAL_SATISFIED.value, "infeasible": TerminalReason.GOAL_FAILED.value}
"""Terminal reason claimed by each action that ends an episode."""

LONGEST = 200
"""Maximum number of nodes between two pauses, far above what the error limits allow."""


class GraphRun:
    """A run of the graph for one episode.

    Args:
        goal: the goal; empty: the goal of the first observation.
        live: runtime context of the nodes.
        folder: folder of the episode's record; None for no record.
        open_ended: whether no task judges the goal.
    """

    def __init__(self, goal: str, live: Live, folder: Path | None, *, open_ended: bool = False) -> None:
        running = None if folder is None else folder / "running"
        self.checkpoints = Checkpoints(running if running is not None and running.is_dir() else None)
        self.live = live
        self.trace = Trace(folder, folder.name if folder is not None else THREAD)
        self.followed = 0
        """Number of steps taken before this process made its first decision."""
        self.wants: dict[str, Any] | None = None
        """The pending request: `{"want": "plan" | "query" | "act", ...}`; None before the start and after the end."""
        self.undone = False
        """Whether the model's last action has not been passed on for execution."""
        self.decision: Decision | None = None
        """The model's decision in the current step."""
        self.answers: list[dict[str, Any]] = []
        """Answers to the queries of the current step."""
        self._goal, self._open_ended = goal, open_ended
        self._graph = build(self.checkpoints.saver, self.trace.node)
        self._config = {"configurable": {"thread_id": THREAD}, "recursion_limit": LONGEST}
        self._begun = self._taken_up = False
        self._last: GraphState | None = None
        self._undelivered = False
        self._answer: dict[str, Any] | None = None
        self._since: float | None = None
        """Time of the last pause (monotonic clock, seconds); None while waiting for a person."""

    @property
    def state(self) -> GraphState:
        """The current state of the graph, or the final state after the end."""
        if self._last is not None:
            return self._last
        return cast(GraphState, self._graph.get_state(self._config).values)

    def see(self, obs: Observation) -> None:
        """Take the current observation and run the graph until its next request."""
        self.trace.pictured_next = "screenshot" in obs
        if self.wants is None or self.wants["want"] != "act":
            self.trace.pictured = self.trace.pictured_next
        if self._undelivered:  # asked again because the decision of another episode failed
            self.live.obs = obs
            return
        if self._begun and (self.wants is None or self.wants["want"] != "act"):  # a page that the run has already seen
            self.live.obs = obs
        else:
            self.live.see(obs)
        self._undelivered = True
        if not self._begun:
            self._begin(obs)
        elif self.wants is not None and self.wants["want"] == "act":
            self.answers = []
            self.trace.begin_step()
            self._resume({"over": False})
        elif self._answer is not None:
            answer, self._answer = self._answer, None
            self._resume(answer)

    @property
    def plans(self) -> bool:
        """Whether the run waits for a plan of the model."""
        return self.wants is not None and self.wants["want"] == "plan"

    def told(self, answer: dict[str, Any]) -> None:
        """Take the environment's answer to the pending query."""
        assert self.wants is not None
        if (page := answer.pop("page", None)) is not None:
            self.live.changes.look(page)
        self._answer = answer
        self.answers.append({"ask": self.wants["ask"], "action": self.wants["action"], **answer})

    def planned(self, plan: dict[str, Any]) -> None:
        """Resume the run with the model's plan."""
        self.undone = plan["action"] is not None
        self._resume(plan)

    def next(self) -> Decision:
        """Return the pending request as a decision: an action, a query, or the end of the run.

        Raises:
            PolicyError: the model's server could not be asked.
        """
        self._undelivered = False
        wants, state = self.wants, self.state
        if wants is not None and wants["want"] == "query":
            action = None if wants["action"] is None else parse_action(wants["action"])
            return Decision(Wait(ms=0), UNASKED, query=Query(wants["ask"], action))
        if wants is None and state["error"] is not None and state["error"]["kind"] == "policy":
            raise PolicyError(state["error"]["text"])
        gives_up = ""
        if wants is None:
            action, claim = Infeasible(reason=state["terminal_detail"]), state["terminal"]
            if claim != TerminalReason.LOOP_STUCK:  # only a loop is evidence that the goal is infeasible
                action, gives_up = Wait(ms=0, reason=state["terminal_detail"]), state["terminal_detail"]
        else:
            action = parse_action(wants["action"])
            claim = CLAIMS.get(action.name, "")
        if wants is not None and state["planned"] and wants["action"]["action"] == state["planned"]["action"]:
            self.undone = False
        risk = state["risk"] or {}
        if action.name == "ask_user" or risk.get("asks"):
            self._since = None
        graph = {
            "stage": state["stage"], "intent": state["intent_text"], "nodes": list(self.trace.visited),
            "asked": [*self.answers], "progress": state["progress"], "claim": str(claim),
            "detail": state["terminal_detail"], "told": self.trace.brief, "said": self.trace.told,
        }  # fmt: skip
        decision, self.decision = self.decision or Decision(action), None
        graph["instead"] = action != decision.action
        if graph["instead"]:
            note = f"{decision.guard_note} The graph did {action.name} instead.".lstrip()
            decision = replace(decision, action=action, guard_note=note)
        ids = frozenset(element["id"] for element in self.live.obs["elements"])
        return replace(decision, graph=graph, left="", visible_ids=decision.visible_ids or ids, gives_up=gives_up)

    def end(self, outcome: str, detail: str) -> TerminalReason | None:
        """Finish the run of an ended episode and return its terminal reason."""
        if not self._begun:
            self._last = self.state
            self.checkpoints.close()
            return None
        state = self.state
        claim = state["terminal"]
        if self.wants is not None and self.wants["want"] == "act":
            claim = claim or CLAIMS.get(self.wants["action"]["action"], "")
            reason = normalized(outcome, claim)
            self._resume({"over": True, "terminal": str(reason or ""), "detail": detail})
        reason = normalized(outcome, claim)
        self._last = self.state
        self.trace.summary(outcome, str(reason or ""), self._last)
        self.checkpoints.close()
        return reason

    def _begin(self, obs: Observation) -> None:
        """Start the run, or resume it from the checkpoint of a killed process."""
        self._begun = True
        self.live.blind = self.live.sees and "screenshot" not in obs
        saved = self._graph.get_state(self._config)
        if not saved.values:
            state = first_state(self._goal or obs["goal"], self.trace.session, open_ended=self._open_ended)
            self._invoke({**state, "step": self.followed})
            return
        state = saved.values
        self.trace.event(f"resumed after {self.followed} steps, at {', '.join(saved.next) or 'the end'}")
        done = self.followed > state["step"]
        change: dict[str, Any] = {
            "planned": None, "error": None, "step": self.followed, "terminal": "", "stage": Stage.ORIENT.value,
        }  # fmt: skip
        if done and "ask_user" in saved.next:
            change |= answered(cast(GraphState, state), obs)
        elif done and obs["last_error"]:
            change["advice"] = [*state["advice"], obs["last_error"]]
        if done and "execute" in saved.next:
            change["granted"] = [name for name in state["granted"] if name != state["name"]]
        elif done and state["planned"] is not None and state["risk"] is not None:
            question = next((m["text"] for m in reversed(obs["messages"]) if m["role"] == "assistant"), "")
            if allows(answer_to(question, obs) or "") and state["risk"]["why"] in question:
                change["granted"] = extended(state["granted"], state["name"])
        # Discard the plan: element ids are new, and an action that may have been executed must not be repeated.
        self._graph.update_state(self._config, change, as_node="ask_user")
        self._invoke(None)

    def _resume(self, value: dict[str, Any]) -> None:
        from langgraph.types import Command

        self._invoke(Command(resume=value))

    def _invoke(self, given: Any) -> None:
        began = time.monotonic()
        self.live.seconds += began - (self._since or began)  # before `invoke`, whose first node counts the seconds
        result = self._graph.invoke(given, self._config, context=self.live, durability="sync")
        stops = result.get("__interrupt__", ())
        self.wants = dict(stops[0].value) if stops else None
        self.checkpoints.prune()
        self._since = time.monotonic()
        self.live.seconds += self._since - began
