"""Short timers and requests of the step's own events are waited for; what the page does by itself isn't."""

import time

import pytest

from tests.few import few
from tests.in_page import value
from tests.processes import crowd

SHOWN = "setTimeout(() => q.textContent = 1234, {})"


def outcome(env, action):
    obs, *_, info = env.step(action)
    assert obs["last_error"] == ""
    return obs["page_text"], info["timing"]["settle"]


HIGHLIGHT = """<div role=menu id=p><div role=menuitem tabindex=-1 aria-haspopup=menu aria-expanded=false id=b style="width:80px">More</div></div><div id=h></div>
<script>b.onpointermove=()=>{if(b.dataset.highlighted)return;b.dataset.highlighted=1;b.tabIndex=0;b.focus();h.textContent='';setTimeout(()=>{h.innerHTML='<div role=menu><div role=menuitem tabindex=-1>Deep</div></div>';b.ariaExpanded='true'},%d)}</script>"""


@pytest.mark.parametrize("delay", [100, 150, 250])
def test_a_submenu_that_follows_its_highlight_is_seen(open_page, by_name, delay):
    env, obs = open_page(HIGHLIGHT % delay)
    obs, *_ = env.step({"action": "hover", "id": by_name(obs, "More")["id"]})
    assert by_name(obs, "Deep")
    assert "expanded" in by_name(obs, "More")["states"]


