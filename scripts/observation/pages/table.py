"""Pages of `table.toml`, with their names, kinds and sources."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from selfsurf.scripts.observation.pages.source import Source, Static, app, apt, hard, npm, own


@dataclass(frozen=True)
class Page:
    """A page to measure."""

    name: str
    kind: str
    """Category such as documentation, editor or shop; the option `--kind` filters by it."""
    source: Source
    path: str
    """Path below the source's address, with a leading slash."""


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf8"))

_NPM = {name: npm(name, *given) for name, given in _TABLE["npm"].items()}

SOURCES: dict[str, Source] = {
    **{name: apt(name, *given) for name, given in _TABLE["apt"].items()},
    **_NPM,
    **{name: app(name, **given) for name, given in _TABLE["app"].items()},
    "hard": hard(),
}


def _page(name: str, kind: str, address: str, *uses: str) -> Page:
    source, _, path = address.partition("/")
    return Page(name, kind, own(*(_NPM[one] for one in uses)) if uses else SOURCES[source], f"/{path}")


PAGES = tuple(_page(name, kind, *where.split()) for kind, of in _TABLE["pages"].items() for name, where in of.items())


def choose(names: Sequence[str], kind: str | None) -> list[Page]:
    """Return the pages with the given names (all if none) and of the given kind (any if None).

    Raises:
        ValueError: A name or the kind is unknown, or no page is left.
    """
    known = [page.name for page in PAGES]
    kinds = sorted({page.kind for page in PAGES})
    for name in names:
        if name not in known:
            raise ValueError(f"There is no page {name!r}; choose from {', '.join(known)}.")
    if kind is not None and kind not in kinds:
        raise ValueError(f"There is no kind {kind!r}; choose from {', '.join(kinds)}.")
    pages = [page for page in PAGES if (not names or page.name in names) and kind in (None, page.kind)]
    if not pages:
        raise ValueError(f"None of these pages is of the kind {kind!r}.")
    return pages


def listed(page: Page) -> dict[str, str]:
    """Return a page's entry in `--list`."""
    served = "folder" if isinstance(page.source, Static) else "application"
    return {"name": page.name, "kind": page.kind, "package": page.source.package, "served": served}
