"""The attempt log on disk: one folder per run, `<root>/browser-automation/YYYY-MM-DD/<traceId>/`.

    attempt.jsonl  one line per event: start, success, failure, cancelled, fallback, disabled
    summary.json   totals, success rate by provider and the decision, written when the run is over
    artifacts/     per attempt: screenshot, and for a failure the tree and the DOM

Everything is fully redacted (`browser_env.safety.redaction`) and written by two threads: one for lines, which reach the
disk at once, and one for artifacts. Episodes are stored separately, under the same `traceId`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from selfsurf.browser_env.attempts import events
from selfsurf.browser_env.attempts.attempt import Attempt, Evidence, Failure
from selfsurf.browser_env.attempts.disk import append_line, write_file
from selfsurf.browser_env.attempts.lane import Lane
from selfsurf.browser_env.attempts.retention import prune
from selfsurf.browser_env.attempts.settings import LogSettings
from selfsurf.browser_env.attempts.spans import Spans
from selfsurf.browser_env.safety.redaction import Redactor
from selfsurf.browser_env.text import well_formed

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_WAITING = 32
"""Maximum number of attempts with artifacts waiting to be written; artifacts of further attempts are dropped, and their
lines note it."""
_READY = ("arguments", "artifacts")
"""Fields exempt from redaction, because they are already redacted or contain only file names."""
_LINES_KEPT = 1000
"""Maximum number of lines kept in memory while the disk is full."""


class ArtifactSelection(NamedTuple):
    """Artifacts that the log keeps of an attempt."""

    screenshot: bool
    snapshot: bool


class FileLog:
    """The `AttemptLog` of one run, in files. Calls return immediately and may come from any thread.

    Args:
        trace_id: ID of the run; letters, digits, `.`, `_` and `-`. A run continued by another process keeps its folder.
        settings: location and size limits of the log.
        private: texts to mask in addition to the secrets of this process's environments.
        spans: OpenTelemetry spans to export as well; by default to the collector set in environment variables, if any.

    Raises:
        ValueError: the ID can't name a folder.
        OSError: the folder can't be created.
    """

    def __init__(
        self,
        trace_id: str,
        settings: LogSettings | None = None,
        *,
        private: Iterable[str] = (),
        spans: Spans | None = None,
    ) -> None:
        if not _ID.fullmatch(trace_id):
            raise ValueError(
                f"A traceId must consist of at most 128 letters, digits, '.', '_' and '-', not {trace_id!r}."
            )
        self._settings = settings or LogSettings()
        self.trace_id = trace_id
        self.folder = _folder_of(self._settings.folder, trace_id)
        (self.folder / "artifacts").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._redactor, self._spans = Redactor(private), spans or Spans.from_environment()
        self._logger = _logger()
        self._lines = Lane("selfsurf-attempts", partial(self._lost, "line"))
        self._artifacts = Lane("selfsurf-artifacts", partial(self._lost, "artifact"))
        self._counting = threading.Lock()
        self._started = self._failed = self._waiting = 0
        self._unwritten: list[str] = []
        self._not_written: dict[str, Any] = {}
        self._since_pruned = self._room = 0.0
        self.closed = False
        """Whether the run is over, that is, `close` was called."""
        self._artifacts.put(self._prune)

    def wanted(self, *, failed: bool) -> ArtifactSelection:
        """Return the artifacts to record of the attempt that has just ended; the router records no others."""
        every, each_failure = self._settings.screenshot_every, self._settings.snapshot_every
        with self._counting:
            shot = bool(every) and (failed or (self._started - 1) % every == 0)
            return ArtifactSelection(shot, failed and bool(each_failure) and self._failed % each_failure == 0)

    def started(self, attempt: Attempt) -> None:
        """Log the start of an attempt."""
        with self._counting:
            self._started += 1
        given, now = _copy(attempt.arguments), time.time()
        self._lines.put(lambda: self._write(attempt, given, "start", now, arguments=self._redactor.arguments(given)))

    def succeeded(self, attempt: Attempt, duration_ms: float, evidence: Evidence | None = None) -> None:
        """Log a successful attempt."""
        self._end(attempt, "success", duration_ms, None, evidence)

    def failed(self, attempt: Attempt, duration_ms: float, failure: Failure, evidence: Evidence | None = None) -> None:
        """Log a failed or cancelled attempt."""
        outcome: events.Outcome = "cancelled" if failure.type == "cancelled" else "failure"
        self._end(attempt, outcome, duration_ms, failure, evidence)

    def fell_back(self, attempt: Attempt, to: str, reason: str) -> None:
        """Log the fallback to another provider."""
        given, now = _copy(attempt.arguments), time.time()
        self._lines.put(lambda: self._write(attempt, given, "fallback", now, reason=reason, to=to))

    def disabled(self, attempt: Attempt, reason: str) -> None:
        """Log that the attempt's provider is disabled for the rest of the request."""
        given, now = _copy(attempt.arguments), time.time()
        self._lines.put(lambda: self._write(attempt, given, "disabled", now, reason=reason))

    def close(self, decision: str, reason: str = "") -> None:
        """End the log. The summary is written after all lines and artifacts."""
        self.closed = True
        self._lines.put(lambda: self._artifacts.put(lambda: self._lines.put(lambda: self._conclude(decision, reason))))

    def flush(self, seconds: float | None = None) -> bool:
        """Wait for all pending writes, with an optional timeout in seconds; return whether they are done.

        Optional, because an exiting process waits for them by itself.
        """
        return self._lines.wait(seconds) and self._artifacts.wait(seconds) and self._lines.wait(seconds)

    def _end(
        self,
        attempt: Attempt,
        outcome: events.Outcome,
        duration_ms: float,
        failure: Failure | None,
        evidence: Evidence | None,
    ) -> None:
        evidence = evidence or Evidence()
        shot = evidence.screenshot
        parts = {name: part for name in ("tree", "dom") if (part := getattr(evidence, name)) is not None}
        cut = list(evidence.cut)
        with self._counting:
            self._failed += outcome == "failure"
            if (shot is not None or parts) and self._waiting >= _WAITING:
                shot, parts = None, {}
                cut.append(
                    f"Left out because the disk is slow: artifacts of {_WAITING} attempts are waiting to be written."
                )
            self._waiting += shot is not None or bool(parts)
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", attempt.attempt_id)[:128]
        names = [f"artifacts/{stem}.png"] * (shot is not None) + [f"artifacts/{stem}.{name}.json" for name in parts]
        more: dict[str, Any] = {"url": evidence.url, "artifacts": names, "cut": cut}
        if evidence.status is not None:
            more["status"] = evidence.status
        if failure is not None:
            more |= {"reason": failure.message, "errorType": failure.type, "retryable": failure.retryable}
        given, now, values = _copy(attempt.arguments), time.time(), evidence.values

        def write_line() -> None:
            self._redactor.learn(values)
            self._redactor.learn_from(*parts.values())
            self._redactor.learn_arguments(given)
            self._write(attempt, given, outcome, now, duration_ms, **more)
            if names:
                self._artifacts.put(write_artifacts)

        def write_artifacts() -> None:
            try:
                if shot is not None:
                    self._keep(f"{stem}.png", shot)
                for name, part in parts.items():
                    text = json.dumps(self._redactor.record(part), ensure_ascii=False)
                    self._keep(f"{stem}.{name}.json", well_formed(text).encode())
            finally:
                with self._counting:
                    self._waiting -= 1

        self._lines.put(write_line)

    def _write(
        self,
        attempt: Attempt,
        given: Mapping[str, Any],
        outcome: events.Outcome,
        now: float,
        duration_ms: float | None = None,
        reason: str = "",
        **more: Any,
    ) -> None:
        """Write a line, after the lines that a full disk has held back."""
        hashed = json.dumps(self._redactor.arguments(given), sort_keys=True, ensure_ascii=False, default=str)
        line = {
            "ts": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "traceId": self.trace_id,
            "stepId": self._id(attempt.step_id),
            "attemptId": self._id(attempt.attempt_id),
            "action": attempt.action,
            "provider": attempt.provider,
            "durationMs": None if duration_ms is None else round(duration_ms, 3),
            "outcome": outcome,
            "reason": self._redactor.record(reason),
            "retryUsed": attempt.retry_used,
            "stagehandDisabled": attempt.stagehand_disabled,
            "toolArgsHash": hashlib.sha256(hashed.encode()).hexdigest(),
            **{name: value if name in _READY else self._redactor.record(value) for name, value in more.items()},
        }
        self._logger.info("browser_attempt", **line)
        self._unwritten = [
            *self._unwritten[-_LINES_KEPT:],
            well_formed(json.dumps(line, ensure_ascii=False, default=str)),
        ]
        self._write_out()
        if self._spans is not None:
            self._spans.tell(line, now)

    def _id(self, id: str) -> str:
        """Return a valid ID unchanged, although it may resemble a key; redact an invalid ID."""
        return id if _ID.fullmatch(id) else str(self._redactor.record(id))

    def _write_out(self) -> None:
        while self._unwritten:
            append_line(self.folder / "attempt.jsonl", self._unwritten[0])
            del self._unwritten[0]

    def _keep(self, name: str, data: bytes) -> None:
        if self._since_pruned + len(data) > self._room:
            self._prune()
            if len(data) > self._room:
                raise OSError(f"runs in progress use up the quota of {self._settings.quota_mb:g} MB")
        write_file(self.folder / "artifacts" / name, data)
        self._since_pruned += len(data)

    def _prune(self) -> None:
        quota = self._settings.quota_mb * 1e6
        left = prune(self._settings.folder, self._settings.keep_days, quota, spare=self.folder).left_bytes
        self._since_pruned, self._room = 0.0, min(quota - left, quota / 20)

    def _conclude(self, decision: str, reason: str) -> None:
        path = self.folder / "attempt.jsonl"
        try:
            self._write_out()
        except OSError as error:
            self._lost("line", error)
        lines = [*read_lines(path)] if path.exists() else []
        summary = events.summarise(lines, self._redactor.record(decision), self._redactor.record(reason))
        summary["traceId"] = self.trace_id
        lost = {**self._not_written, "lines": len(self._unwritten)}
        summary["notWritten"] = lost if any(lost.values()) else None
        try:
            write_file(self.folder / "summary.json", json.dumps(summary, ensure_ascii=False, indent=1).encode())
        finally:
            self._logger.info("browser_run", **summary)
            if summary["failures"] or summary["notWritten"] or (summary["reason"] and not summary["attempts"]):
                print(said(summary, self.folder), file=sys.stderr, flush=True)
            if self._spans is not None:
                self._spans.close(summary["decision"])
            self._artifacts.close()
            self._lines.close()

    def _lost(self, what: str, error: Exception) -> None:
        """Count a failed write, and report the first one on stderr. The run continues."""
        first = not self._not_written
        why = self._redactor.record(f"{type(error).__name__}: {error}")
        self._not_written["why"] = why
        self._not_written[f"{what}s"] = self._not_written.get(f"{what}s", 0) + 1
        if first:
            print(f"The attempt log in {self.folder} can't write its {what}: {why}", file=sys.stderr, flush=True)


