"""Drags: HTML5's and the mouse's, between frames, to points, to what has to be scrolled to."""

import time

import pytest

from selfsurf.browser_env.act.drag import DWELL
from tests.few import few
from tests.in_page import value

BOX = "position:absolute;width:80px;height:40px;background:silver"


def drag(env, obs, by_name, source, target):
    ends = [by_name(obs, end)["id"] if isinstance(end, str) else end for end in (source, target)]
    obs, *_, info = env.step({"action": "drag", "from": ends[0], "to": ends[1]})
    assert obs["last_error"] == ""
    assert info["action_path"] == "mouse"
    return obs


def test_html5_drag_carries_data_and_fires_every_event(open_page, by_name):
    env, obs = open_page(
        f"""<div id=a draggable=true role=button style="{BOX};top:20px;left:20px">from</div><div id=b role=button style="{BOX};top:20px;left:220px">to</div><p id=out style="margin-top:100px"></p>
        <script>const seen = new Set(); const log = (e) => {{ seen.add(e.type); out.textContent = [...seen] + ' ' + (e.dataTransfer.getData('text/plain') || '') + e.dataTransfer.dropEffect }};
        a.ondragstart = (e) => {{ e.dataTransfer.setData('text/plain', 'payload'); e.dataTransfer.effectAllowed = 'move'; log(e) }};
        b.ondragenter = b.ondragover = (e) => {{ e.preventDefault(); e.dataTransfer.dropEffect = 'move'; log(e) }}; b.ondrop = (e) => {{ e.preventDefault(); log(e) }}; a.ondragend = log</script>"""
    )
    obs = drag(env, obs, by_name, "from", "to")
    assert "dragstart,dragenter,dragover,drop,dragend" in obs["page_text"]
    assert obs["page_text"].rstrip().endswith("move")


def test_a_drag_whose_target_goes_away_drops_nothing(open_page):
    env, _ = open_page(
        f"""<div id=a draggable=true role=button style="{BOX};top:20px;left:20px">from</div><div id=b role=button style="{BOX};top:20px;left:220px">to</div>
        <script>const seen = []; for (const type of ['dragstart', 'drop', 'dragend']) document.addEventListener(type, () => document.title = seen.push(type) && seen);
        a.ondragstart = (e) => {{ e.dataTransfer.setData('text/plain', 'x') }}; document.ondragenter = () => b.remove(); document.ondragover = (e) => e.preventDefault()</script>"""
    )
    obs, *_ = env.step({"action": "drag", "from": "#a", "to": "#b"})
    assert (obs["last_error"][:20], obs["title"]) == ("Element 2 is no long", "dragstart,dragend")
    obs, *_ = env.step({"action": "drag", "from": "#a", "to": [300, 200]})
    assert (obs["last_error"], obs["title"]) == ("", "dragstart,dragend,dragstart,drop,dragend")


def test_a_drag_in_which_the_page_hangs_ends_in_time(open_page):
    env, _ = open_page(
        f"""<div id=a role=button style="{BOX};top:20px;left:20px">card</div><div id=b role=button style="{BOX};top:20px;left:220px">to</div>
        <script>a.onmousedown = () => onmousemove = () => {{ for (;;); }}</script>""",
        options={"hang_timeout": 2.0},
    )
    *_, info = env.step({"action": "drag", "from": "#a", "to": "#b"})
    assert (info["outcome"], info["outcome_detail"][:14]) == ("env_error", "the page hangs")


def test_what_the_page_makes_up_as_a_drag_is_not_waited_for(open_page):
    env, _ = open_page(
        f"""<div id=a style="{BOX};top:0;left:0;height:300px;width:300px">pad</div>
        <script>onmousemove = (e) => e.target.dispatchEvent(new DragEvent('dragstart', {{bubbles: true}}))</script>"""
    )
    began = time.monotonic()
    obs, *_ = env.step({"action": "drag", "from": [10, 10], "via": [[n * 20, 30] for n in range(1, 8)], "to": [10, 90]})
    assert obs["last_error"] == ""
    assert time.monotonic() - began < 4


def test_a_drag_from_a_form_with_a_field_named_like_a_property(open_page):
    env, _ = open_page(
        f"""<form style="{BOX};top:0;left:0;height:300px;width:300px"><input type=hidden name=ownerDocument></form>
        <script>onmouseup = () => document.title = 'let go'</script>"""
    )
    obs, *_, info = env.step({"action": "drag", "from": [50, 50], "to": [50, 200]})
    assert (obs["last_error"], obs["title"], info["outcome"]) == ("", "let go", "running")


