"""Building blocks of reports, written once and rendered as HTML and as Markdown.

Everything from a results folder may have been written by a hostile page, so all text is escaped here for both formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from selfsurf.scripts.report.charts import mini
from selfsurf.scripts.report.formats import NONE, amount, mean, mean_interval, percent, reward, spread
from selfsurf.scripts.report.markdown import plain, table
from selfsurf.scripts.report.summary import Mean, MedianAndP90, Row

LONGEST = 1200
"""Maximum number of characters shown of a text from an episode; report.json has the whole text."""


@dataclass(frozen=True)
class Block:
    """A part of a report as HTML, and as lines of Markdown without pictures."""

    html: str
    markdown: Sequence[str] = ()


def text(value: object) -> str:
    """Return a text escaped for HTML, and cut if it is too long."""
    shown = str(value)
    left_out = len(shown) - LONGEST
    return escape(shown) if left_out <= 0 else f"{escape(shown[:LONGEST])} … ({amount(left_out)} more characters)"


def heading(words: str, eyebrow: str = "") -> Block:
    """Return a section heading or, with an eyebrow text, the report's title."""
    if eyebrow:
        return Block(f'<div class="eyebrow">{eyebrow}</div><h1>{text(words)}</h1>', [f"# {plain(words)}", ""])
    return Block(f"<h2>{text(words)}</h2>", [f"## {plain(words)}", ""])


def paragraph(words: str) -> Block:
    """Return a paragraph."""
    return Block(f"<p>{text(words)}</p>", [plain(words, LONGEST), ""])


def banner(words: str, details: str = "") -> Block:
    """Return a prominent warning, with `details` that may be long."""
    if not details:
        return Block(f'<div class="banner" role="note">{text(words)}</div>', [f"> **{plain(words)}**", ""])
    html = (
        f'<div class="banner bad" role="note"><details><summary><b>{text(words)}</b></summary>'
        f'<p class="mono">{escape(details)}</p></details></div>'
    )
    return Block(html, [f"> **{plain(words)}**", ">", f"> {plain(details, LONGEST)}", ""])


def facts(pairs: Sequence[tuple[str, object]]) -> Block:
    """Return a list of names with their values; empty values are left out."""
    known = [(name, value) for name, value in pairs if value not in (None, "", NONE)]
    shown = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in known)
    lines = [*(f"- {plain(name)}: {plain(value)}" for name, value in known), ""]
    return Block(f'<div class="card"><dl class="about">{shown}</dl></div>', lines)


def notes(lines: Sequence[str]) -> Block:
    """Return notes on how to read the figures."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return Block(f'<ul class="method">{items}</ul>', [" ".join(lines), ""])


@dataclass(frozen=True)
class Cell:
    """A table cell."""

    text: str
    sort: float | str | None = None
    """Sort key of the cell; None to sort by its text."""
    html: str = ""
    """HTML of the cell; empty to show its text."""


@dataclass(frozen=True)
class Column:
    """A table column: its title, and a function from a row to a cell."""

    title: str
    cell: Callable[[Any], Cell | str]
    number: bool = True
    only_html: bool = False

    def of(self, get: Callable[[Any], Any]) -> Column:
        """Return the same column for other rows, which `get` maps to the rows of this column."""
        return replace(self, cell=lambda row: self.cell(get(row)))

    @property
    def kind(self) -> str:
        """Class attribute of the column's HTML cells."""
        return ' class="num"' if self.number else ""

    def made(self, row: Any) -> Cell:
        """Return the cell of a row."""
        cell = self.cell(row)
        return Cell(cell) if isinstance(cell, str) else cell


