"""The graph agent: one graph run per episode, with one model call for all runs that are planning."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfsurf.agents.agent import DecidingAgent, Decision, Privileged
from selfsurf.agents.graph.brief import brief
from selfsurf.agents.graph.budgets import Budgets
from selfsurf.agents.graph.live import Confirm, Live
from selfsurf.agents.graph.reasons import TerminalReason
from selfsurf.agents.graph.run import GraphRun
from selfsurf.agents.graph.state import GraphState
from selfsurf.agents.graph.wiring import check_installed
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.options import Count, Positive
from selfsurf.agents.policy import Policy, PolicyError, summed
from selfsurf.agents.reply.thought import thought_in
from selfsurf.browser_env import Action, Observation
from selfsurf.browser_env.observe.outlines import Outlines

GUARDS = ("vanished", "empty_text", "submit", "answer")
"""Default guards of the planner. The guards against loops are left out, because the graph breaks loops itself."""


class GraphAgent(DecidingAgent):
    """An agent that plays each episode by a graph of nodes.

    Args:
        agent: the planner.
        confirm: who confirms risky actions: `auto` for nobody, `user` for the user, once per action. Confirmations
            required by the environment (`Safety(confirm=)`, `--confirm`) apply in either case.
        scan: scan a long page whose visible part mentions nothing from the goal; a scan without a hit is repeated once.
        budget_steps: maximum number of actions; the environment's own step limit ends an episode, too.
        budget_tokens: maximum number of tokens of prompts and replies together.
        budget_seconds: maximum number of seconds in agent and environment, excluding people's time.
        budget_dollars: maximum cost in US dollars; requires a policy with prices.

    Raises:
        ImportError: LangGraph is not installed.
        ValueError: the options conflict.
    """

    def __init__(
        self,
        agent: LLMAgent,
        /,
        *,
        confirm: Confirm = "auto",
        scan: bool = True,
        budget_steps: Count | None = None,
        budget_tokens: Count | None = None,
        budget_seconds: Positive | None = None,
        budget_dollars: Positive | None = None,
    ) -> None:
        check_installed()
        if not isinstance(agent, LLMAgent):
            raise ValueError(f"The planner needs a policy, but {type(agent).__name__} is not a policy.")
        if agent.max_actions > 1:
            raise ValueError("The graph judges actions one by one: leave max_actions at 1.")
        if budget_dollars is not None and getattr(agent.policy, "prices", None) is None:
            raise ValueError("budget_dollars needs a policy with token prices: give prices=.")
        self.agent = agent
        self._confirm, self._scan = confirm, scan
        self._budgets = Budgets(budget_steps, budget_tokens, budget_seconds, budget_dollars)
        self._runs: dict[int, GraphRun] = {}
        self._outlines: dict[int, Outlines] = {}

    @classmethod
    def defaults(cls, policy: Any, *, trained: bool = False) -> dict[str, Any]:
        """Return the default options of the planner, an `LLMAgent` around a policy of the given class.

        A policy with a `trained` adapter keeps the reply format of its training.
        """
        tools = "tools" in inspect.signature(policy).parameters and not trained
        return {"guards": list(GUARDS), **({"tools": "kinds"} if tools else {})}

    @property
    def policy(self) -> Policy:
        """The planner's policy."""
        return self.agent.policy

    @property
    def vision(self) -> str:
        """The planner's `vision` option."""
        return self.agent.vision

    def state(self, slot: int = 0) -> GraphState | None:
        """Return the state of an episode's run; None before its first decision."""
        return self._runs[slot].state if slot in self._runs else None

    def reseed(self, seed: int | None) -> None:
        """Restart the planner's random stream."""
        self.agent.reseed(seed)

    def reset(
        self,
        goal: str = "",
        slot: int = 0,
        *,
        open_ended: bool = False,
        files: Sequence[str] = (),
        folder: Path | None = None,
        queries: bool = False,
    ) -> None:
        """Begin a new episode, or resume one whose process was killed from its state in `folder`.

        Args:
            goal: the goal; empty: `obs["goal"]`.
            slot: slot of the episode.
            open_ended: whether no task judges the episode.
            files: names of the files that may be uploaded.
            folder: folder of the episode's record; None: nothing is written.
            queries: whether queries to the environment are answered (`agents.agent.Query`).
        """
        self.agent.reset(goal, slot, open_ended=open_ended, files=files)
        live = Live(
            self._budgets, self._confirm, self._scan, kinds=self.agent.kinds(slot), asks_environment=queries,
            sees=self.policy.sees_images and self.vision == "auto",
        )  # fmt: skip
        self._close(slot)
        self._runs[slot] = GraphRun(goal, live, folder, open_ended=open_ended)

    def decide_each(
        self,
        observations: Sequence[Observation],
        slots: Sequence[int] | None = None,
        *,
        privileged: Sequence[Privileged | None] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Decision | BaseException]:
        """Run the graphs of several episodes until each requests an action, makes a query or ends.

        A failed episode gets its error instead of a decision: a `PolicyError` if the model's server could not be asked.
        """
        slots = list(range(len(observations))) if slots is None else list(slots)
        runs = []
        for obs, slot in zip(observations, slots, strict=True):
            if slot not in self._runs:
                self.reset(slot=slot)
            run = self._runs[slot]
            run.see(self._outlines.setdefault(slot, Outlines()).whole(obs))
            runs.append(run)
        failed: dict[int, BaseException] = {}
        while rows := [row for row, run in enumerate(runs) if row not in failed and run.plans]:
            errors = self._plan(
                [runs[row] for row in rows],
                [slots[row] for row in rows],
                privileged=None if privileged is None else [privileged[row] for row in rows],
                seeds=None if seeds is None else [seeds[row] for row in rows],
            )
            failed |= {row: error for row, error in zip(rows, errors, strict=True) if error is not None}
        return [failed[row] if row in failed else _next(run) for row, run in enumerate(runs)]

    def _plan(self, runs: Sequence[GraphRun], slots: Sequence[int], **options: Any) -> list[BaseException | None]:
        """Have the model plan for all runs; return each run's error, or None. The run itself handles `PolicyError`."""
        for run, slot in zip(runs, slots, strict=True):
            if run.undone:
                self.agent.take_back(slot)
            run.trace.brief = brief(run.state, run.live.obs, short=not self.agent.thinks)
            if run.trace.brief:
                self.agent.advise(run.trace.brief, slot)
        errors: list[BaseException | None] = []
        decisions = self.agent.decide_each([run.live.obs for run in runs], slots, **options)
        for run, decision in zip(runs, decisions, strict=True):
            errors.append(None)
            if isinstance(decision, PolicyError):
                run.planned({"action": None, "kind": "policy", "error": str(decision)})
            elif isinstance(decision, BaseException):
                errors[-1] = decision
            else:
                run.planned(self._plan_of(run, decision))
        return errors

    def _plan_of(self, run: GraphRun, decision: Decision) -> dict[str, Any]:
        completion, earlier = decision.completion, run.decision
        usage = completion.spent
        if earlier is not None:  # the earlier reply held no valid action
            completion = replace(completion, usage=summed(earlier.completion.spent, usage))
        run.decision = replace(decision, completion=completion)
        cost = {"tokens": usage.prompt_tokens + usage.completion_tokens, "dollars": usage.cost or 0.0}
        if isinstance(decision.action, str) or decision.error:
            return {"action": None, "kind": "planner", "error": decision.error or "It was empty.", **cost}
        intent = thought_in(completion.text) if self.agent.thinks else ""
        return {"action": decision.action.to_dict(), "intent": intent[:400], **cost}

    def told(self, answer: dict[str, Any], slot: int = 0) -> None:
        """Pass the answer to the last decision's query to the run."""
        self._runs[slot].told(answer)

    def follow(self, obs: Observation, action: Action, slot: int = 0) -> Decision:
        """Record an action that was executed by a person or another process, so that the agent continues after it."""
        if slot not in self._runs:
            self.reset(slot=slot)
        self._runs[slot].followed += 1
        return self.agent.follow(obs, action, slot)

    def why_ended(self, outcome: str, detail: str = "", slot: int = 0) -> TerminalReason | None:
        """Finish the run of an ended episode and return its terminal reason; None if the agent isn't the cause."""
        return self._runs[slot].end(outcome, detail) if slot in self._runs else None

    def _close(self, slot: int) -> None:
        if slot in self._runs:
            self._runs.pop(slot).checkpoints.close()


def _next(run: GraphRun) -> Decision | BaseException:
    try:
        return run.next()
    except PolicyError as error:
        return error
