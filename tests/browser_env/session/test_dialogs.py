"""What becomes an event: dialogs and their answers, downloads, tabs, errors, statuses."""

import http.server
import threading

import pytest

from selfsurf.browser_env import Safety
from selfsurf.browser_env.environment.env import make_core

ASK = """<button onclick="document.title = 'a' + alert('hi')">Alert</button><button onclick="document.title = 'c' + confirm('sure?')">Confirm</button>
<button onclick="document.title = 'p' + prompt('name?', 'Bob')">Prompt</button>"""


def press(env, obs, by_name, name):
    return env.step({"action": "click", "id": by_name(obs, name)["id"]})[0]


@pytest.mark.parametrize(
    ("policy", "titles", "events"),
    [
        ("accept", ["aundefined", "ctrue", "pBob"], ["accepted: hi", "accepted: sure?", "accepted: name?"]),
        ("dismiss", ["aundefined", "cfalse", "pnull"], ["dismissed: hi", "dismissed: sure?", "dismissed: name?"]),
        ({"confirm": "dismiss", "prompt": "Ada"}, ["aundefined", "cfalse", "pAda"], ["accepted: hi", "dismissed: sure?", 'answered "Ada": name?']),
        (lambda kind, message: f"{kind} {message}" if kind == "prompt" else "dismiss", ["aundefined", "cfalse", "pprompt name?"], ["dismissed: hi", "dismissed: sure?", "name?"]),
        (lambda kind, message: 1 / 0, ["aundefined", "cfalse", "pnull"], ["dismissed: hi", "dismissed", "dismissed"]),
    ],
)  # fmt: skip
def test_dialogs_are_answered_by_policy(open_page, by_name, policy, titles, events):
    env, obs = open_page(ASK, options={"dialogs": policy})
    for name, title, event in zip(("Alert", "Confirm", "Prompt"), titles, events, strict=True):
        obs = press(env, obs, by_name, name)
        assert obs["title"] == title
        assert event in obs["events"][0]
        assert obs["events"][0].startswith(f"{name.lower()} dialog ")


@pytest.mark.parametrize("policy", ["maybe", {"konfirm": "accept"}, {"confirm": "yes"}, {"prompt": None}, 3])
def test_a_policy_that_is_none_is_refused_at_once(policy):
    with pytest.raises(ValueError, match="dialogs"):
        make_core("about:blank", dialogs=policy)


LEAVE = (
    """<button>Touch</button><a href=second.html>Go</a><script>onbeforeunload = (e) => e.preventDefault()</script>"""
)


def test_a_page_that_asks_to_stay_is_left_or_not_as_the_policy_says(open_page, by_name):
    env, obs = open_page(LEAVE, options={"dialogs": {"beforeunload": "dismiss"}}, second="<p>two")
    obs = press(env, obs, by_name, "Touch")
    for action in (
        {"action": "navigate", "url": "http://site.test/second.html"},
        {"action": "close_tab"},
        {"action": "click", "id": by_name(obs, "Go")["id"]},
    ):
        obs, *_, info = env.step(action)
        assert obs["title"] == "index", action
        assert obs["events"] == ("beforeunload dialog dismissed",), action
        assert info["timing"]["total"] < 4000, action
        assert ("still open" in obs["last_error"]) == (action["action"] != "click")


def test_by_default_a_page_is_left(open_page, by_name):
    env, obs = open_page(LEAVE, second="<p>two")
    obs = press(env, obs, by_name, "Touch")
    obs, *_ = env.step({"action": "navigate", "url": "http://site.test/second.html"})
    assert obs["title"] == "second"
    assert obs["events"][0] == "beforeunload dialog accepted"
    obs, *_ = env.step({"action": "back"})
    obs = press(env, obs, by_name, "Touch")
    obs, *_ = env.step({"action": "new_tab"})
    obs, *_ = env.step({"action": "focus_tab", "index": 0})
    obs, *_ = env.step({"action": "close_tab"})
    assert [tab["url"] for tab in obs["tabs"]] == ["about:blank"]
    assert "tab closed" in obs["events"]
    obs, *_ = env.step({"action": "close_tab"})
    assert [tab["url"] for tab in obs["tabs"]] == ["about:blank"]


