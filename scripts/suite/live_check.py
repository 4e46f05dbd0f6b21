"""A look at a live page through a provider, and a checklist of what its logs must hold afterwards."""

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
"""The number of an element that no page has: the failure that the log must explain."""

PLANTED = "4111 1111 1111 1111"
"""A card's number (a test number of Visa's), looked for in all that was written."""

FIELDS = (
    "ts", "traceId", "stepId", "attemptId", "action", "provider", "durationMs", "outcome", "reason", "retryUsed",
    "stagehandDisabled", "toolArgsHash",
)  # fmt: skip
"""What every line of the log has."""


class Check(NamedTuple):
    """One line of the checklist."""

    what: str
    found: str
    """Why it does not hold; empty if it does."""


def look(provider: Provider, url: str, logs: Path) -> list[Check]:
    """Open a page, see it, take its picture, fail at it once; return what the logs are like.

    Args:
        provider: who does it; nothing of it has started.
        url: of a live page. Nothing on it is pressed or filled in.
        logs: root of the attempts' logs.
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
            ("its picture is taken", router.screenshot),
        ):
            checks.append(Check(what, await _why(work)))
        impossible = {"action": "fill", "id": NOBODY, "text": PLANTED}
        failed = await _why(lambda: router.act(impossible))
        checks.append(Check("an impossible action fails", "" if failed else "it was done"))
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
    return "there are none" if getattr(done, "outline", "[") == "" else ""


def _logged(folder: Path, logs: Path) -> list[Check]:
    """Check what a run has left in its folder, and that it is reported."""
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
    with TemporaryDirectory() as alone:  # where its failure can't stand behind those of other runs
        day = Path(alone) / folder.parent.name
        day.mkdir()
        (day / folder.name).symlink_to(folder.resolve())
        text = report(figures(Path(alone)), None, [], logs / "report.md")
    return [
        Check("attempt.jsonl: every line has its fields", ", ".join(without)),
        Check("each attempt that ended has a picture", "" if len(pictures) >= len(ended) else f"{len(pictures)} have"),
        Check("the pictures can be opened", ", ".join(path.name for path in pictures if not _opens(path))),
        Check("the failure has picture, tree and DOM", lacks),
        Check("what was to be typed stands nowhere", "it does" if leaked else ""),
        Check("summary.json counts the attempts", _summed(folder, len(ended))),
        Check("the report has the run", "" if folder.name in text else "it does not"),
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
