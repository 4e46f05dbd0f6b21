"""Redacts an episode in full, to be shared: it explains what was done, and can no longer be learned from.

Without it an episode keeps what its owner chose, all but secrets. `episode.json` says which, in `redacted`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from selfsurf.browser_env.safety.redaction import Redactor

_SPELLED = ("prompt_token_ids", "prefill_token_ids", "token_ids", "logprobs")
"""What of a completion spells the page in tokens."""


def in_full() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what redacts the records of one episode, in their order: values that were met are masked later, too."""
    redactor = Redactor()

    def redact(record: dict[str, Any]) -> dict[str, Any]:
        redactor.learn_from(record)
        view = record.get("privileged") or {}
        for action in (*record.get("actions", ()), view.get("action")):
            redactor.learn_arguments(action if isinstance(action, Mapping) else {})
        if "completions" in record:
            bare: dict[str, Any] = {**{name: [] for name in _SPELLED}, "tokens": None}
            record = {**record, "completions": [{**one, **bare} for one in record["completions"]]}
        kept: dict[str, Any] = redactor.record(record)
        return kept

    return redact
