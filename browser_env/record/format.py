"""Format 2 of an episode: its fields with their empty values, and format 1 brought into the same shape.

`docs/episodes.md` is the specification. Knows nothing about files and browsers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from selfsurf.browser_env.actions import Action, parse_action

FORMAT = 2
"""The format that is written."""

READABLE = (1, FORMAT)
"""The formats that can be read."""

EPISODE: dict[str, Any] = {
    "format": FORMAT, "episode_id": "", "env_id": "Browser-v0", "task": None, "seed": None, "goal": "", "url": None,
    "viewport": None, "agent": None, "model": None, "adapter": None, "recorded": False, "environment": {},
    "versions": {}, "started": None, "ended": None, "outcome": "running", "outcome_detail": "", "trainable": None,
    "score": {}, "verdict": None, "tags": [], "traceId": None,
    "redacted": "secrets", "totals": {}, "final": None, "final_screenshot": None,
    "traceback": None, "terminal_reason": "", "terminal_type": "",
}  # fmt: skip
"""The fields of `episode.json`."""

STEP: dict[str, Any] = {
    "step": 0, "time": None, "observation": {}, "screenshot": None, "completions": [], "decision": None,
    "narration": "", "actions": [], "action_path": "", "questions": [], "waiting": None, "risk": None,
    "privileged": None, "reward": 0.0, "outcome": "running", "outcome_detail": "", "score": {}, "error": "",
    "events": [], "requests": None, "timing": {},
}  # fmt: skip
"""The fields of a line of `steps.jsonl`."""

COMPLETION: dict[str, Any] = {
    "prompt": [], "text": "", "prompt_token_ids": [], "prefill_token_ids": [], "token_ids": [], "logprobs": [],
    "tokens": None, "grammar": None, "finish_reason": None, "usage": None, "error": "", "thinking": "",
}  # fmt: skip
"""The fields of an entry of `completions`."""

DECISION: dict[str, Any] = {
    "guard": "", "guards": {}, "demonstrated": False, "more": [], "place": 0, "left": "", "roles": [], "graph": {},
}  # fmt: skip
"""The fields of `decision`: what the agent made of its completions."""


_OR_NULL: dict[str, type | tuple[type, ...]] = {
    "task": str, "seed": int, "url": str, "viewport": list, "agent": str, "model": str, "adapter": str,
    "started": (int, float), "ended": (int, float), "trainable": bool, "verdict": dict, "traceId": str, "final": dict,
    "final_screenshot": str, "traceback": str, "time": (int, float), "screenshot": str, "decision": dict,
    "waiting": dict, "risk": dict, "privileged": dict,
    "requests": list,
}  # fmt: skip
"""Types of the fields whose empty value is null. Those of the others are their empty values'."""


def misfits(empty: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    """Return the fields of an episode or a step whose type is not what the format says."""
    wrong = []
    for name, value in empty.items():
        found, kind = record[name], _OR_NULL.get(name) or ((int, float) if type(value) is float else type(value))
        if not (isinstance(found, kind) or (value is None and found is None)):
            wrong.append(name)
    return wrong


def filled(empty: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record that has every field; what is not given has its empty value."""
    return {**deepcopy(dict(empty)), **given}


def completions_and_decision(
    records: Iterable[Mapping[str, Any]], decision: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the fields `completions` and `decision` of a step.

    Args:
        records: what the agent recorded of each completion (`agents.play.provenance`). The last one's decision is the
            step's.
        decision: that of a step for which no model was asked.
    """
    completions: list[dict[str, Any]] = []
    decision = decision and filled(DECISION, decision)
    for record in records:
        completions.append(filled(COMPLETION, {key: record[key] for key in record if key not in DECISION}))
        decision = filled(DECISION, {key: record[key] for key in record if key in DECISION})
    return {"completions": completions, "decision": decision}


def action_entry(action: Any) -> dict[str, Any]:
    """Return an entry of `actions` from an action's data or JSON text; what is neither is `{"unreadable": text}`."""
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
        ActionError: it is not one.
    """
    return parse_action(entry.get("unreadable", dict(entry)))


def asked(action: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the field `questions`: what an `ask_user` asked and, where somebody answered, what was said."""
    if action.get("action") != "ask_user" or not isinstance(action.get("question"), str):
        return []
    new = after["messages"][len(before["messages"]) :]
    answer = next((message["text"] for message in new if message["role"] == "user"), None)
    return [{"question": action["question"], "answer": answer}]


def current_episode(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `episode.json` holds in the shape of format 2; fields that this version doesn't know stay."""
    if meta["format"] == FORMAT:
        return filled(EPISODE, meta)
    new = dict(meta)
    totals = dict(new.pop("totals", {}))
    new["agent"] = new.get("agent") or new.pop("backend", None)
    new["score"] = totals.pop("score", None) or {}
    new["outcome_detail"] = totals.pop("detail", "") or new.pop("error", "")
    return filled(EPISODE, {**new, "totals": totals})


def current_step(record: Mapping[str, Any], written_in: int) -> dict[str, Any]:
    """Return a line of `steps.jsonl` in the shape of format 2."""
    if written_in == FORMAT:
        return filled(STEP, record)
    new = dict(record)
    policy = new.pop("policy", None)
    new["actions"] = [action_entry(new.pop("action"))]
    return filled(STEP, {**new, **completions_and_decision([policy] if policy else [])})


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return value if isinstance(value, (str, int, float, bool, dict, list, type(None))) else str(value)
