"""Run ruff, mypy and pytest, run what failed once more by itself, and say in the last line what came of it.

    .venv/bin/python tests/suite.py [options of pytest]

A test that fails beside others and passes alone is unstable: it is named, and more than three of them fail the run.
The verdict is in `runs/tests/results.json`, too, and pytest's own reports are beside it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "runs" / "tests"
MOST_UNSTABLE = 3
MOST_AGAIN = 12
"""Failed tests that are run again; where more have failed, something else is wrong."""
WORKERS = 3
"""On two cores, which two workers leave idle for a tenth of the time: pages are waited for."""
PATIENCE = 15
"""Seconds that a program has to end after Ctrl-C."""
CHECKS = {"ruff check": ["ruff", "check", "."], "ruff format": ["ruff", "format", "--check", "."]}
BESIDE = {"mypy": ["mypy"]}
"""Checks that take long: they run beside the tests."""


class Stopped(Exception):
    """The run was ended from outside."""


class Suite:
    """One run, and what is known of it so far."""

    def __init__(self, options: list[str]) -> None:
        self.options = options
        self.began = time.monotonic()
        self.running: list[subprocess.Popen[bytes]] = []
        self.wrong: list[str] = []
        """Checks that failed, and ways for pytest to end that are no test's failure."""
        self.failed: list[str] = []
        self.uncollected = False
        """Could tests not be collected?"""
        self.unstable: list[str] = []
        self.counted: Counter[str] = Counter()

    def run(self) -> None:
        """Run everything.

        Raises:
            Stopped: SIGINT, SIGTERM or SIGHUP came.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stop)
        for name, words in CHECKS.items():
            if self._module(*words):
                self.wrong.append(name)
        reports = RESULTS / "reports.jsonl"
        RESULTS.mkdir(parents=True, exist_ok=True)
        reports.unlink(missing_ok=True)
        (RESULTS / "results.json").unlink(missing_ok=True)
        beside = {name: self._start(*words, said=RESULTS / f"{name}.txt") for name, words in BESIDE.items()}
        try:
            code = self._module(
                "pytest", "-n", str(WORKERS), "--dist", "worksteal", "--durations=10",
                f"--report-log={reports}", *self.options,
            )  # fmt: skip
        finally:
            self._count(reports)
        if code == 1 and self.failed and not self.uncollected:
            self._again()
        elif code:
            self.wrong.append(f"pytest ended with {code}")
        elif not self.counted["passed"]:
            self.wrong.append("no test was run")
        for name, program in beside.items():
            if program.wait():
                self.wrong.append(name)
            print((RESULTS / f"{name}.txt").read_text(encoding="utf8"), end="", flush=True)

    def _again(self) -> None:
        if len(self.failed) > MOST_AGAIN:
            print(f"\n{len(self.failed)} tests failed, too many to run each again.", flush=True)
            return
        slow = ["--slow"] if {"--slow", "-m"} & set(self.options) else []
        reports = RESULTS / "again.jsonl"
        for test in list(self.failed):
            print(f"\n--- again, by itself: {test}", flush=True)
            code = self._module("pytest", "-q", "-p", "no:cacheprovider", f"--report-log={reports}", *slow, test)
            if not code and _outcomes(_read(reports)).get(test) == "passed":  # one that is skipped now says nothing
                self.failed.remove(test)
                self.unstable.append(test)
                self.counted["passed"] += 1

    def _module(self, *words: str) -> int:
        program = self._start(*words)
        try:
            return program.wait()
        finally:
            self._end(program)

    def _start(self, *words: str, said: Path | None = None) -> subprocess.Popen[bytes]:
        # In a session of its own, or Ctrl-C would reach it twice.
        out = None if said is None else said.open("wb")
        program = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, start_new_session=True
        )
        self.running.append(program)
        if out is not None:
            out.close()
        return program

    def _end(self, program: subprocess.Popen[bytes]) -> None:
        """End a program that still runs, so that it can end its own."""
        for way in (signal.SIGINT, signal.SIGKILL):
            if program.poll() is None:
                program.send_signal(way)
                try:
                    program.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    continue

    def _count(self, reports: Path) -> None:
        read = _read(reports)
        outcomes = _outcomes(read)
        self.uncollected = any(
            report.get("$report_type") == "CollectReport" and report["outcome"] == "failed" for report in read
        )
        self.failed = [test for test, outcome in outcomes.items() if outcome == "failed"]
        self.counted = Counter(outcome for outcome in outcomes.values() if outcome != "failed")

    def end(self, stopped: str = "") -> int:
        """End what still runs and say what came of it; return the exit code."""
        for program in self.running:
            self._end(program)
        bad = bool(stopped or self.wrong or self.failed or len(self.unstable) > MOST_UNSTABLE)
        for kind, tests in (("failed", self.failed), ("unstable", self.unstable)):
            for test in tests:
                print(f"{kind}: {test}")
        seconds = round(time.monotonic() - self.began)
        result = {
            "verdict": stopped or ("failed" if bad else "passed"),
            "passed": self.counted["passed"],
            "failed": self.failed,
            "unstable": self.unstable,
            "skipped": self.counted["skipped"],
            "wrong": self.wrong,
            "seconds": seconds,
            "options": self.options,
        }
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf8")
        counts = f"{result['passed']} passed, {len(self.failed)} failed, {len(self.unstable)} unstable"
        also = f"; {', '.join(self.wrong)}" if self.wrong else ""
        took = f"{seconds // 60}:{seconds % 60:02}"
        print(f"{result['verdict']}: {counts}, {result['skipped']} skipped{also} in {took}", flush=True)
        return int(bad)


def _read(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a log whose writer may have been killed."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf8").split("\n")[:-1]]


def _outcomes(reports: list[dict[str, Any]]) -> dict[str, str]:
    """What became of each test."""
    outcomes: dict[str, str] = {}
    for report in reports:
        if report.get("$report_type") != "TestReport":
            continue
        test = report["nodeid"]
        if report["outcome"] == "failed" or outcomes.get(test) == "failed":
            outcomes[test] = "failed"
        elif report["when"] == "call" or report["outcome"] == "skipped":
            outcomes[test] = report["outcome"]
    return outcomes


def _stop(number: int, _: object) -> None:
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise Stopped(signal.Signals(number).name)


def main() -> int:
    """Run the suite. Exit code 0: all passed, three unstable tests at most; 128 + N: ended by signal N."""
    suite = Suite(sys.argv[1:])
    try:
        suite.run()
    except Stopped as stopped:
        suite.end(f"ended by {stopped}")
        return 128 + signal.Signals[str(stopped)]
    return suite.end()


if __name__ == "__main__":
    sys.exit(main())
