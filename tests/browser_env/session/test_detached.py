"""A browser that outlives its process: real processes are killed, and another one goes on in what they left."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from selfsurf.browser_env import AsyncBrowserEnv, BrowserEnv, EnvError, Safety, SessionOptions, runtime
from selfsurf.browser_env.session.detached import end_browser, is_alive
from selfsurf.browser_env.task import EpisodeProgress

FIRST = """
import asyncio, os, signal, sys
from selfsurf.browser_env import AsyncBrowserEnv, Safety, SessionOptions, runtime

async def main():
    env = AsyncBrowserEnv(sys.argv[1], "Look.", session=SessionOptions(detached=sys.argv[2]), safety=Safety(allowed=("shop.test",)))
    obs, _ = await env.reset(seed=0)
    await env.step({"action": "fill", "id": 1, "text": "half a"})
    await env.step({"action": "click", "id": 2})
    print(await env.address(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

runtime().run(main())
"""
PAGE = b"""<title>form</title><input aria-label=Name><a href=/next target=_blank>Next</a>
<span id=plain>Plain</span><script>document.getElementById('plain').addEventListener('click', () => {
fetch('http://other.test/').catch(() => document.title = 'heard'); })</script>"""


@pytest.fixture
def left(loopback, tmp_path):
    """The site, and the folder with the browser that a killed process has left."""
    visits = []

    def answer(request):
        visits.append(request.path)
        return PAGE if request.path == "/" else b"<title>next</title><p>Second page"

    server = loopback(answer)
    folder = tmp_path / "browser"
    first = subprocess.run(
        [sys.executable, "-c", FIRST, server.url, str(folder)], capture_output=True, text=True, check=False
    )
    assert first.returncode == -signal.SIGKILL, first.stderr
    yield server.url, folder, visits
    end_browser(folder)


@pytest.mark.slow
def test_a_killed_browser_leaves_no_relay(left):
    url, folder, _ = left
    noted = json.loads((folder / "browser.json").read_text())
    port = f":{urlsplit(noted['address']).port}"

    async def used():
        env = AsyncBrowserEnv(url, "Look.", session=SessionOptions(detached=str(folder)))
        await env.reset(seed=0)
        relays = [
            one
            for one in psutil.process_iter(["cmdline"])
            if any("relay.py" in word for word in one.info["cmdline"] or [])
        ]
        ours = [one for one in relays if any(port in f":{place.laddr.port}" for place in one.net_connections("tcp"))]
        psutil.Process(noted["pid"]).kill()
        gone, alive = await asyncio.to_thread(psutil.wait_procs, ours, 10)
        await env.close()
        return gone, alive

    gone, alive = runtime().run(used(), 60)
    assert (len(gone), alive) == (1, [])


@pytest.mark.slow
def test_only_one_environment_uses_it_and_its_browser_is_not_taken_away(left):
    url, folder, _ = left
    so_far = EpisodeProgress("Look.", url=f"{url}/", address=f"{url}/")

    async def go():
        async with AsyncBrowserEnv(url, session=SessionOptions(detached=folder), screenshot=False) as first:
            await first.resume(so_far)
            second = AsyncBrowserEnv(url, session=SessionOptions(detached=folder), screenshot=False)
            with pytest.raises(EnvError, match="in use by another environment"):
                await second.resume(so_far)
            return (await first.step({"action": "wait", "ms": 1}))[4]["outcome"]

    assert runtime().run(go()) == "running"


def resumed(url, folder, *, act=None):
    async def go():
        rules = Safety(allowed=("shop.test",))
        env = AsyncBrowserEnv(url, "Look.", session=SessionOptions(detached=folder), safety=rules, screenshot=False)
        so_far = EpisodeProgress(
            "Look.", seed=0, steps=2, url=f"{url}/", address=f"{url}/", last_error="Interrupted.", first_id=50
        )
        try:
            obs, _ = await env.resume(so_far)
            return obs, (await env.step(act(obs)))[0] if act else None
        finally:
            await env.close()

    return runtime().run(go())


@pytest.mark.slow
def test_another_process_goes_on_in_the_tabs_that_a_killed_one_left(left):
    url, folder, visits = left
    noted = json.loads((folder / "browser.json").read_text())
    process = psutil.Process(noted["pid"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(noted["profile"]).stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "browser.json").stat().st_mode) == 0o600
    assert noted["gate"], "rules for the network go on in the other process"
    other = BrowserEnv(url, screenshot=False)
    other.reset(seed=0)
    before = list(visits)
    obs, after = resumed(
        url,
        folder,
        act=lambda obs: {"action": "click", "id": next(e["id"] for e in obs["elements"] if e["name"] == "Plain")},
    )
    assert sorted((tab["title"], tab["active"]) for tab in obs["tabs"]) == [("form", True), ("next", False)]
    assert (obs["elements"][0]["value"], obs["last_error"]) == ("half a", "Interrupted.")
    assert min(element["id"] for element in obs["elements"]) == 50
    assert after["title"] == "heard", "listeners of a page that was loaded before are known"
    assert [event for event in after["events"] if event.startswith("blocked: http://other.test/")], after["events"]
    assert [path for path in visits if path != "/favicon.ico"] == [path for path in before if path != "/favicon.ico"]
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    assert not folder.exists()
    seen, *_ = other.step({"action": "navigate", "url": f"{url}/"})
    assert "Plain" in [element["name"] for element in seen["elements"]], "as are those of other environments"
    other.close()


@pytest.mark.slow
def test_without_the_browser_its_address_is_opened_again_and_the_loss_is_told(left):
    url, folder, visits = left
    noted = json.loads((folder / "browser.json").read_text())
    os.killpg(noted["pid"], signal.SIGKILL)
    psutil.wait_procs([psutil.Process(noted["pid"])] if psutil.pid_exists(noted["pid"]) else [], timeout=5)
    obs, _ = resumed(url, folder)
    assert (obs["title"], obs["elements"][0]["value"]) == ("form", "")
    assert obs["last_error"] == (
        f"Interrupted. The browser was lost, with its tabs and all typed text. {url}/ was opened again."
    )
    assert visits.count("/next") == 1
    assert not folder.exists()


@pytest.mark.slow
def test_another_environment_with_its_profile_leaves_the_browser_alone(left):
    url, folder, _ = left
    noted = json.loads((folder / "browser.json").read_text())
    with BrowserEnv(url, session=SessionOptions(profile=noted["profile"])) as env:
        with pytest.raises(EnvError, match=r"is in use by a waiting run in .*browser: finish the run"):
            env.reset(seed=0)
        assert is_alive(noted)
        end_browser(folder, keep_profile=True)
        env.reset(seed=0)


@pytest.mark.slow
def test_a_browser_that_was_left_is_ended(left):
    _, folder, _ = left
    noted = json.loads((folder / "browser.json").read_text())
    assert is_alive(noted)
    assert end_browser(folder)
    assert not is_alive(noted)
    assert not end_browser(folder)


def test_options_that_can_not_be_kept_to_are_refused(tmp_path):
    with pytest.raises(ValueError, match="doesn't support locale"):
        SessionOptions(detached=tmp_path, locale="de-DE")
    env = AsyncBrowserEnv(
        "data:text/html,x", session=SessionOptions(detached=tmp_path / "b"), context={"bypass_csp": True}
    )
    with pytest.raises(EnvError, match="doesn't support bypass_csp"):
        runtime().run(env.reset(seed=0))


@pytest.mark.slow
def test_its_devtools_answer_only_who_knows_the_address(left):
    """No port of browser or relay tells it, as `/json/version` of a debugging port would."""
    _, folder, _ = left
    noted = json.loads((folder / "browser.json").read_text())
    browser = psutil.Process(noted["pid"])
    address = urlsplit(noted["address"])
    processes = [browser, *browser.children(recursive=True)]
    assert not [one for process in processes for one in process.net_connections("tcp") if one.status == "LISTEN"]
    for path in ("/", "/json/version", "/json/list", "/devtools/browser", address.path[:-1]):
        with pytest.raises(InvalidStatus, match="404"):
            connect(f"ws://{address.netloc}{path}")
    with pytest.raises(InvalidStatus, match="403"):
        connect(noted["address"], origin="http://shop.test")
    with connect(noted["address"]) as client:
        for message in (
            {"id": 7, "method": "Browser.getVersion"},
            {"id": 8, "method": "Page.enable", "sessionId": "x"},
        ):
            client.send(json.dumps(message))
        answers = {one["id"]: one for one in (json.loads(client.recv(timeout=5)) for _ in range(2))}
    assert "Chrome" in answers[7]["result"]["product"]
    assert answers[8]["error"]["code"] == -32001
