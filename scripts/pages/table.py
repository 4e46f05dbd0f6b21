"""The table of pages: name, kind, where each comes from and how it is served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.pages.source import HARD, Source, Static, apt, npm_pages


@dataclass(frozen=True)
class Page:
    """A page to measure on."""

    name: str
    kind: str
    """documentation, dashboard, components, editor, data, application or hard."""
    source: Source
    path: str
    """Below the source's address, with its slash."""


PYTHON = apt("python3-doc", ["python3.11-doc", "libjs-sphinxdoc", "libjs-jquery", "libjs-underscore"],
             "usr/share/doc/python3*/html")  # fmt: skip
TABLER = npm_pages("tabler", "@tabler/preview@1.2.0", "@tabler/preview/dist")
UIKIT = npm_pages("uikit", "uikit@3.25.29", "uikit")
GENTELELLA = npm_pages("gentelella", "gentelella@4.2.0", "gentelella/dist")
JQUERY_UI = npm_pages("jquery-ui", "jquery-ui-dist@1.13.3", "jquery-ui-dist")
SB_ADMIN = npm_pages("sb-admin", "startbootstrap-sb-admin-2@4.1.4", "startbootstrap-sb-admin-2")
CKEDITOR = npm_pages("ckeditor", "ckeditor4@4.25.2", "ckeditor4")
JSONEDITOR = npm_pages("jsoneditor", "jsoneditor@10.4.3", "jsoneditor")

HARD_NAMES = ("inputs", "aria", "names", "shadow", "frames", "listeners", "hidden", "dialog", "popover")
"""Hand-made pages of what is hard to see right."""

HARD_PAGES = Static("hard", "this repository", lambda: HARD)

PAGES: tuple[Page, ...] = (
    Page("python-index", "documentation", PYTHON, "/index.html"),
    Page("python-functions", "documentation", PYTHON, "/library/functions.html"),
    Page("python-genindex", "documentation", PYTHON, "/genindex-all.html"),
    Page("tabler-form", "dashboard", TABLER, "/form-elements.html"),
    Page("tabler-index", "dashboard", TABLER, "/index.html"),
    Page("sb-admin-tables", "dashboard", SB_ADMIN, "/tables.html"),
    Page("gentelella-inbox", "dashboard", GENTELELLA, "/production/inbox.html"),
    Page("gentelella-form", "dashboard", GENTELELLA, "/production/form_advanced.html"),
    Page("uikit-form", "components", UIKIT, "/tests/form.html"),
    Page("uikit-navbar", "components", UIKIT, "/tests/navbar.html"),
    Page("jquery-ui", "components", JQUERY_UI, "/index.html"),
    Page("ckeditor4", "editor", CKEDITOR, "/samples/old/replacebyclass.html"),
    Page("jsoneditor", "editor", JSONEDITOR, "/examples/03_switch_mode.html"),
    *(Page(f"hard-{name}", "hard", HARD_PAGES, f"/{name}.html") for name in HARD_NAMES),
)


def choose(names: Sequence[str], kind: str | None) -> list[Page]:
    """The pages of these names, or all, that are of this kind, or any.

    Raises:
        ValueError: there is no such name or kind, or nothing is left.
    """
    known = [page.name for page in PAGES]
    kinds = sorted({page.kind for page in PAGES})
    for name in names:
        if name not in known:
            raise ValueError(f"There is no page {name!r}; there are {', '.join(known)}.")
    if kind is not None and kind not in kinds:
        raise ValueError(f"There is no kind {kind!r}; there are {', '.join(kinds)}.")
    pages = [page for page in PAGES if (not names or page.name in names) and kind in (None, page.kind)]
    if not pages:
        raise ValueError(f"None of these pages is of the kind {kind!r}.")
    return pages


def listed(pages: Sequence[Page]) -> list[dict[str, str]]:
    """What `--list` shows of pages."""
    return [
        {
            "name": page.name,
            "kind": page.kind,
            "package": page.source.package,
            "served": "folder" if isinstance(page.source, Static) else "application",
        }
        for page in pages
    ]
