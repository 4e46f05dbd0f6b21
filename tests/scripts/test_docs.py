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


NAMED = re.compile(
    r"`((?:selfsurf\.)?(?:browser_env|tasks|envs_registry|agents|sdft|scripts|tests|docs)[./][\w./-]*)[`(]"
)


def defines(file, name):
    """Whether a module has a thing of that name: its own, or one that it imports."""
    return re.search(rf"^({name}\b|(async )?(def|class) {name}\b|from .* import .*\b{name}\b|    {name},)", file, re.M)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_modules_that_are_named_exist(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf8"), flags=re.DOTALL)
    for name in NAMED.findall(text):
        if "/" in name:
            assert (ROOT / name).exists() or not re.search(r"\.\w+$|/$", name), name
            continue
        parts, found = name.removeprefix("selfsurf.").rstrip(".").split("."), ROOT
        while parts and ((found / parts[0]).is_dir() or (found / f"{parts[0]}.py").exists()):
            found /= parts.pop(0)
        module = found / "__init__.py" if found.is_dir() else found.with_suffix(".py")
        assert not parts or defines(module.read_text(encoding="utf8"), parts[0]), name
