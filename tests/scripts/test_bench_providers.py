"""`selfsurf bench providers`: scripts of the scenarios by real providers, judged by the pages, with logs to report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfsurf.browser_env import Safety
from selfsurf.browser_env.router.calls import ActArguments, ActResult
from selfsurf.browser_env.router.providers.playwright import PlaywrightProvider
from selfsurf.scripts.cli import app
from selfsurf.scripts.machine.loopback import serving


class Careless(PlaywrightProvider):
    """Presses nothing, and says that it did."""

    name = "careless"

    def __init__(self) -> None:
        super().__init__(safety=Safety(allowed=("127.0.0.1",)))

    async def act(self, arguments: ActArguments) -> ActResult:
        action = arguments.action
        return ActResult(url="", done="it") if action and action.name == "click" else await super().act(arguments)


def run(*words: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(app, ["bench", "providers", *words, "--seeds", "1", "--json"])
    return done.exit_code, json.loads(done.stdout)


def test_a_scenario_is_carried_out_judged_by_its_page_and_logged(tmp_path: Path) -> None:
    code, figures = run("--scenario", "move", "--attempt-log", str(tmp_path))
    (row,) = figures["rows"]
    assert (code, row["provider"], row["solved"], row["failed"]) == (0, "playwright", 1, [])
    (summary,) = tmp_path.rglob("summary.json")
    assert json.loads(summary.read_text())["decision"] == "solved"
    report = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path / "report.md")])
    assert report.exit_code == 0
    assert "| playwright | act | 7 | 100.0% |" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
def test_a_provider_that_only_says_so_has_failed(tmp_path: Path) -> None:
    careless = f"{__file__}:Careless"
    code, figures = run("--provider", careless, "--scenario", "register", "--attempt-log", str(tmp_path))
    (row,) = figures["rows"]
    assert (code, row["solved"]) == (1, 0)
    assert (row["failed"][0]["scenario"], row["failed"][0]["why"]) == ("register", "the page received nothing")


def test_a_live_page_is_looked_at_and_the_checklist_ticked(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<title>Shop</title><label>Card <input></label><button>Go</button>")
    with serving(tmp_path) as url:
        words = ["bench", "live", url, "--attempt-log", str(tmp_path / "a"), "--json"]
        refused = CliRunner().invoke(app, words, catch_exceptions=False)
        allowed = ["--allow-domain", "127.0.0.1", "--attempt-log", str(tmp_path / "b")]
        done = CliRunner().invoke(app, ["bench", "live", url, *allowed])
    assert refused.stdout, (refused.exit_code, refused.output)
    found = {one["check"]: one["found"] for one in json.loads(refused.stdout)}
    assert (refused.exit_code, "private network" in found["the page opens"]) == (1, True)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("[x]") == 11


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_scenarios_are_carried_out(tmp_path: Path) -> None:
    code, figures = run("--attempt-log", str(tmp_path))
    assert (code, figures["rows"][0]["runs"]) == (0, 12)
