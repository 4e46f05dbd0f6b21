"""The one-file HTML page that all reports share: style, script, tables, facts about a run.

Everything that comes from a results folder may have been written by a hostile page. It is escaped here, and the page's
content security policy lets no script run but the one below it, and nothing be fetched.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from selfsurf.scripts.report.charts import mini
from selfsurf.scripts.report.formats import NONE, amount, count, duration, incomplete, seeds, share_interval, spread
from selfsurf.scripts.report.reading import Results, Run
from selfsurf.scripts.report.summary import OUTCOMES, Mean, Row, Spread

LONGEST = 1200
"""Characters of a text from an episode that a page shows; report.json has all of them."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its HTML, and what it is sorted by if not by its text."""

    html: str
    sort: float | str | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table of rows of figures."""

    title: str
    cell: Callable[[Row], Cell]
    number: bool = True


def text(value: object) -> str:
    """A text, escaped and cut where it is far too long."""
    shown = str(value)
    left_out = len(shown) - LONGEST
    return escape(shown) if left_out <= 0 else f"{escape(shown[:LONGEST])} … ({amount(left_out)} more characters)"


def document(title: str, body: Sequence[str]) -> str:
    """A whole page."""
    style, script = (files("selfsurf.scripts.report").joinpath(name).read_text() for name in ("page.css", "page.js"))
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
    )
    return "\n".join([
        '<!doctype html>', '<html lang="en">', '<head>', '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{text(title)}</title>', f'<style>{style}</style>', '</head>', '<body>', '<main>', *body, '</main>',
        f'<script>{script}</script>', '</body>', '</html>', '',
    ])  # fmt: skip


def table(
    heads: Sequence[tuple[str, bool]],
    rows: Sequence[Sequence[Cell]],
    id: str = "",
    sortable: bool = True,
    tall: bool = False,
) -> str:
    """A table whose first column stays in view.

    Args:
        heads: of every column its title, and whether it holds numbers.
        rows: cells.
        id: of the table, for its filter.
        sortable: sort by a click on a head.
        tall: scroll a long table inside its frame.
    """
    labels = [f"<button>{text(title)}</button>" if sortable else text(title) for title, _ in heads]
    head = "".join(
        f'<th scope="col"{_class("num", is_number)}>{label}</th>'
        for label, (_, is_number) in zip(labels, heads, strict=True)
    )
    body = "".join(f"<tr>{''.join(_cell(cell, at, heads[at][1]) for at, cell in enumerate(row))}</tr>" for row in rows)
    name = f' id="{escape(id)}"' if id else ""
    return (
        f'<div class="scroll{" tall" if tall else ""}" tabindex="0"><table{name}{_class("sortable", sortable)}>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figures(columns: Sequence[Column], rows: Sequence[Row], id: str = "", tall: bool = False) -> str:
    """A sortable table of rows of figures."""
    heads = [(column.title, column.number) for column in columns]
    return table(heads, [[column.cell(row) for column in columns] for row in rows], id, tall=tall)


def number(value: float | None, written: str) -> Cell:
    """A cell with a number; without one it is sorted last."""
    return Cell(written, "" if value is None else value)


def mean_cell(value: Mean | None, write: Callable[[Mean | None], str]) -> Cell:
    """A cell with a mean, sorted by it."""
    return number(value.mean if value else None, write(value))


def spread_cell(value: Spread | None) -> Cell:
    """A cell with median and 90th percentile, sorted by the median."""
    return number(value.median if value else None, spread(value))


def interval_cell(value: Mean | None) -> Cell:
    """A cell with the interval of a success, sorted by its lower end."""
    interval = value.interval if value else None
    return number(interval.low if interval else None, share_interval(value))


def bar_cell(value: Mean | None) -> Cell:
    """A cell with a success and its interval as a picture."""
    return Cell(mini(value.mean, value.interval), value.mean) if value else Cell("", "")


def tile(label: str, value: str, note: str, wide: bool = False) -> str:
    """A headline figure."""
    return (
        f'<div class="tile{" wide" if wide else ""}"><div class="label">{label}</div>'
        f'<div class="value">{value}</div><div class="note">{note}</div></div>'
    )


def card(title: str, *content: str) -> str:
    """A chart or table with its title."""
    return f'<section class="card"><h3>{escape(title)}</h3>{"".join(content)}</section>'


def banner(content: str, bad: bool = False) -> str:
    """Something that must not be overlooked."""
    return f'<div class="banner{" bad" if bad else ""}" role="note">{content}</div>'


def key(kind: str, label: str) -> str:
    """An entry of a legend."""
    return f'<span><span class="key {kind}"></span>{label}</span>'


def outcome_bar(row: Row) -> str:
    """All outcomes of a row as one bar with its legend, `env_error` and missing episodes at the end."""
    amounts = {**row.outcomes, **({"missing": row.missing} if row.missing else {})}
    total = sum(amounts.values()) or 1
    spans = "".join(
        f'<span class="o-{name}" style="flex:{amounts[name]}" title="{name}: {amounts[name]}"></span>'
        for name in (*OUTCOMES, "missing")
        if amounts.get(name)
    )
    rows = "".join(
        f'<tr><td>{key(f"o-{name}", name)}</td><td class="num">{amounts[name]:,}</td>'
        f'<td class="num soft">{100 * amounts[name] / total:.1f}%</td></tr>'
        for name in (*OUTCOMES, "missing")
        if amounts.get(name)
    )
    return f'<div class="stack">{spans}</div><table>{rows}</table>'


def about(run: Run) -> str:
    """What is needed to repeat a run."""
    agent, git = run.agent, run.git
    facts: dict[str, object] = {
        "Suite": f"{run.suite}, {count(len(run.tasks), 'task')}",
        "Seeds": seeds(run.seeds),
        "Step limit": run.max_steps if run.max_steps is not None else "each task's own",
        "Agent": f"{agent.name} ({agent.backend})" if agent.backend else agent.name,
        "Model": _with_hash(agent.model, agent.model_sha256),
        "Adapter": _with_hash(agent.adapter, agent.adapter_sha256),
        "Agent's options": _pairs(agent.options),
        "Retries of env_error": run.retries,
        "Started": run.started or NONE,
        "Git": f"{git.revision}{', with uncommitted changes' if git.dirty else ''}" if git else NONE,
        "Versions": _pairs({name: version for name, version in run.versions.items() if version != "absent"}),
        "Host": _pairs(run.host),
        "Sessions": "; ".join(
            f"{count(each.episodes, 'episode')} in {duration(each.seconds)} with {count(each.workers, 'worker')}"
            for each in run.sessions
        )
        or NONE,
        **{name.replace("_", " ").capitalize(): _value(value) for name, value in (run.model_extra or {}).items()},
    }
    shown = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in facts.items() if value != NONE)
    command = f'<dt>Command</dt><dd class="mono">{text(" ".join(run.command))}</dd>' if run.command else ""
    return f'<div class="card"><dl class="about">{command}{shown}</dl></div>'


def missing(results: Results, whose: str = "") -> str:
    """The banner of an incomplete run, or nothing."""
    if not results.missing:
        return ""
    items = ", ".join(f"{task} #{seed}" for task, seed in results.missing)
    return banner(
        f"<details><summary><b>{text(incomplete(results, whose))}</b> "
        "Every figure is of the episodes that are there; run the same command again to finish."
        f'</summary><p class="mono">{escape(items)}</p></details>',
        bad=True,
    )


def _with_hash(name: str | None, sha256: str | None) -> str:
    return NONE if name is None else f"{name} (sha256 {sha256})" if sha256 else name


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in values.items()) or NONE


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _cell(cell: Cell, at: int, is_number: bool) -> str:
    sort = "" if cell.sort is None else f' data-sort="{escape(str(cell.sort))}"'
    if at == 0:
        return f'<th scope="row"{sort}>{cell.html}</th>'
    return f"<td{_class('num', is_number)}{sort}>{cell.html}</td>"


def _class(name: str, wanted: bool) -> str:
    return f' class="{name}"' if wanted else ""