def test_a_drag_whose_frame_goes_away_is_the_agents_to_mend(open_page):
    env, obs = open_page(
        f"""<iframe src=http://other.test/inner.html style="{BOX};top:0;left:0;height:200px;width:200px"></iframe><div id=b role=button style="{BOX};top:20px;left:320px">to</div>
        <script>onmessage = () => document.querySelector('iframe').remove()</script>""",
        inner="<button onpointerdown='parent.postMessage(1, \"*\")'>card</button>",
    )
    card = next(one["id"] for one in obs["elements"] if one["name"] == "card")
    *_, info = env.step({"action": "drag", "from": card, "to": "#b"})
    assert info["outcome"] == "running"


def test_a_mouse_drag_that_needs_moves_on_the_way(open_page, by_name):
    env, obs = open_page(
        f"""<div id=a role=button style="{BOX};top:20px;left:20px;z-index:1">card</div><div id=b role=button style="{BOX};top:120px;left:420px;width:200px;height:150px">bin</div>
        <script>let at = null, moves = 0; a.onmousedown = (e) => {{ at = [e.clientX - a.offsetLeft, e.clientY - a.offsetTop]; e.preventDefault() }};
        onmousemove = (e) => {{ if (at) {{ moves++; a.style.left = e.clientX - at[0] + 'px'; a.style.top = e.clientY - at[1] + 'px' }} }};
        onmouseup = (e) => {{ if (!at) return; at = null; document.title = moves > 4 && document.elementsFromPoint(e.clientX, e.clientY).includes(b) ? 'in bin' : 'missed' }}</script>"""
    )
    obs = drag(env, obs, by_name, "card", "bin")
    assert obs["title"] == "in bin"
    assert drag(env, obs, by_name, "card", [40, 40])["title"] == "missed"


def test_a_drag_by_way_of_points_draws_what_it_is_told(open_page, by_name):
    env, obs = open_page(
        f"""<div id=a role=button style="{BOX};top:0;left:0;height:300px;width:300px">pad</div>
        <script>let seen = null; a.onmousedown = (e) => {{ seen = []; e.preventDefault() }}; onmousemove = (e) => seen?.push(e.clientX + ',' + e.clientY);
        onmouseup = () => {{ document.title = seen.join(' '); seen = null }}</script>"""
    )
    way = {"action": "drag", "from": [10, 10], "via": [[90, 12], [90, 90]], "to": [10, 90]}
    obs, *_ = env.step(way)
    assert obs["title"] == "90,12 90,90 74,90 58,90 42,90 26,90 10,90 10,90"
    obs, *_ = env.step({**way, "via": [[9000, 1]]})
    assert "outside of the view" in obs["last_error"]


def test_sliders_follow_a_drag(open_page, by_name):
    env, obs = open_page(
        """<style>body{margin:0}</style><input type=range min=0 max=100 value=0 aria-label=native style="position:absolute;top:10px;left:0;width:216px;margin:0">
        <div id=track style="position:absolute;top:60px;left:0;width:200px;height:10px"><div id=knob role=slider aria-label=own aria-valuenow=0 tabindex=0 style="position:absolute;width:10px;height:10px;background:red"></div></div>
        <script>knob.onpointerdown = (e) => { knob.setPointerCapture(e.pointerId); knob.onpointermove = (e) => { const v = Math.max(0, Math.min(100, Math.round(e.clientX / 2))); knob.style.left = 2 * v + 'px'; knob.ariaValueNow = v } };
        knob.onpointerup = () => knob.onpointermove = null</script>"""
    )
    obs = drag(env, obs, by_name, [8, 18], [108, 18])
    assert abs(int(by_name(obs, "native")["value"]) - 50) <= 2
    obs = drag(env, obs, by_name, "own", [150, 65])
    assert by_name(obs, "own")["value"] == "75"


SORTABLE = """<ul id=list style="list-style:none;padding:0;width:200px">{}</ul><script>
let dragged = null;
for (const li of list.children) {{ li.draggable = true; li.ondragstart = (e) => {{ dragged = li; e.dataTransfer.setData('x', 'x') }};
  li.ondragover = (e) => {{ e.preventDefault(); const box = li.getBoundingClientRect(); if (dragged !== li) li[e.clientY > box.top + box.height / 2 ? 'after' : 'before'](dragged) }}; }}
</script>"""


