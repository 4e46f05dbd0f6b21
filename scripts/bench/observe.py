"""`selfsurf bench observe`: measure fidelity, speed and size of the observation on real pages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import print_table

if TYPE_CHECKING:
    from selfsurf.scripts.observation.fidelity import Disagreement, Verdict
    from selfsurf.scripts.observation.measure import Row

TITLES = {
    "missing": "missing from our observation",
    "role": "different role",
    "name": "different name",
    "false": "observed, but not actionable",
}


class Settings(Arguments):
    """Options of `selfsurf bench observe`."""

    page: tuple[str, ...] = ()
    """Name of a page to measure; repeatable. All pages if not given."""
    kind: str | None = None
    """Kind of the pages to measure; all kinds if not given."""
    differences: Annotated[bool, typer.Option("--differences")] = False
    """Print the differences, element by element."""
    listing: Annotated[bool, typer.Option("--list")] = False
    """List the pages without installing or opening them."""
    peers: Annotated[bool, typer.Option("--peers")] = False
    """Time BrowserGym and browser-use on the same pages."""
    region: Literal["page", "viewport"] = "page"
    """Part of the page to compare: page, or viewport for the part in a default observation."""


@command
def main(settings: Settings) -> int:
    """Measure fidelity, speed and size of the observation on real pages. Exit code 0: all were measured."""
    from selfsurf.scripts.observation.pages.table import choose, listed

    try:
        pages = choose(settings.page, settings.kind)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if settings.listing:
        rows = [listed(page) for page in pages]
        print(json.dumps(rows, indent=1) if settings.as_json else "\n".join("  ".join(row.values()) for row in rows))
        return 0
    from selfsurf.scripts.machine.processes import ending_on_signal
    from selfsurf.scripts.observation.measure import PEERS, measure, totals

    peers = PEERS if settings.peers else ()
    with ending_on_signal():
        found = measure(pages, region=settings.region, peers=peers)
    if settings.as_json:
        print(json.dumps({"pages": [row.figures() for row in found], "total": totals(found)}, indent=1))
    else:
        for row in found if settings.differences else ():
            explain(row)
        show(found, peers)
    return int(any(row.problem for row in found))


def show(rows: Sequence[Row], peers: Sequence[str] = ()) -> None:
    """Print the table."""
    from selfsurf.scripts.observation.fidelity import AGREEMENT, FALSE, RECALL, mean, total

    heads = ["page", "kind", "judged", "recall", "role", "name", "both", "ours", "false", "ms", "chars"]
    for peer in peers:
        heads += [f"{peer} s", "chars", "time", "size"]
    cells: list[list[Any]] = []
    for row in rows:
        found = ["[yellow]-[/]"]
        if not row.problem:
            beside = [text for peer in peers for text in _beside(row, row.peers.get(peer, {}))]
            found = [*_cells(row.verdict), f"{row.seconds * 1000:.0f}", f"{row.characters:,}", *beside]
        cells.append([row.page.name, row.page.kind, *found])
    verdicts = [row.verdict for row in rows if not row.problem]
    if len(verdicts) > 1:
        average = mean(verdicts)
        shares = [f"{average[name]:.4f}" for name in ("recall", "role", "name", "agreement")]
        cells += [
            [],
            ["all elements (micro)", "", *_cells(total(verdicts))],
            ["all pages (macro)", "", "", *shares, "", f"{average['false_share']:.2%}"],
        ]
    title = "Observation compared with Chromium's accessibility tree"
    print_table(heads, cells, title, texts=("kind",), width=132 + 48 * len(peers))
    for row in rows:
        if row.problem:
            print(f"{row.page.name} was not measured: {row.problem}")
    good = sum(verdict.good for verdict in verdicts)
    print(
        f"Targets: recall >= {RECALL}, both role and name >= {AGREEMENT}, false <= {FALSE:.0%}: "
        f"met on {good} of {len(verdicts)} pages measured."
    )


def _cells(verdict: Verdict) -> list[str]:
    from selfsurf.scripts.observation.fidelity import AGREEMENT, FALSE, RECALL

    def marked(text: str, good: bool) -> str:
        return text if good else f"[red]{text}[/]"

    return [
        str(verdict.judged), marked(f"{verdict.recall:.4f}", verdict.recall >= RECALL),
        f"{verdict.shares['role']:.4f}", f"{verdict.shares['name']:.4f}",
        marked(f"{verdict.agreement:.4f}", verdict.agreement >= AGREEMENT), str(verdict.elements),
        marked(f"{verdict.false_share:.2%}", verdict.false_share <= FALSE),
    ]  # fmt: skip


def _beside(row: Row, peer: dict[str, Any]) -> list[str]:
    if "seconds" not in peer:
        return ["failed" if "error" in peer else "-", "", "", ""]
    more = "> " if peer.get("missing") else ""  # a lower bound, because the peer gave up on a part
    return [
        f"{more}{peer['seconds']:.2f}", f"{peer['characters']:,}",
        f"{more}{peer['seconds'] / row.seconds:.0f}x" if row.seconds else "",
        f"{peer['characters'] / row.characters:.1f}x" if row.characters else "",
    ]  # fmt: skip


def explain(row: Row) -> None:
    """Print the disagreements on a page in groups, the most frequent first."""
    from selfsurf.scripts.observation.measure import EXAMPLES

    if row.problem:
        return
    counts = Counter[str](one.kind for one in row.verdict.disagreements)
    print(f"\n=== {row.page.name}: {', '.join(f'{n} {TITLES[kind]}' for kind, n in counts.items()) or 'all agrees'}")
    for kind, title in TITLES.items():
        groups = [group for group in row.groups if group[0].kind == kind]
        if groups:
            print(f"--- {title}: {counts[kind]}")
        for group in groups:
            for number, one in enumerate(group[:EXAMPLES]):
                print(("    " if number else f"{len(group):4d}x") + " " + _described(one))


def _described(one: Disagreement) -> str:
    node = one.node
    box = "no box" if node.box is None else "at " + ",".join(f"{value:.0f}" for value in node.box)
    where = f" in {node.where}" if node.where else ""
    if one.kind == "missing":
        text = f"Chromium: {one.theirs}{'' if node.focusable else ' (not focusable)'}"
    elif one.kind == "false":
        text = f"ours: {one.ours}; Chromium: {one.theirs}"
    else:
        text = f"Chromium: {one.theirs!r}; ours: {one.ours!r}"
    return f"{text}\n        {node.html}\n        in {node.path}; {box}{where}"
