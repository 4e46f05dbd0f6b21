"""clock="virtual": a page's time stands still, and goes on only while the page is waited for."""

import contextlib
import http.server
import itertools
import re
import threading
import time

import gymnasium
import numpy as np
import psutil
import pytest

from selfsurf.browser_env import Bounds, EnvError, Safety, SessionOptions
from selfsurf.browser_env.browser import devtools, page_time
from selfsurf.browser_env.browser.browsers import can_hold_time
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.session import files, session
from tests.few import few
from tests.processes import browsers, descendants

PAGE = """<!doctype html><title>page</title><body>
<button onclick="out.textContent = 'pressed'; setTimeout(() => out.textContent = 'late', 1200)">late</button>
<button onclick="fetchSlowly(performance.now())">fetch</button>
<button onclick="alert('well?'); out.textContent = 'told'">alert</button>
<button onclick="window.open('/other')">open</button>
<button onclick="for (;;);">loop</button>
<button onclick="requestAnimationFrame(() => { for (;;); })">loop in a frame</button>
<button onclick="requestAnimationFrame(() => { spin(1.5e9) })">draw long</button>
<button onclick="out.style.transition = 'width 1s linear'; out.style.width = '300px'">widen</button>
<a href="/other">other</a> <a href="/file">file</a>
<button onclick="new Worker('/worker.js')">worker</button>
<button onclick="(async () => { for (;;) { await fetch('/poll'); await new Promise(r => setTimeout(r, 50)) } })()">poll</button>
<form id="sent" action="/other"></form><button onclick="sent.submit()">submit</button>
<a href="/styled">styled</a> <button onclick="sessionStorage.again = 1; location.reload()">again</button>
<input onkeydown="if (event.key == 'Enter') setTimeout(() => out.textContent = 'found', 1200)" type="search">
<p id="out" style="width: 100px; background: #ccc">-</p>
<script>
function spin(times) { for (let i = 0; i < times; i++); }
if (sessionStorage.again) setTimeout(() => location.reload(), 20);
let frames = 0;
(function draw() { frames++; requestAnimationFrame(draw); })();
async function fetchSlowly(began) {
  out.textContent = await (await fetch('/slow')).text() + ` after ${Math.round(performance.now() - began)} ms`;
}
let ticks = 0;
setInterval(() => ticks++, 100);
</script>"""
CLOCK = "[performance.now(), Date.now(), frames, ticks]"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/file":
            return self.send_file()
        time.sleep({"/slow": 0.4, "/poll": 1.5, "/never": 20, "/styles": 0.3, "/slower": 4}.get(path, 0))
        body = {
            "/slow": "arrived",
            "/poll": "",
            "/slower": "arrived",
            "/never": "",
            "/styles": "p { color: red }",
            "/styled": "<title>styled</title><link rel='stylesheet' href='/styles'><p>a page in colours",
            "/worker.js": "1",
            "/other": "<title>other</title><p>another page",
        }.get(path, PAGE).encode()
        self.send_response(200)
        kinds = {"/worker.js": "text/javascript", "/styles": "text/css"}
        kind = kinds.get(path, "text/html" if body.startswith(b"<") else "text/plain")
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # the page is another by now
            self.wfile.write(body)

    def send_file(self):
        self.send_response(200)
        self.send_header("content-type", "application/zip")
        self.send_header("content-disposition", "attachment")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"a")
        time.sleep(20)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def held(site):
    """An environment whose page's time is held, after its reset."""
    env = gymnasium.make("Browser-v0", start_url=site, goal="look", clock="virtual").unwrapped
    env.reset(seed=0)
    yield env
    env.close()


@pytest.fixture
def visit_held(tmp_path):
    """Open a page whose time is held."""
    with contextlib.ExitStack() as opened:

        def visit(html, **options):
            page = tmp_path / "page.html"
            page.write_text(html + "<script>let frames = 0, ticks = 0</script>")
            env = gymnasium.make("Browser-v0", start_url=page.as_uri(), goal="look", clock="virtual", **options)
            opened.callback(env.close)
            env.reset(seed=0)
            return env.unwrapped

        yield visit


