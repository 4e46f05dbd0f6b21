"""`bench misled` counts who was misled apart from who solved it, by what lied."""

import json

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.bench import app


@pytest.mark.slow
def test_the_table_counts_the_misled_apart_from_the_solved(tmp_path):
    run = tmp_path / "run"
    ran = CliRunner().invoke(
        app,
        ["run", "misled", "--agent", "selfsurf.scripts.agents.first_match:FirstMatch", "--seeds", "1", "--workers", "3", "--out", str(run)]
        + [part for kind in ("plain", "disguised-link", "swapped") for part in ("--task", f"Misled/{kind}-v0")],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    made = CliRunner().invoke(app, ["misled", str(run), "--json"])
    groups = json.loads(made.stdout)[0]["groups"]
    assert groups["plain"] == groups["mouse"] == {"episodes": 1, "misled": 0, "solved": 1}
    assert groups["all that lie"]["episodes"] == 2
    table = CliRunner().invoke(app, ["misled", str(run)]).stdout
    assert "| plain | 0 / 1 of 1 |" in table
    wrong = CliRunner().invoke(app, ["misled", str(tmp_path)])
    assert (wrong.exit_code, "is not a results folder" in wrong.output) == (2, True)
    with (run / "results.jsonl").open("a") as lines:
        lines.write('{"task": "Misled/pl')  # as a kill leaves it
    assert CliRunner().invoke(app, ["misled", str(run)]).stdout == table