class Files(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/cut":
            self.send_response(200)
            self.send_header("Content-Disposition", 'attachment; filename="cut.bin"')
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"x" * 1000)
            self.wfile.flush()
            self.connection.close()
            return
        status = {"/missing": 404, "/broken": 500}.get(self.path, 200)
        self.send_response(status)
        if self.path == "/file":
            self.send_header("Content-Disposition", 'attachment; filename="report.csv"')
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>t</title><a href=/file>File</a> <a href=/cut>Cut</a> <a href=/missing>Missing</a>")

    def log_message(self, *args):
        pass


@pytest.fixture
def files():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_downloads_and_http_errors_are_events(open_page, by_name, files):
    env, obs = open_page("<p>x", options={"safety": Safety(allow_private=True)})
    obs, *_ = env.step({"action": "navigate", "url": files + "/"})
    assert obs["events"] == (f"navigated: {files}/",)
    obs = press(env, obs, by_name, "File")
    assert obs["events"][:2] == ("download: report.csv", "downloaded: report.csv (88 bytes)")
    obs = press(env, obs, by_name, "Cut")
    later, *_ = env.step({"action": "wait", "ms": 300})
    ends = ("download failed: cut.bin", "download cancelled: cut.bin")
    assert any(event.startswith(ends) for event in obs["events"] + later["events"])
    obs, *_ = env.step({"action": "navigate", "url": files + "/file"})  # an address that is a file
    assert obs["last_error"] == ""
    assert "download: report.csv" in obs["events"]
    obs = press(env, obs, by_name, "Missing")
    assert obs["events"] == (f"navigated: {files}/missing (404)",)
    obs, *_ = env.step({"action": "navigate", "url": files + "/broken"})
    assert obs["events"] == (f"navigated: {files}/broken (500)",)


def test_history_of_one_document(open_page):
    env, _ = open_page("<p>x</p><script>history.pushState(1, '', '#one')</script>")
    obs, *_ = env.step({"action": "back"})
    assert obs["last_error"] == ""
    assert obs["url"].endswith("index.html")
    obs, *_ = env.step({"action": "forward"})
    assert obs["url"].endswith("#one")
    obs, *_ = env.step({"action": "forward"})
    assert "no page to go forward to" in obs["last_error"]


def test_popups_become_tabs_and_events(open_page, by_name):
    env, obs = open_page(
        "<button onclick=\"window.open('second.html')\">Pop</button>",
        second="<button onclick='window.close()'>Shut</button>",
    )
    obs = press(env, obs, by_name, "Pop")
    assert [tab["active"] for tab in obs["tabs"]] == [False, True]
    assert "new tab: http://site.test/second.html" in obs["events"]
    obs = press(env, obs, by_name, "Shut")
    assert obs["title"] == "index"
    assert "tab closed" in obs["events"]


@pytest.mark.parametrize("by_itself", [True, False])
def test_after_a_popup_the_tab_that_opened_it_is_active(open_page, by_name, by_itself):
    env, obs = open_page(
        "<button onclick=\"window.open('second.html')\">Pop</button>",
        second="<button onclick='window.close()'>Shut</button>",
    )
    env.step({"action": "new_tab"})
    obs, *_ = env.step({"action": "focus_tab", "index": 0})
    obs = press(env, obs, by_name, "Pop")
    assert obs["title"] == "second"
    close = {"action": "click", "id": by_name(obs, "Shut")["id"]} if by_itself else {"action": "close_tab"}
    obs, *_ = env.step(close)
    assert [(tab["url"], tab["active"]) for tab in obs["tabs"]] == [(obs["url"], True), ("about:blank", False)]
    assert obs["title"] == "index"


def test_a_dialog_that_a_popup_opens_with_is_answered_by_policy(open_page, by_name):
    env, obs = open_page(
        "<button onclick=\"document.title = window.open('').confirm('sure?') ? 'yes' : 'no'\">Pop</button>"
    )
    obs = press(env, obs, by_name, "Pop")
    assert "confirm dialog accepted: sure?" in obs["events"]
    assert "yes" in [tab["title"] for tab in obs["tabs"]]


def test_permissions_are_denied_unless_granted(open_page, by_name):
    page = """<button onclick="navigator.geolocation.getCurrentPosition((p) => document.title = p.coords.latitude, (e) => document.title = 'no')">Where</button>"""
    env, obs = open_page(page)
    env.step({"action": "click", "id": 1})
    obs, *_ = env.step({"action": "wait", "ms": 100})
    assert obs["title"] == "no"
