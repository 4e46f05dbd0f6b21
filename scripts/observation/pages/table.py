"""The table of pages: name, kind, where each comes from and how it is served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from selfsurf.scripts.observation.pages.applications import FOSSIL, JUPYTERLAB, OSCAR, OTTERWIKI, SPIRIT, TRAC, WAGTAIL
from selfsurf.scripts.observation.pages.source import Source, Static, apt, hard, npm, npm_pages, own


@dataclass(frozen=True)
class Page:
    """A page to measure on."""

    name: str
    kind: str
    """Such as documentation, editor, shop; `--kind` picks by it."""
    source: Source
    path: str
    """Below the source's address, with its slash."""


PYTHON = apt(
    "python3-doc",
    ["python3.11-doc", "libjs-sphinxdoc", "libjs-jquery", "libjs-underscore"],
    "usr/share/doc/python3*/html",
)
POSTGRES = apt("postgresql-doc", ["postgresql-doc-15"], "usr/share/doc/postgresql-doc-*/html")
DEBIAN = apt("debian-reference", ["debian-reference-en"], "usr/share/debian-reference")
SQLITE = apt("sqlite3-doc", ["sqlite3-doc"], "usr/share/doc/sqlite3")
GIT = apt("git-doc", ["git-doc"], "usr/share/doc/git/html")
TABLER = npm_pages("tabler", "@tabler/preview@1.2.0", "@tabler/preview/dist")
UIKIT = npm_pages("uikit", "uikit@3.25.29", "uikit")
FOUNDATION = npm_pages("foundation", "foundation-sites@6.9.0", "foundation-sites")
GENTELELLA = npm_pages("gentelella", "gentelella@4.2.0", "gentelella/dist")
JQUERY_UI = npm_pages("jquery-ui", "jquery-ui-dist@1.13.3", "jquery-ui-dist")
CHARTS = own(npm("bootstrap", "bootstrap@5.3.9"), npm("chartjs", "chart.js@4.5.1"))
SB_ADMIN = npm_pages("sb-admin", "startbootstrap-sb-admin-2@4.1.4", "startbootstrap-sb-admin-2")
CKEDITOR = npm_pages("ckeditor", "ckeditor4@4.25.2", "ckeditor4")
JSONEDITOR = npm_pages("jsoneditor", "jsoneditor@10.4.3", "jsoneditor")
REVEAL = npm_pages("reveal", "reveal.js@6.0.2", "reveal.js")

HARD_NAMES = ("inputs", "aria", "names", "shadow", "frames", "listeners", "hidden", "dialog", "popover")
"""Hand-made pages of what is hard to see right."""

HARD_PAGES = hard()

PAGES: tuple[Page, ...] = (
    Page("python-index", "documentation", PYTHON, "/index.html"),
    Page("python-functions", "documentation", PYTHON, "/library/functions.html"),
    Page("python-genindex", "documentation", PYTHON, "/genindex-all.html"),
    Page("postgresql-select", "documentation", POSTGRES, "/sql-select.html"),
    Page("debian-reference", "documentation", DEBIAN, "/ch02.en.html"),
    Page("sqlite-select", "documentation", SQLITE, "/lang_select.html"),
    Page("git-config", "documentation", GIT, "/git-config.html"),
    Page("tabler-index", "dashboard", TABLER, "/index.html"),
    Page("tabler-form", "dashboard", TABLER, "/form-elements.html"),
    Page("sb-admin-tables", "dashboard", SB_ADMIN, "/tables.html"),
    Page("gentelella-inbox", "dashboard", GENTELELLA, "/production/inbox.html"),
    Page("gentelella-form", "dashboard", GENTELELLA, "/production/form_advanced.html"),
    Page("charts", "dashboard", CHARTS, "/charts.html"),
    Page("uikit-form", "components", UIKIT, "/tests/form.html"),
    Page("uikit-navbar", "components", UIKIT, "/tests/navbar.html"),
    Page("foundation-abide", "components", FOUNDATION, "/test/visual/abide/accessibility.html"),
    Page("jquery-ui", "components", JQUERY_UI, "/index.html"),
    Page("shoelace", "components", own(npm("shoelace", "@shoelace-style/shoelace@2.20.1")), "/shoelace.html"),
    Page("material-web", "components", own(npm("material-web", "@material/web@2.5.0")), "/material-web.html"),
    Page("reveal", "components", REVEAL, "/demo.html"),
    Page("ag-grid", "data", own(npm("ag-grid", "ag-grid-community@36.2.0")), "/ag-grid.html"),
    Page("tabulator", "data", own(npm("tabulator", "tabulator-tables@6.5.3")), "/tabulator.html"),
    Page("fullcalendar", "data", own(npm("fullcalendar", "fullcalendar@6.1.20")), "/fullcalendar.html"),
    Page("leaflet", "data", own(npm("leaflet", "leaflet@1.9.4")), "/leaflet.html"),
    Page("swagger-ui", "data", own(npm("swagger-ui", "swagger-ui-dist@5.35.0")), "/swagger-ui.html"),
    Page("tinymce", "editor", own(npm("tinymce", "tinymce@8.9.2")), "/tinymce.html"),
    Page("ckeditor4", "editor", CKEDITOR, "/samples/old/replacebyclass.html"),
    Page("quill", "editor", own(npm("quill", "quill@2.0.3")), "/quill.html"),
    Page("codemirror", "editor", own(npm("codemirror", "codemirror@5.65.20")), "/codemirror.html"),
    Page("monaco", "editor", own(npm("monaco", "monaco-editor@0.57.0")), "/monaco.html"),
    Page("jsoneditor", "editor", JSONEDITOR, "/examples/03_switch_mode.html"),
    Page("django-admin-list", "back office", OSCAR, "/admin/catalogue/product/"),
    Page("django-admin-form", "back office", OSCAR, "/admin/auth/user/add/"),
    Page("oscar-dashboard", "back office", OSCAR, "/dashboard/catalogue/"),
    Page("wagtail-pages", "back office", WAGTAIL, "/cms/pages/2/"),
    Page("wagtail-edit", "back office", WAGTAIL, "/cms/pages/2/edit/"),
    Page("oscar-shop", "shop", OSCAR, "/catalogue/"),
    Page("oscar-product", "shop", OSCAR, "/catalogue/the-book-of-number-1_2/"),
    Page("spirit-forum", "forum", SPIRIT, "/"),
    Page("spirit-topic", "forum", SPIRIT, "/topic/2/topic-of-number-0/"),
    Page("trac-ticket", "project", TRAC, "/newticket"),
    Page("trac-query", "project", TRAC, "/query"),
    Page("fossil-timeline", "project", FOSSIL, "/timeline"),
    Page("fossil-ticket", "project", FOSSIL, "/tktnew"),
    Page("otterwiki-page", "wiki", OTTERWIKI, "/Home"),
    Page("otterwiki-edit", "wiki", OTTERWIKI, "/Home/edit"),
    Page("jupyterlab", "notebook", JUPYTERLAB, "/lab/tree/notebook.ipynb"),
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