SOURCES = {
    "a search after a debounce": (
        """<input id=i aria-label=City><p id=q></p><script>let t; i.oninput = () => { q.textContent = 'typing'; clearTimeout(t);
        t = setTimeout(() => fetch('/slow').then((r) => r.text()).then((text) => { setTimeout(() => q.textContent = text, 20) }), 450) }</script>""",
        {"action": "type", "id": 1, "text": "Os"},
    ),
    "mentions": (
        """<div id=i contenteditable aria-label=Text></div><p id=q></p><script>i.oninput = () => { setTimeout(() => { q.textContent = 'answer' }, 80) }</script>""",
        {"action": "type", "id": 1, "text": "@a"},
    ),
    "a swap after an answer": (
        """<button onclick="this.className = 'asked'; q.textContent = '.'; const x = new XMLHttpRequest(); x.open('GET', '/slow'); x.onload = () => setTimeout(() => { q.textContent = x.responseText }, 20); x.send()">Go</button><p id=q></p>""",
        {"action": "click", "id": 1},
    ),
    "an effect in a task of its own": (
        """<input id=i aria-label=City><p id=q></p><script>const {port1, port2} = new MessageChannel(); port1.onmessage = () => { setTimeout(() => { q.textContent = 'answer' }, 400) };
        i.oninput = () => { q.textContent = 'typing'; port2.postMessage(1) }</script>""",
        {"action": "fill", "id": 1, "text": "Os"},
    ),
    "timers one after another": (
        """<button onclick="q.textContent = '.'; setTimeout(() => { q.textContent += '.'; setTimeout(() => { q.textContent = 'answer' }, 300) }, 300)">Go</button><p id=q></p>""",
        {"action": "click", "id": 1},
    ),
    "an answer whose body comes later": (
        """<button onclick="q.textContent = '.'; const body = new ReadableStream({start(c) { w.onmessage = (e) => { c.enqueue(new TextEncoder().encode(e.data)); c.close() } }});
        w.postMessage(0); new Response(body).text().then((text) => { q.textContent = text })">Go</button><p id=q></p>
        <script>const w = new Worker(URL.createObjectURL(new Blob(['onmessage = () => setTimeout(() => postMessage("answer"), 400)'])))</script>""",
        {"action": "click", "id": 1},
    ),
    "a choice": (
        """<select aria-label=Country onchange="q.textContent = '.'; setTimeout(() => { q.textContent = 'answer' }, 300)"><option>A<option>B</select><p id=q></p>""",
        {"action": "select", "id": 1, "options": ["B"]},
    ),
    "a feed": (
        """<p style="height:1500px">long</p><p id=q></p><div id=end>Loading more...</div><script>new IntersectionObserver(([one]) => { if (one.isIntersecting) setTimeout(() => fetch('/slow').then((r) => r.text()).then((text) => { q.textContent = text }), 200) }).observe(end)</script>""",
        {"action": "scroll", "dy": 1500},
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", few(1, ["page", "frame", "with a screenshot"]))
@pytest.mark.parametrize("kind", SOURCES)
def test_what_a_timer_of_the_step_brings_is_seen(make, loopback, kind, how):
    page, action = SOURCES[kind]

    def answer(request):
        if request.path == "/slow":
            time.sleep(0.2)
            return b"answer"
        if request.path == "/" and how == "frame":
            return b"<iframe src=/inner width=600 height=500></iframe>"
        return b"<!doctype html>" + page.encode()

    if kind == "a feed" and how == "frame":
        action = {**action, "x": 100, "y": 100}
    env, obs = make(loopback(answer).url, screenshot=how == "with a screenshot")
    if "id" in action:
        action = {
            **action,
            "id": next(one["id"] for one in obs["elements"] if one["role"] not in ("iframe", "generic")),
        }
    text, _ = outcome(env, action)
    assert "answer" in text


PENDING = {
    "idle callbacks one after another": "let n = 0; (function go() { requestIdleCallback(() => { if (++n < 8) go(); else done() }) })()",
    "a search when the page is idle": "clearTimeout(window.t); t = setTimeout(() => requestIdleCallback(async () => { await fetch('/slow'); requestIdleCallback(done) }), 300)",
    "a scheduled task": "window.c?.abort(); c = new AbortController(); scheduler.postTask(done, {delay: 400, signal: c.signal}).catch(() => {})",
    "a task in the background": "scheduler.postTask(() => scheduler.postTask(done, {priority: 'background'}), {priority: 'background'})",
    "messages one after another": "const {port1, port2} = new MessageChannel(); let n = 0; port1.onmessage = () => { const end = performance.now() + 15; while (performance.now() < end); if (++n < 10) port2.postMessage(0); else setTimeout(done, 150) }; port2.postMessage(0)",
    "an answer by messages": "const {port1, port2} = new MessageChannel(); port1.onmessage = () => setTimeout(() => fetch('/slow').then(() => back.postMessage(0)), 100); const {port1: end, port2: back} = new MessageChannel(); end.onmessage = () => setTimeout(done, 100); port2.postMessage(0)",
    "requests in a chain that is given up": "window.c?.abort(); c = new AbortController(); fetch('/slow', {signal: c.signal}).then(() => fetch('/slow?2', {signal: c.signal})).then((r) => r.text()).then(() => setTimeout(done, 20))",
    "two frames": "requestAnimationFrame(() => requestAnimationFrame(done))",
    "a timer of text": "setTimeout('done()', 300)",
    "the end of a transition": "m.ontransitionend = done; m.style.opacity = 0.5",
    "the end of an animation": "m.onanimationend = done; m.className = 'on'",
}  # fmt: skip


@pytest.mark.parametrize("kind", few(6, PENDING))
def test_what_the_step_has_asked_for_otherwise_is_seen(make, loopback, kind):
    page = f"""<style>@keyframes fade {{ to {{ opacity: .5 }} }} .on {{ animation: fade .3s }} #m {{ transition: opacity .2s .2s }}</style>
    <input id=i aria-label=City><p id=m>old</p><p id=q></p><script>function done() {{ q.textContent = 'answer' }} i.oninput = () => {{ q.textContent = 'typing'; {PENDING[kind]} }}</script>"""

    def answer(request):
        if request.path.startswith("/slow"):
            time.sleep(0.2)
        return b"<!doctype html>" + page.encode()

    env, _ = make(loopback(answer).url)
    text, _ = outcome(env, {"action": "fill", "id": 1, "text": "O"})
    assert "answer" in text


OTHERS = {
    "a clock": "setInterval(() => { c.textContent = Date.now() }, 200)",
    "a chain of timers": "(function go() { c.textContent = Date.now(); setTimeout(go, 150) })()",
    "an animation": "(function go() { requestAnimationFrame(go); setTimeout(() => {}, 300) })()",
    "a poll": "setInterval(() => fetch('/slow'), 30)",
    "a poll in a chain": "(function go() { fetch('/slow'); setTimeout(go, 30) })()",
    "idle callbacks": "(function go() { c.textContent = Date.now(); requestIdleCallback(go) })()",
    "tasks": "(function go() { c.textContent = Date.now(); scheduler.postTask(go, {delay: 50}) })()",
    "messages": "const {port1, port2} = new MessageChannel(); port1.onmessage = () => setTimeout(() => { c.textContent = Date.now(); port2.postMessage(0) }, 30); port2.postMessage(0)",
    "messages in a row": "const {port1, port2} = new MessageChannel(); port1.onmessage = () => port2.postMessage(0); port2.postMessage(0)",
    "transitions": "c.ontransitionend = c.ontransitioncancel = () => { c.style.opacity = c.style.opacity === '0.5' ? 1 : 0.5 }; c.style.cssText = 'opacity: 1; transition: opacity .25s'; setTimeout(c.ontransitionend, 100)",
}


@pytest.mark.parametrize("kind", few(5, OTHERS))
def test_what_the_page_does_by_itself_is_not_waited_for(make, loopback, by_name, kind):
    def answer(request):
        if request.path == "/slow":
            time.sleep(2)
        return f"<button onclick=\"this.textContent = 'Gone'\">Go</button><p id=c></p><script>{OTHERS[kind]}</script>".encode()

    env, _ = make(loopback(answer).url)
    for _ in range(3):
        *_, info = env.step({"action": "click", "id": 1})
    assert info["timing"]["settle"] < 300 * crowd()


@pytest.mark.parametrize(
    "timer",
    [
        "setTimeout(() => q.remove(), 3000)",
        "setTimeout(() => q.remove(), 700)",
        "clearTimeout(setTimeout(() => q.remove(), 500))",
        "window.t ??= setInterval(() => { q.hidden = !q.hidden }, 400)",
        "cancelIdleCallback(requestIdleCallback(() => q.remove()))",
        "c = new TaskController(); scheduler.postTask(() => q.remove(), {delay: 500, signal: c.signal}).catch(() => {}); c.abort()",
        "const {port1, port2} = new MessageChannel(); port1.onmessage = () => q.remove(); port1.close(); port2.postMessage(0)",
    ],
)
def test_long_and_cancelled_timers_and_intervals_are_not_waited_for(open_page, timer):
    env, _ = open_page(f'<button onclick="q.textContent = 1234; {timer}">Go</button><p id=q></p>')
    text, waited = outcome(env, {"action": "click", "id": 1})
    assert "1234" in text
    assert waited < 350 * crowd()


def test_timers_without_an_end_cost_the_bound_for_reactions_once(open_page):
    env, _ = open_page(
        '<button onclick="if (!window.n) { n = 0; (function go() { q.textContent = n++; setTimeout(go, 100) })() }">Go</button><p id=q></p>',
    )
    _, first = outcome(env, {"action": "click", "id": 1})
    _, second = outcome(env, {"action": "click", "id": 1})
    assert first < 2500 * crowd()
    assert second < 900 * crowd()


def test_pages_find_timers_as_they_are(open_page):
    env, _ = open_page("<p>x</p>")
    found = value(
        env,
        """Promise.all([
            fetch('data:,x').then((answer) => answer.text()),
            fetch('data:,x').then((answer) => [answer.constructor.name, fetch.name, fetch.length, answer.text.name, typeof answer.text().then]),
            fetch('wrong:').catch((error) => error.name),
            new Promise((go) => setTimeout(function (...all) { go([this === window, ...all]) }, 5, 'a', 2)),
            new Promise((go) => { window.told = go; setTimeout('told(3)', 5) }),
            new Promise((go) => requestAnimationFrame((at) => go(typeof at))),
            new Promise((go) => { let n = 0; const id = setInterval(() => { if (++n === 3) { clearInterval(id); go(n) } }, 5) }),
        ]).then((all) => [...all, setTimeout.name, setTimeout.length, /native code/.test(setTimeout), typeof setTimeout(() => {}), Object.keys(Object.getOwnPropertyDescriptor(window, 'setTimeout')).length])""",
    )
    assert found[:3] == ["x", ["Response", "fetch", 1, "text", "function"], "TypeError"]
    assert found[3:] == [[True, "a", 2], 3, "number", 3, "setTimeout", 1, True, "number", 4]


def test_a_timer_that_what_the_mouse_leaves_sets_is_waited_for(open_page, by_name):
    env, obs = open_page(
        "<button id=a>One</button><button>Two</button><p id=o></p><script>a.onpointerout = () => setTimeout(() => o.textContent = 'left', 250)</script>"
    )
    env.step({"action": "hover", "id": by_name(obs, "One")["id"]})
    obs, *_ = env.step({"action": "hover", "id": by_name(obs, "Two")["id"]})
    assert "left" in obs["page_text"]


@pytest.mark.parametrize(("caught", "errors"), [("", 1), (".catch(() => {})", 0)])
def test_a_failed_fetch_is_an_error_unless_the_page_catches_it(open_page, caught, errors):
    env, _ = open_page(f"<button onclick=\"fetch('wrong:'){caught}\">Go</button>")
    obs, *_ = env.step({"action": "click", "id": 1})
    assert len([event for event in obs["events"] if event.startswith("page error")]) == errors
