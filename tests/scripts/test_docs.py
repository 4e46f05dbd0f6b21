"""The generated parts of docs/ are up to date, and every link of the documentation leads somewhere."""

import re

import pytest

from selfsurf.scripts.docs.pages import ROOT, pages

WRITTEN = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_generated_page_is_up_to_date(path):
    assert path.read_text(encoding="utf8") == pages()[path], "run python -m selfsurf.scripts.docs"


def anchors(text):
    """The names by which a page's headings are linked."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf8")), link
