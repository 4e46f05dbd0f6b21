"""Logs of a graph run beside its episode, for people and programs.

    logs/trace.jsonl                a line for each node that has run, and at the end a summary
    logs/agent.log                  the narration, with times
    data/state/0003-planner.json    the planner's decision in step 3, with its briefing
    data/state/0003-execute.json    the result of the action in step 3

Secrets are redacted in all of them.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from selfsurf.agents.graph.reasons import terminal_fields
from selfsurf.agents.graph.state import GraphState
from selfsurf.browser_env.safety.secrets import redact_known
from selfsurf.browser_env.text import well_formed

KEPT = ("planner", "execute")
"""Nodes whose results are written to separate files."""

_SHOWN = ("planned", "intent_text", "risk", "error", "question", "found", "spent", "counters", "progress")


class Trace:
    """Writes the logs of one run.

    Args:
        folder: folder of the episode; None counts nodes and writes nothing.
        session: label of the run.
    """

    def __init__(self, folder: Path | None, session: str) -> None:
        self.folder, self.session = folder, session
        self.told = ""
        """Narration of the current step."""
        self.visited: list[str] = []
        """Nodes run in the current step."""
        self.brief = ""
        """The planner's last briefing."""
        self.pictured = self.pictured_next = False
        """Whether the observation of the current step has a screenshot, and whether the next observation has."""
        self._nodes: Counter[str] = Counter()

    def node(self, name: str, following: str, after: GraphState, change: GraphState, said: str, seconds: float) -> None:
        """Record that a node has run (`wiring.Tell`)."""
        self.told = " ".join(filter(None, (self.told, said)))
        self.visited.append(name)
        self._nodes[name] += 1
        step = after["step"] - ("step" in change)  # the node's own step, even if the node has incremented it
        record = {
            "session": self.session, "step": step, "time": round(time.time(), 3), "node": name, "next": following,
            "ms": round(1000 * seconds, 3), "stage": after["stage"], "page": after["page"],
            "mapping": f"steps.jsonl#{step}", "screenshot": f"artifacts/{step:04d}.png" if self.pictured else None,
            **{key: after[key] for key in _SHOWN if key in change},  # type: ignore[literal-required]
            "terminal": after["terminal"], "said": said,
        }  # fmt: skip
        self._append("trace.jsonl", json.dumps(redact_known(record), ensure_ascii=False))
        if said:
            when = time.strftime("%Y-%m-%dT%H:%M:%S")
            self._append("agent.log", f"{when} step {step} {name}: {redact_known(' '.join(said.split()))}")
        if "step" in change:
            self.pictured = self.pictured_next
        if name in KEPT and self.folder is not None:
            kept = {"session": self.session, "step": step, "node": name, "state": dict(after)}
            if name == "planner":
                kept["told"] = self.brief
            path = self.folder / "data" / "state" / f"{step:04d}-{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(well_formed(json.dumps(redact_known(kept), ensure_ascii=False, indent=1)), encoding="utf8")

    def begin_step(self) -> None:
        """Clear the records of the last step."""
        self.told, self.brief, self.visited = "", "", []

    def event(self, text: str) -> None:
        """Add a line to `agent.log`."""
        self._append("agent.log", f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {redact_known(text)}")

    def summary(self, outcome: str, reason: str, state: GraphState) -> None:
        """Write the summary that ends the trace."""
        record: dict[str, Any] = {
            "session": self.session, "summary": True, "time": round(time.time(), 3), "outcome": outcome,
            **terminal_fields(reason), "terminal_detail": state["terminal_detail"], "steps": state["step"],
            "nodes": dict(self._nodes), "spent": state["spent"], "counters": state["counters"],
            "progress": state["progress"], "intents": state["intent_history"], "tab_events": state["tab_events"],
        }  # fmt: skip
        self._append("trace.jsonl", json.dumps(redact_known(record), ensure_ascii=False))

    def _append(self, name: str, line: str) -> None:
        if self.folder is None:
            return
        path = self.folder / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf8") as file:
            file.write(well_formed(line) + "\n")
