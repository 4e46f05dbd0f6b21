"""Pages that hang, storm, eat memory or vanish: a typed outcome in time, nothing left over, and the next reset works."""

import asyncio
import re
import subprocess
import sys
import threading
import time

import gymnasium
import psutil
import pytest

from selfsurf.browser_env import EnvError
from selfsurf.browser_env.patience import LONGEST
from selfsurf.browser_env.session import tab
from tests.few import few
from tests.processes import counts, crowd, until

NEXT = "<button>Next</button>"
HANG = 2.0
OPTIONS = {"screenshot": False, "dialogs": "accept"}


@pytest.fixture
def run(open_page):
    """Return a function that opens a page, takes actions until the episode ends, and checks that a reset then works."""

    def run_it(html, *actions, inner="", **options):
        env, _ = open_page(NEXT, page=html, inner=inner, options={**OPTIONS, **options})
        env.reset(seed=0, options={"start_url": "http://site.test/page.html"})
        start = time.monotonic()
        for action in actions or ({"action": "click", "id": 1},):
            result = env.step(action)
            if result[2] or result[3]:
                break
        seconds = time.monotonic() - start
        obs, info = env.reset(seed=0, options={"start_url": "http://site.test/index.html"})
        assert info["outcome"] == "running", info["outcome_detail"]
        assert [element["name"] for element in obs["elements"]] == ["Next"]
        assert obs["tabs"] == ({"url": "http://site.test/index.html", "title": "index", "active": True},)
        assert until(lambda: (counts()["contexts"], counts()["pages"]) == (1, 1))
        return result, seconds

    return run_it


LOOPS = {
    "click": "<button onclick='for (;;);'>Go</button>",
    "timer": "<button onclick='setTimeout(() => { for (;;); })'>Go</button>",
    "microtasks": "<button onclick='(function again() { Promise.resolve().then(again) })()'>Go</button>",
    "beforeunload": "<a href=index.html>Go</a><script>onbeforeunload = () => { for (;;); }</script>",
    "dialogs": "<button onclick='for (;;) alert(1)'>Go</button>",
    "request": "<button onclick=\"for (;;) { const r = new XMLHttpRequest(); r.open('GET', '/index.html', false); r.send() }\">Go</button>",
}


@pytest.mark.parametrize(
    "where",
    [
        "click",
        *(pytest.param(one, marks=pytest.mark.slow) for one in LOOPS if one != "click"),
    ],
)
def test_an_endless_loop_ends_as_soon_as_it_is_known_for_one(run, where):
    (_, reward, terminated, truncated, info), seconds = run(
        LOOPS[where], {"action": "click", "id": 1}, hang_timeout=HANG
    )
    assert (info["outcome"], info["trainable"], reward, terminated, truncated) == ("env_error", False, 0.0, False, True)
    assert info["outcome_detail"].startswith(f"the page hangs: it did not answer for {HANG:g} s")
    assert seconds < (HANG + 6) * crowd()


def told(info):
    """Return the seconds for which an `env_error` says that the page did not answer."""
    found = re.search(r"did not answer for ([\d.]+) s(?:, which took (\d+) s)?", info["outcome_detail"])
    assert found is not None, info["outcome_detail"]
    return float(found[2] or found[1])


ADDED = {
    "a frame that never comes": "<button onclick='for (;;);'>Go</button><iframe src=/never></iframe>",
    "a link that is never answered": "<a href=/never onclick='setTimeout(() => { for (;;); }, 5)'>Go</a>",
    "another tab": "<button onclick=\"window.open('/loop')\">Go</button>",
    "a frame of the page": "<button onclick='setTimeout(() => one.contentWindow.go())'>Go</button><iframe id=one "
    "srcdoc='<script>function go() { for (;;); }</script>'></iframe>",
    "an animation": "<button onclick='requestAnimationFrame(() => { for (;;); })'>Go</button>",
}