def _copy(value: Any) -> Any:
    """Return a deep copy of plain data, with other objects replaced by their string form."""
    if isinstance(value, Mapping):
        return {str(key): _copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_copy(item) for item in value]
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else str(value)


def said(summary: Mapping[str, Any], folder: Path) -> str:
    """Return a one-line summary of a run and its failures."""
    kinds = ", ".join(f"{kind} {number}" for kind, number in summary["errors"].items())
    off = [name for name, one in summary["providers"].items() if one["disabled"]]
    parts = [
        f"browser run {summary['traceId']} ({summary['decision']}): ",
        f"{summary['failures']} of {summary['attempts']} attempts failed",
        f" ({kinds})" * bool(kinds),
        f", {summary['cancelled']} cancelled" * bool(summary["cancelled"]),
        f"; {summary['reason'].rstrip('.')}" * bool(summary["reason"]),
        f"; disabled: {', '.join(off)}" * bool(off),
        "; the log is incomplete" * bool(summary["notWritten"]),
        f": {folder}",
    ]
    return "".join(parts)


def read_lines(path: Path) -> Iterable[dict[str, Any]]:
    """Yield the lines of an `attempt.jsonl`, except a last line that was cut off by a kill.

    Raises:
        ValueError: another line is damaged; the message gives its number.
        OSError: the file can't be read.
    """
    with path.open("rb") as file:
        for number, data in enumerate(file, 1):
            try:
                line = json.loads(data)
            except (ValueError, RecursionError) as error:
                if not data.endswith(b"\n"):
                    return
                raise ValueError(f"{path}, line {number} is damaged: {error}.") from None
            if wrong := events.misfits(line):
                raise ValueError(f"{path}, line {number} is damaged: its {', '.join(wrong)}.")
            yield line


def _folder_of(folder: Path, trace_id: str) -> Path:
    begun = sorted(folder.glob(f"????-??-??/{trace_id}"))
    return begun[-1] if begun else folder / datetime.now(UTC).strftime("%Y-%m-%d") / trace_id


def _logger() -> Any:
    """Return a structured logger. Its output depends on the process's logging setup, which is left unchanged."""
    import logging

    import structlog

    return structlog.wrap_logger(
        logging.getLogger("selfsurf.attempts"),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_log_level,
            structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
