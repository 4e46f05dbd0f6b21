"""`selfsurf report`: what the attempt logs come to, and whether it got worse."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from selfsurf.scripts.report.attempts import FORMAT, figures
from selfsurf.scripts.report.attempts_report import report
from selfsurf.scripts.report.gate import judge, read_thresholds
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.moments import Since, moment

CANT_TELL = 3
"""Exit code of a gate that too few attempts pass."""


class Settings(Arguments):
    """Which logs, and what they are compared with."""

    root: Annotated[Path | None, typer.Argument()] = Field(
        default=None, description="Folder with browser-automation/; by default what CLAW_LOG_DIR names, else runs."
    )
    out: Path = Path("docs", "ops", "browser-automation-report.md")
    """The report; its figures go beside it, with the ending .json."""
    since: Since = None
    """First day that counts, such as 2026-11-25, or a duration, such as 7d; all days if not given."""
    candidates: Path = Path("candidates.toml")
    """File of `selfsurf sample`, if it is there: the report counts what was sampled and what was left out, and why."""
    baseline: Path | None = None
    """Figures (.json) of an earlier report to compare with."""
    gate: bool = False
    """Fail where a provider's success fell, or a new type of error came up; needs --baseline."""
    thresholds: Path | None = None
    """TOML file of what the gate fails by; by default 10% of the success, 5% of the attempts, 20 attempts at least."""


@command
def main(settings: Settings) -> int:
    """Report on the attempts that were logged.

    The exit code of --gate is 1 if something got worse, 3 if there are too few attempts to tell, else 0; 2 for options
    that can't be, which write nothing.
    """
    from selfsurf.browser_env.attempts.settings import LogSettings

    folder = LogSettings(settings.root).folder
    if settings.out.is_dir():
        raise typer.BadParameter(f"--out: {settings.out} is a folder; give a file, such as {settings.out}/report.md.")
    if settings.out.suffix == ".json":
        raise typer.BadParameter(f"--out: the figures go to {settings.out}; name the report, such as report.md.")
    sampling = _sampling(settings.candidates)
    if not folder.is_dir() and sampling is None and folder.name == folder.parent.name:
        raise typer.BadParameter(f"{folder.parent} is below the root of the logs: give {folder.parent.parent}.")
    if not folder.is_dir() and sampling is None:
        raise typer.BadParameter(f"There are no attempt logs in {folder}. Name their root, or set CLAW_LOG_DIR.")
    if settings.gate and settings.baseline is None:
        raise typer.BadParameter("--gate needs --baseline, the .json of an earlier report.")
    before = _baseline(settings.baseline) if settings.baseline else None
    try:
        limits = read_thresholds(settings.thresholds)
    except ValueError as error:
        raise typer.BadParameter(f"--thresholds: {error}") from None
    since = moment(settings.since).astimezone(UTC).date().isoformat() if settings.since else ""
    now = figures(folder, since) | {"sampling": sampling}
    findings = judge(now, before, limits) if before is not None and settings.gate else []
    data = settings.out.with_suffix(".json")
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.write_text(report(now, before, findings, settings.out), encoding="utf8")
    data.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n", encoding="utf8")
    said = [one.model_dump() for one in findings]
    if settings.as_json:
        print(json.dumps({"report": str(settings.out), "figures": str(data), "gate": said, **now}))
    else:
        for one in now["damaged"]:
            print(f"Left out: {one['file']}: {one['why']}")
        for finding in findings:
            print(f"{finding.verdict}: {finding.provider}: {finding.why}")
        print(f"Report: {settings.out}\nFigures: {data}")
    verdicts = {one.verdict for one in findings}
    if settings.gate and not findings:
        print("can't tell: there are no attempts, now or in the baseline.") if not settings.as_json else None
        return CANT_TELL
    return 1 if "failed" in verdicts else CANT_TELL if "can't tell" in verdicts else 0


def _sampling(path: Path) -> dict[str, Any] | None:
    """Return what `selfsurf sample` has counted, None where it has not run."""
    if not path.exists():
        return None
    from selfsurf.browser_env.goal.spec import SpecError
    from selfsurf.scripts.suite.sampled import read_samples

    try:
        return read_samples(path).counts(str(path))
    except SpecError as error:
        raise typer.BadParameter(f"--candidates: {error}") from None


def _baseline(path: Path) -> dict[str, Any]:
    """Read an earlier report's figures, before anything is written: they may lie where the new ones go."""
    try:
        found = json.loads(path.read_text(encoding="utf8"))
        if found["format"] != FORMAT:
            raise typer.BadParameter(f"--baseline: {path} has format {found['format']}; this version reads {FORMAT}.")
        for one in found["providers"].values():
            one["attempts"] + 0, one["errors"].items(), one["actions"].items(), one["success"]
    except OSError as error:
        raise typer.BadParameter(f"--baseline: {path} can't be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise typer.BadParameter(f"--baseline: {path} is no report's figures: {error!r}.") from None
    return dict(found)