@pytest.mark.parametrize(
    "beside",
    ["a frame that never comes", *(pytest.param(one, marks=pytest.mark.slow) for one in list(ADDED)[1:])],
)
def test_what_a_hung_page_waits_for_besides_adds_nothing(loopback, beside):
    asked, over = threading.Event(), threading.Event()

    def answer(request):
        if request.path == "/never":
            asked.set()
            over.wait(60)
            return b""
        return b"<p>Here<script>for (;;);</script>" if request.path == "/loop" else ADDED[beside].encode()

    env = gymnasium.make("Browser-v0", start_url=loopback(answer).url, screenshot=False, hang_timeout=HANG)
    try:
        env.reset(seed=0, options={"goal": "look"})
        start = time.monotonic()
        *_, info = env.step({"action": "click", "id": 1})
        seconds = time.monotonic() - start
        assert info["outcome"] == "env_error", info
        assert seconds < told(info) + 3 * crowd(), "one deadline for the whole step, and the message says which"
        assert asked.is_set() == ("never" in ADDED[beside])
    finally:
        over.set()
        env.close()


WORK = """<button onclick="work(rate * 1.2)">Go</button><script>
let sum = 0
function work(times) { for (let i = 0; i < times; i++) sum += Math.sqrt(i) }
work(1e6)
let rate = 0  // how much a free core does in a second, by its best 2 ms
for (let i = 0; i < 200; i++) { const start = performance.now(); work(4e5); rate = Math.max(rate, 4e8 / (performance.now() - start)) }
</script>"""