def ids(env):
    """The ids of what can be pressed, by name."""
    return {one["name"]: one["id"] for one in env.core.observation["elements"]}


def clock(env):
    async def ask():
        answer = await env.core.session.active.protocol.send(
            "Runtime.evaluate", {"expression": CLOCK, "returnByValue": True}
        )
        return answer["result"]["value"]

    return runtime().run(ask())


def press(env, name):
    return env.step({"action": "click", "id": ids(env)[name]})[0]


def test_time_stands_still_while_nobody_waits(held):
    before = clock(held)
    time.sleep(0.4)
    assert clock(held) == before


def test_a_wait_is_of_the_page_s_time_and_takes_little_of_ours(held):
    before, began = clock(held), time.monotonic()
    held.step({"action": "wait", "ms": 3000})
    after, took = clock(held), time.monotonic() - began
    assert 3000 <= after[0] - before[0] < 3200
    assert after[1] - before[1] == pytest.approx(after[0] - before[0], abs=2)
    assert after[3] - before[3] in (30, 31, 32)
    assert took < 2.5


def test_what_comes_later_is_in_the_next_observation(held):
    began = time.monotonic()
    obs, *_ = held.step({"action": "fill", "id": ids(held)[""], "text": "tea"})
    obs, *_ = held.step({"action": "press", "key": "Enter"})
    assert "found" in obs["dom"]
    assert "pressed" in press(held, "late")["dom"]
    obs, *_ = held.step({"action": "wait", "ms": 1200})
    assert "late" in obs["page_text"].split()
    assert time.monotonic() - began < 3.5


def test_transitions_and_frames_go_with_the_page_s_time(held):
    press(held, "widen")
    before = clock(held)
    first = held.core.observation["screenshot"]
    assert (held.step({"action": "wait", "ms": 500})[0]["screenshot"] != first).any()
    held.step({"action": "wait", "ms": 600})
    end = held.step({"action": "wait", "ms": 100})[0]["screenshot"]
    assert (held.step({"action": "wait", "ms": 100})[0]["screenshot"] == end).all(), "it has ended"
    after = clock(held)
    assert (after[0] - before[0]) / 50 * 0.8 < after[2] - before[2] <= (after[0] - before[0]) / (1000 / 60) + 4


def test_requests_take_real_time_in_which_the_page_s_stands(held):
    told = re.search("arrived after ([0-9]+) ms", press(held, "fetch")["dom"])
    assert int(told[1]) < 50, "of 400"


def test_what_takes_longer_than_a_step_waits_comes_while_the_agent_does(held):
    runtime().run(held.core.session.active.page.evaluate("fetch('/slower').then(() => out.textContent = 'arrived'); 0"))
    for _ in range(2):
        obs, *_ = held.step({"action": "wait", "ms": 5000})
    assert "arrived" in obs["page_text"]


def test_a_worker_s_script_holds_nothing_up(held):
    began = time.monotonic()
    press(held, "worker")
    assert time.monotonic() - began < 2


def test_a_page_that_polls_is_held_up_once_a_step(held):
    press(held, "poll")
    began, before = time.monotonic(), clock(held)
    *_, info = held.step({"action": "wait", "ms": 1000})
    assert info["outcome"] == "running"
    assert clock(held)[0] - before[0] >= 1000
    assert time.monotonic() - began < 12, "not 1.5 s for each of twenty requests"


@pytest.mark.parametrize("kind", ["virtual", "real"])
def test_who_returns_to_a_tab_does_not_wait_for_what_it_began_long_ago(site, kind, monkeypatch):
    monkeypatch.setattr(session, "FRESH", 0.1)
    env = gymnasium.make("Browser-v0", start_url=site, goal="look", clock=kind, bounds=Bounds(network=6.0)).unwrapped
    env.reset(seed=0)
    runtime().run(env.core.session.active.page.evaluate("fetch('/never'); 0"))
    env.step({"action": "new_tab"})
    began = time.monotonic()
    assert "loop in a frame" in env.step({"action": "focus_tab", "index": 0})[0]["dom"]
    assert time.monotonic() - began < 4
    env.close()


