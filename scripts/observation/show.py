"""Prints what `bench observe` measured: a table page by page, totals, and the disagreements one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from selfsurf.scripts.bench_observe import EXAMPLES, Row
from selfsurf.scripts.observation.fidelity import AGREEMENT, FALSE, RECALL, Disagreement, Verdict, mean, total

TITLES = {
    "missing": "not seen by us",
    "role": "another role",
    "name": "another name",
    "false": "ours that nothing can be done with",
}


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """Averages over the measured pages, for JSON: `micro` counts elements, `macro` pages."""
    verdicts = [row.verdict for row in rows if not row.problem]
    return {
        "pages": len(verdicts),
        "not_measured": [row.page.name for row in rows if row.problem],
        "micro": total(verdicts).figures(),
        "macro": {name: round(value, 4) for name, value in mean(verdicts).items()},
        "targets": {"recall": RECALL, "agreement": AGREEMENT, "false_share": FALSE},
        "met_on": sum(verdict.good for verdict in verdicts),
    }


def show(rows: Sequence[Row], peers: Sequence[str] = ()) -> None:
    """Print the table."""
    table = Table(title="Observation against Chromium's accessibility tree")
    for column in ("page", "kind", "judged", "recall", "role", "name", "both", "ours", "false", "ms", "chars"):
        table.add_column(column, justify="left" if column in ("page", "kind") else "right", no_wrap=True)
    for peer in peers:
        for column in (f"{peer} s", "chars", "time", "size"):
            table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        if row.problem:
            table.add_row(row.page.name, row.page.kind, Text("-", style="yellow"))
            continue
        size = (f"{row.seconds * 1000:.0f}", f"{row.characters:,}")
        beside = [text for peer in peers for text in _beside(row, row.peers.get(peer, {}))]
        table.add_row(row.page.name, row.page.kind, *_cells(row.verdict), *size, *beside)
    verdicts = [row.verdict for row in rows if not row.problem]
    if len(verdicts) > 1:
        table.add_section()
        table.add_row("all elements (micro)", "", *_cells(total(verdicts)))
        average = mean(verdicts)
        shares = [average[name] for name in ("recall", "role", "name", "agreement")]
        cells = [f"{value:.4f}" for value in shares]
        table.add_row("all pages (macro)", "", "", *cells, "", f"{average['false_share']:.2%}")
    console = Console()
    if not console.is_terminal:
        console = Console(width=132 + 48 * len(peers))
    console.print(table)
    for row in rows:
        if row.problem:
            print(f"{row.page.name} was not measured: {row.problem}")
    good = sum(verdict.good for verdict in verdicts)
    print(
        f"Targets: recall >= {RECALL}, both role and name >= {AGREEMENT}, false <= {FALSE:.0%}: "
        f"met on {good} of {len(verdicts)} pages measured."
    )


def _cells(verdict: Verdict) -> list[Text]:
    def marked(text: str, good: bool) -> Text:
        return Text(text, style="" if good else "red")

    return [
        Text(str(verdict.judged)),
        marked(f"{verdict.recall:.4f}", verdict.recall >= RECALL),
        Text(f"{verdict.role_agreement:.4f}"),
        Text(f"{verdict.name_agreement:.4f}"),
        marked(f"{verdict.agreement:.4f}", verdict.agreement >= AGREEMENT),
        Text(str(verdict.elements)),
        marked(f"{verdict.false_share:.2%}", verdict.false_share <= FALSE),
    ]


def _beside(row: Row, peer: dict[str, Any]) -> list[str]:
    if "seconds" not in peer:
        return ["failed" if "error" in peer else "-", "", "", ""]
    more = "> " if peer.get("missing") else ""  # it gave up on a part, so it would have taken longer
    return [
        f"{more}{peer['seconds']:.2f}",
        f"{peer['characters']:,}",
        f"{more}{peer['seconds'] / row.seconds:.0f}x" if row.seconds else "",
        f"{peer['characters'] / row.characters:.1f}x" if row.characters else "",
    ]


def explain(row: Row) -> None:
    """Print the disagreements on a page, alike ones together, the most frequent first."""
    verdict = row.verdict
    counts: dict[str, int] = {}
    for one in verdict.disagreements:
        counts[one.kind] = counts.get(one.kind, 0) + 1
    print(f"\n=== {row.page.name}: {', '.join(f'{n} {TITLES[kind]}' for kind, n in counts.items()) or 'all agrees'}")
    for kind, title in TITLES.items():
        groups = [group for group in row.groups if group[0].kind == kind]
        if groups:
            print(f"--- {title}: {counts[kind]}")
        for group in groups:
            for number, one in enumerate(group[:EXAMPLES]):
                print(("    " if number else f"{len(group):4d}x") + " " + _told(one, row))


def _told(one: Disagreement, row: Row) -> str:
    node = one.node
    box = "no box" if node.box is None else "at " + ",".join(f"{value:.0f}" for value in node.box)
    where = f" in {node.where}" if node.where else ""
    if one.kind == "missing":
        said = f"Chromium: {one.theirs}{'' if node.focusable else ' (not focusable)'}"
    elif one.kind == "false":
        said = f"ours: {one.ours}; Chromium: {one.theirs}"
    else:
        source = row.sources.get(node.key, "")
        said = f"Chromium: {one.theirs!r}{f' {source}' if source else ''}; ours: {one.ours!r}"
    return f"{said}\n        {node.html}\n        in {node.path}; {box}{where}"
