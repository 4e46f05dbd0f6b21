"""What a run leaves beside its episode, to be read by people and programs.

    logs/trace.jsonl                a line for each node that has run, and at the end a summary
    logs/agent.log                  the narration, with times
    data/state/0003-planner.json    what the planner decided in step 3, and what it was told
    data/state/0003-execute.json    what came of it

Secrets are taken out of all of them.
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
"""The nodes whose results have files of their own."""

_SHOWN = ("planned", "intent_text", "risk", "error", "question", "found", "spent", "counters", "progress")


class Trace:
    """Writes one run's records.

    Args:
        folder: of the episode; None writes nothing and counts only.
        session: the run's label.
    """

    def __init__(self, folder: Path | None, session: str) -> None:
        self.folder, self.session = folder, session
        self.told = ""
        """The narration of the step under way."""
        self.visited: list[str] = []
        """The nodes of the step under way."""
        self.brief = ""
        """What the planner was told last."""
        self.pictured = self.pictured_next = False
        """Has what is seen in the step under way a picture, and what was seen after it?"""
        self._nodes: Counter[str] = Counter()

    def node(self, name: str, following: str, after: GraphState, change: GraphState, said: str, seconds: float) -> None:
        """Record that a node has run (`wiring.Tell`)."""
        self.told = " ".join(filter(None, (self.told, said)))
        self.visited.append(name)
        self._nodes[name] += 1
        step = after["step"] - ("step" in change)  # the step that it belongs to, which it may have counted
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
        """Forget what belongs to the last step."""
        self.told, self.brief, self.visited = "", "", []

    def event(self, text: str) -> None:
        """Add a line to `agent.log`."""
        self._append("agent.log", f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {redact_known(text)}")

    def summary(self, outcome: str, reason: str, state: GraphState) -> None:
        """Close the records."""
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