@pytest.mark.parametrize("opener", ["setTimeout(() => chosen.click(), 1000)", ""])
def test_a_file_chooser_that_a_script_opens_later(opener, tmp_path, visit_held):
    (tmp_path / "one.txt").write_text("1")
    env = visit_held(
        f"<input type=file id=chosen hidden><button onclick='{opener}'>Choose</button>",
        safety=Safety(upload_from=(str(tmp_path),)),
    )
    obs, *_ = env.step({"action": "upload", "id": ids(env)["Choose"], "files": [str(tmp_path / "one.txt")]})
    assert ("opens no file chooser" in obs["last_error"]) == (not opener)


def test_an_option_that_is_missing_is_awaited_by_the_page_s_clock(visit_held):
    env = visit_held("<div role=combobox tabindex=0 aria-expanded=false aria-haspopup=listbox>x</div>")
    before = clock(env)
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["tea"]})
    assert "shows no options" in obs["last_error"]
    assert clock(env)[0] - before[0] < 5000


def test_a_long_download_is_waited_for_once(held, monkeypatch):
    monkeypatch.setattr(files, "DOWNLOAD_BOUND", 6.0)
    press(held, "file")
    began = time.monotonic()
    held.step({"action": "wait", "ms": 10})
    assert time.monotonic() - began < 4


def test_dialogs_tabs_and_navigations(held, site):
    assert "told" in press(held, "alert")["dom"]
    obs = press(held, "open")
    assert [tab["title"] for tab in obs["tabs"]] == ["page", "other"]
    held.step({"action": "close_tab"})
    before = clock(held)
    assert "another page" in press(held, "other")["page_text"]
    held.step(
        {"action": "navigate", "url": site.replace("127.0.0.1", "localhost")}
    )  # another site, so another renderer
    after = clock(held)
    assert 0 < after[1] - before[1] < 2000, "Date goes on"
    time.sleep(0.2)
    assert clock(held) == after
    held.step({"action": "wait", "ms": 1000})
    assert clock(held)[0] - after[0] == pytest.approx(1000, abs=100)


def test_a_tab_whose_page_had_begun_to_load_goes_on(monkeypatch):
    """Its requests were sent before anything was told of it."""
    monkeypatch.setattr(session, "POPUP_BOUND", 30.0)
    env = gymnasium.make("MiniWoB/click-tab-v0")
    obs, _ = env.reset(seed=1)
    link = next(one for one in obs["elements"] if one["role"] == "link")
    began = time.monotonic()
    obs, *_ = env.step({"action": "click", "id": link["id"], "button": "middle"})
    assert len(obs["tabs"]) == 2
    assert time.monotonic() - began < 10
    env.close()


def test_a_new_page_has_no_mouse_to_wait_for(site, monkeypatch):
    monkeypatch.setattr(devtools, "INPUT", 30.0)
    env = gymnasium.make("Browser-v0", start_url=site, goal="look", clock="virtual")
    began = time.monotonic()
    env.reset(seed=0)
    assert time.monotonic() - began < 10
    env.close()


def test_a_page_whose_time_is_ahead_of_the_real_one_goes_on_to_another(held):
    before = held.step({"action": "wait", "ms": 5000})[0]["screenshot"]
    began = time.monotonic()
    obs = press(held, "styled")
    assert time.monotonic() - began < 1.2  # where the browser waits for a frame's time, it is ended after 1.5 s
    assert "a page in colours" in obs["page_text"]
    assert not np.array_equal(obs["screenshot"], before)


@pytest.mark.slow
def test_a_page_that_loads_itself_again_and_again_is_no_fault(held):
    press(held, "again")
    for _ in range(6):
        began = time.monotonic()
        obs, *_, info = held.step({"action": "wait", "ms": 200})
        assert time.monotonic() - began < 5
        assert info["outcome"] == "running"
    assert "late" in obs["page_text"]


