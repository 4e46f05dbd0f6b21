"""Full redaction of an episode for sharing: it still explains what was done, but can't be used for training.

By default an episode keeps everything except secrets. `redacted` in `episode.json` records which of the two applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from selfsurf.browser_env.safety.redaction import Redactor

_SPELLED = ("prompt_token_ids", "prefill_token_ids", "token_ids", "logprobs")
"""Fields of a completion that contain the page's text as tokens."""


def in_full() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a redaction function for the records of one episode. Values met in a record are masked in later ones."""
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
