"""Markdown report of attempt figures for an operator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfsurf.scripts.report.formats import NONE, amount, count, percent, points
from selfsurf.scripts.report.gate import Finding


def report(now: Mapping[str, Any], before: Mapping[str, Any] | None, findings: Sequence[Finding], out: Path) -> str:
    """Return the report as Markdown.

    Args:
        now: Figures from `attempts.figures`.
        before: Figures of the baseline; None without one.
        findings: Findings of the gate; empty without one.
        out: Path of the report, for its relative links.
    """
    days = " to ".join(dict.fromkeys(now["days"])) if now["days"] else "no day"
    attempts = sum(one["attempts"] for one in now["providers"].values())
    lines = [
        "# Browser automation",
        "",
        f"{count(now['runs'], 'run')}, {count(attempts, 'attempt')}, {days}, from `{now['folder']}`.",
        "",
    ]
    if now["damaged"]:
        lines += [
            "## Damaged, left out",
            "",
            *(f"- `{one['file']}`: {_plain(one['why'])}" for one in now["damaged"]),
            "",
        ]
    if findings:
        lines += ["## Gate", "", *(f"- **{one.verdict}** {one.provider}: {_plain(one.why)}" for one in findings), ""]
    if sampling := now.get("sampling"):
        lines += _sampled(sampling)
    if not (attempts or any(one["unfinished"] or one["cancelled"] for one in now["providers"].values())):
        return "\n".join([*lines, "Nothing was attempted.", ""])
    lines += [
        "## Success by provider and action", "",
        "Intervals are 95% Wilson intervals, which treat attempts as independent. Times are milliseconds per "
        "attempt.", "",
        "| provider | action | attempts | success | 95% | against baseline | unfinished | cancelled | retries "
        "| p50 | p90 | p99 |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for provider, whole in now["providers"].items():
        for action, one in {"": whole, **whole["actions"]}.items():
            old = ((before or {}).get("providers", {})).get(provider)
            old = old["actions"].get(action) if old and action else old
            lines.append(_row(provider, action or "all", one, old))
    lines += [
        "",
        "## Errors",
        "",
        "| provider | type | attempts | share | baseline |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for provider, whole in now["providers"].items():
        old = ((before or {}).get("providers", {})).get(provider)
        for kind, number in whole["errors"].items():
            was = percent(old["errors"].get(kind, 0) / old["attempts"]) if old and old["attempts"] else NONE
            lines.append(f"| {provider} | {kind} | {number} | {percent(number / whole['attempts'])} | {was} |")
    lines += ["", "## Runs", "", *(f"- {_plain(decision)}: {number}" for decision, number in now["decisions"].items())]
    lines += [f"- fell back from {one['from']} to {one['to']}: {one['times']} times" for one in now["fallbacks"]]
    lines += [
        f"- {name} was disabled in a run or step: {one['disabled']} times"
        for name, one in now["providers"].items()
        if one["disabled"]
    ]
    lines += ["", "## Worst examples", ""]
    lines += [_example(one, out) for one in now["worst"]] or ["None failed."]
    return "\n".join([*lines, ""])


def _sampled(sampling: Mapping[str, Any]) -> list[str]:
    """Return the section on sampled runs."""
    left_out = [f"- left out because {_plain(why)}: {number}" for why, number in sampling["left_out"].items()]
    return [
        "## Sampled runs",
        "",
        f"{count(sampling['runs'], 'run')} with goals given by users, {sampling['solved']} of them judged solved, "
        f"yield {count(sampling['candidates'], 'candidate')} and {count(sampling['accepted'], 'accepted scenario')} "
        f"(`{sampling['file']}`).",
        "",
        *left_out,
        *([""] if left_out else []),
    ]


def _row(provider: str, action: str, one: Mapping[str, Any], old: Mapping[str, Any] | None) -> str:
    ends = f"{100 * one['interval'][0]:.1f} to {percent(one['interval'][1])}" if one["interval"] else NONE
    known = old is not None and old["success"] is not None and one["success"] is not None
    change = points(one["success"] - old["success"]) if known and old is not None else NONE
    times = " | ".join(amount(one["ms"][name]) for name in ("p50", "p90", "p99"))
    return (
        f"| {provider} | {action} | {one['attempts']} | {percent(one['success'])} | {ends} | {change} | "
        f"{one['unfinished']} | {one['cancelled']} | {one['retries']} | {times} |"
    )


def _example(one: Mapping[str, Any], out: Path) -> str:
    run = Path(one["run"])
    links = [f"[{Path(name).name}]({_link(run / name, out)})" for name in ("attempt.jsonl", *one["artifacts"])]
    where = f" at {_plain(one['url'])}" if one["url"] else ""
    return (
        f"- {one['provider']} `{one['action']}`, {one['error']}: {_plain(one['reason'])}{where}. "
        f"Run `{one['traceId']}`, attempt `{one['attemptId']}`: {', '.join(links)}"
    )


def _link(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path.resolve(), out.resolve().parent)).as_posix().replace(" ", "%20")


def _plain(text: str) -> str:
    """Return text from a page or an error on one line, with Markdown escaped."""
    flat = " ".join(text.split())[:300]
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in flat)