def test_a_list_is_sorted_and_the_target_scrolled_to(open_page, by_name):
    rows = "".join(f"<li role=button style='height:60px'>row {number}</li>" for number in range(20))
    env, obs = open_page(SORTABLE.format(rows))
    order = [element["name"] for element in sorted(obs["elements"], key=lambda element: element["bbox"][1])]
    assert order[0] == "row 0"
    assert by_name(obs, "row 16")["bbox"][1] > 600  # below the view
    obs = drag(env, obs, by_name, "row 0", "row 16")
    order = [element["name"] for element in sorted(obs["elements"], key=lambda element: element["bbox"][1])]
    assert abs(order.index("row 0") - 16) <= 1
    obs = drag(env, obs, by_name, "row 2", "row 4")
    order = [element["name"] for element in sorted(obs["elements"], key=lambda element: element["bbox"][1])]
    assert abs(order.index("row 2") - order.index("row 4")) == 1


def test_html5_drags_cross_frames(open_page, by_name):
    env, obs = open_page(
        """<div id=a draggable=true role=button>from</div><iframe src=target.html style="width:300px;height:200px"></iframe>
        <script>a.ondragstart = (e) => e.dataTransfer.setData('text/plain', 'payload')</script>""",
        target="""<div id=b role=button style="height:100px">to</div><script>b.ondragover = (e) => e.preventDefault(); b.ondrop = (e) => { e.preventDefault(); b.textContent = e.dataTransfer.getData('text/plain') }</script>""",
    )
    obs = drag(env, obs, by_name, "from", "to")
    assert by_name(obs, "payload")


def test_a_drag_to_nowhere_presses_nothing(open_page):
    env, _ = open_page("<button onmousedown=\"document.title='pressed'\">b</button>")
    obs, *_ = env.step({"action": "drag", "from": 1, "to": 99})
    assert "no element 99" in obs["last_error"]
    assert obs["title"] == "index"
    obs, *_ = env.step({"action": "drag", "from": 1, "to": [9000, 1]})
    assert "outside of the view" in obs["last_error"]
    assert obs["title"] == "index"
    obs, *_ = env.step({"action": "drag", "from": "text=b", "to": [90, 90]})
    assert obs["title"] == "pressed"


def test_a_drag_that_only_marks_text_is_tried_with_a_hold_and_told(open_page):
    env, _ = open_page(
        f"""<p id=a style="{BOX};top:20px;left:20px">from here</p><p id=b style="{BOX};top:20px;left:220px">to there</p><p>And on</p>
        <script>let at = 0; a.onpointerdown = () => at = performance.now();
        b.onpointerup = () => {{ if (window.holds && performance.now() - at > 200) document.title = 'moved' }}</script>"""
    )
    obs, *_ = env.step({"action": "drag", "from": "#a", "to": "#b"})
    assert (obs["last_error"], obs["events"]) == ("", ("the drag marked text and changed nothing else",))
    assert "marked text" in obs["dom"]
    value(env, "window.holds = true")
    obs, *_ = env.step({"action": "drag", "from": "#a", "to": "#b"})
    assert (obs["last_error"], obs["events"], obs["title"]) == ("", (), "moved")


def test_a_drag_that_marks_text_in_an_editor_is_not_tried_again(open_page):
    env, _ = open_page(
        "<div id=a contenteditable>one two three four</div><script>let c = 0; onmousedown = () => document.title = ++c</script>"
    )
    obs, *_ = env.step({"action": "drag", "from": [10, 18], "to": [100, 18]})
    assert "marked text" in obs["dom"]
    obs, *_ = env.step({"action": "drag", "from": "#a", "to": [20, 18]})
    assert (obs["last_error"], obs["title"]) == ("", "2")


def test_what_is_dropped_on_need_not_take_the_mouse_meanwhile(open_page):
    env, _ = open_page(
        """<style>li{padding:12px} .d li{pointer-events:none}</style><ul id=u><li id=a>One<li id=b>Two<li id=c>Three</ul>
        <script>let s; u.onmousedown = (e) => { s = e.target; e.preventDefault() }; onmousemove = () => { if (s) u.className = 'd' };
        onmouseup = (e) => { if (!s) return; u.className = ''; document.title = s.textContent + '->' + document.elementFromPoint(e.clientX, e.clientY).textContent; s = null }</script>"""
    )
    obs, *_ = env.step({"action": "drag", "from": "#a", "to": "#c"})
    assert (obs["last_error"], obs["title"]) == ("", "One->Three")


