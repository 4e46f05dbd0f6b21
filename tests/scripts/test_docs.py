"""The generated parts of docs/ are up to date, and every link of the documentation leads somewhere."""

import re
import subprocess
import sys

import pytest

from selfsurf.renames import IMPORTS
from selfsurf.scripts.docs.pages import ROOT, pages
from selfsurf.scripts.docs.rooms import ROOMS
from selfsurf.scripts.docs.settings import reference
from selfsurf.scripts.docs.site import PUBLIC, build, module_pages, public_names

WRITTEN = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_generated_pages_are_up_to_date():
    stale = [path.name for path, text in pages().items() if path.read_text(encoding="utf8") != text]
    assert not stale, "run python -m selfsurf.scripts.docs"


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


def test_what_the_code_says_of_the_documentation_is_there():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for file in files:
        if not file.endswith((".py", ".sh", ".toml", ".yaml", ".yml")):
            continue
        for name, anchor in re.findall(
            r"\b(docs/[\w/-]+\.(?:md|yaml|svg))(?:#([\w-]+))?", (ROOT / file).read_text("utf8")
        ):
            assert (ROOT / name).exists(), (file, name)
            assert not anchor or anchor in anchors((ROOT / name).read_text("utf8")), (file, name, anchor)


@pytest.mark.slow
def test_the_site_is_built_without_a_broken_link_and_has_every_public_name(tmp_path):
    pytest.importorskip("mkdocstrings_handlers.python")
    build(tmp_path)
    for module in PUBLIC:
        page = (tmp_path / "api" / module / "index.html").read_text(encoding="utf8")
        assert not [name for name in public_names(module) if f'id="{module}.{name}"' not in page], module
    assert 'href="../api/' in (tmp_path / "examples" / "index.html").read_text(encoding="utf8")


def test_every_package_of_modules_has_a_page():
    found = module_pages()
    packages = [path.parent for path in ROOT.glob("*/**/__init__.py") if ".venv" not in path.parts]
    planner = found["modules/selfsurf.agents.graph.nodes.md"]
    assert len(found) == 1 + len([path for path in packages if path.relative_to(ROOT).parts[0] in ROOMS])
    assert "\n## planner\n\n" in planner
    assert "(selfsurf.agents.graph.nodes.md)" in found["modules/index.md"]


NAMED = re.compile(
    r"`((?:selfsurf\.)?(?:browser_env|tasks|envs_registry|agents|sdft|scripts|tests|docs)[./][\w./-]*)[`(]"
)


def defines(file, name):
    """Whether a module has a thing of that name: its own, or one that it imports."""
    return re.search(
        rf"^({name}\b|(async )?(def|class) {name}\b|\s*from .* import .*\b{name}\b|    {name},)", file, re.M
    )


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_modules_that_are_named_exist(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf8"), flags=re.DOTALL)
    for name in NAMED.findall(text):
        if "/" in name:
            assert (ROOT / name).exists() or not re.search(r"\.\w+$|/$", name), name
            continue
        if path.name == "CHANGELOG.md" and any(name == old or name.startswith(f"{old}.") for old in IMPORTS):
            continue
        parts, found = name.removeprefix("selfsurf.").rstrip(".").split("."), ROOT
        while parts and ((found / parts[0]).is_dir() or (found / f"{parts[0]}.py").exists()):
            found /= parts.pop(0)
        module = found / "__init__.py" if found.is_dir() else found.with_suffix(".py")
        assert not parts or defines(module.read_text(encoding="utf8"), parts[0]), name


def test_the_example_of_the_readme_succeeds_as_printed(tmp_path):
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf8"), re.DOTALL)
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("solved 1.0\n", "")


def test_the_default_of_a_group_is_told():
    assert '| `rollouts.policy` | `{"num_cpus": 1.0' in reference()
    assert "| `{}` |" not in reference()


@pytest.mark.parametrize(
    ("module", "says"),
    [("docs", "Run this in a checkout"), ("docs.recording", "There is no episode in runs/before")],
)
def test_what_the_documentation_is_made_of_is_asked_for(tmp_path, module, says):
    program = f"""
import runpy, sys
from selfsurf import extras
extras.CHECKOUT = False
sys.argv = ["docs"]
runpy.run_module("selfsurf.scripts.{module}", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (1, True, False), done.stderr