def test_a_form_that_a_script_sends_is_waited_for(held):
    began = time.monotonic()
    assert "another page" in press(held, "submit")["page_text"]
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_a_page_that_loops_keeps_no_other_from_its_frames(site, held):
    looping = gymnasium.make("Browser-v0", start_url=site, goal="loop", clock="virtual", hang_timeout=2).unwrapped
    looping.reset(seed=0)
    ended = threading.Thread(target=lambda: press(looping, "loop"))
    ended.start()
    began, steps = time.monotonic(), 0
    while ended.is_alive():
        press(held, "late")
        steps += 1
    assert steps > 5, f"{steps} in {time.monotonic() - began:.1f} s"
    assert looping.core.session is None
    looping.close()


def graphics():
    """The browsers' processes for graphics."""
    found = set()
    for process in descendants():
        with contextlib.suppress(psutil.Error):
            found |= {process.pid} if "--type=gpu-process" in process.cmdline() else set()
    return found


def beside(site, held, name, **options):
    """Press a button of another page of the same browser, while this one goes on; return what came of both."""
    other = gymnasium.make("Browser-v0", start_url=site, goal="", clock="virtual", screenshot=True, **options).unwrapped
    other.reset(seed=0)
    results = []
    pressing = threading.Thread(target=lambda: results.append(other.step({"action": "click", "id": ids(other)[name]})))
    pressing.start()
    steps = 0
    while pressing.is_alive():
        *_, info = held.step({"action": "click", "id": ids(held)["late"]})
        assert info["outcome"] == "running", info
        steps += 1
    other.close()
    return results[0], steps


def test_frames_that_take_long_overlap_with_no_other(site, held, monkeypatch):
    """Or Chromium would end its process for graphics."""
    monkeypatch.setattr(page_time, "DRAWN", 30)
    before = graphics()
    (obs, *_, info), steps = beside(site, held, "draw long")
    assert (info["outcome"], graphics()) == ("running", before)
    assert steps
    assert obs["screenshot"].any()


@pytest.mark.slow
def test_pages_that_loop_in_a_frame_take_no_browser_along(site, held):
    browser = browsers()
    for _ in range(8):
        (*_, info), steps = beside(site, held, "loop in a frame", hang_timeout=2)
        assert info["outcome_detail"].startswith("the page hangs: it did not answer for 2 s")
        assert steps
    assert browsers() == browser
    assert runtime().run(held.core.session.active.screenshot()).startswith(b"\x89PNG")


def test_a_wheel_that_is_turned_waits_for_a_frame_alone(held):
    began = time.monotonic()
    for _ in range(4):
        held.step({"action": "scroll", "dx": 0, "dy": 10})
    assert time.monotonic() - began < 1.2


def test_every_frame_has_a_tick_of_its_own_however_little_time_is_between_them(held):
    """Or it is not answered, nor any other after it."""
    session, asked = held.core.session.active.time.session, []

    async def draw():
        send = session.send

        async def noted(method, params=None):
            if method == "HeadlessExperimental.beginFrame":
                asked.append(params["frameTimeTicks"])
            return await send(method, params)

        session.send = noted
        try:
            for span in (1 / 3, 0.5, 16.67, 1e-3, 1e-4) * 60:
                await held.core.session.active.time.pass_by(span)
        finally:
            session.send = send

    runtime().run(draw(), timeout=60)
    ticks = [int(at * 1000) for at in asked]
    assert len(ticks) >= 300
    assert all(sooner < later for sooner, later in itertools.pairwise(ticks))


def test_playwright_s_own_calls_go_on(held):
    page = held.core.session.active.page

    async def work():
        await page.mouse.move(50, 50)
        await page.get_by_text("late", exact=True).click()
        await page.wait_for_function("out.textContent == 'late'")
        return await page.screenshot()

    assert runtime().run(work(), timeout=20).startswith(b"\x89PNG")


