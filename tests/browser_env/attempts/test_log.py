import contextlib
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime

import pytest

from selfsurf.browser_env.attempts.attempt import Attempt, Evidence, Failure
from selfsurf.browser_env.attempts.disk import append_line
from selfsurf.browser_env.attempts.events import FIELDS
from selfsurf.browser_env.attempts.log import FileLog, read_lines
from selfsurf.browser_env.attempts.retention import prune
from selfsurf.browser_env.attempts.settings import LogSettings

PNG = b"\x89PNG\r\n\x1a\n"


def attempt(number, provider="stagehand", trace="t-1", **more):
    return Attempt(trace, f"step-{number}", f"a{number}", "act", provider, {"instruction": "press Save"}, **more)


def run(log):
    """A failure, its retry, a fallback and a success."""
    log.started(attempt(1))
    log.failed(
        attempt(1),
        12.5,
        Failure("timeout", "it took too long", True),
        Evidence("http://a.test/?q=x", PNG, {"role": "main"}, {"tag": "p"}),
    )
    log.started(attempt(2, retry_used=True))
    log.failed(attempt(2, retry_used=True), 3.0, Failure("crashed", "the browser is gone", False))
    log.disabled(attempt(2, retry_used=True), "it failed twice")
    log.fell_back(attempt(2, retry_used=True), "webview", "the browser is gone")
    log.started(attempt(3, "webview", stagehand_disabled=True))
    log.succeeded(attempt(3, "webview", stagehand_disabled=True), 7.0, Evidence(screenshot=PNG))
    log.close("solved")
    assert log.flush(10)


