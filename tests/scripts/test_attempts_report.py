import json
import os

import pytest
from typer.testing import CliRunner

from selfsurf.browser_env.attempts.attempt import Attempt, Evidence, Failure
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.attempts.settings import LogSettings
from selfsurf.scripts.cli import app
from selfsurf.scripts.report.gate import judge, read_thresholds


@pytest.fixture
def logged(tmp_path):
    """Return a function that logs a run: attempts as (provider, action, error or "", retried)."""

    def log_it(trace, attempts, decision="solved", root=tmp_path / "logs"):
        log = FileLog(trace, LogSettings(root))
        for number, (provider, action, error) in enumerate(attempts):
            one = Attempt(trace, f"s{number}", f"a{number}", action, provider, {"instruction": "press [Save]"})
            log.started(one)
            if error == "none yet":
                continue
            if error:
                log.failed(
                    one, 10.0 * number, Failure(error, f"It *failed*: {error}", True), Evidence("http://a.test", b"png")
                )
            else:
                log.succeeded(one, 10.0 * number)
        log.close(decision)
        assert log.flush(10)
        return log

    return log_it


def report(*arguments):
    result = CliRunner().invoke(app, ["report", *map(str, arguments)], catch_exceptions=False)
    return result.exit_code, result.output


def test_logs_are_reported_by_provider_and_action(tmp_path, logged, monkeypatch):
    first = logged(
        "t-1",
        [
            ("stagehand", "act", ""),
            ("stagehand", "act", "timeout"),
            ("stagehand", "observe", ""),
            ("stagehand", "act", "none yet"),
        ],
    )
    last = Attempt("t-1", "s9", "a9", "act", "stagehand")
    first.fell_back(last, "webview", "slow")
    assert first.flush(10)
    logged("t-2", [("webview", "act", "crashed"), ("webview", "act", "timeout")], "failed")
    for name, text in (("t-3", '{"half": '), ("t-4", "[]\n")):
        (first.folder.parent / name).mkdir()
        (first.folder.parent / name / "attempt.jsonl").write_text(f"{text}\n")
    cut = logged("t-5", [("webview", "observe", "")])
    (cut.folder / "summary.json").unlink()
    with (cut.folder / "attempt.jsonl").open("a") as file:
        file.write('{"ts": "20')
    spoilt = logged("t-6", [("webview", "observe", "")])
    (spoilt.folder / "summary.json").write_text("{")
    monkeypatch.setenv("CLAW_LOG_DIR", str(tmp_path / "logs"))
    out = tmp_path / "docs" / "report.md"
    code, said = report("--out", out)
    assert code == 0
    assert said.count("Left out:") == 3
    for name in ("t-3", "t-4", "t-6"):
        assert name in said
    now = json.loads(out.with_suffix(".json").read_text())
    assert now["runs"] == 4
    assert now["decisions"] == {"solved": 1, "failed": 1, "cut off": 1, "unknown": 1}
    whole = now["providers"]["stagehand"]
    assert (whole["attempts"], whole["successes"], whole["unfinished"], whole["errors"]) == (3, 2, 1, {"timeout": 1})
    assert whole["interval"] == pytest.approx([0.2077, 0.9385], abs=1e-4)
    assert whole["actions"]["act"]["success"] == 0.5
    assert whole["ms"] == {"p50": 10.0, "p90": 18.0, "p99": 19.8}
    assert now["fallbacks"] == [{"from": "stagehand", "to": "webview", "times": 1}]
    assert {(one["provider"], one["error"]) for one in now["worst"]} == {
        ("stagehand", "timeout"),
        ("webview", "crashed"),
        ("webview", "timeout"),
    }
    text = out.read_text()
    assert "| stagehand | all | 3 | 66.7% | 20.8 to 93.9% | – | 1 | 0 | 0 | 10 | 18 | 19.8 |" in text
    assert r"It \*failed\*: crashed" in text
    link = text.split("[a0.png](")[1].split(")")[0]
    assert (out.parent / link).resolve().read_bytes() == b"png"
    code, said = report("--out", out, "--since", "2099-01-01", "--json")
    assert (code, json.loads(said)["runs"]) == (0, 0)


def test_attempts_that_their_caller_cancelled_are_counted_and_in_no_rate(tmp_path, logged):
    baseline = runs(logged, tmp_path, "before", 30, 0)
    logged("t", [("stagehand", "act", "")] * 30 + [("stagehand", "act", "cancelled")] * 20, root=tmp_path / "now")
    out = tmp_path / "now.md"
    code, said = report(tmp_path / "now", "--out", out, "--baseline", baseline, "--gate")
    assert (code, "success 100.0% of 30 attempts" in said) == (0, True), said
    whole = json.loads(out.with_suffix(".json").read_text())["providers"]["stagehand"]
    assert (whole["attempts"], whole["cancelled"], whole["errors"], whole["unfinished"]) == (30, 20, {}, 0)
    assert "| stagehand | all | 30 | 100.0% |" in out.read_text()
    assert "| 0 | 20 | 0 |" in out.read_text()


