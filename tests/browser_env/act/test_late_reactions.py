"""What a page does late is in the next observation, wherever it happens; what never comes is not waited for."""

import asyncio
import time

import pytest

from selfsurf.browser_env import Bounds
from selfsurf.browser_env.browser.page_script import PageScript
from tests.few import few
from tests.in_page import value
from tests.processes import crowd

LATE = "<button onclick='setTimeout(() => q.textContent = 1234, 60)'>Go</button><p id=q>idle</p>"


@pytest.mark.parametrize("how", ["plain", "frame", "shadow root", "shadow root in a frame"])
def test_a_late_change_is_waited_for(open_page, by_name, how):
    shadow = """<div id=d></div><script>const r = d.attachShadow({mode: 'open'}); r.innerHTML = '<button>Go</button><p>idle</p>';
      r.firstChild.onclick = () => setTimeout(() => r.lastChild.textContent = 1234, 60)</script>"""
    pages = {
        "plain": LATE, "frame": "<iframe src=inner.html></iframe>", "shadow root": shadow,
        "shadow root in a frame": "<iframe src=inner.html></iframe>",
    }  # fmt: skip
    env, obs = open_page(pages[how], inner=LATE if how == "frame" else shadow)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
    assert "1234" in obs["page_text"]


def test_a_late_change_that_comes_before_it_is_waited_for_is_seen(open_page, by_name, monkeypatch):
    asked = PageScript.call

    async def slowly(self, method, **arguments):
        if method == "firstSign":
            await asyncio.sleep(0.2)
        return await asked(self, method, **arguments)

    env, obs = open_page(LATE)
    monkeypatch.setattr(PageScript, "call", slowly)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
    assert "1234" in obs["page_text"]


FRAMED = "<iframe src=http://other.test/inner.html width=400 height=300></iframe>"


@pytest.mark.parametrize(
    ("inner", "actions"),
    [
        (LATE, [{"action": "click", "name": "Go"}]),
        (
            "<input aria-label=Name onkeydown=\"if (event.key == 'Enter') setTimeout(() => q.textContent = 1234, 200)\"><p id=q>",
            [{"action": "fill", "name": "Name", "text": "Ada"}, {"action": "press", "key": "Enter"}],
        ),
        (
            "<button aria-haspopup=menu onclick='setTimeout(() => q.hidden = false, 150)'>More</button><div role=menu id=q hidden>1234</div>",
            [{"action": "click", "name": "More"}],
        ),
        (
            "<button onclick=\"q.ariaBusy = 'true'; setTimeout(() => { q.ariaBusy = 'false'; q.textContent = 1234 }, 700)\">Load</button><p id=q>.</p>",
            [{"action": "click", "name": "Load"}],
        ),
    ],
    ids=["click", "enter", "menu", "busy"],
)
def test_late_changes_in_a_frame_of_another_origin_are_waited_for(open_page, by_name, inner, actions):
    env, obs = open_page(FRAMED, inner=inner)
    for action in actions:
        named = {"id": by_name(obs, action["name"])["id"]} if "name" in action else {}
        obs, *_ = env.step({key: value for key, value in action.items() if key != "name"} | named)
    assert "1234" in obs["page_text"]


@pytest.mark.parametrize("how", ["onmouseenter", "onpointerover"])
def test_a_menu_that_opens_on_hover_is_waited_for(open_page, by_name, how):
    env, obs = open_page(
        f"<div {how}='setTimeout(() => m.hidden = false, 120)'><button>More</button></div><div id=m hidden><button>Copy</button></div>",
    )
    obs, *_ = env.step({"action": "hover", "id": by_name(obs, "More")["id"]})
    assert by_name(obs, "Copy")


def test_a_hover_over_what_does_not_listen_is_not(open_page, by_name):
    env, obs = open_page("<button>More</button>")
    *_, info = env.step({"action": "hover", "id": by_name(obs, "More")["id"]})
    assert info["timing"]["settle"] < 400 * crowd()


@pytest.mark.parametrize("what", ["<img src=/never width=9 height=9>", "<iframe src=/never></iframe>"])
def test_a_picture_or_a_frame_that_never_comes_costs_the_bound_for_requests(make, loopback, what):
    def answer(request):
        if request.path == "/never":
            time.sleep(9)
        return f"<p>here</p>{what if request.path == '/slow' else ''}".encode()

    server = loopback(answer)
    env, _ = make(server.url, bounds=Bounds(network=0.6, load=8.0))
    obs, *_, info = env.step({"action": "navigate", "url": f"{server.url}/slow"})
    assert ("here" in obs["page_text"], obs["last_error"]) == (True, "")
    assert info["timing"]["total"] < 5000 * crowd()


