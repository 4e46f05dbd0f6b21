"""The environment under faults, with the real thing: killed browsers, crashed and hung pages."""

import asyncio
import http.server
import os
import signal
import threading
import time

import gymnasium
import pytest

from selfsurf import browser_env
from selfsurf.browser_env import Bounds, EnvError
from selfsurf.browser_env.browser.runtime import runtime
from tests.processes import crowd

PAGE = "data:text/html,<button>Go</button>"


@pytest.fixture
def env(request):
    limits = getattr(request, "param", {"hang_timeout": 1.0})
    env = gymnasium.make("Browser-v0", start_url=PAGE, screenshot=False, **limits)
    env.reset(seed=0)
    yield env
    env.close()
    browser_env.shutdown()


def assert_env_error(result, env):
    obs, reward, terminated, truncated, info = result
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["outcome"] == "env_error"
    assert info["trainable"] is False
    assert info["outcome_detail"]
    assert obs["last_error"].startswith("The environment failed")
    obs, info = env.reset(seed=0)
    assert info["outcome"] == "running"
    assert obs["elements"][0]["name"] == "Go"
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "running"


def test_a_killed_browser(env):
    from selfsurf.browser_env.browser.runtime import runtime

    browser = env.unwrapped.core.session.context.browser

    async def processes():
        protocol = await browser.new_browser_cdp_session()
        return (await protocol.send("SystemInfo.getProcessInfo"))["processInfo"]

    (pid,) = [process["id"] for process in runtime().run(processes()) if process["type"] == "browser"]
    os.kill(pid, signal.SIGKILL)
    assert_env_error(env.step({"action": "click", "id": 1}), env)
    assert not browser.is_connected()


@pytest.mark.parametrize("where", [{"id": 1}, {"x": 50, "y": 50}])
def test_a_crashed_page(env, where):
    from selfsurf.browser_env.browser.runtime import runtime

    session = env.unwrapped.core.session

    async def crash():
        import asyncio

        asyncio.ensure_future(session.active.protocol.send("Page.crash")).add_done_callback(lambda f: f.exception())
        await asyncio.sleep(0.5)

    runtime().run(crash())
    result = env.step({"action": "click", **where})
    assert result[-1]["outcome_detail"] == "the page crashed"
    assert_env_error(result, env)


@pytest.mark.parametrize("env", [{"step_timeout": 2.0}], indirect=True)
def test_an_endless_loop_ends_within_the_deadline(env):
    env.reset(seed=0, options={"start_url": "data:text/html,<button onclick='for(;;);'>Hang</button>"})
    start = time.monotonic()
    result = env.step({"action": "click", "id": 1})
    assert time.monotonic() - start < (2 + 4) * crowd()
    env.unwrapped.core.task.start_url = PAGE
    assert_env_error(result, env)


def test_another_environment_of_the_process_survives_a_hung_one(env):
    other = gymnasium.make("Browser-v0", start_url=PAGE, screenshot=False)
    other.reset(seed=0)
    env.reset(seed=0, options={"start_url": "data:text/html,<button onclick='for(;;);'>Hang</button>"})
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "env_error"
    *_, info = other.step({"action": "click", "id": 1})
    assert info["outcome"] == "running"
    other.close()


@pytest.mark.slow
def test_a_step_after_an_env_error_repeats_it(env):
    env.reset(seed=0, options={"start_url": "data:text/html,<button onclick='for(;;);'>Hang</button>"})
    first = env.step({"action": "click", "id": 1})
    second = env.step({"action": "click", "id": 1})
    assert first[4]["outcome"] == second[4]["outcome"] == "env_error"
    assert second[3]


@pytest.mark.parametrize("name", ["navigate", "new_tab"])
def test_a_server_that_never_answers_is_the_agents_error_not_ours(name):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        safety = browser_env.Safety(allow_private=True)
        env = gymnasium.make("Browser-v0", start_url=PAGE, screenshot=False, safety=safety)
        env.reset(seed=0)
        import selfsurf.browser_env.act.perform as act

        before, act.NAVIGATION_TIMEOUT = act.NAVIGATION_TIMEOUT, 1.0
        try:
            obs, *_, info = env.step({"action": name, "url": f"http://127.0.0.1:{port}/"})
        finally:
            act.NAVIGATION_TIMEOUT = before
        assert info["outcome"] == "running"
        assert "did not load" in obs["last_error"]
        env.close()


def test_a_page_that_hangs_after_a_step_can_not_be_rendered():
    options = {"render_mode": "rgb_array", "screenshot": False, "hang_timeout": 1.0}
    hanging = "data:text/html,<script>setTimeout(() => { for (;;); }, 1500)</script>"
    env = gymnasium.make("Browser-v0", start_url=hanging, **options)
    env.reset(seed=0)
    time.sleep(2)
    with pytest.raises(EnvError, match="the page hangs"):
        env.render()
    env.close()


