"""The self-contained HTML page that all reports share.

Its content security policy allows only the embedded script, and no fetches.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from selfsurf.browser_env.disk import write_atomically
from selfsurf.scripts.report.document import Block, banner, facts, markdown, text
from selfsurf.scripts.report.formats import count, duration, incomplete, no_verdict, run_again, seeds, unjudged
from selfsurf.scripts.report.reading import Git, Line, Results, Run, Session


def page(title: str, blocks: Sequence[Block]) -> str:
    """Return a complete HTML page."""
    frame = files("selfsurf.scripts.report").joinpath("page.html").read_text("utf-8")
    style = files("selfsurf.scripts.report").joinpath("page.css").read_text("utf-8")
    script = files("selfsurf.scripts.report").joinpath("page.js").read_text("utf-8")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    body = "\n".join(block.html for block in blocks)
    return Template(frame).substitute(title=text(title), style=style, script=script, digest=digest, body=body)


def write(out: Path, name: str, title: str, blocks: Sequence[Block]) -> list[Path]:
    """Write a report into a folder as `name.md` and `name.html`, and return their paths.

    Raises:
        NoRoom: The disk is full.
    """
    paths = [out / f"{name}.md", out / f"{name}.html"]
    out.mkdir(parents=True, exist_ok=True)
    for path, content in zip(paths, (markdown(blocks), page(title, blocks)), strict=True):
        write_atomically(path, content)
    return paths


def card(title: str, *content: str) -> str:
    """Return a chart or table with a title."""
    return f'<section class="card"><h3>{escape(title)}</h3>{"".join(content)}</section>'


def legend(*names: tuple[str, str], remark: str = "") -> str:
    """Return a legend of names with their colours (style sheet variables without dashes)."""
    keys = "".join(
        f'<span><span class="key" style="background:var(--{colour})"></span>{text(name)}</span>'
        for name, colour in names
    )
    return f'<div class="legend">{keys}<span>{remark}</span></div>'


def missing(results: Results, whose: str = "") -> list[Block]:
    """Return banners for missing episodes and for episodes without a verdict; none for a complete run."""
    return [*_missing(results, whose), *_without_verdict(results, whose)]


def _without_verdict(results: Results, whose: str) -> list[Block]:
    banners = []
    if results.env_errors:
        again = " ".join(run_again(len(results.env_errors), results.given_up))
        told = f"{no_verdict(results, whose)} No figure covers them. {again}"
        banners.append(banner(told, _names(results.env_errors)))
    if results.unjudged:
        banners.append(banner(f"{unjudged(results, whose)} No figure covers them.", _names(results.unjudged)))
    return banners


def _names(lines: Iterable[Line]) -> str:
    return ", ".join(f"{line.task} #{line.seed}" for line in lines)


def _missing(results: Results, whose: str) -> list[Block]:
    if not results.missing:
        return []
    note = f"{incomplete(results, whose)} Every figure covers the finished episodes only; "
    names = ", ".join(f"{task} #{seed}" for task, seed in results.missing)
    return [banner(f"{note}run the same command again to finish.", names)]


def about(run: Run) -> Block:
    """Return the facts needed to reproduce a run, as a block of the report."""
    agent = run.agent
    sessions = "; ".join(
        f"{count(each.episodes, 'episode')} in {duration(each.seconds)} with {count(each.workers, 'worker')}"
        for each in run.sessions
    )
    lost = "; ".join(
        f"{each.place or f'worker {each.worker}'}: {each.why}, {count(each.again, 'episode')} run again"
        for session in run.sessions
        for each in session.lost
    )
    return facts(
        [
            ("Command", " ".join(run.command)),
            ("Suite", f"{run.suite}, {count(len(run.tasks), 'task')}"),
            ("Seeds", seeds(run.seeds)),
            ("Step limit", "each task's own" if run.max_steps is None else run.max_steps),
            ("Agent", f"{agent.name} ({agent.backend})" if agent.backend else agent.name),
            ("Model", _with_hash(agent.model, agent.model_sha256)),
            ("Adapter", _with_hash(agent.adapter, agent.adapter_sha256)),
            ("Agent's options", _pairs(agent.options)),
            ("Retries of env_error", run.retries),
            ("Started", run.started),
            ("Git", _parts(run, lambda part: _revision(part.git))),
            ("Versions", _parts(run, lambda part: _versions(part, run))),
            ("Host", _pairs(run.host)),
            ("Environment", _pairs(run.environment)),
            ("Sessions", sessions),
            ("Workers lost", lost),
            *((name.replace("_", " ").capitalize(), _value(value)) for name, value in (run.model_extra or {}).items()),
        ]
    )


def _parts(run: Run, tell: Callable[[Run | Session], str]) -> str:
    """Describe a run, and each session whose description differs, on one line."""
    later = ((number, tell(session)) for number, session in enumerate(run.sessions, 1))
    return "; ".join(filter(None, [tell(run), *(f"session {number}: {told}" for number, told in later if told)]))


def _revision(git: Git | None) -> str:
    return f"{git.revision}{', with uncommitted changes' * git.dirty}" if git else ""


def _versions(part: Run | Session, run: Run) -> str:
    """Return the versions of a run, or those of a session that differ from the run's."""
    base = {} if part is run else run.versions
    return _pairs({name: one for name, one in part.versions.items() if one != base.get(name, "absent")})


def _with_hash(name: str | None, sha256: str | None) -> str | None:
    return f"{name} (sha256 {sha256})" if name and sha256 else name


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in values.items())


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
