"""Format 2 of an episode: its fields with their default values, and the conversion from format 1.

`docs/episodes.md` is the specification. This module is independent of files and browsers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from selfsurf.browser_env.actions import Action, parse_action

FORMAT = 2
"""Version of the format in which episodes are written."""

READABLE = (1, FORMAT)
"""Versions of the format that can be read."""

EPISODE: dict[str, Any] = {
    "format": FORMAT, "episode_id": "", "env_id": "Browser-v0", "task": None, "seed": None, "goal": "", "url": None,
    "viewport": None, "agent": None, "model": None, "adapter": None, "recorded": False, "environment": {},
    "versions": {}, "started": None, "ended": None, "outcome": "running", "outcome_detail": "", "trainable": None,
    "score": {}, "verdict": None, "tags": [], "traceId": None,
    "redacted": "secrets", "totals": {}, "final": None, "final_screenshot": None,
    "traceback": None, "terminal_reason": "", "terminal_type": "",
}  # fmt: skip
"""Fields of `episode.json` with their default values."""

STEP: dict[str, Any] = {
    "step": 0, "time": None, "observation": {}, "screenshot": None, "completions": [], "decision": None,
    "narration": "", "actions": [], "action_path": "", "questions": [], "waiting": None, "risk": None,
    "privileged": None, "reward": 0.0, "outcome": "running", "outcome_detail": "", "score": {}, "error": "",
    "events": [], "requests": None, "timing": {},
}  # fmt: skip
"""Fields of a line of `steps.jsonl` with their default values."""

COMPLETION: dict[str, Any] = {
    "prompt": [], "text": "", "prompt_token_ids": [], "prefill_token_ids": [], "token_ids": [], "logprobs": [],
    "tokens": None, "grammar": None, "finish_reason": None, "usage": None, "error": "", "thinking": "",
}  # fmt: skip
"""Fields of an entry of `completions` with their default values."""

DECISION: dict[str, Any] = {
    "guard": "", "guards": {}, "demonstrated": False, "more": [], "place": 0, "left": "", "roles": [], "graph": {},
}  # fmt: skip
"""Fields of `decision`, the agent's decision based on its completions, with their default values."""


_OR_NULL: dict[str, type | tuple[type, ...]] = {
    "task": str, "seed": int, "url": str, "viewport": list, "agent": str, "model": str, "adapter": str,
    "started": (int, float), "ended": (int, float), "trainable": bool, "verdict": dict, "traceId": str, "final": dict,
    "final_screenshot": str, "traceback": str, "time": (int, float), "screenshot": str, "decision": dict,
    "waiting": dict, "risk": dict, "privileged": dict,
    "requests": list,
}  # fmt: skip
"""Types of the fields whose default value is null. Other fields have the type of their default value."""


def misfits(empty: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    """Return the fields of an episode or a step whose type violates the format."""
    wrong = []
    for name, value in empty.items():
        found, kind = record[name], _OR_NULL.get(name) or ((int, float) if type(value) is float else type(value))
        if not (isinstance(found, kind) or (value is None and found is None)):
            wrong.append(name)
    return wrong


def filled(empty: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with every field; missing fields get their default values."""
    return {**deepcopy(dict(empty)), **given}


def completions_and_decision(
    records: Iterable[Mapping[str, Any]], decision: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the fields `completions` and `decision` of a step.

    Args:
        records: the agent's record of each completion (`agents.play.provenance`). The last record contains the step's
            decision.
        decision: decision of a step for which no model was called.
    """
    completions: list[dict[str, Any]] = []
    decision = decision and filled(DECISION, decision)
    for record in records:
        completions.append(filled(COMPLETION, {key: record[key] for key in record if key not in DECISION}))
        decision = filled(DECISION, {key: record[key] for key in record if key in DECISION})
    return {"completions": completions, "decision": decision}


def action_entry(action: Any) -> dict[str, Any]:
    """Return an entry of `actions` for an action's data or JSON text; other input becomes `{"unreadable": text}`."""
    if isinstance(action, str):
        try:
            data = json.loads(action)
        except (ValueError, RecursionError):
            data = None
    else:
        data = action
    return dict(data) if isinstance(data, Mapping) else {"unreadable": str(action)}


def recorded_action(entry: Mapping[str, Any]) -> Action:
    """Return the action of an entry of `actions`.

    Raises:
        ActionError: the entry is not a valid action.
    """
    return parse_action(entry.get("unreadable", dict(entry)))


def asked(action: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the field `questions`: the question of an `ask_user` action, and the answer if somebody gave one."""
    if action.get("action") != "ask_user" or not isinstance(action.get("question"), str):
        return []
    new = after["messages"][len(before["messages"]) :]
    answer = next((message["text"] for message in new if message["role"] == "user"), None)
    return [{"question": action["question"], "answer": answer}]


def current_episode(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the content of `episode.json` to format 2. Fields unknown to this version are kept."""
    if meta["format"] == FORMAT:
        return filled(EPISODE, meta)
    new = dict(meta)
    totals = dict(new.pop("totals", {}))
    new["agent"] = new.get("agent") or new.pop("backend", None)
    new["score"] = totals.pop("score", None) or {}
    new["outcome_detail"] = totals.pop("detail", "") or new.pop("error", "")
    return filled(EPISODE, {**new, "totals": totals})


def current_step(record: Mapping[str, Any], written_in: int) -> dict[str, Any]:
    """Convert a line of `steps.jsonl` to format 2."""
    if written_in == FORMAT:
        return filled(STEP, record)
    new = dict(record)
    policy = new.pop("policy", None)
    new["actions"] = [action_entry(new.pop("action"))]
    return filled(STEP, {**new, **completions_and_decision([policy] if policy else [])})


def plain(value: Any) -> Any:
    """Return a value in a form that JSON can represent."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return value if isinstance(value, (str, int, float, bool, dict, list, type(None))) else str(value)