RIPPLES = {
    "ripple": """<button onmousedown="let s = document.createElement('span'); this.append(s); setTimeout(() => s.remove(), 500)"
        onclick="setTimeout(() => { m.innerHTML = '<a href=#>Item</a>' }, 300)">Go</button>""",
    "data": """<button aria-expanded=false onclick="this.dataset.s = 1; setTimeout(() => { m.innerHTML = '<a href=#>Item</a>' }, 200)">Go</button>""",
    "hover": """<button onmouseenter="this.className = 'h'; setTimeout(() => { m.innerHTML = '<a href=#>Item</a>' }, 200)">Go</button>""",
}


@pytest.mark.parametrize("how", RIPPLES)
def test_what_shows_that_the_mouse_is_there_is_not_the_reaction(open_page, by_name, how):
    env, obs = open_page(f"{RIPPLES[how]}<div id=m></div>")
    obs, *_ = env.step({"action": "hover" if how == "hover" else "click", "id": by_name(obs, "Go")["id"]})
    assert by_name(obs, "Item")


def test_a_button_that_changes_its_look_or_its_text_is_not_waited_for(open_page, by_name):
    env, obs = open_page("<button aria-label=Go onclick=\"this.classList.toggle('on')\">*</button>")
    for _ in range(3):
        *_, info = env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
        assert info["timing"]["settle"] < 400 * crowd()


def test_what_a_worker_does_is_seen_and_its_script_costs_no_bound(make, loopback):
    def answer(request):
        if request.path == "/w.js":
            return 200, {"Content-Type": "text/javascript"}, b"postMessage(1)"
        return (
            b"<button onclick=\"new Worker('/w.js').onmessage = () => { q.textContent = 'told' }\">Go</button><p id=q>"
        )

    env, _ = make(loopback(answer).url)
    obs, *_, info = env.step({"action": "click", "selector": "text=Go"})
    assert "told" in obs["page_text"]
    assert info["timing"]["settle"] < 1500 * crowd()


def test_a_tab_that_opens_after_a_request_is_observed_at_once(make, loopback):
    def answer(request):
        if request.path == "/data":
            time.sleep(0.2)
        click = "fetch('/data').then((answer) => answer.text()).then(() => window.open('/tab'))"
        return b"<p>here it is" if request.path == "/tab" else f'<button onclick="{click}">Go</button>'.encode()

    server = loopback(answer)
    env, _ = make(server.url)
    obs, *_ = env.step({"action": "click", "id": 1})
    assert (obs["page_text"], obs["events"]) == ("here it is", (f"new tab: {server.url}/tab",))


def test_a_blank_tab_gets_its_address_first(make, loopback):
    def answer(request):
        if request.path == "/data":
            time.sleep(0.4)
        click = "const w = window.open('about:blank'); fetch('/data').then(() => w.location = '/tab')"
        return b"<p>here it is" if request.path == "/tab" else f'<button onclick="{click}">Go</button>'.encode()

    server = loopback(answer)
    env, _ = make(server.url)
    obs, *_ = env.step({"action": "click", "id": 1})
    assert (obs["page_text"], obs["url"]) == ("here it is", f"{server.url}/tab")


COVERED = """<p style="height:1200px">a<button style="display:block;margin-top:900px" onclick="window.c=event.isTrusted">Target</button></p>
<p style="height:1200px">b<div style="position:fixed;left:0;right:0;%s:0;height:340px;background:#fcc">Cookies?</div>"""


@pytest.mark.parametrize("where", ["bottom", "top"])
def test_an_element_is_scrolled_to_where_nothing_covers_it(open_page, by_name, where):
    env, obs = open_page(COVERED % where, options={"reach": None})
    *_, info = env.step({"action": "click", "id": by_name(obs, "Target")["id"]})
    assert (info["action_path"], value(env, "window.c")) == ("mouse", True)


WHEEL = """<div id=map style="width:300px;height:300px;overflow:hidden">0</div><p style="height:3000px">long</p><script>
let zoom = 0; map.addEventListener('wheel', (event) => { event.preventDefault(); map.textContent = zoom += event.deltaY }, {passive: false})</script>"""


def test_an_element_is_scrolled_into_the_band_that_bars_leave_free(open_page):
    bar = "style='position:fixed;left:0;right:0;height:{}vh;{}:0;background:red'"
    gap = "<div style='height:3000px'></div>"
    env, _ = open_page(
        f"<div {bar.format(60, 'top')}></div><div {bar.format(25, 'bottom')}></div>{gap}<button onclick='document.title = event.isTrusted'>Go</button>{gap}"
    )
    obs, *_, info = env.step({"action": "click", "selector": "button"})
    assert (obs["last_error"], obs["title"], info["action_path"]) == ("", "true", "mouse")


