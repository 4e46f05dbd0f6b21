"""OpenTelemetry spans of a run, built from the redacted lines of its log: one for the run, with one child per attempt.

Needs the extra `otel`, which is imported only if an exporter is set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.attempts import span_names as names
from selfsurf.browser_env.attempts.events import ENDS
from selfsurf.extras import how_to_install

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Environment variables with the address that spans are sent to, by OTLP over HTTP."""


class Spans:
    """The spans of one run, exported in batches by a thread of the SDK.

    Args:
        exporter: destination of the spans.

    Raises:
        ModuleNotFoundError: the SDK is not installed; the message explains how to install it.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ModuleNotFoundError as error:
            raise _not_installed(error) from None
        self._trace = trace
        self._provider = TracerProvider(resource=Resource.create({"service.name": "selfsurf"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("selfsurf.attempts", schema_url=names.SCHEMA)
        self._run: Any = None
        self._open: dict[str, Any] = {}

    @classmethod
    def from_environment(cls) -> Spans | None:
        """Return spans for the collector set in environment variables; None if none is set."""
        if not any(os.environ.get(name) for name in ENDPOINTS):
            return None
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ModuleNotFoundError as error:
            raise _not_installed(error) from None
        return cls(OTLPSpanExporter())

    def tell(self, line: Mapping[str, Any], now: float) -> None:
        """Convert a line of the log into a span or an event.

        Args:
            line: redacted line.
            now: time of the event in Unix seconds.
        """
        at = int(now * 1e9)
        if self._run is None:
            about = {
                names.OPERATION: names.INVOKE_WORKFLOW,
                names.WORKFLOW_NAME: names.WORKFLOW,
                names.TRACE_ID: line["traceId"],
            }
            self._run = self._tracer.start_span(
                f"{names.INVOKE_WORKFLOW} {names.WORKFLOW}", attributes=about, start_time=at
            )
        if line["outcome"] == "start":
            self._open[line["attemptId"]] = self._begin(line, at)
        elif line["outcome"] in ENDS:
            span = self._open.pop(line["attemptId"], None) or self._begin(
                line, at - int((line["durationMs"] or 0) * 1e6)
            )
            if line["outcome"] == "cancelled":
                span.set_attribute(names.REASON, line["reason"])
            elif line["outcome"] == "failure":
                span.set_attributes({names.ERROR_TYPE: line["errorType"], names.RETRYABLE: line["retryable"]})
                span.set_status(self._trace.StatusCode.ERROR, line["reason"])
            span.end(at)
        else:
            about = {names.PROVIDER: line["provider"], names.REASON: line["reason"], names.TO: line.get("to", "")}
            self._run.add_event(line["outcome"], about, at)

    def close(self, decision: str = "") -> None:
        """End all open spans and export the rest."""
        for span in (*self._open.values(), *([self._run] if self._run is not None else ())):
            span.set_attribute(names.DECISION, decision)
            span.end()
        self._provider.shutdown()

    def _begin(self, line: Mapping[str, Any], at: int) -> Any:
        tool = names.TOOL_PREFIX + line["action"]
        about = {
            names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: tool, names.TOOL_TYPE: names.TOOL_TYPE_FUNCTION,
            names.TOOL_CALL_ID: line["attemptId"], names.STEP_ID: line["stepId"], names.PROVIDER: line["provider"],
            names.RETRY_USED: line["retryUsed"],
        }  # fmt: skip
        parent = self._trace.set_span_in_context(self._run)
        return self._tracer.start_span(f"{names.EXECUTE_TOOL} {tool}", parent, attributes=about, start_time=at)


def _not_installed(error: ModuleNotFoundError) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"Spans need the package {error.name}: {how_to_install('otel')}", name=error.name)
