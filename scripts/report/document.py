"""What a report is made of, written once and rendered as HTML and as Markdown.

Everything that comes from a results folder may have been written by a hostile page: texts are escaped here for both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Protocol

from selfsurf.scripts.report.charts import mini
from selfsurf.scripts.report.formats import NONE, amount, share, share_interval, spread
from selfsurf.scripts.report.formats import mean as written_mean
from selfsurf.scripts.report.markdown import plain, table
from selfsurf.scripts.report.summary import Mean, Row, Spread

LONGEST = 1200
"""Characters of a text from an episode that a page shows; report.json has all of them."""


class Block(Protocol):
    """A part of a report."""

    def html(self) -> str:
        """As HTML."""
        ...

    def markdown(self) -> list[str]:
        """As lines of Markdown."""
        ...


def text(value: object) -> str:
    """A text, escaped for HTML and cut where it is far too long."""
    shown = str(value)
    left_out = len(shown) - LONGEST
    return escape(shown) if left_out <= 0 else f"{escape(shown[:LONGEST])} … ({amount(left_out)} more characters)"


@dataclass(frozen=True)
class Heading:
    """A heading, and above the first one what kind of report it is."""

    words: str
    eyebrow: str = ""

    def html(self) -> str:
        """As HTML."""
        if self.eyebrow:
            return f'<div class="eyebrow">{self.eyebrow}</div><h1>{text(self.words)}</h1>'
        return f"<h2>{text(self.words)}</h2>"

    def markdown(self) -> list[str]:
        """As lines of Markdown."""
        return [f"{'#' if self.eyebrow else '##'} {plain(self.words)}", ""]


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    words: str

    def html(self) -> str:
        """As HTML."""
        return f"<p>{text(self.words)}</p>"

    def markdown(self) -> list[str]:
        """As lines of Markdown."""
        return [plain(self.words, LONGEST), ""]


@dataclass(frozen=True)
class Banner:
    """Something that must not be overlooked, with `details` that may be long."""

    words: str
    details: str = ""

    def html(self) -> str:
        """As HTML."""
        if not self.details:
            return f'<div class="banner" role="note">{text(self.words)}</div>'
        return (
            f'<div class="banner bad" role="note"><details><summary><b>{text(self.words)}</b></summary>'
            f'<p class="mono">{escape(self.details)}</p></details></div>'
        )

    def markdown(self) -> list[str]:
        """As lines of Markdown."""
        return [f"> **{plain(self.words)}**", *([">", f"> {plain(self.details, LONGEST)}"] if self.details else []), ""]


@dataclass(frozen=True)
class Facts:
    """Names with what belongs to them; those without are left out."""

    pairs: Sequence[tuple[str, object]]

    def html(self) -> str:
        """As HTML."""
        shown = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in self._known())
        return f'<div class="card"><dl class="about">{shown}</dl></div>'

    def markdown(self) -> list[str]:
        """As lines of Markdown."""
        return [*(f"- {plain(name)}: {plain(value)}" for name, value in self._known()), ""]

    def _known(self) -> list[tuple[str, object]]:
        return [(name, value) for name, value in self.pairs if value not in (None, "", NONE)]


@dataclass(frozen=True)
class Notes:
    """How to read the figures."""

    lines: Sequence[str]

    def html(self) -> str:
        """As HTML."""
        return f'<ul class="method">{"".join(f"<li>{escape(line)}</li>" for line in self.lines)}</ul>'

    def markdown(self) -> list[str]:
        """As lines of Markdown."""
        return [" ".join(self.lines), ""]


@dataclass(frozen=True)
class Html:
    """A picture, or what else Markdown has none of."""

    content: str

    def html(self) -> str:
        """As HTML."""
        return self.content

    def markdown(self) -> list[str]:
        """Nothing."""
        return []


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    sort: float | str | None = None
    """What it is sorted by if not by its text."""
    html: str = ""
    """Its HTML, where that is more than its text."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, and the cell of a row."""

    title: str
    cell: Callable[[Any], Cell | str]
    number: bool = True
    only_html: bool = False

    def of(self, get: Callable[[Any], Any]) -> Column:
        """The same column for rows of which `get` gives what it shows."""
        return replace(self, cell=lambda row: self.cell(get(row)))

    def made(self, row: Any) -> Cell:
        """The cell of a row."""
        cell = self.cell(row)
        return Cell(cell) if isinstance(cell, str) else cell