def test_a_page_that_changes_for_ever_costs_no_more_than_the_bound():
    html = "data:text/html,<button>Go</button><p id=p></p><script>setInterval(() => p.textContent = Math.random(), 1)</script>"
    env = gymnasium.make("Browser-v0", start_url=html, bounds=Bounds(quiet=0.4), screenshot=False)
    env.reset(seed=0)
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "running"
    assert info["timing"]["settle"] < 700
    env.close()


@pytest.fixture
def serve():
    """Return a function that serves pages on loopback: `url = serve(lambda path: body)`; None leaves it unanswered."""
    servers = []

    def start(answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = answer(self.path)
                if body is None:
                    return
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()


def test_what_a_request_brings_is_in_the_next_observation(serve):
    def answer(path):
        if path == "/slow":
            time.sleep(1.2)
            return b"arrived"
        return b"<input aria-label=q onkeydown=\"fetch('/slow').then(r => r.text()).then(t => document.title = t)\">"

    env = gymnasium.make("Browser-v0", start_url=serve(answer), screenshot=False)
    env.reset(seed=0)
    obs, *_, info = env.step({"action": "press", "key": "Enter", "id": 1})
    assert obs["title"] == "arrived"
    assert 1000 < info["timing"]["settle"] < 2500
    env.close()


def test_what_was_loading_before_the_action_is_not_waited_for(serve):
    release = threading.Event()

    def answer(path):
        if path == "/never":
            release.wait(20)
            return None
        return b"<button onclick=\"document.title = 'clicked'\">Go</button><iframe src=/never></iframe>"

    url = serve(answer)

    class Impatient(browser_env.Task):
        async def setup(self, page, rng):
            await page.goto(url, wait_until="commit")
            return "Go."

    env = gymnasium.make("Browser-v0", task=Impatient(), bounds=Bounds(load=1.0), screenshot=False)
    obs, _ = env.reset(seed=0)
    obs, *_, info = env.step({"action": "click", "id": 1})
    assert obs["title"] == "clicked"
    assert info["timing"]["settle"] < 500
    release.set()
    env.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_reset_that_fails_within_a_vector_step_is_typed_too(mode):
    class Flaky(browser_env.Task):
        broken = False

        async def setup(self, page, rng):
            if self.broken:
                raise RuntimeError("the site is down")
            self.broken = True
            await page.goto(PAGE)
            return "Go."

    from selfsurf.browser_env import VectorBrowserEnv

    envs = VectorBrowserEnv(2, task=Flaky(), screenshot=False, autoreset_mode=mode)
    envs.reset(seed=0)
    *_, infos = envs.step([{"action": "finish"}] * 2)
    if mode == "SameStep":
        assert list(infos["outcome"]) == ["env_error"] * 2
        assert list(infos["final_info"]["outcome"]) == ["stopped"] * 2
    _, rewards, terminated, truncated, infos = envs.step([{"action": "wait", "ms": 0}] * 2)
    assert rewards.tolist() == [0.0, 0.0]
    assert not terminated.any()
    assert truncated.all()
    assert list(infos["outcome"]) == ["env_error"] * 2
    assert "the site is down" in infos["outcome_detail"][0]
    envs.close()


def test_a_server_that_never_answers_leaves_the_page_that_is_there(serve):
    release = threading.Event()

    def answer(path):
        if path == "/never":
            release.wait(20)
            return None
        return b"<a href=/never>Go</a>"

    url = serve(answer)
    env = gymnasium.make("Browser-v0", start_url=url, bounds=Bounds(load=0.5), hang_timeout=3.0)
    env.reset(seed=0)
    obs, *_, info = env.step({"action": "click", "id": 1})
    assert (obs["url"], info["outcome"]) == (url, "running")
    assert info["timing"]["total"] < 2500
    release.set()
    env.close()


@pytest.mark.slow
def test_pictures_taken_while_pages_replace_each_other_come(serve):
    env = gymnasium.make("Browser-v0", start_url=serve(lambda path: b"<form><button>Go</button></form>" + b"x " * 2000))
    env.reset(seed=0)

    async def replace_and_shoot():
        tab = env.unwrapped.core.session.active
        for delay in range(40):
            leave = f"setTimeout(() => document.forms[0].submit(), {delay % 20})"
            await tab.protocol.send("Runtime.evaluate", {"expression": leave})
            assert (await asyncio.wait_for(tab.screenshot(), 5)).startswith(b"\x89PNG")
            await asyncio.sleep(0.03)

    runtime().run(replace_and_shoot())
    env.close()