@pytest.mark.parametrize(
    ("down", "up"),
    few(
        1,
        [
            ("src.className = 'p'", "src.className = ''"),
            ("src.append(r)", "r.remove()"),
            ("document.body.style.cursor = 'grabbing'", "document.body.style.cursor = ''"),
        ],
    ),
)
def test_a_look_that_came_and_went_with_the_press_is_no_effect(open_page, down, up):
    env, _ = open_page(
        f"""<ul id=u style="user-select:none"><li id=a>One<li>Two<li id=c>Three</ul><script>let at, src; const r = document.createElement('i');
        u.onmousedown = (e) => {{ src = e.target; {down}; at = Date.now() }};
        onmouseup = (e) => {{ {up}; if (window.holds && Date.now() - at > 200) document.title = 'moved ' + src.textContent }}</script>"""
    )
    drag = {"action": "drag", "from": "#a", "to": "#c"}
    obs, *_ = env.step(drag)
    assert obs["last_error"] == "The drag changed nothing on the page."
    value(env, "window.holds = true")
    obs, *_ = env.step(drag)
    assert (obs["last_error"], obs["title"]) == ("", "moved One")


@pytest.mark.parametrize(
    "drop",
    [
        "fetch('/moved?' + ++n); a.className = 'x'; a.className = ''",
        "fetch('/moved?' + ++n).then(() => { a.className = 'x' })",
    ],
)
def test_a_drag_that_asked_the_server_for_something_is_not_tried_again(make, loopback, drop):
    page = f"""<p id=a style="user-select:none">From</p><p id=b>To</p><script>let n = 0; b.onmouseup = () => {{ {drop} }}</script>"""
    asked = []

    def answer(request):
        if "moved" in request.path:
            asked.append(request.path)
            time.sleep(0.4)
        return page.encode()

    env, _ = make(loopback(answer).url)
    obs, *_ = env.step({"action": "drag", "from": "#a", "to": "#b"})
    assert (obs["last_error"], asked) == ("", ["/moved?1"])


LOOKS = {
    "every 50 ms from the first move on": "if (!timer) timer = setInterval(look, 50)",
    "100 ms after the last move": "clearTimeout(timer); timer = setTimeout(look, 100)",
    "every 100 ms while the mouse moves": "if (!due) { due = true; setTimeout(() => { due = false; look() }, 100) }",
}


@pytest.mark.parametrize("clock", few(1, ["real", "virtual"]))
@pytest.mark.parametrize("looks", LOOKS)
def test_a_page_that_looks_at_the_mouse_now_and_then_sees_where_it_is_dropped(open_page, by_name, looks, clock):
    env, obs = open_page(
        f"""<ul id=l style="user-select:none"><li style="cursor:grab">A<li style="cursor:grab">B<li style="cursor:grab">C</ul><script>
        let dragged, at, ghost, timer, due;
        const look = () => {{ const over = dragged && document.elementFromPoint(...at)?.closest('li'); if (over && over != dragged) over.after(dragged) }};
        l.onpointerdown = (e) => {{ e.preventDefault(); dragged = e.target }};
        document.onpointermove = (e) => {{ at = [e.clientX, e.clientY]; if (!dragged) return; dragged.style.opacity = Math.random(); {LOOKS[looks]} }};
        document.onpointerup = () => {{ clearInterval(timer); dragged.style.opacity = ''; dragged = null }}</script>""",
        options={"clock": clock},
    )
    drag(env, obs, by_name, "A", "C")
    assert value(env, "l.innerText.split(/\\s+/)") == ["B", "C", "A"]


def test_a_list_that_is_sorted_at_once_is_not_waited_for(open_page):
    env, _ = open_page(
        """<ul id=l style="user-select:none"><li>A<li>B<li>C</ul><script>let dragged, at;
        l.onpointerdown = (e) => { e.preventDefault(); dragged = e.target };
        document.onpointermove = (e) => { const over = dragged && e.target.closest('li'); if (over && over != dragged) { over.after(dragged); setTimeout(() => {}) } at = performance.now() };
        document.onpointerup = () => { stayed = performance.now() - at; dragged = null }</script>"""
    )
    env.step({"action": "drag", "from": "text=A", "to": "text=C"})
    assert value(env, "l.innerText.split(/\\s+/).join('')") == "BCA"
    assert value(env, "stayed") < DWELL