@dataclass(frozen=True)
class Grid:
    """A table that can be sorted and, with an id, filtered in a page."""

    columns: Sequence[Column]
    rows: Sequence[Any]
    id: str = ""
    only_markdown: bool = False
    most: int = 1000
    """Rows in Markdown."""

    def html(self) -> str:
        """As HTML; the first column stays in view."""
        if self.only_markdown:
            return ""
        classes = [' class="num"' if column.number else "" for column in self.columns]
        heads = "".join(
            f'<th scope="col"{kind}><button>{text(column.title)}</button></th>'
            for column, kind in zip(self.columns, classes, strict=True)
        )
        rows = "".join(f"<tr>{''.join(self._cell(row, at) for at in range(len(classes)))}</tr>" for row in self.rows)
        tools = f'<div class="tools"><input type="search" data-filter="{self.id}" placeholder="Filter" ' \
            'aria-label="Filter"></div>' if self.id else ""  # fmt: skip
        return (
            f'{tools}<div class="scroll{" tall" if len(self.rows) > 20 else ""}" tabindex="0">'
            f'<table class="sortable" id="{self.id}"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        )

    def _cell(self, row: Any, at: int) -> str:
        cell = self.columns[at].made(row)
        sort = "" if cell.sort is None else f' data-sort="{escape(str(cell.sort))}"'
        kind = ' class="num"' if self.columns[at].number else ""
        tag = 'th scope="row"' if at == 0 else f"td{kind}"
        return f"<{tag}{sort}>{cell.html or text(cell.text)}</{tag[:2]}>"

    def markdown(self) -> list[str]:
        """As lines of Markdown."""
        columns = [column for column in self.columns if not column.only_html]
        rows = [[plain(column.made(row).text) for column in columns] for row in self.rows[: self.most]]
        rest = len(self.rows) - self.most
        lines = table([plain(column.title) for column in columns], rows)
        return [*lines, f"{rest:,} more in the HTML and JSON.", ""] if rest > 0 else lines


def number(value: float | None, written: str | None = None) -> Cell:
    """A cell with a number; without one it is sorted last."""
    return Cell(amount(value) if written is None else written, "" if value is None else value)


def mean_cell(value: Mean | None, write: Callable[[Mean | None], str]) -> Cell:
    """A cell with a mean, sorted by it."""
    return number(value.mean if value else None, write(value))


def median_cell(value: Spread | None) -> Cell:
    """A cell with a median and the 90th percentile, sorted by the median."""
    return number(value.median if value else None, spread(value))


def figure_columns() -> list[Column]:
    """The columns of the figures of a set of episodes (`summary.Row`), the same in every report."""

    def bar(row: Row) -> Cell:
        return Cell("", row.strict.mean, mini(row.strict.mean, row.strict.interval)) if row.strict else Cell("", "")

    def interval(row: Row) -> Cell:
        found = row.strict.interval if row.strict else None
        return number(found.low if found else None, share_interval(row.strict))

    def amount_if_any(value: int) -> Cell:
        return number(value, f"{value:,}" if value else "")

    return [
        Column("Solved", lambda row: number(row.solved, f"{row.solved}/{row.episodes}")),
        Column("Strict", lambda row: mean_cell(row.strict, share)),
        Column("", bar, number=False, only_html=True),
        Column("95%", interval),
        Column("Lenient", lambda row: mean_cell(row.lenient, share)),
        Column("Time-scaled", lambda row: mean_cell(row.time_reward, written_mean)),
        Column("Steps", lambda row: median_cell(row.steps)),
        Column("Seconds", lambda row: median_cell(row.seconds)),
        Column("Tokens read", lambda row: median_cell(row.prompt_tokens), only_html=True),
        Column("Tokens written", lambda row: median_cell(row.completion_tokens)),
        Column("env_error", lambda row: amount_if_any(row.env_errors)),
        Column("Missing", lambda row: amount_if_any(row.missing)),
    ]


def markdown(blocks: Sequence[Block]) -> str:
    """The report as Markdown."""
    lines = "\n".join(line for block in blocks for line in block.markdown())
    return re.sub("\n{3,}", "\n\n", lines).rstrip() + "\n"
