"""What arrives late is in the next observation; what never ends costs no more than its bound."""

import http.server
import threading
import time

import gymnasium
import pytest

from selfsurf.browser_env import Bounds

PICTURE = b"<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'></svg>"


class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path, _, seconds = self.path.partition("?")
        self.send_response(200)
        self.send_header("Content-Type", "image/svg+xml" if path == "/picture" else "text/html")
        self.end_headers()
        if path == "/page":
            self.wfile.write(self.server.html.encode())
            return
        if path == "/drip":
            for part in range(6):
                self.wfile.write(f"part{part} ".encode())
                self.wfile.flush()
                time.sleep(0.2)
            return
        time.sleep(float(seconds or 0))
        self.wfile.write(PICTURE if path == "/picture" else b"answer")

    def log_message(self, *args):
        pass


@pytest.fixture
def slow():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def serve(html):
        server.html = f"<!doctype html><title>page</title>{html}"
        return f"http://127.0.0.1:{server.server_port}/page"

    yield serve
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_url():
    envs = []

    def open_it(url):
        envs.append(gymnasium.make("Browser-v0", start_url=url, viewport=(800, 600)))
        envs[-1].reset(seed=0)
        return envs[-1]

    yield open_it
    for env in envs:
        env.close()


SEARCH = "<input id=q type=search aria-label=Search placeholder=Search><p id=out></p><script>{}</script>"
ENTER = "q.onkeydown = (e) => {{ if (e.key === 'Enter') {{ {} }} }}"


@pytest.mark.parametrize(
    "reaction",
    [
        "fetch('/x?1.2').then((r) => r.text()).then((t) => out.textContent = t)",  # a slow request
        "setTimeout(() => out.textContent = 'answer', 1200)",  # a timer with nothing to see of it
        pytest.param(
            "fetch('/x').then(() => setTimeout(() => out.textContent = 'answer', 1000))",  # a timer after a request
            marks=pytest.mark.slow,
        ),
        "out.textContent = 'Loading…'; out.role = 'status'; setTimeout(() => out.textContent = 'answer', 1800)",
        "out.textContent = 'found '; out.ariaBusy = 'true'; setTimeout(() => { out.textContent = 'answer'; out.ariaBusy = 'false' }, 1500)",
        pytest.param(
            "out.innerHTML = '<i class=my-spinner style=\"display:block;width:9px;height:9px\"></i>'; out.firstChild.animate([{opacity: 0}, {opacity: 1}], {duration: 500, iterations: 1e9}); setTimeout(() => out.textContent = 'answer', 1500)",
            marks=pytest.mark.slow,
        ),
        "fetch('/drip').then((r) => r.text()).then((t) => out.textContent = t.endsWith('part5 ') ? 'answer' : t)",  # a body that streams
    ],
    ids=["request", "timer", "timer after request", "loading text", "aria-busy", "spinner", "stream"],
)
def test_what_arrives_late_after_enter_is_seen(open_url, slow, reaction):
    env = open_url(slow(SEARCH.format(ENTER.format(reaction))))
    obs, *_, info = env.step({"action": "press", "key": "Enter", "id": 1})
    assert "answer" in obs["page_text"]
    assert info["timing"]["settle"] < 4000


def test_an_autocomplete_with_a_delay_and_a_request(open_url, slow, by_name):
    page = """<input role=combobox aria-label=City aria-controls=l aria-expanded=false id=c><ul id=l role=listbox></ul><script>let t;
    c.oninput = () => { clearTimeout(t); t = setTimeout(() => fetch('/x?0.3').then(() => { l.innerHTML = '<li role=option>' + c.value + ' town</li>'; l.firstChild.onclick = () => { c.value = 'Chosen'; l.innerHTML = '' } }), 250) }</script>"""
    for action in ("fill", "type"):
        env = open_url(slow(page))
        obs, *_ = env.step({"action": action, "id": 1, "text": "Os"})
        assert by_name(obs, "Os town"), action
        obs, *_ = env.step({"action": "click", "id": by_name(obs, "Os town")["id"]})
        assert by_name(obs, "City")["value"] == "Chosen"