def test_a_run_is_told_in_lines_a_summary_and_artifacts(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setenv("CLAW_LOG_DIR", str(tmp_path))
    with caplog.at_level(logging.INFO, "selfsurf.attempts"):
        log = FileLog("t-1")
        run(log)
    assert log.folder == tmp_path / "browser-automation" / datetime.now(UTC).strftime("%Y-%m-%d") / "t-1"
    lines = list(read_lines(log.folder / "attempt.jsonl"))
    assert [line["outcome"] for line in lines] == [
        "start", "failure", "start", "failure", "disabled", "fallback", "start", "success",
    ]  # fmt: skip
    assert all(FIELDS.keys() <= line.keys() for line in lines)
    assert len({line["toolArgsHash"] for line in lines}) == 1
    failure = lines[1]
    assert (failure["durationMs"], failure["reason"], failure["errorType"]) == (12.5, "it took too long", "timeout")
    assert failure["url"] == "http://a.test/?q=<redacted>"
    assert failure["artifacts"] == ["artifacts/a1.png", "artifacts/a1.tree.json", "artifacts/a1.dom.json"]
    assert lines[7]["artifacts"] == ["artifacts/a3.png"]
    assert sorted(os.listdir(log.folder / "artifacts")) == ["a1.dom.json", "a1.png", "a1.tree.json", "a3.png"]
    summary = json.loads((log.folder / "summary.json").read_text())
    assert (summary["decision"], summary["attempts"], summary["failures"], summary["fallbacks"]) == ("solved", 3, 2, 1)
    assert summary["providers"]["stagehand"]["successRate"] == 0
    assert summary["providers"]["stagehand"]["disabled"] == "it failed twice"
    assert summary["errors"] == {"timeout": 1, "crashed": 1}
    assert [json.loads(record.message)["outcome"] for record in caplog.records[:-1]] == [
        line["outcome"] for line in lines
    ]
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert capsys.readouterr().err == (
        f"browser run t-1 (solved): 2 of 3 attempts failed (timeout 1, crashed 1); disabled: stagehand: {log.folder}\n"
    )
    assert oct((log.folder / "attempt.jsonl").stat().st_mode)[-3:] == "600"


def test_what_a_caller_gave_up_is_no_failure(tmp_path, capsys):
    log = FileLog("t-1", LogSettings(tmp_path))
    for number, ended in enumerate(("success", "cancelled", "cancelled")):
        log.started(attempt(number))
        if ended == "success":
            log.succeeded(attempt(number), 1.0)
        else:
            log.failed(attempt(number), 5.0, Failure("cancelled", "The caller gave it up.", False))
    log.close("stopped")
    assert log.flush(10)
    line = list(read_lines(log.folder / "attempt.jsonl"))[-1]
    assert (line["outcome"], line["reason"]) == ("cancelled", "The caller gave it up.")
    summary = json.loads((log.folder / "summary.json").read_text())
    assert (summary["attempts"], summary["failures"], summary["cancelled"], summary["errors"]) == (3, 0, 2, {})
    provider = summary["providers"]["stagehand"]
    assert (provider["successRate"], provider["failures"], provider["cancelled"]) == (1.0, 0, 2)
    assert capsys.readouterr().err == ""


def test_ids_that_look_like_keys_stay(tmp_path):
    trace, id = (uuid.UUID(int=number).hex.replace("0", "a7") for number in (0xA1B2C3D4E5F6, 0xF6E5D4C3B2A1))
    log = FileLog(trace, LogSettings(tmp_path))
    one = Attempt(trace, id[:32], id, "act", "stagehand")
    log.started(one)
    log.failed(one, 1.0, Failure("timeout", "late", True), Evidence("", PNG, {"role": "main"}))
    log.close("failed")
    assert log.flush(10)
    *_, line = read_lines(log.folder / "attempt.jsonl")
    assert (line["traceId"], line["stepId"], line["attemptId"]) == (trace, id[:32], id)
    assert [(log.folder / name).is_file() for name in line["artifacts"]] == [True, True]


@pytest.mark.slow
def test_a_process_that_ends_writes_all_first(tmp_path):
    code = KILLED.replace("range(100000)", "range(2)") + "log.close('solved')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True)
    folder = next((tmp_path / "browser-automation").glob("*/killed"))
    assert json.loads((folder / "summary.json").read_text())["failures"] == 2
    assert len(list((folder / "artifacts").iterdir())) == 4


def test_a_run_without_failures_is_silent(tmp_path, capsys):
    log = FileLog("t-2", LogSettings(tmp_path))
    log.started(attempt(1))
    log.succeeded(attempt(1), 1.0)
    log.close("stopped")
    assert log.flush(10)
    assert capsys.readouterr().err == ""


def test_a_run_in_which_nothing_was_tried_has_a_summary(tmp_path):
    log = FileLog("t-1", LogSettings(tmp_path))
    log.close("stopped")
    assert log.flush(10)
    assert json.loads((log.folder / "summary.json").read_text())["attempts"] == 0


def test_how_often_pictures_and_snapshots_are_kept_is_set(tmp_path):
    log = FileLog("t-1", LogSettings(tmp_path, screenshot_every=3, snapshot_every=2))
    kept = []
    for number in range(8):
        failed = number > 3
        log.started(attempt(number))
        kept.append(tuple(log.wanted(failed=failed)))
        if failed:
            log.failed(attempt(number), 1.0, Failure("unknown", "", False))
        else:
            log.succeeded(attempt(number), 1.0)
    yes, no = True, False
    assert kept == [(yes, no), (no, no), (no, no), (yes, no), (yes, yes), (yes, no), (yes, yes), (yes, no)]
    assert log.flush(10)
    assert FileLog("t-2", LogSettings(tmp_path, screenshot_every=0, snapshot_every=0)).wanted(failed=True) == (no, no)


KILLED = """
import sys, time
from pathlib import Path
from selfsurf.browser_env.attempts.attempt import Attempt, Evidence, Failure
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.attempts.settings import LogSettings
log, tree = FileLog("killed", LogSettings(Path(sys.argv[1]))), [{"role": "link", "name": f"word {n}"} for n in range(1000)]
for number in range(100000):
    one = Attempt("killed", "s", f"a{number}", "act", "stagehand")
    log.started(one)
    log.failed(one, 1.0, Failure("timeout", "late", True), Evidence("", b"p" * 100000, tree))
    time.sleep(0.1)
    print(number, flush=True)
"""


def test_a_kill_costs_at_most_the_last_line(tmp_path):
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        while int(process.stdout.readline()) < 8:
            pass
        process.send_signal(signal.SIGKILL)
        told = [8, *map(int, process.stdout.read().split())][-1]
    folder = next((tmp_path / "browser-automation").glob("*/killed"))
    lines = list(read_lines(folder / "attempt.jsonl"))
    assert len(lines) >= 2 * (told + 1) - 1
    assert [line["attemptId"] for line in lines] == [f"a{number // 2}" for number in range(len(lines))]
    assert not (folder / "summary.json").exists()
    for artifact in (folder / "artifacts").glob("*.json"):  # whole or not there
        assert len(json.loads(artifact.read_text())) == 1000
    log = FileLog("killed", LogSettings(tmp_path))  # it goes on in the same folder
    with (log.folder / "attempt.jsonl").open("a") as file:
        file.write('{"ts": "2026')
    log.started(attempt(99, trace="killed"))
    log.close("stopped")
    assert log.flush(10)
    assert log.folder == folder
    assert [line["attemptId"] for line in read_lines(folder / "attempt.jsonl")][len(lines) :] == ["a99"]
    assert json.loads((folder / "summary.json").read_text())["unfinished"] >= 1


def test_a_full_disk_is_said_and_the_run_goes_on(tmp_path, capsys):
    log = FileLog("t-1", LogSettings(tmp_path))
    (log.folder / "attempt.jsonl").symlink_to("/dev/full")
    log.started(attempt(1))
    log.failed(attempt(1), 1.0, Failure("timeout", "late", True))
    assert log.flush(10)
    said = capsys.readouterr().err
    assert "can't write its line: OSError: [Errno 28] No space left on device" in said
    assert said.count("\n") == 1
    (log.folder / "attempt.jsonl").unlink()  # there is room again
    log.started(attempt(2))
    log.close("stopped")
    assert log.flush(10)
    assert [line["attemptId"] for line in read_lines(log.folder / "attempt.jsonl")] == ["a1", "a1", "a2"]
    assert json.loads((log.folder / "summary.json").read_text())["notWritten"]["why"].startswith("OSError: [Errno 28]")


def test_half_a_line_is_taken_back(tmp_path):
    limits, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        append_line(tmp_path / "file", "x" * 60)
        with pytest.raises(OSError, match="File too large"):
            append_line(tmp_path / "file", "y" * 60)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert (tmp_path / "file").read_text() == "x" * 60 + "\n"


def test_old_runs_and_what_is_above_the_quota_are_deleted(tmp_path):
    now = time.time()
    for name, days, finished in (
        ("old", 40, True),
        ("hung", 40, False),
        ("first", 3, True),
        ("second", 2, True),
        ("running", 0.1, False),
    ):
        folder = tmp_path / "2026-01-01" / name
        folder.mkdir(parents=True)
        for file in ("attempt.jsonl", *(["summary.json"] if finished else [])):
            (folder / file).write_bytes(b"x" * 1000)
            os.utime(folder / file, (now - days * 86400,) * 2)
    assert prune(tmp_path, 30, 10_000).runs == 2
    assert sorted(os.listdir(tmp_path / "2026-01-01")) == ["first", "running", "second"]
    left = prune(tmp_path, 30, 500)
    assert (left.runs, left.left_bytes) == (2, 1000)
    assert os.listdir(tmp_path / "2026-01-01") == ["running"]


def test_artifacts_stop_where_runs_that_go_on_fill_the_quota(tmp_path, capsys):
    log = FileLog("t-1", LogSettings(tmp_path, quota_mb=0.01))
    log.started(attempt(1))
    log.succeeded(attempt(1), 1.0, Evidence(screenshot=PNG * 2000))
    log.close("stopped")
    assert log.flush(10)
    assert os.listdir(log.folder / "artifacts") == []
    assert "use up the quota of 0.01 MB" in capsys.readouterr().err
    assert json.loads((log.folder / "summary.json").read_text())["notWritten"]["artifacts"] == 1


def test_what_can_not_be_is_refused(tmp_path):
    with pytest.raises(ValueError, match="A traceId must consist of at most 128 letters"):
        FileLog("../x", LogSettings(tmp_path))
    with pytest.raises(ValueError, match="quota_mb must be a number above 0, not 0"):
        LogSettings(quota_mb=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        FileLog("t", LogSettings(tmp_path / "file"))


def test_a_call_returns_at_once_whatever_the_disk_does(tmp_path):
    log = FileLog("t-1", LogSettings(tmp_path))
    log.flush()
    os.mkfifo(log.folder / "attempt.jsonl")  # which blocks whoever writes once it is full
    reader = os.open(log.folder / "attempt.jsonl", os.O_RDONLY | os.O_NONBLOCK)
    start = time.perf_counter()
    for number in range(400):
        log.started(attempt(number))
    assert time.perf_counter() - start < 2
    assert not log.flush(0.5)
    read = b""
    while read.count(b"\n") < 400:
        with contextlib.suppress(BlockingIOError):
            read += os.read(reader, 1 << 20)
    os.close(reader)
    assert log.flush(10)
