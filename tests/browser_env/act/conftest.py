"""The table that a run of `test_libraries.py` ends with."""

import json
from collections import Counter
from pathlib import Path

VERDICTS = ("right", "awkward", "wrong")


def pytest_addoption(parser):
    parser.addoption("--json", metavar="FILE", help="write the verdicts on the libraries' gestures as JSON")


def pytest_terminal_summary(terminalreporter, config):
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    rows = [dict(report.user_properties).get("gesture") for report in reports if report.when == "call"]
    rows = sorted(filter(None, rows), key=lambda row: (row["kind"], row["library"], row["way"]))
    if not rows:
        return
    counts = {
        kind: Counter(row["verdict"] for row in rows if row["kind"] == kind) for kind in [row["kind"] for row in rows]
    }
    terminalreporter.section("gestures of libraries")
    for row in rows:
        reason = row["reason"].partition("\n")[0]
        widget = f"{row['library']} {row['version']} {row['way']}"
        terminalreporter.write_line(f"{row['kind']:16} {widget:45} {row['verdict']:8} {reason}".rstrip())
    terminalreporter.write_line("")
    for kind, count in {**counts, "all": sum(counts.values(), Counter())}.items():
        libraries = len({row["library"] for row in rows if kind in (row["kind"], "all")})
        verdicts = "  ".join(f"{count[verdict]:3} {verdict}" for verdict in VERDICTS)
        terminalreporter.write_line(f"{kind:16} {libraries:3} libraries  {verdicts}")
    if config.getoption("--json", None):
        Path(config.getoption("--json")).write_text(json.dumps({"trials": rows, "kinds": counts}, indent=2) + "\n")