@pytest.fixture
def eight_busy():
    """Keep eight processes busy meanwhile."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    assert until(lambda: all(psutil.Process(one.pid).cpu_times().user > 0.2 for one in busy))
    yield
    for one in busy:
        one.kill()
        one.wait()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_beside_eight_busy_processes_only_a_page_that_hangs_is_called_hung(open_page, eight_busy):
    env, _ = open_page(WORK, options={**OPTIONS, "hang_timeout": HANG})
    for _ in range(5):
        start = time.monotonic()
        *_, info = env.step({"action": "click", "id": 1})
        assert info["outcome"] == "running", (info["outcome_detail"], time.monotonic() - start)
    env, _ = open_page(LOOPS["click"], options={**OPTIONS, "hang_timeout": HANG})
    start = time.monotonic()
    *_, info = env.step({"action": "click", "id": 1})
    seconds = time.monotonic() - start
    assert info["outcome"] == "env_error"
    assert HANG < told(info) <= HANG * LONGEST
    assert told(info) <= seconds < told(info) + 3 * crowd()


@pytest.mark.slow
def test_a_context_that_is_slow_to_close_is_closed_all_the_same(open_page, monkeypatch):
    seen = threading.Event()

    async def slowly(*_, **__):
        await asyncio.to_thread(seen.wait)  # longer than a session that hung is given

    env, _ = open_page(LOOPS["click"], options={**OPTIONS, "hang_timeout": HANG})
    monkeypatch.setattr(env.unwrapped.core.session.context.request._impl_obj, "dispose", slowly)
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "env_error"
    time.sleep(3)
    assert counts()["contexts"] == 1
    seen.set()
    assert until(lambda: counts()["contexts"] == 0)


def test_a_start_page_that_hangs_is_an_error_of_reset(open_page):
    from selfsurf import browser_env

    env, _ = open_page(NEXT, page="<script>for (;;);</script>", options={**OPTIONS, "hang_timeout": HANG})
    start = time.monotonic()
    with pytest.raises(browser_env.EnvError, match="the page hangs"):
        env.reset(options={"start_url": "http://site.test/page.html"})
    assert time.monotonic() - start < 2 * (HANG + 6) * crowd()
    _, info = env.reset(options={"start_url": "http://site.test/index.html"})
    assert info["outcome"] == "running", info["outcome_detail"]


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_view_transitions_keep_no_frame_back(open_page, clock):
    begin = "document.startViewTransition(() => { go.textContent = 'Done' }).finished.then(() => document.title += '!')"
    rule = "<style>@view-transition { navigation: auto }</style>"
    env, _ = open_page(
        f'{rule}<button id=go onclick="{begin}">Go</button><a href=page.html>On</a>',
        page=f"{rule}<p>Here</p>",
        options={"clock": clock},
    )
    for _ in range(3):
        obs, *_ = env.step({"action": "click", "selector": "#go"})
        assert not any("error" in event for event in obs["events"])
    obs, *_, info = env.step({"action": "wait", "ms": 500})
    assert (info["outcome"], obs["title"], obs["elements"][0]["name"]) == ("running", "index!!!", "Done")
    obs, *_, info = env.step({"action": "click", "selector": "a"})
    assert (info["outcome"], obs["page_text"].strip()) == ("running", "Here")


def test_a_tab_in_the_background_that_hangs_is_asked_for_its_title_once(loopback, monkeypatch):
    monkeypatch.setattr(tab, "TITLE", 3.0)
    site = loopback(lambda _: b"<title>Site</title><button>Go</button>")
    hanging = loopback(lambda _: b"<title>Loop</title><script>setTimeout(() => { for (;;); }, 500)</script>")
    env = gymnasium.make("Browser-v0", start_url=site.url, goal="look")
    env.reset(seed=0)
    env.step({"action": "new_tab", "url": hanging.url.replace("127.0.0.1", "localhost")})
    env.step({"action": "focus_tab", "index": 0})
    time.sleep(1)
    env.step({"action": "wait", "ms": 600})
    began = time.monotonic()
    for _ in range(8):
        obs, *_ = env.step({"action": "hover", "id": 1})
    assert [one["title"] for one in obs["tabs"]] == ["Site", ""]
    assert time.monotonic() - began < 12, "not three seconds for each"
    env.close()


@pytest.mark.slow
def test_a_page_that_is_slow_but_answers_in_between_is_not_hung(run):
    busy = "<button>Go</button><script>setInterval(() => { const end = Date.now() + 700; while (Date.now() < end); }, 1)</script>"
    (*_, info), _ = run(busy, {"action": "click", "id": 1}, {"action": "wait", "ms": 3000}, hang_timeout=HANG)
    assert info["outcome"] == "running", info["outcome_detail"]


@pytest.mark.parametrize(
    "grow",
    [
        pytest.param("const b = new Uint8Array(2e7); b.fill(7); kept.push(b)", id="buffers"),
        pytest.param("kept.push(new Array(2e6).fill(0.5).map(Math.random))", id="heap", marks=pytest.mark.slow),
    ],
)
def test_a_page_that_eats_memory_crashes_before_the_machine_does(run, grow):
    page = f"<button onclick='setInterval(() => {{ {grow} }}, 1)'>Go</button><script>window.kept = []</script>"
    (*_, info), seconds = run(page, {"action": "click", "id": 1}, {"action": "wait", "ms": 20_000}, page_memory=400)
    assert info["outcome"] == "env_error"
    assert info["outcome_detail"] == "the page used more than 400 MB (page_memory) and was killed"
    assert seconds < 20 * crowd()


def test_dialogs_without_end_are_answered_and_told_in_short(run):
    page = "<button>Go</button><script>setInterval(() => prompt('Your name?'), 1)</script>"
    (obs, *_, info), _ = run(page, {"action": "click", "id": 1}, {"action": "wait", "ms": 500})
    assert info["outcome"] == "running", info["outcome_detail"]
    assert "prompt dialog accepted: Your name?" in obs["events"]
    assert len(obs["events"]) <= 51


def test_a_beforeunload_dialog_does_not_hold_a_navigation_up(run):
    page = "<input><a href=index.html>away</a><script>onbeforeunload = (event) => { event.preventDefault(); return 'stay' }</script>"
    actions = ({"action": "type", "id": 1, "text": "x"}, {"action": "click", "id": 2})
    (obs, *_, info), _ = run(page, *actions)
    assert info["outcome"] == "running", info["outcome_detail"]
    assert obs["title"] == "index"


def test_an_alert_in_the_middle_of_a_navigation(run):
    (obs, *_, info), _ = run("<button onclick=\"location = 'index.html'; alert(1)\">Go</button>")
    assert (info["outcome"], obs["title"]) == ("running", "index")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_hundred_windows_are_twenty_tabs(run):
    page = "<button onclick=\"for (let i = 0; i < 200; i++) window.open('index.html')\">Go</button>"
    (obs, *_, info), _ = run(page, {"action": "click", "id": 1}, step_timeout=60.0, hang_timeout=20.0)
    assert info["outcome"] == "running", info["outcome_detail"]
    assert len(obs["tabs"]) == 20


def test_windows_beyond_the_limit_are_closed_again(run, monkeypatch):
    monkeypatch.setattr("selfsurf.browser_env.session.session.MAX_TABS", 4)
    page = "<button onclick=\"for (let i = 0; i < 10; i++) window.open('index.html')\">Go</button>"
    actions = ({"action": "click", "id": 1}, {"action": "wait", "ms": 2000}, {"action": "new_tab"})
    (obs, *_, info), _ = run(page, *actions)
    assert info["outcome"] == "running", info["outcome_detail"]
    assert len(obs["tabs"]) == 4
    assert "There are 4 tabs" in obs["last_error"]


@pytest.mark.slow
def test_a_window_that_still_loads_takes_one_place_of_the_limit(open_page, loopback, monkeypatch):
    def answer(request):
        if request.path == "/slow.js":
            time.sleep(2)
            return b""
        if request.path == "/late":
            return b"<title>late</title><script src=/slow.js></script>"
        return b"<button onclick=\"for (let i = 0; i < 3; i++) setTimeout(() => window.open('/late'), 400 * i)\">Go</button>"

    monkeypatch.setattr("selfsurf.browser_env.session.session.MAX_TABS", 4)
    env, _ = open_page(NEXT)
    env.reset(seed=0, options={"start_url": loopback(answer).url})
    env.step({"action": "click", "id": 1})
    obs, *_ = env.step({"action": "wait", "ms": 4000})
    assert len(obs["tabs"]) == 4
    assert not [event for event in obs["events"] if "closed again" in event]


def test_ten_thousand_changes_a_second_cost_no_more_than_the_bound(run):
    page = "<button>Go</button><p id=p></p><script>setInterval(() => { for (let i = 0; i < 50; i++) p.textContent = Math.random() }, 5)</script>"
    (*_, info), _ = run(page)
    assert info["outcome"] == "running", info["outcome_detail"]
    assert info["timing"]["settle"] < 1500


@pytest.mark.slow
def test_a_hundred_thousand_nodes(run):
    page = "<button>Go</button><script>document.body.insertAdjacentHTML('beforeend', '<div><b>x</b></div>'.repeat(50000))</script>"
    (*_, info), _ = run(page)
    assert info["outcome"] == "running", info["outcome_detail"]


STORMS = {
    "reload": "<button>Go</button><script>setTimeout(() => location.reload(), 40)</script>",
    "document.write": "<button>Go</button><script>const self = document.scripts[0].outerHTML; setInterval(() => { document.open(); document.write('<button>Go</button>' + self); document.close() }, 20)</script>",
    "pushState": "<button>Go</button><script>let n = 0; setInterval(() => { for (let i = 0; i < 20; i++) history.pushState(0, '', '?' + n++) }, 5)</script>",
    "frames": "<button>Go</button><div id=d></div><script>setInterval(() => { d.innerHTML = '<iframe srcdoc=x></iframe><iframe src=http://other.test/inner.html></iframe>' }, 30)</script>",
    "downloads": "<button onclick=go()>Go</button><script>function go() { for (let i = 0; i < 100; i++) { const a = document.createElement('a'); a.href = 'data:text/plain,x'; a.download = 'f' + i; a.click() } }</script>",
}


@pytest.mark.parametrize(
    "kind", ["reload", *(pytest.param(one, marks=pytest.mark.slow) for one in STORMS if one != "reload")]
)
def test_a_storm_is_weathered(run, kind):
    from selfsurf.browser_env import Bounds

    actions = [{"action": "click", "x": 30.0, "y": 20.0}, {"action": "wait", "ms": 50}, {"action": "click", "id": 1}]
    bounds = Bounds(load=1.0, network=1.0, quiet=0.3)
    (*_, info), _ = run(STORMS[kind], *actions, inner="<p>inner", bounds=bounds)
    assert info["outcome"] == "running", info["outcome_detail"]


@pytest.mark.parametrize(
    "what",
    few(
        2,
        [
            "window.close()",
            "print()",
            "document.documentElement.requestFullscreen()",
            "document.body.requestPointerLock()",
        ],
    ),
)
def test_what_a_page_may_ask_of_the_window_harms_nothing(run, what):
    (*_, info), _ = run(
        f"<button onclick='{what}'>Go</button>", {"action": "click", "id": 1}, {"action": "wait", "ms": 50}
    )
    assert info["outcome"] == "running", info["outcome_detail"]


def test_a_session_whose_last_tab_closes_itself_gets_a_blank_one(run):
    page = "<button onclick=\"window.open('inner.html')\">Go</button>"
    inner = "<button onclick='window.close()'>Close</button>"
    actions = (
        {"action": "click", "id": 1},
        {"action": "focus_tab", "index": 0},
        {"action": "close_tab"},
        {"action": "click", "x": 30.0, "y": 20.0},
        {"action": "wait", "ms": 20},
    )
    (obs, *_, info), _ = run(page, *actions, inner=inner)
    assert info["outcome"] == "running", info["outcome_detail"]
    assert [tab["url"] for tab in obs["tabs"]] == ["about:blank"]


def test_a_document_without_any_element(run):
    (*_, info), _ = run("<button onclick='document.documentElement.remove()'>Go</button>")
    assert info["outcome"] == "running", info["outcome_detail"]


SILENT_FRAMES = {
    "never comes": "<iframe src={other}/never></iframe>",
    "never ends": "<iframe src={other}/half></iframe>",
    "is nested": "<iframe src={other}/nested></iframe>",
    "is added": "<script>onload = () => document.body.insertAdjacentHTML('beforeend', '<iframe src={other}/never></iframe>')</script>",
    "is of the same origin": "<iframe src=/never></iframe>",
}


@pytest.mark.parametrize("kind", few(2, SILENT_FRAMES))
@pytest.mark.parametrize("clock", few(1, ["real", "virtual"]))
def test_a_frame_that_does_not_answer_costs_three_seconds_once(loopback, kind, clock):
    over = threading.Event()

    def answer(request):
        other = f"http://localhost:{request.server.server_port}"
        if request.path == "/never":
            over.wait(60)
        if request.path == "/half":
            request.wfile.write(b"HTTP/1.0 200 OK\r\ncontent-type: text/html\r\n\r\n<p>half" + b" " * 2000)
            request.wfile.flush()
            over.wait(60)
        page = {
            "/": f"<button onclick=\"document.title = 'done'\">Go</button><iframe srcdoc='<p>well</p>'></iframe>{SILENT_FRAMES[kind].format(other=other)}",
            "/nested": f"<p>in<iframe src=http://127.0.0.1:{request.server.server_port}/never></iframe>",
        }
        return page.get(request.path, "").encode()

    env = gymnasium.make("Browser-v0", start_url=loopback(answer).url, clock=clock)
    try:
        start = time.monotonic()
        obs, _ = env.reset(seed=0)
        assert time.monotonic() - start < 5 * crowd()
        assert "well" in obs["page_text"]
        for _ in range(2):
            start = time.monotonic()
            obs, *_ = env.step({"action": "click", "selector": "text=Go"})
            assert time.monotonic() - start < 2 * crowd()
            assert (obs["title"], obs["last_error"]) == ("done", "")
        start = time.monotonic()
        env.close()
        assert time.monotonic() - start < 3 * crowd()
    finally:
        over.set()
        env.close()


LOOPING = {
    "loops": "<iframe src={other}/loop></iframe>",
    "loops, and three do": "<iframe src={other}/loop></iframe><iframe src={third}/loop></iframe><iframe src={fourth}/loop></iframe>",
    "loops in another": "<iframe src={other}/nested></iframe>",
    "is never sent": "<iframe src={other}/never></iframe>",
    "is late": "<iframe src={other}/late></iframe>",
    "computes": "<iframe src={other}/eight></iframe>",
}


@pytest.mark.parametrize("kind", few(1, LOOPING))
def test_a_frame_of_another_process_that_does_not_answer_costs_three_seconds_once(loopback, kind):
    over = threading.Event()

    def answer(request):
        port = request.server.server_port
        frames = {"other": "localhost", "third": "a.localhost", "fourth": "b.localhost"}
        at = {name: f"http://{host}:{port}" for name, host in frames.items()}
        if request.path in ("/never", "/late"):
            over.wait(8 if request.path == "/late" else 60)
        return {
            "/": "<button onclick=\"document.title = 'done'\">Go</button>" + LOOPING[kind].format(**at),
            "/loop": "<p>in<script>for (;;);</script>",
            "/late": "<button>late</button>",
            "/eight": "<button>late</button><script>const end = Date.now() + 8000; while (Date.now() < end);</script>",
            "/nested": f"<p>in<iframe src={at['third']}/loop></iframe>",
            "/plain": "<p>plain",
        }.get(request.path, "").encode()

    url = loopback(answer).url
    env = gymnasium.make("Browser-v0", start_url=url, screenshot=False, switches=("--site-per-process",))

    def timed(most, *args):
        start = time.monotonic()
        obs, *_ = env.step({"action": args[0], **dict(args[1:])})
        assert time.monotonic() - start < most * crowd()
        assert obs["last_error"] == ""
        return obs

    try:
        env.reset(seed=0, options={"start_url": f"{url}/plain"})
        start = time.monotonic()
        obs, _ = env.reset(seed=0, options={"start_url": url})
        assert time.monotonic() - start < 5 * crowd()
        answered = kind == "computes" and "late" in obs["page_text"]  # on a crowded machine it has the time
        assert answered or re.search(r"^ *iframe .*(not answering|not loaded)$", obs["dom"], re.MULTILINE), obs["dom"]
        for _ in range(2):
            assert timed(2, "click", ("selector", "text=Go"))["title"] == "done"
        assert "iframe" in timed(5, "navigate", ("url", url))["dom"]
        if kind in ("is late", "computes"):
            assert until(lambda: "late" in timed(2, "wait", ("ms", 200))["page_text"], 20)
            ids = [element["id"] for element in timed(2, "wait", ("ms", 10))["elements"]]
            assert len(ids) == len(set(ids)) == 2
        assert timed(2, "navigate", ("url", f"{url}/plain"))["page_text"] == "plain"
    finally:
        over.set()
        env.close()


@pytest.mark.parametrize("origin", few(1, ["http://localhost:{port}", ""]))
def test_a_hung_page_names_the_frames_that_may_be_the_cause(loopback, origin):
    opened = []

    def answer(request):
        opened.append(request.path)
        loop = f"{origin.format(port=request.server.server_port)}/loop"
        return {
            "/": "<button>Go</button><iframe src=/idle></iframe>",
            "/framed": f"<button>Go</button><iframe src={loop}></iframe>",
            "/loop": "<p>in<script>for (;;);</script>",
        }.get(request.path, "<p>plain").encode()

    url = loopback(answer).url
    env = gymnasium.make("Browser-v0", start_url=url, screenshot=False, hang_timeout=HANG)
    try:
        env.reset(seed=0)
        start = time.monotonic()
        *_, info = env.step({"action": "navigate", "url": f"{url}/framed"})
        assert time.monotonic() - start < told(info) + 3 * crowd()
        assert "a script of the page or of one of its frames does not end: http://" in info["outcome_detail"]
        assert "/loop" in info["outcome_detail"]
        env.reset(seed=0)
        opened.clear()
        with pytest.raises(EnvError, match=r"the page hangs.* one of its frames does not end: http://.*/loop"):
            env.reset(seed=0, options={"start_url": f"{url}/framed"})
        assert opened.count("/framed") == 1
    finally:
        env.close()
