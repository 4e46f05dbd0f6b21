"""Charts as SVG text, 440 units wide, with colours from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from selfsurf.scripts.report.formats import between, percent
from selfsurf.sdft.measure.statistics import Interval

WIDTH = 440


@dataclass(frozen=True)
class Bar:
    """One row of a `forest` chart: a value with its interval."""

    label: str
    value: float
    interval: Interval | None
    note: str


@dataclass(frozen=True)
class Line:
    """A labelled curve of a line chart."""

    label: str
    colour: str
    """Colour variable of the style sheet, without the leading dashes."""
    points: Sequence[tuple[float, float, Interval | None]]
    """Points as (x, y, interval of y); the interval may be None."""


def mini(value: float | None, interval: Interval | None) -> str:
    """Return a small bar of a share and its interval, for a cell of a table."""
    if value is None:
        return ""
    parts = ['<rect class="track" x="0" y="5" width="110" height="4" rx="2"/>']
    if interval:
        left, right = 110 * interval.low, 110 * interval.high
        parts.append(f'<rect class="span" x="{left:.1f}" y="3" width="{max(1, right - left):.1f}" height="8" rx="2"/>')
    parts.append(f'<circle class="dot" cx="{min(max(110 * value, 3.5), 106.5):.1f}" cy="7" r="3.5"/>')
    return f'<svg class="mini" viewBox="0 0 110 14" aria-hidden="true">{"".join(parts)}</svg>'


def forest(bars: Sequence[Bar], low: float = 0, high: float = 1, write: Callable[[float], str] = percent) -> str:
    """Return a chart of values with their intervals in rows, on one scale."""
    left, right, row = 118, 302, 23
    height = row * len(bars) + 20

    def x(value: float) -> float:
        return left + (right - left) * (value - low) / (high - low)

    parts = []
    for tick in _ticks(low, high, 4):
        kind = "zero" if tick == 0 and low < 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="0" y2="{height - 18}"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{height - 4}" text-anchor="middle">{_short(tick, write)}</text>')
    for at, bar in enumerate(bars):
        y = row * at + 12
        parts.append(f"<g><title>{escape(bar.label)}: {escape(bar.note)}</title>")
        parts.append(f'<text class="strong" x="0" y="{y + 4}">{escape(_cut(bar.label, 18))}</text>')
        if bar.interval:
            start, end = x(max(bar.interval.low, low)), x(min(bar.interval.high, high))
            parts.append(f'<line class="whisker" x1="{start:.1f}" x2="{end:.1f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="dot" cx="{x(min(max(bar.value, low), high)):.1f}" cy="{y}" r="4.5"/>')
        parts.append(f'<text x="{WIDTH}" y="{y + 4}" text-anchor="end">{escape(bar.note)}</text></g>')
    return _svg(height, "Values with 95% intervals", parts)


def curves(lines: Sequence[Line], x_label: str, write: Callable[[float], str]) -> str:
    """Return a line chart of shares, from 0 to a rounded maximum.

    Args:
        lines: Curves to draw.
        x_label: Label of the horizontal axis.
        write: Formats a value of the horizontal axis.
    """
    left, right, top, bottom, height = 38, WIDTH - 8, 8, 190, 224
    points = [point for line in lines for point in line.points]
    most = max((x for x, _, _ in points), default=1) or 1
    highest = max((max(y, interval.high) if interval else y for _, y, interval in points), default=1)
    roof = next(each for each in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if highest <= each or each == 1)

    def place(x: float, y: float) -> str:
        return f"{left + (right - left) * x / most:.1f},{bottom - (bottom - top) * y / roof:.1f}"

    parts = []
    for share in [roof * part / 4 for part in range(5)]:
        y = bottom - (bottom - top) * share / roof
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(share, percent)}</text>')
    for tick in _ticks(0, most, 5):
        x = left + (right - left) * tick / most
        anchor = "end" if x > right - 12 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="{anchor}">{escape(write(tick))}</text>')
    parts.append(f'<text x="{(left + right) / 2}" y="{bottom + 31}" text-anchor="middle">{escape(x_label)}</text>')
    for line in lines:
        parts += _curve(line, place)
    return _svg(height, f"Success against {x_label}", parts)


def _curve(line: Line, place: Callable[[float, float], str]) -> list[str]:
    parts = []
    band = [(x, each) for x, _, each in line.points if each]
    if band:
        edge = [place(x, each.high) for x, each in band] + [place(x, each.low) for x, each in reversed(band)]
        parts.append(f'<polygon class="band" fill="var(--{line.colour})" points="{" ".join(edge)}"/>')
    path = " ".join(place(x, y) for x, y, _ in line.points)
    parts.append(f'<polyline class="line" stroke="var(--{line.colour})" points="{path}"/>')
    for x, y, interval in line.points if len(line.points) <= 80 else ():
        note = f"{line.label}, at {x:g}: {percent(y)}" + (f" ({between(interval)})" if interval else "")
        cx, cy = place(x, y).split(",")
        parts.append(f'<circle cx="{cx}" cy="{cy}" r="7" fill="transparent"><title>{escape(note)}</title></circle>')
    return parts


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return about `most` round tick values within a range."""
    rough = (high - low) / most
    if rough <= 0:
        return [low]
    scale = 10 ** math.floor(math.log10(rough))
    step = next(scale * part for part in (1, 2, 2.5, 5, 10) if scale * part >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [at * step for at in range(first, last + 1)]


def _cut(label: str, most: int) -> str:
    """Return a label cut to its last `most` characters, because names of tasks differ at the end."""
    return label if len(label) <= most else "…" + label[1 - most :]


def _short(value: float, write: Callable[[float], str]) -> str:
    """Return the label of a tick without a trailing `.0`."""
    return write(value).replace(".0", "")


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
