"""Where measured pages come from: the table, installing, serving."""

import json
import urllib.error
import urllib.request

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.scripts.machine import install
from selfsurf.scripts.observation.pages.serve import Pages
from selfsurf.scripts.observation.pages.source import App, Static
from selfsurf.scripts.observation.pages.table import PAGES, SOURCES, choose


def test_names_are_unique_and_kinds_are_many():
    names = [page.name for page in PAGES]
    assert len(set(names)) == len(names)
    real = [page for page in PAGES if page.kind != "hard"]
    assert len(real) >= 25
    assert len([page for page in real if isinstance(page.source, App)]) >= 6
    assert len({page.kind for page in real}) >= 6


def test_choose():
    assert [page.name for page in choose(["hard-aria"], None)] == ["hard-aria"]
    assert {page.kind for page in choose([], "hard")} == {"hard"}
    with pytest.raises(ValueError, match="no page 'nothing'"):
        choose(["nothing"], None)
    with pytest.raises(ValueError, match="no kind"):
        choose([], "nothing")
    with pytest.raises(ValueError, match="None of these"):
        choose(["hard-aria"], "editor")


def test_folders_are_served_and_stopped():
    with Pages() as pages:
        url = pages.base(SOURCES["hard"]) + "/aria.html"
        assert b"Patterns of ARIA" in urllib.request.urlopen(url).read()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(pages.base(SOURCES["hard"]) + "/%2e%2e/conftest.py")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_an_application_is_started_and_stopped(tmp_path):
    (tmp_path / "index.html").write_text("up")
    command = ["python3", "-m", "http.server", "--bind", "127.0.0.1"]
    source = App("test", "python", lambda: tmp_path, lambda _, port: [*command, str(port)])
    with Pages() as pages:
        url = pages.base(source)
        assert pages.base(source) == url
        assert urllib.request.urlopen(url).read() == b"up"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_an_application_that_ends_is_unavailable_and_not_tried_again(tmp_path):
    tries = []
    source = App("test", "python", lambda: tmp_path, lambda *_: tries.append(1) or ["false"])
    with Pages() as pages:
        for _ in range(2):
            with pytest.raises(install.Unavailable, match="ended with exit code 1"):
                pages.base(source)
    assert len(tries) == 1


def test_a_missing_package_manager_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(install.Unavailable, match="npm is not installed"):
        install.npm("x", ["x@1"])


def test_a_folder_is_filled_once_and_anew_when_the_packages_change(monkeypatch, tmp_path):
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path))
    touch = [["sh", "-c", 'echo "$WHO" >> who']]
    folder = install.prepare("x", "1", touch, {"WHO": "me"})
    assert install.prepare("x", "1", touch, {"WHO": "you"}) == folder
    assert (folder / "who").read_text() == "me\n"
    install.prepare("x", "2", touch, {"WHO": "you"})
    assert (folder / "who").read_text() == "you\n"


def test_a_failed_install_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path))
    with pytest.raises(install.Unavailable, match=r"ended with exit code 3; see .*x\.log"):
        install.prepare("x", "1", [["sh", "-c", "exit 3"]])
    assert not (tmp_path / "pages/apps/x").exists()


def test_list_of_the_bench():
    result = CliRunner().invoke(app, ["bench", "observe", "--list", "--kind", "hard", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)[0] == {
        "name": "hard-inputs",
        "kind": "hard",
        "package": "this repository",
        "served": "folder",
    }


def test_bench_observe_measures_a_page():
    result = CliRunner().invoke(app, ["bench", "observe", "--page", "hard-dialog", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["pages"][0]["judged"] == 3
    assert figures["pages"][0]["seconds"] > 0
    assert figures["total"]["pages"] == 1


def test_bench_observe_says_what_differs():
    result = CliRunner().invoke(app, ["bench", "observe", "--page", "hard-popover", "--differences"])
    assert result.exit_code == 0, result.output
    assert "=== hard-popover" in result.output
    assert "Targets: recall >= 0.99" in result.output


def test_a_page_that_can_not_be_had_is_not_skipped_silently(monkeypatch):
    def absent():
        raise install.Unavailable("npm is not installed")

    from selfsurf.scripts.observation.pages import table

    page = table.Page("absent", "editor", Static("absent", "x", absent), "/")
    monkeypatch.setattr(table, "PAGES", (page,))
    result = CliRunner().invoke(app, ["bench", "observe"])
    assert result.exit_code == 1
    assert "npm is not installed" in result.output


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", sorted({page.kind for page in PAGES} - {"hard"}))
def test_fidelity_on_real_pages(kind):
    from selfsurf.scripts.observation.fidelity import total
    from selfsurf.scripts.observation.measure import measure

    rows = measure(choose([], kind))
    assert [row.problem for row in rows if row.problem] == []
    verdict = total(row.verdict for row in rows)
    assert verdict.recall > 0.9
    assert verdict.agreement > 0.85
    assert verdict.false_share <= 0.05
