import os
import pathlib

import pytest

from selfsurf.browser_env import ActionError, Safety
from selfsurf.browser_env.session.files import file_name, uploadable

INPUT = "<input type=file aria-label=file>"


def test_nothing_can_be_uploaded_unless_a_folder_is_allowed(open_page, tmp_path):
    paper = tmp_path / "paper.txt"
    paper.write_text("x")
    env, _ = open_page(INPUT, options={"safety": Safety()})
    obs, *_ = env.step({"action": "upload", "id": 1, "files": [str(paper)]})
    assert (
        obs["last_error"]
        == "No file may be uploaded here; the user has to allow a folder with Safety(upload_from=...)."
    )
    assert obs["elements"][0]["value"] == ""


def test_uploads_come_from_allowed_folders_only(open_page, tmp_path):
    allowed, other = tmp_path / "allowed", tmp_path / "allowed-not"
    allowed.mkdir(), other.mkdir()
    (allowed / "ok.txt").write_text("x")
    (other / "secret.txt").write_text("x")
    (allowed / "link.txt").symlink_to(other / "secret.txt")
    (allowed / "inside.txt").symlink_to(allowed / "ok.txt")
    env, obs = open_page(INPUT, options={"safety": Safety(upload_from=(allowed,))})
    for file, says in [
        (allowed / "link.txt", "may not be uploaded"), (f"{allowed}/../allowed-not/secret.txt", "may not be uploaded"),
        (other / "secret.txt", "may not be uploaded"), ("../allowed-not/secret.txt", "may not be uploaded"), ("/etc/passwd", "may not be uploaded"),
        (allowed / "gone.txt", "There is no file"), (allowed, "There is no file"), ("a\0b", "not the path of a file"),
    ]:  # fmt: skip
        obs, *_ = env.step({"action": "upload", "id": 1, "files": [str(file)]})
        assert says in obs["last_error"], file
        assert obs["elements"][0]["value"] == ""
    for file, name in [(allowed / "ok.txt", "ok.txt"), ("ok.txt", "ok.txt"), (allowed / "inside.txt", "ok.txt")]:
        obs, *_ = env.step({"action": "upload", "id": 1, "files": [str(file)]})
        assert (obs["last_error"], obs["elements"][0]["value"]) == ("", name)


def test_one_wrong_file_stops_them_all(tmp_path):
    (tmp_path / "ok.txt").write_text("x")
    with pytest.raises(ActionError, match="may not be uploaded"):
        uploadable([str(tmp_path / "ok.txt"), "/etc/hostname"], [tmp_path])


@pytest.mark.parametrize(
    ("suggested", "name"),
    [
        ("list.csv", "list.csv"), ("../../etc/passwd", "passwd"), ("..\\..\\boot.ini", "boot.ini"), (".bashrc", "bashrc"), ("..", "download"), ("", "download"),
        ("a\x00b\nc.txt", "a_b_c.txt"), ("CON", "download_CON"), ("nul.txt", "download_nul.txt"), ("x" * 500 + ".pdf", "x" * 116 + ".pdf"),
        ("invoice\u202efdp.exe", "invoice_fdp.exe"), ("größe.txt", "größe.txt"), ("语" * 114 + ".pdf", "语" * 38 + ".pdf"),
    ],
)  # fmt: skip
def test_names_of_downloads_are_made_harmless(suggested, name):
    assert file_name(suggested) == name


GET = "<a download='../../evil.csv' href='data:text/csv,abc'>Get</a>"


def test_downloads_go_into_the_episodes_folder(open_page, tmp_path):
    env, _ = open_page(GET)
    obs, *_, info = env.step({"action": "click", "id": 1})
    assert "downloaded: _.._evil.csv (3 bytes)" in obs["events"]
    (first,) = info["downloads"]
    assert env.unwrapped.downloads == info["downloads"]
    assert pathlib.Path(first).read_text() == "abc"
    obs, *_, info = env.step({"action": "click", "id": 1})
    assert "downloaded: _.._evil (2).csv (3 bytes)" in obs["events"]
    assert len(info["downloads"]) == 2
    assert {os.path.dirname(path) for path in info["downloads"]} == {os.path.dirname(first)}
    _, info = env.reset(seed=0)
    assert info["downloads"] == ()
    assert not os.path.exists(os.path.dirname(first))  # a temporary folder goes with its episode


def test_downloads_of_one_name_in_one_step_are_all_kept(open_page):
    env, _ = open_page(
        """<button onclick="for (const text of ['one', 'two', 'three']) { link.href = 'data:text/plain,' + text; link.click(); }">Get</button>
        <a id=link download=same.txt hidden></a>"""
    )
    paths, number = (), 0
    while len(paths) < 3 and number < 50:
        action = {"action": "wait", "ms": 100} if number else {"action": "click", "selector": "text=Get"}
        paths, number = env.step(action)[4]["downloads"], number + 1
    assert {pathlib.Path(path).name for path in paths} == {"same.txt", "same (2).txt", "same (3).txt"}
    assert {pathlib.Path(path).read_text() for path in paths} == {"one", "two", "three"}


def test_a_folder_of_the_users_own_is_kept(open_page, tmp_path):
    kept = tmp_path / "kept"
    env, _ = open_page(GET, options={"safety": Safety(download_to=kept)})
    paths = []
    for _ in range(2):
        *_, info = env.step({"action": "click", "id": 1})
        paths += info["downloads"]
        env.reset(seed=0)
    env.close()
    assert len({os.path.dirname(path) for path in paths}) == 2  # one for each episode
    for path in paths:
        assert pathlib.Path(path).is_relative_to(kept)
        assert pathlib.Path(path).read_text() == "abc"


@pytest.mark.parametrize("told", [True, False])
def test_too_large_downloads_are_refused(visit, server, told):
    headers = {"content-disposition": "attachment; filename=big.bin", "content-type": "application/octet-stream"}
    server.pages["/big"] = (200, headers, b"x" * 300_000)
    env, _ = visit("<a href=/big>Get</a>", max_download=200_000 if told else 299_999)
    obs, *_, info = env.step({"action": "click", "id": 1})
    said = list(obs["events"])
    for _ in range(20):
        if any("refused" in event for event in said):
            break
        obs, *_, info = env.step({"action": "wait", "ms": 50})
        said += obs["events"]
    assert any(event.startswith("download refused: big.bin (more than ") for event in said)
    assert info["downloads"] == ()


def test_a_link_in_a_new_tab_that_is_a_download_leaves_no_tab(make, loopback):
    def answer(request):
        if request.path == "/file":
            return 200, {"Content-Disposition": "attachment; filename=a.txt"}, b"hello"
        return b"<a href=/file target=_blank>Get</a>"

    env, _ = make(loopback(answer).url)
    for name in ("a.txt", "a (2).txt"):
        obs, *_ = env.step({"action": "click", "selector": "text=Get"})
        assert (len(obs["tabs"]), obs["page_text"]) == (1, "Get")
        assert obs["events"] == ("download: a.txt", f"downloaded: {name} (5 bytes)")