def runs(logged, tmp_path, name, right, wrong, error="timeout"):
    attempts = [("stagehand", "act", "")] * right + [("stagehand", "act", error)] * wrong
    logged("t", attempts, root=tmp_path / name)
    report(tmp_path / name, "--out", tmp_path / f"{name}.md")
    return tmp_path / f"{name}.json"


@pytest.mark.parametrize(
    ("right", "wrong", "error", "code", "says"),
    [
        (90, 10, "timeout", 0, "passed: stagehand: success 90.0%"),
        (82, 18, "timeout", 0, "passed: stagehand: success 82.0%"),  # 8.9% less
        (60, 40, "timeout", 1, "failed: stagehand: success 60.0%"),
        (94, 6, "blocked", 1, "failed: stagehand: new error blocked: 6 of 100 attempts"),
        (95, 5, "blocked", 0, "passed: stagehand"),
        (15, 5, "timeout", 3, "too few attempts to rule out chance"),
        (10, 0, "timeout", 3, "can't tell: stagehand: too few attempts: 10 now and 100 in the baseline; 20 are needed"),
    ],
)  # fmt: skip
def test_the_gate(tmp_path, logged, right, wrong, error, code, says):
    baseline = runs(logged, tmp_path, "before", 90, 10)
    runs(logged, tmp_path, "now", right, wrong, error)
    found, said = report(tmp_path / "now", "--out", tmp_path / "r.md", "--baseline", baseline, "--gate")
    assert (found, says in said) == (code, True), said
    assert "## Gate" in (tmp_path / "r.md").read_text()


def test_attempts_that_never_end_are_no_success(tmp_path, logged):
    baseline = runs(logged, tmp_path, "before", 100, 0)
    runs(logged, tmp_path, "now", 50, 50, "none yet")
    code, said = report(tmp_path / "now", "--out", tmp_path / "r.md", "--baseline", baseline, "--gate")
    assert (code, "success 50.0% of 100 attempts (50 unfinished)" in said) == (1, True), said
    logged("t", [("stagehand", "act", "none yet")], root=tmp_path / "killed")
    report(tmp_path / "killed", "--out", tmp_path / "k.md")
    assert "| stagehand | all | 0 |" in (tmp_path / "k.md").read_text()


def test_thresholds_come_from_a_file_and_the_baseline_may_lie_where_the_report_goes(tmp_path, logged):
    baseline = runs(logged, tmp_path, "before", 90, 10)
    (tmp_path / "gate.toml").write_text("max_drop = 0.5\nmax_new_error_share = 0.05\nmin_attempts = 5\n")
    runs(logged, tmp_path, "now", 60, 40)
    code, said = report(
        tmp_path / "now",
        "--out",
        baseline.with_suffix(".md"),
        "--baseline",
        baseline,
        "--gate",
        "--thresholds",
        tmp_path / "gate.toml",
    )
    assert (code, "passed: stagehand: success 60.0%" in said) == (0, True)
    assert "| stagehand | all | 100 | 60.0% | 50.2 to 69.1% | -30.0 |" in baseline.with_suffix(".md").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "There are no attempt logs in nowhere/browser-automation"),
        (["logs", "--gate"], "--gate needs --baseline"),
        (["logs", "--since", "yesterday"], "write a day as 2026-11-25"),
        (["logs", "--baseline", "bad.json"], "does not hold the figures of a report"),
        (["logs", "--baseline", "none.json"], "can't be read"),
        (["logs", "--thresholds", "bad.toml"], "max_drop"),
        (["logs", "--out", "r.json"], "r.json is the file for the figures"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_is_written(tmp_path, logged, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    logged("t", [("a", "act", "")])
    (tmp_path / "bad.json").write_text('{"format": 1, "providers": {"x": 3}}')
    (tmp_path / "bad.toml").write_text("max_drop = 3")
    code, said = report(*arguments)
    assert code == 2
    assert says in " ".join(said.replace("│", " ").split())
    assert not os.path.exists("docs")


def test_a_provider_that_is_new_or_gone_can_not_be_told():
    limits, one = read_thresholds(), {"attempts": 50, "successes": 50, "unfinished": 0, "success": 1.0, "errors": {}}
    found = judge({"providers": {"new": one}}, {"providers": {"gone": one}}, limits)
    assert [(each.provider, each.verdict) for each in found] == [("gone", "can't tell"), ("new", "can't tell")]
