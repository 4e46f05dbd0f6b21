"""Check of a provider on a live page, and of the logs that result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from PIL import Image

from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.attempts.settings import LogSettings
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.router.policy import Policy
from selfsurf.browser_env.router.provider import Provider
from selfsurf.browser_env.router.router import CallFailed, Router
from selfsurf.scripts.report.attempts import figures
from selfsurf.scripts.report.attempts_report import report

NOBODY = 999_999_999
"""Id of an element that no page has, which causes the failure that the log must explain."""

PLANTED = "4111 1111 1111 1111"
"""Card number (Visa's test number) that must not appear in any written file."""

FIELDS = (
    "ts", "traceId", "stepId", "attemptId", "action", "provider", "durationMs", "outcome", "reason", "retryUsed",
    "stagehandDisabled", "toolArgsHash",
)  # fmt: skip
"""Fields that every line of the log has."""


class Check(NamedTuple):
    """A checked property with its result."""

    what: str
    found: str
    """Reason why the property doesn't hold; empty if it holds."""


def look(provider: Provider, url: str, logs: Path) -> list[Check]:
    """Open a page, observe it, take a screenshot and cause one failure; return checks of the actions and logs.

    Args:
        provider: Provider to check, not yet started.
        url: Address of a live page. Nothing on it is clicked or filled in.
        logs: Root of the attempt logs.
    """
    return asyncio.run(_look(provider, url, logs))


async def _look(provider: Provider, url: str, logs: Path) -> list[Check]:
    router = Router([provider], policy=Policy(retries=0))
    log = FileLog(f"live-{router.trace_id}", LogSettings(root=logs))
    router.begin(log=log, trace_id=log.trace_id)
    checks = []
    try:
        for what, work in (
            ("the page opens", lambda: router.navigate(url)),
            ("its outline has elements", router.observe),
            ("its screenshot is taken", router.screenshot),
        ):
            checks.append(Check(what, await _why(work)))
        impossible = {"action": "fill", "id": NOBODY, "text": PLANTED}
        failed = await _why(lambda: router.act(impossible))
        checks.append(Check("an impossible action fails", "" if failed else "the action was done"))
    finally:
        router.end(str(Outcome.STOPPED))
        await router.close()
    log.flush()
    return [*checks, *_logged(log.folder, logs)]


async def _why(work: Callable[[], Any]) -> str:
    try:
        done = await work()
    except CallFailed as error:
        return f"{error.failure.type}: {error.failure.message}"
    return "no elements" if getattr(done, "outline", "[") == "" else ""


def _logged(folder: Path, logs: Path) -> list[Check]:
    """Check the files in a run's folder, and the report on them."""
    lines = [json.loads(line) for line in (folder / "attempt.jsonl").read_text(encoding="utf8").splitlines()]
    without = sorted({name for line in lines for name in FIELDS if name not in line})
    ended = [line for line in lines if line["outcome"] in ("success", "failure")]
    pictures = [folder / name for line in ended for name in line["artifacts"] if name.endswith(".png")]
    failure = next((line for line in ended if line["outcome"] == "failure"), None)
    said = failure["artifacts"] if failure else []
    missing = [end for end in (".png", ".tree.json", ".dom.json") if not any(one.endswith(end) for one in said)]
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    leaked = any(text.encode() in written for text in (PLANTED, PLANTED.replace(" ", "")))
    lacks = f"no {', '.join(missing)}; {failure and failure['cut']}" if missing else ""
    # a report on this run alone, so that other runs' failures can't displace its failure
    with TemporaryDirectory() as alone:
        day = Path(alone) / folder.parent.name
        day.mkdir()
        (day / folder.name).symlink_to(folder.resolve())
        text = report(figures(Path(alone)), None, [], logs / "report.md")
    return [
        Check("attempt.jsonl: every line has its fields", ", ".join(without)),
        Check("each ended attempt has a screenshot", "" if len(pictures) >= len(ended) else f"{len(pictures)} have"),
        Check("the screenshots can be opened", ", ".join(path.name for path in pictures if not _opens(path))),
        Check("the failure has a screenshot, the tree and the DOM", lacks),
        Check("the text to be typed is in no file", "a file has the text" if leaked else ""),
        Check("summary.json counts the attempts", _summed(folder, len(ended))),
        Check("the report lists the run", "" if folder.name in text else "the run is missing"),
    ]  # fmt: skip


def _opens(path: Path) -> bool:
    try:
        with Image.open(path) as picture:
            return min(picture.size) > 1
    except OSError:
        return False


def _summed(folder: Path, attempts: int) -> str:
    summary = json.loads((folder / "summary.json").read_text(encoding="utf8"))
    return "" if summary["attempts"] == attempts else f"{summary['attempts']} of {attempts}"