def test_a_button_whose_effect_comes_late(open_page):
    env, _ = open_page("<button onclick=\"setTimeout(() => document.body.append('answer'), 300)\">Go</button>")
    obs, *_ = env.step({"action": "click", "id": 1})
    assert "answer" in obs["page_text"]


@pytest.mark.parametrize(
    ("page", "action"),
    [
        ("<input aria-label=plain>", {"action": "press", "key": "Enter"}),
        ("<input aria-label=plain>", {"action": "fill", "text": "x"}),
        ("<input type=search>", {"action": "fill", "text": "x"}),
        ("<textarea onkeydown='1'></textarea>", {"action": "press", "key": "Enter"}),
        ("<button onclick=\"this.textContent = 'x'\">b</button>", {"action": "click"}),
        ("<button>b</button>", {"action": "click"}),
        ("<input type=checkbox onclick='1'>", {"action": "click"}),
    ],
)
def test_where_nothing_is_to_come_nothing_is_waited_for(open_page, page, action):
    env, _ = open_page(page)
    *_, info = env.step({**action, "id": 1})
    assert info["timing"]["settle"] < 350


def test_an_indicator_that_stays_is_waited_for_once(open_page):
    env, _ = open_page(
        "<div role=progressbar style='width:50px;height:9px'></div><button onclick=\"this.textContent += 'x'\">b</button>",
        options={"bounds": Bounds(busy=0.6)},
    )
    for _ in range(2):
        *_, info = env.step({"action": "click", "id": 2})
        assert info["timing"]["settle"] < 350


def test_polls_that_were_open_before_are_not_waited_for(open_url, slow):
    env = open_url(
        slow(
            "<button onclick=\"this.textContent = 'x'\">b</button><script>setTimeout(() => fetch('/x?9'), 400)</script>"
        )
    )
    env.step({"action": "wait", "ms": 600})
    *_, info = env.step({"action": "click", "id": 1})
    assert info["timing"]["settle"] < 350


PICTURES = {
    "img": "<img src=/picture?{seconds} onclick=1 alt=late>",
    "style": "<style>.late {{ content: url(/picture?{seconds}) }}</style><span class=late onclick=1></span>",
}


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_without_a_box_is_waited_for(open_url, slow, kind):
    page = f'<button onclick="p.innerHTML = `{PICTURES[kind].format(seconds=0.2)}`">b</button><p id=p></p>'
    obs, *_ = open_url(slow(page)).step({"action": "click", "id": 1})
    assert [(one["name"], one["bbox"][2:]) for one in obs["elements"][1:]] == [("late", (40.0, 40.0))]


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_that_never_comes_is_waited_for_once_and_shown(open_url, slow, kind):
    page = f'<button onclick="p.innerHTML ||= `{PICTURES[kind].format(seconds=9)}`">b</button><p id=p></p>'
    env = open_url(slow(page))
    waits = []
    for _ in range(2):
        obs, *_, info = env.step({"action": "click", "id": 1})
        waits.append(info["timing"]["settle"])
        assert "late" in obs["dom"]
    assert waits[0] < 1000
    assert waits[1] < 350


LONG = "<p style='height:3000px'>long</p><p id=q></p><p id=end>end</p>"

FOLLOWING = {
    "a listener that draws in the next frame": "<script>onscroll = () => requestAnimationFrame(() => { q.textContent = 1234 })</script>",
    "an observer": "<script>new IntersectionObserver(([one]) => { if (one.isIntersecting) q.textContent = 1234 }).observe(end)</script>",
}  # fmt: skip


def scrolled(open_page, page):
    env, _ = open_page(LONG + page, options={"clock": "virtual"})
    page_time = env.unwrapped.core.session.active.time
    frames = page_time.frames
    obs, *_ = env.step({"action": "scroll", "dy": 3000})
    return obs["page_text"], page_time.frames - frames


@pytest.mark.parametrize("kind", FOLLOWING)
def test_what_follows_a_scroll_in_the_page_is_waited_for_a_frame_longer(open_page, kind):
    _, plain = scrolled(open_page, "")
    text, following = scrolled(open_page, FOLLOWING[kind])
    assert "1234" in text
    assert plain == 1 < following
