"""`selfsurf report`: report on attempt logs, and fail if the figures got worse."""

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
"""Exit code of a gate with too few attempts for a verdict."""


class Settings(Arguments):
    """Options of `selfsurf report`: the logs, the report, and the gate."""

    root: Annotated[Path | None, typer.Argument()] = Field(
        default=None, description="Folder with browser-automation/; by default what CLAW_LOG_DIR names, else runs."
    )
    out: Path = Path("docs", "ops", "browser-automation-report.md")
    """File of the report; its figures are written beside it with the suffix .json."""
    since: Since = None
    """First day to count, such as 2026-11-25, or a duration, such as 7d; all days if not given."""
    candidates: Path = Path("candidates.toml")
    """File of `selfsurf sample`; if it exists, the report counts sampled runs, and skipped ones by reason."""
    baseline: Path | None = None
    """Figures (.json) of an earlier report to compare with."""
    gate: bool = False
    """Fail if a provider's success dropped, or a new type of error appeared; needs --baseline."""
    thresholds: Path | None = None
    """TOML file of the gate's thresholds; by default 10% of the success, 5% of the attempts, and at least 20 attempts.
    """


@command
def main(settings: Settings) -> int:
    """Report on logged attempts.

    The exit code of --gate is 1 if a figure got worse, 3 if there are too few attempts for a verdict, else 0. Invalid
    options end with 2 and write nothing.
    """
    from selfsurf.browser_env.attempts.settings import LogSettings

    folder = LogSettings(settings.root).folder
    if settings.out.is_dir():
        raise typer.BadParameter(f"--out: {settings.out} is a folder; give a file, such as {settings.out}/report.md.")
    if settings.out.suffix == ".json":
        raise typer.BadParameter(
            f"--out: {settings.out} is the file for the figures; name a file for the report, such as report.md."
        )
    sampling = _sampling(settings.candidates)
    if not folder.is_dir() and sampling is None and folder.name == folder.parent.name:
        raise typer.BadParameter(f"{folder.parent} lies below the root of the logs; give {folder.parent.parent}.")
    if not folder.is_dir() and sampling is None:
        raise typer.BadParameter(
            f"There are no attempt logs in {folder}. Give the root of the logs, or set CLAW_LOG_DIR."
        )
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
        print("can't tell: neither the logs nor the baseline hold any attempts.") if not settings.as_json else None
        return CANT_TELL
    return 1 if "failed" in verdicts else CANT_TELL if "can't tell" in verdicts else 0


def _sampling(path: Path) -> dict[str, Any] | None:
    """Return the counts of `selfsurf sample`; None if it has not run."""
    if not path.exists():
        return None
    from selfsurf.browser_env.goal.spec import SpecError
    from selfsurf.scripts.report.sampled import read_samples

    try:
        return read_samples(path).counts(str(path))
    except SpecError as error:
        raise typer.BadParameter(f"--candidates: {error}") from None


def _baseline(path: Path) -> dict[str, Any]:
    """Read the figures of an earlier report, before the new figures may overwrite them."""
    try:
        found = json.loads(path.read_text(encoding="utf8"))
        if found["format"] != FORMAT:
            raise typer.BadParameter(f"--baseline: {path} has format {found['format']}; this version reads {FORMAT}.")
        for one in found["providers"].values():
            one["attempts"] + 0, one["errors"].items(), one["actions"].items(), one["success"]
    except OSError as error:
        raise typer.BadParameter(f"--baseline: {path} can't be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise typer.BadParameter(f"--baseline: {path} does not hold the figures of a report: {error!r}.") from None
    return dict(found)
