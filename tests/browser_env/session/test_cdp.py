"""Environments in a running browser that somebody else started: a real one, over its DevTools port."""

import json
import subprocess
import time
import urllib.request

import pytest

from selfsurf import browser_env
from selfsurf.browser_env import SessionOptions
from selfsurf.browser_env.browser.browsers import find_browser

PAGE = b"""<title>page</title><script>document.title = document.cookie || 'nobody'</script><button>Go</button>
<a href=/pop target=_blank>Popup</a><button onclick='for(;;);'>Hang</button>"""


class Running:
    """A browser of a person, with a tab open."""

    def __init__(self, folder, port=0):
        self.folder = folder
        (folder / "DevToolsActivePort").unlink(missing_ok=True)
        switches = ["--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", f"--remote-debugging-port={port}"]
        self.process = subprocess.Popen([find_browser(), *switches, "data:text/html,<title>mine</title>"], stderr=-3)
        end = time.monotonic() + 20
        while True:
            try:
                self.port = int((folder / "DevToolsActivePort").read_text().splitlines()[0])
                self.url = f"http://127.0.0.1:{self.port}"
                if any(page["url"].startswith("data:") for page in self.pages()):
                    return
            except (OSError, IndexError):
                pass
            assert time.monotonic() < end
            time.sleep(0.05)

    def pages(self):
        with urllib.request.urlopen(f"{self.url}/json/list", timeout=5) as answer:
            return [target for target in json.load(answer) if target["type"] == "page"]

    def addresses(self):
        return sorted(page["url"] for page in self.pages())

    def open(self, url):
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/json/new?{url}", method="PUT"), timeout=5).close()

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def theirs(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    running = Running(folder)
    yield running
    running.kill()


@pytest.fixture
def url(loopback):
    return loopback(lambda request: PAGE).url + "/"


MINE = "data:text/html,<title>mine</title>"


def test_an_own_context_in_a_running_browser(make, theirs, url, by_name):
    env, obs = make(url, SessionOptions(cdp_url=theirs.url, locale="de-DE"), screenshot=True)
    assert env.observation_space.contains(obs)
    assert [tab["url"] for tab in obs["tabs"]] == [url]
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Popup")["id"]})
    assert (len(obs["tabs"]), obs["url"], info["outcome"]) == (2, f"{url}pop", "running")
    assert len(theirs.pages()) == 3
    env.reset(seed=0)
    assert len(theirs.pages()) == 2
    env.close()
    env.close()
    assert theirs.process.poll() is None
    assert theirs.addresses() == [MINE]


def test_the_default_context_is_the_persons_own(make, theirs, url, by_name):
    theirs.open(url)
    writer = SessionOptions(cdp_url=theirs.url, use_default_context=True)
    env, obs = make(url, writer, screenshot=True, viewport=(500, 400))
    assert env.observation_space.contains(obs)
    assert len(obs["tabs"]) == 1  # theirs are not the agent's to see
    before = theirs.addresses()
    assert before == sorted([MINE, url, url])

    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Popup")["id"]})
    assert [tab["url"] for tab in obs["tabs"]] == [url, f"{url}pop"]
    assert obs["screenshot"].shape == (400, 500, 3)
    obs, *_ = env.step({"action": "new_tab", "url": url})
    assert len(obs["tabs"]) == 3
    theirs.open("data:text/html,<title>person</title>")
    obs, *_ = env.step({"action": "wait", "ms": 300})
    assert len(obs["tabs"]) == 3
    assert not any("person" in event for event in obs["events"])

    env.close()
    assert theirs.process.poll() is None
    assert theirs.addresses() == sorted([MINE, url, "data:text/html,<title>person</title>"])


def test_the_default_context_has_the_persons_cookies(make, theirs, loopback):
    def answer(request):
        login = {"set-cookie": "user=ann; path=/"} if request.path == "/login" else {}
        return 200, login, PAGE

    url = loopback(answer).url
    theirs.open(f"{url}/login")
    end = time.monotonic() + 10
    while not any(page["title"] == "user=ann" for page in theirs.pages()) and time.monotonic() < end:
        time.sleep(0.05)
    env, obs = make(url, SessionOptions(cdp_url=theirs.url, use_default_context=True))
    assert obs["title"] == "user=ann"
    assert env.unwrapped.storage_state()["cookies"][0]["value"] == "ann"
    assert env.reset(seed=0)[0]["title"] == "user=ann"
    own = make(url, SessionOptions(cdp_url=theirs.url))
    assert own[1]["title"] == "nobody"
    env.close()
    assert own[0].step({"action": "click", "id": 1})[0]["last_error"] == ""


@pytest.mark.parametrize("theirs_too", [True, False])
def test_view_transitions_run_where_frames_have_a_rate(make, theirs, tmp_path, theirs_too):
    began = "document.startViewTransition(() => {}).ready.then(() => document.title = 'ran', () => document.title = 'skipped')"
    session = SessionOptions(cdp_url=theirs.url) if theirs_too else SessionOptions(detached=str(tmp_path / "browser"))
    env, _ = make(f'data:text/html,<button onclick="{began}">Go</button>', session)
    env.step({"action": "click", "id": 1})
    obs, *_, info = env.step({"action": "wait", "ms": 300})
    assert (obs["title"], info["outcome"]) == ("ran" if theirs_too else "skipped", "running")


@pytest.mark.slow
def test_a_browser_that_dies_is_an_env_error_and_is_connected_to_again(make, theirs, url):
    env, _ = make(url, SessionOptions(cdp_url=theirs.url), step_timeout=5.0)
    theirs.kill()
    *_, truncated, info = env.step({"action": "click", "id": 1})
    assert (truncated, info["outcome"], info["trainable"]) == (True, "env_error", False)
    with pytest.raises(browser_env.EnvError, match=f"No browser answers at {theirs.url}; start one"):
        env.reset(seed=0)
    again = Running(theirs.folder, theirs.port)
    try:
        env.reset(seed=0)
        *_, info = env.step({"action": "click", "id": 1})
        assert info["outcome"] == "running"
        env.close()
    finally:
        again.kill()


@pytest.mark.parametrize("default", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_hung_page_does_not_take_the_persons_browser_with_it(make, theirs, url, by_name, default):
    env, obs = make(url, SessionOptions(cdp_url=theirs.url, use_default_context=default), hang_timeout=1.0)
    *_, info = env.step({"action": "click", "id": by_name(obs, "Hang")["id"]})
    assert info["outcome"] == "env_error"
    assert theirs.process.poll() is None
    _, info = env.reset(seed=0)
    assert info["outcome"] == "running"
    env.close()
    end = time.monotonic() + 8
    while theirs.addresses() != [MINE] and time.monotonic() < end:
        time.sleep(0.1)
    assert theirs.addresses() == [MINE]


def test_an_address_where_nobody_listens_says_so(make):
    with pytest.raises(browser_env.EnvError, match=r"No browser answers at http://127.0.0.1:9; start one with"):
        make("about:blank", SessionOptions(cdp_url="http://127.0.0.1:9"))


def test_a_shut_down_of_the_process_leaves_the_browser_running(make, theirs, url):
    make(url, SessionOptions(cdp_url=theirs.url))
    browser_env.shutdown()
    end = time.monotonic() + 5
    while theirs.addresses() != [MINE] and time.monotonic() < end:
        time.sleep(0.05)
    assert theirs.process.poll() is None
    assert theirs.addresses() == [MINE]
