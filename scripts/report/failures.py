"""Failures of a run as HTML cards: last screenshot, reported errors, and the agent's answer."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from selfsurf.scripts.report.document import text
from selfsurf.scripts.report.formats import count
from selfsurf.scripts.report.reading import Line, Pair, Results

MOST_PICTURES = 150
"""Maximum number of screenshots embedded in a page; each task's first failure has priority."""

MOST_BYTES = 6_000_000
"""Maximum total size in bytes of the PNG files embedded in a page."""

_PNG = b"\x89PNG\r\n\x1a\n"


def failures(results: Results, lines: Sequence[Line], folder: Path) -> str:
    """Return the cards of the failures, with their filters.

    Args:
        results: Results that the failures belong to.
        lines: The failed episodes, sorted by task.
        folder: Folder of the page, which links are relative to.
    """
    shots = {line.pair: results.inside(line.screenshot) for line in lines}
    embedded = _embedded(lines, shots)
    there = sum(shot is not None for shot in shots.values())
    note = ""
    if there > len(embedded):
        note = (
            f'<p class="soft small">{len(embedded)} of {count(there, "screenshot")} are embedded, '
            f"at most {MOST_PICTURES} and {MOST_BYTES / 1e6:g} MB; the others are links into the results folder.</p>"
        )
    cards = "".join(_card(results, line, shots[line.pair], embedded, folder) for line in lines)
    return f'{note}{_filters(lines)}<div class="failures" id="failures">{cards}</div>' + (
        '<p class="tools"><button id="failures-more" hidden>Show more</button></p>'
    )


def _embedded(lines: Sequence[Line], shots: dict[Pair, Path | None]) -> dict[Pair, str]:
    """Return the screenshots that fit as data URIs, spread over the tasks."""
    turns = [(turn, line) for _, own in groupby(lines, key=lambda line: line.task) for turn, line in enumerate(own)]
    found: dict[Pair, str] = {}
    left = MOST_BYTES
    for _, line in sorted(turns, key=lambda each: each[0]):
        shot = shots[line.pair]
        if len(found) == MOST_PICTURES:
            break
        if shot is None or not shot.is_file() or shot.stat().st_size > left:
            continue
        data = shot.read_bytes()
        if data.startswith(_PNG):
            left -= len(data)
            found[line.pair] = f"data:image/png;base64,{b64encode(data).decode()}"
    return found


def _filters(lines: Sequence[Line]) -> str:
    tasks, outcomes = sorted({line.task for line in lines}), sorted({line.outcome for line in lines})
    return (
        '<div class="tools" hidden>'
        f"{_select('Task', tasks)}{_select('Outcome', outcomes)}"
        '<input id="failures-text" type="search" placeholder="Text" aria-label="Text">'
        '<span class="soft small" id="failures-count"></span></div>'
    )


def _select(what: str, names: Sequence[str]) -> str:
    options = "".join(f'<option value="{escape(name)}">{escape(name)}</option>' for name in names)
    first = f'<option value="">All {what.lower()}s</option>'
    return f'<select id="failures-{what.lower()}" aria-label="{what}">{first}{options}</select>'


def _card(results: Results, line: Line, shot: Path | None, embedded: dict[Pair, str], folder: Path) -> str:
    data = embedded.get(line.pair)
    nothing = "screenshot" if shot else "no screenshot"
    picture = f'<img src="{data}" alt="Last screenshot" loading="lazy">' if data else nothing
    tag, href = ("a", f' href="{_link(shot, folder)}"') if shot else ("div", "")
    episode = results.inside(line.episode)
    words = {"detail": line.outcome_detail, "reason": line.reason, "error": line.last_error, "answer": line.answer}
    note = "".join(f"<dt>{name}</dt><dd>{text(value)}</dd>" for name, value in words.items() if value)
    partly = ", partly solved" if line.lenient else ""
    link = f' <a class="small" href="{_link(episode, folder)}/">episode</a>' if episode else ""
    return (
        f'<article class="failure" data-task="{escape(line.task)}" data-outcome="{line.outcome}">'
        f'<{tag} class="shot"{href}>{picture}</{tag}><div>'
        f'<h3>{text(line.task)} <span class="faint">#{line.seed}</span>{link}</h3>'
        f'<span class="pill"><span class="key o-{line.outcome}"></span>{line.outcome}{partly}, '
        f"{count(line.steps, 'step')}, {line.seconds:.1f} s</span>"
        f'<dl class="text">{note}</dl></div></article>'
    )


def _link(path: Path, folder: Path) -> str:
    return "./" + quote(Path(os.path.relpath(path, folder.resolve())).as_posix())