def grid(columns: Sequence[Column], rows: Sequence[Any], id: str = "", most: int = 1000) -> Block:
    """Return a table that can be sorted in a page and, with an id, filtered.

    Args:
        columns: Columns of the table; the first one stays in view.
        rows: Arguments of the columns' cell functions, one per row.
        id: Id of the HTML element.
        most: Maximum number of rows in Markdown.
    """
    shown = [column for column in columns if not column.only_html]
    cells = [[plain(column.made(row).text) for column in shown] for row in rows[:most]]
    lines = table([plain(column.title) for column in shown], cells)
    if len(rows) > most:
        lines += [f"{len(rows) - most:,} more in the HTML and JSON.", ""]
    heads = "".join(f'<th scope="col"{column.kind}><button>{text(column.title)}</button></th>' for column in columns)
    body = "".join(
        f"<tr>{''.join(_cell(column, row, column is columns[0]) for column in columns)}</tr>" for row in rows
    )
    tools = f'<div class="tools"><input type="search" data-filter="{id}" placeholder="Filter" ' \
        'aria-label="Filter"></div>' if id else ""  # fmt: skip
    html = (
        f'{tools}<div class="scroll{" tall" if len(rows) > 20 else ""}" tabindex="0">'
        f'<table class="sortable" id="{id}"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )
    return Block(html, lines)


def _cell(column: Column, row: Any, is_head: bool) -> str:
    cell = column.made(row)
    sort = "" if cell.sort is None else f' data-sort="{escape(str(cell.sort))}"'
    tag = 'th scope="row"' if is_head else f"td{column.kind}"
    return f"<{tag}{sort}>{cell.html or text(cell.text)}</{tag[:2]}>"


def number(value: float | None, written: str | None = None) -> Cell:
    """Return a cell with a number; None is sorted last."""
    return Cell(amount(value) if written is None else written, "" if value is None else value)


def mean_cell(value: Mean | None, write: Callable[[float], str] = percent) -> Cell:
    """Return a cell with a mean, sorted by the mean."""
    return number(value.mean if value else None, mean(value, write))


def median_cell(value: MedianAndP90 | None) -> Cell:
    """Return a cell with a median and 90th percentile, sorted by the median."""
    return number(value.median if value else None, spread(value))


def figure_columns() -> list[Column]:
    """Return the columns for figures of episodes (`summary.Row`), the same in every report."""

    def bar(row: Row) -> Cell:
        return Cell("", row.strict.mean, mini(row.strict.mean, row.strict.interval)) if row.strict else Cell("", "")

    def interval(row: Row) -> Cell:
        found = row.strict.interval if row.strict else None
        return number(found.low if found else None, mean_interval(row.strict))

    def rejections(row: Row) -> Cell:
        wrongly = "" if row.wrongly_rejected is None else f" ({row.wrongly_rejected:,} wrongly)"
        return number(row.rejected, f"{row.rejected:,}{wrongly}" if row.rejected else "")

    def amount_if_any(value: int) -> Cell:
        return number(value, f"{value:,}" if value else "")

    return [
        Column("Solved", lambda row: number(row.solved, f"{row.solved}/{row.episodes}")),
        Column("Strict", lambda row: mean_cell(row.strict)),
        Column("", bar, number=False, only_html=True),
        Column("95%", interval),
        Column("Lenient", lambda row: mean_cell(row.lenient)),
        Column("Time-scaled", lambda row: mean_cell(row.time_reward, reward)),
        Column("Claims", lambda row: mean_cell(row.claims)),
        Column("False claims", lambda row: mean_cell(row.false_claims)),
        Column("Rejected", rejections),
        Column("Steps", lambda row: median_cell(row.steps)),
        Column("Seconds", lambda row: median_cell(row.seconds)),
        Column("Tokens read", lambda row: median_cell(row.prompt_tokens)),
        Column("Tokens written", lambda row: median_cell(row.completion_tokens)),
        Column("env_error", lambda row: amount_if_any(row.env_errors)),
        Column("Missing", lambda row: amount_if_any(row.missing)),
    ]


def markdown(blocks: Sequence[Block]) -> str:
    """Return the report as Markdown."""
    lines = "\n".join(line for block in blocks for line in block.markdown)
    return re.sub("\n{3,}", "\n\n", lines).rstrip() + "\n"