def test_the_same_actions_give_the_same_pixels(site):
    def play():
        env = gymnasium.make("Browser-v0", start_url=site, goal="look", clock="virtual").unwrapped
        env.reset(seed=0)
        seen = [press(env, "widen"), env.step({"action": "wait", "ms": 430})[0], press(env, "late")]
        told = [clock(env)[1], *(obs["dom"] for obs in seen)]
        env.close()
        return told, [obs["screenshot"] for obs in seen]

    first, pixels = play()
    for _ in range(3):
        again, others = play()
        assert again == first
        assert all(np.array_equal(one, other) for one, other in zip(pixels, others, strict=True))


CHANGES = {
    "at once": "(change) => change()",
    "in a microtask": "(change) => Promise.resolve().then(change)",
    "in a frame": "(change) => requestAnimationFrame(change)",
    "once it is laid out": "(change) => { const seen = new ResizeObserver(() => { seen.disconnect(); change(); }); seen.observe(b); }",
    "after 5 ms": "(change) => setTimeout(change, 5)",
}


@pytest.mark.parametrize("clicks", [10, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
@pytest.mark.parametrize("when", few(2, CHANGES))
def test_no_observation_is_from_before_the_change(clicks, when):
    """It changes no markup, so that nobody can notice it."""
    page = f"""<button id=b>go</button><input id=out><canvas id=box width=9 height=9 style="position:fixed;left:99px;top:99px"></canvas>
    <script>let n = 0; const pen = box.getContext("2d");
    const change = () => {{ out.value = ++n; pen.fillStyle = `rgb(${{n % 256}} ${{n >> 8}} 0)`; pen.fillRect(0, 0, 9, 9) }};
    b.onclick = () => ({CHANGES[when]})(change);</script>"""
    env = gymnasium.make("Browser-v0", start_url=f"data:text/html,{page}", goal="count", clock="virtual")
    env.reset(seed=0)
    for number in range(1, clicks + 1):
        obs, *_ = env.step({"action": "click", "id": 1})
        assert obs["elements"][1]["value"] == str(number)
        assert obs["screenshot"][103, 103].tolist() == [number % 256, number >> 8, 0]
    env.close()


def test_where_time_can_t_be_held_it_is_said():
    assert not can_hold_time("/usr/bin/chromium", headless=True, switches=())
    assert not can_hold_time("/usr/lib/chromium/chromium-headless-shell", headless=False, switches=())
    with pytest.raises(ValueError, match='clock must be "real" or "virtual"'):
        gymnasium.make("Browser-v0", clock="fast")
    with pytest.raises(ValueError, match="the environment doesn't start"):
        gymnasium.make("Browser-v0", clock="virtual", session=SessionOptions(cdp_url="http://127.0.0.1:9222"))
    env = gymnasium.make("Browser-v0", clock="virtual", switches=("--site-per-process",))
    with pytest.raises(EnvError, match="headless shell"):
        env.reset()
    env.close()


def test_a_browser_that_draws_no_frames_on_demand_has_the_real_time(monkeypatch):
    monkeypatch.setattr(page_time, "SWITCHES", ("--no-first-run",))
    own = {"switches": ("--lang=en",), "screenshot": False}  # a browser of its own
    env = gymnasium.make("MiniWoB/click-test-v0", **own).unwrapped
    env.reset(seed=0)
    assert env.core.session.active.time is None
    env.close()
    env = gymnasium.make("MiniWoB/click-test-v0", clock="virtual", **own)
    with pytest.raises(EnvError, match="draws no frames on demand"):
        env.reset(seed=0)
    env.close()


@pytest.mark.parametrize("screenshot", [False, True])
def test_a_step_is_timed_by_the_real_clock(open_page, screenshot):
    options = {"clock": "virtual", "screenshot": screenshot}
    env, obs = open_page("<button onclick='textContent = 2'>1</button>", options=options)
    began = time.monotonic()
    *_, info = env.step({"action": "click", "id": obs["elements"][0]["id"]})
    took = (time.monotonic() - began) * 1000
    assert all(0 <= info["timing"][phase] <= took for phase in info["timing"]), (info["timing"], took)