def test_the_wheel_is_turned_at_a_point_and_where_the_page_takes_it(open_page):
    env, _ = open_page(WHEEL)
    obs, *_ = env.step({"action": "scroll", "dy": 100, "x": 100, "y": 100})
    assert obs["page_text"].startswith("100")
    obs, *_ = env.step({"action": "scroll", "dy": 100, "selector": "#map"})
    assert obs["page_text"].startswith("200")
    env.step({"action": "scroll", "dy": 100})
    assert value(env, "scrollY") == 100
    value(
        env,
        "addEventListener('wheel', (event) => { event.preventDefault(); document.title = 'taken' }, {passive: false})",
    )
    obs, *_ = env.step({"action": "scroll", "dy": 100})
    assert (obs["title"], value(env, "scrollY")) == ("taken", 100)


def test_a_text_is_found_wherever_it_is_and_scrolled_to(open_page):
    rows = "".join(
        f"<section><h2>Part {i}</h2><p style='height:300px'>text {i}</p><button>Buy {i}</button></section>"
        for i in range(60)
    )
    env, obs = open_page(rows, options={"budget": 500})
    assert "Buy 55" not in obs["dom"]
    (found,) = env.unwrapped.find("buy 55")
    assert found.line == f'[{found.id}] button "Buy 55"'
    assert "text 55" in found.around
    (found_text,) = env.unwrapped.find("TEXT   55")
    assert (found_text.line, found_text.id) == ("text 55", None)
    env.step({"action": "scroll", "id": found.id})
    obs, *_ = env.step({"action": "click", "id": found.id})
    assert obs["last_error"] == ""
    assert "Buy 55" in obs["dom"]
    with pytest.raises(ValueError, match="no text to look for"):
        env.unwrapped.find("  ")


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_a_button_in_a_shadow_root_reacts_late(open_page, by_name, mode):
    page = f"""<div id=d></div><script>const r = d.attachShadow({{mode: '{mode}'}});
    r.innerHTML = '<button>Go</button><p>idle</p>';
    r.firstChild.onclick = () => setTimeout(() => r.lastChild.textContent = 'done', 200)</script>"""
    env, obs = open_page(page)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
    assert "done" in obs["dom"]


def test_a_dialog_that_comes_when_the_page_is_dimmed_is_waited_for(open_page, by_name):
    env, obs = open_page(
        """<style>#dim{position:fixed;inset:0;background:#000;opacity:0;transition:opacity .2s} #dim.on{opacity:.5}</style>
        <button>Open</button><div id=m hidden style="position:fixed;top:9px"><button>Shut</button></div><script>
        document.querySelector('button').onclick = () => { const dim = document.createElement('div'); dim.id = 'dim';
          dim.ontransitionend = () => { m.role = 'dialog'; m.hidden = false }; document.body.prepend(dim); dim.offsetWidth; dim.className = 'on' }
        </script>"""
    )
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Open")["id"]})
    assert by_name(obs, "Shut")


KEYS = "<style>@keyframes k{to{transform:rotate(1turn)}} "
TURNING = {
    "element": KEYS + "i{display:block;width:30px;height:30px;animation:k %s linear infinite}</style><i></i>",
    "pseudo-element": KEYS
    + "i{display:block} i::after{content:'';display:block;width:20px;height:20px;animation:k %s linear infinite}</style><i></i>",
    "SMIL": "<svg width=30 height=30><circle r=9 cx=9 cy=9><animateTransform attributeName=transform type=rotate from=0 to=360 dur=%s repeatCount=indefinite /></circle></svg>",
}


@pytest.mark.parametrize("where", few(1, ["b", "b.attachShadow({mode: 'open'})"]))
@pytest.mark.parametrize(
    ("kind", "turn", "is_one"), few(3, [*((kind, "1s", True) for kind in TURNING), ("element", "20s", False)])
)
def test_what_turns_like_a_spinner_is_one_whatever_it_is_called(open_page, where, kind, turn, is_one):
    env, _ = open_page(
        f"""<button>Go</button><div id=b></div><script>const root = {where};
        document.querySelector('button').onclick = () => {{ root.innerHTML = `{TURNING[kind] % turn}`; setTimeout(() => root.innerHTML = 'Result', 900) }}</script>"""
    )
    obs, *_ = env.step({"action": "click", "id": 1})
    assert ("Result" in obs["page_text"]) == is_one
