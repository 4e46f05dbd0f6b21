import time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from selfsurf.browser_env.attempts.attempt import Attempt, Evidence, Failure
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.attempts.settings import LogSettings


def test_a_run_goes_to_the_collector_that_the_environment_names(tmp_path, monkeypatch, loopback):
    bodies = []

    def collect(request):
        bodies.append((request.path, request.body))
        return 200, {"content-type": "application/x-protobuf"}, b""

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", loopback(collect).url)
    log = FileLog("t-1", LogSettings(tmp_path))
    one = Attempt("t-1", "s1", "a1", "act", "stagehand", {"instruction": "Type 'blue whale'"})
    log.started(one)
    time.sleep(0.02)
    log.failed(one, 20.0, Failure("timeout", "blue whale was not found", True), Evidence("http://a.test", b"png"))
    log.fell_back(one, "webview", "slow")
    other = Attempt("t-1", "s1", "a2", "act", "webview")
    log.started(other)
    log.succeeded(other, 1.0)
    log.close("solved")
    assert log.flush(20)
    assert {path for path, _ in bodies} == {"/v1/traces"}
    assert b"whale" not in b"".join(body for _, body in bodies)
    spans = {}
    for _, body in bodies:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                assert scope.schema_url == "https://opentelemetry.io/schemas/1.41.0"
                for span in scope.spans:
                    about = {each.key: each.value.string_value for each in span.attributes}
                    spans[about.get("gen_ai.tool.call.id", "run")] = (span, about)
    run, about = spans["run"]
    assert (run.name, about["selfsurf.trace_id"], about["selfsurf.decision"]) == (
        "invoke_workflow browser-automation",
        "t-1",
        "solved",
    )
    assert [event.name for event in run.events] == ["fallback"]
    failed, about = spans["a1"]
    assert failed.name == "execute_tool browser.act"
    assert (about["gen_ai.operation.name"], about["gen_ai.tool.name"], about["error.type"]) == (
        "execute_tool",
        "browser.act",
        "timeout",
    )
    assert (failed.status.code, failed.status.message) == (2, "<value> was not found")
    assert failed.end_time_unix_nano - failed.start_time_unix_nano >= 20e6
    assert {span.trace_id for span, _ in spans.values()} == {run.trace_id}
    assert {span.parent_span_id for span, _ in spans.values()} == {b"", run.span_id}
    assert spans["a2"][0].status.code == 0
