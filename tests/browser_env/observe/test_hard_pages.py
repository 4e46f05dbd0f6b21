"""Hard pages: closed roots, frames of other origins and processes, hostile scripts, states that differ by a shade."""

import pytest

OTHER = "http://other.test"


def test_closed_shadow_roots_are_seen_and_acted_in(open_page, by_name):
    env, obs = open_page(
        """<div id=plain></div><x-card></x-card><script>
        const make = (host, name) => { const root = host.attachShadow({mode: 'closed'});
          root.innerHTML = `<button>${name}</button>`;
          root.firstChild.onclick = (e) => e.target.textContent = 'pressed ' + name; };
        make(plain, 'one');
        customElements.define('x-card', class extends HTMLElement { constructor() { super(); make(this, 'two'); } });
        </script>"""
    )
    for name in ("one", "two"):
        obs, *_, info = env.step({"action": "click", "id": by_name(obs, name)["id"]})
        assert obs["last_error"] == ""
        assert info["action_path"] == "mouse"
        assert by_name(obs, f"pressed {name}")


@pytest.mark.parametrize("switches", [(), ("--site-per-process",)], ids=["one process", "a process a site"])
def test_nested_frames_of_other_origins_are_seen_and_acted_in(open_page, by_name, switches):
    env, obs = open_page(
        f'<p>outer</p><iframe src="{OTHER}/middle.html" style="margin:30px;border:7px solid;width:500px;height:400px"></iframe>',
        middle='<p>middle</p><iframe src="http://site.test/inner.html" style="margin:20px"></iframe><button>Mid</button>',
        inner="""<div id=d>Inside</div><script>d.addEventListener('click', () => d.textContent = 'done')</script>""",
        options={"switches": switches},
    )
    inside = by_name(obs, "Inside")
    assert inside["frame"] == "http://site.test/inner.html"
    assert inside["in_viewport"]
    assert inside["bbox"][0] > 8 + 30 + 7 + 20
    assert "middle" in obs["page_text"]
    obs, *_, info = env.step({"action": "click", "id": inside["id"]})
    assert (obs["last_error"], info["action_path"]) == ("", "mouse")
    assert by_name(obs, "done")["id"] == inside["id"]
    assert obs["dom"].splitlines() == [
        "outer",
        'iframe "middle"',
        "  middle",
        '  iframe "inner"',
        f'    [{inside["id"]}] generic "done"',
        f'  [{by_name(obs, "Mid")["id"]}] button "Mid"',
    ]  # fmt: skip


def test_a_frame_that_changes_process_and_back_is_seen_again(open_page, by_name):
    env, obs = open_page(
        f"<iframe src='{OTHER}/one.html'></iframe>",
        one="<a href=http://site.test/two.html>To two</a>",
        two=f"<a href={OTHER}/three.html>To three</a>",
        three="<button onclick=\"this.textContent='there'\">Press</button>",
        options={"switches": ("--site-per-process",)},
    )
    for name in ("To two", "To three", "Press"):
        obs, *_, info = env.step({"action": "click", "id": by_name(obs, name)["id"]})
        assert (obs["last_error"], info["outcome"]) == ("", "running")
    assert by_name(obs, "there")


@pytest.mark.slow
def test_a_frame_of_another_process_that_hangs_costs_itself_only(open_page, by_name):
    env, obs = open_page(
        f"<button onclick='document.title += 1'>Here</button><iframe src='{OTHER}/loop.html'></iframe>"
        f"<iframe src='http://site.test/fine.html'></iframe>",
        loop="<button>Deep</button><script>setTimeout(() => { for (;;); }, 1500)</script>",
        fine="<button>Beside</button>",
        options={"switches": ("--site-per-process",)},
    )
    env.step({"action": "wait", "ms": 1600})
    for number in (1, 2, 3):
        obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Here")["id"]})
        assert (obs["title"], info["outcome"]) == ("index" + "1" * number, "running")
        assert by_name(obs, "Beside")


def test_an_other_origin_frame_that_was_scrolled_is_still_hit(open_page, by_name):
    env, obs = open_page(
        f'<p style="height:550px">top</p><iframe src="{OTHER}/inner.html" style="height:120px"></iframe><p style="height:900px">',
        inner="<p style='height:300px'>a</p><button onclick=\"this.textContent='hit'\">Deep</button>",
    )
    deep = by_name(obs, "Deep")
    assert not deep["in_viewport"]
    env.step({"action": "scroll", "dy": 90})
    obs, *_, info = env.step({"action": "click", "id": deep["id"]})
    assert (obs["last_error"], info["action_path"]) == ("", "mouse")
    assert by_name(obs, "hit")


def test_a_page_that_replaces_dom_methods_changes_nothing(open_page):
    lie = """<script>for (const [owner, names] of [[Element.prototype, ['getBoundingClientRect', 'getAttribute', 'matches',
        'querySelector', 'hasAttribute', 'closest']], [Document.prototype, ['elementFromPoint', 'querySelectorAll']],
        [EventTarget.prototype, ['dispatchEvent', 'addEventListener']], [Event.prototype, ['composedPath', 'preventDefault',
        'stopImmediatePropagation']], [window, ['getComputedStyle', 'requestAnimationFrame']], [JSON, ['stringify']],
        [WeakMap.prototype, ['get', 'set']], [Array.prototype, ['push', 'map', 'join']]])
        for (const name of names) owner[name] = () => { throw new Error('lie') };
        Object.defineProperty(Node.prototype, 'childNodes', {get: () => []});
        Object.defineProperty(Node.prototype, 'textContent', {get: () => 'lie'});</script>"""
    page = """<div id=d>by listener</div><button>Buy</button><input value=x><p>text</p>
        <script>document.getElementById('d').addEventListener('click', () => 0)</script>"""
    _, honest = open_page(page)
    _, hostile = open_page(page + lie)
    assert hostile["dom"] == honest["dom"]
    assert hostile["elements"] == honest["elements"]


NAMES = [
    "title",
    "id",
    "name",
    "labels",
    "type",
    "value",
    "children",
    "firstChild",
    "nextSibling",
    "parentElement",
    "getAttribute",
    "localName",
    "tagName",
    "nodeType",
    "className",
    "getBoundingClientRect",
    "querySelector",
    "shadowRoot",
    "textContent",
    "dispatchEvent",
    "style",
    "inert",
]


def test_fields_and_pictures_named_like_properties_change_nothing(open_page):
    fields = "".join(f'<input name="{name}" aria-label="Field {name}">' for name in NAMES)
    pictures = "".join(
        f'<img name="{name}" src="data:,">'
        for name in [
            "documentElement",
            "scrollingElement",
            "activeElement",
            "querySelectorAll",
            "links",
            "URL",
            "elementFromPoint",
        ]
    )
    env, obs = open_page(
        f"<form aria-label=Order>{fields}<button>Send</button></form><a href='#x'><form>{fields[:40]}</form>Link</a>{pictures}"
    )
    assert [element["name"] for element in obs["elements"][: len(NAMES) + 1]] == [
        *(f"Field {n}" for n in NAMES),
        "Send",
    ]
    assert 'form "Order"' in obs["dom"]
    obs, *_ = env.step({"action": "fill", "id": 1, "text": "typed"})
    assert (obs["last_error"], obs["elements"][0]["value"]) == ("", "typed")


def test_the_page_is_not_changed_by_being_looked_at(open_page):
    env, obs = open_page(
        """<button>Go</button><p id=log>0</p><script>let n = 0;
        onload = () => {
          new MutationObserver((r) => { n += r.length }).observe(document.body, {subtree: true, childList: true, attributes: true});
          setInterval(() => { if (n) document.title = 'changed ' + n }, 5); };
        for (const type of ['click', 'focus', 'scroll']) addEventListener(type, () => document.title = type, true);
        </script>"""
    )
    assert obs["title"] == "index"
    obs, *_ = env.step({"action": "wait", "ms": 50})
    assert obs["title"] == "index"


def test_modal_dialogs_and_inert_parts(open_page):
    _, obs = open_page(
        """<button>Behind</button><div inert><button>Asleep</button></div>
        <dialog id=d><p>Sure?</p><button>Yes</button></dialog><script>d.showModal()</script>"""
    )
    assert [element["name"] for element in obs["elements"]] == ["Yes"]
    assert 'button "Behind" inert' in obs["dom"]
    _, obs = open_page("<button>Awake</button><div inert><button>Asleep</button></div>")
    assert [element["name"] for element in obs["elements"]] == ["Awake"]
    assert 'button "Asleep" inert' in obs["dom"]


TWO = """<button>Behind</button><dialog id=a><button onclick="a.close(); document.title = 'deleted'">Yes</button></dialog>
<dialog id=b><button onclick="a.showModal()">Delete</button></dialog><script>b.showModal()</script>"""


def test_of_two_modal_dialogs_the_last_to_be_opened_takes_the_clicks(open_page, by_name):
    env, obs = open_page(TWO)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Delete")["id"]})
    assert [element["name"] for element in obs["elements"]] == ["Yes"]
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Yes")["id"]})
    assert (obs["title"], obs["last_error"]) == ("deleted", "")
    assert [element["name"] for element in obs["elements"]] == ["Delete"]


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_a_modal_dialog_in_a_shadow_root_blocks_the_rest(open_page, by_name, mode):
    env, obs = open_page(
        f"""<button onclick="ask.show()">Behind</button><x-ask id=ask></x-ask><script>customElements.define('x-ask', class extends HTMLElement {{
        constructor() {{ super(); this.root = this.attachShadow({{mode: '{mode}'}});
          this.root.innerHTML = '<dialog><button>Yes</button></dialog>'; }}
        show() {{ this.root.firstChild.showModal(); }} }})</script>""",
    )
    behind = by_name(obs, "Behind")["id"]
    obs, *_ = env.step({"action": "click", "id": behind})
    assert [element["name"] for element in obs["elements"]] == ["Yes"]
    obs, *_ = env.step({"action": "click", "id": behind})
    assert "dialog" in obs["last_error"]


def test_covered_clipped_scrolled_out_and_off_screen_are_told_apart(open_page, by_name):
    _, obs = open_page(
        """<div style="overflow:hidden;width:100px;height:30px;position:relative">
          <button style="position:absolute;left:150px">Clipped</button></div>
        <div style="overflow:auto;width:200px;height:60px"><p style="height:100px">a</p><button>Scrolled out</button></div>
        <button style="position:absolute;left:-9999px">Off screen</button>
        <div style="position:relative"><button>Covered</button><div style="position:absolute;inset:0;background:white"></div></div>
        <button disabled>Disabled</button><button style="position:absolute;left:400px;top:400px">Free</button>"""
    )
    states = {element["name"]: (element["in_viewport"], element["states"]) for element in obs["elements"]}
    assert states == {
        "Clipped": (False, ("clipped",)),
        "Scrolled out": (False, ()),
        "Off screen": (False, ()),
        "Covered": (True, ("covered", "by div")),
        "Disabled": (True, ("disabled",)),
        "Free": (True, ()),
    }
    assert "scrolls: 0 px above" in obs["dom"]


def test_inputs_that_are_hidden_behind_their_label(open_page, by_name):
    env, obs = open_page(
        """<style>.none{display:none}.clear{opacity:0;position:absolute}</style>
        <label><input type=checkbox class=none> Newsletter</label>
        <label for=r>Radio</label><input type=radio id=r class=clear>
        <label><input type=file class=none> Choose a file</label>"""
    )
    box = by_name(obs, "Newsletter")
    assert (box["role"], box["tag"], box["states"]) == ("checkbox", "label", ())
    obs, *_ = env.step({"action": "click", "id": box["id"]})
    assert by_name(obs, "Newsletter")["states"] == ("checked",)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Radio")["id"]})
    assert "checked" in by_name(obs, "Radio")["states"]
    assert by_name(obs, "Choose a file")["role"] == "button"


def test_svg_canvas_maps_and_editors(open_page):
    _, obs = open_page(
        """<svg width=100 height=50><title>Chart</title><circle id=c cx=20 cy=20 r=10><title>Dot</title></circle>
        <a href="#x"><text x=40 y=20>Svg link</text></a></svg>
        <canvas id=k width=50 height=50 aria-label="Board"></canvas>
        <img src="data:," usemap="#m" width=90 height=40><map name=m><area href="#a" shape=rect coords="0,0,40,40" alt="Left half"></map>
        <div contenteditable aria-label="Note">words</div>
        <script>c.addEventListener('click', () => 0); k.addEventListener('mousedown', () => 0)</script>"""
    )
    assert {(element["role"], element["name"]) for element in obs["elements"]} >= {
        ("generic", "Dot"),
        ("link", "Svg link"),
        ("canvas", "Board"),
        ("link", "Left half"),
        ("textbox", "Note"),
    }


def test_shapes_of_a_drawing_say_what_they_look_like_and_where_they_are(open_page):
    _, obs = open_page(
        """<style>body{margin:0} svg{display:block}</style><svg id=board width=200 height=100>
        <circle cx=50 cy=40 r=10 fill=red /><rect x=100 y=20 width=40 height=30 fill=none stroke=black />
        <line x1=10 y1=90 x2=190 y2=80 stroke="#123456" /><text id=t x=20 y=20 fill=blue>A</text>
        <polygon id=p points="160,60 170,40 180,60" style="cursor:pointer" fill=lime transform="translate(5,0)" />
        <defs><circle cx=5 cy=5 r=5 /></defs></svg>
        <svg width=100 height=100><circle cx=50 cy=50 r=9 /></svg>
        <svg id=icon width=20 height=20><path d="M0 0 L20 20 L0 20" /></svg>
        <script>board.onclick = t.onclick = icon.onclick = () => 0</script>"""
    )
    look = {element["tag"]: element["states"] for element in obs["elements"] if element["tag"] != "text"}
    assert look["polygon"] == ("lime polygon 20x20 at 175,50",)
    lines = [line.strip() for line in obs["dom"].split("\n")]
    assert lines[1:4] == [
        "red circle 20x20 at 50,40",
        "black rect outline 40x30 at 120,35",
        "#123456 line from 10,90 to 190,80",
    ]
    assert '"A" blue text' in lines[4]
    assert sum("circle" in line or "path" in line for line in lines) == 1, "neither pictures nor icons nor definitions"


def test_the_items_of_a_list_that_listens_are_what_is_clicked(open_page, by_name):
    env, obs = open_page(
        """<ul id=a onclick="document.title = event.target.textContent"><li>One<li><b>Two</b></ul>
        <ul onclick="0"><li>Row <button>Delete</button></ul>"""
    )
    assert [(e["role"], e["name"]) for e in obs["elements"]] == [
        ("listitem", "One"),
        ("listitem", "Two"),
        ("button", "Delete"),
    ]
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Two")["id"]})
    assert obs["title"] == "Two"


def test_what_is_fixed_to_the_view_is_seen_wherever_its_container_lies(open_page, by_name):
    _, obs = open_page(
        """<p style="height:9000px">long</p>
        <div><p>far</p><button style="position:fixed;left:4px;bottom:4px;width:40px;height:40px">Help</button></div>"""
    )
    assert by_name(obs, "Help")["in_viewport"]


def test_a_long_page_says_how_it_goes_on(open_page):
    rows = "".join(f'<li><a href="#{i}">Link {i}</a></li>' for i in range(2000))
    env, obs = open_page(f"<h1>Long</h1><ul>{rows}</ul><input aria-label=End>")
    assert 30 < len(obs["elements"]) < 150
    assert obs["dom"].splitlines()[-1].startswith("... the page goes on for 0 px above and ")
    assert "links and controls" in obs["dom"].splitlines()[-1]
    env.step({"action": "scroll", "dy": 20000})
    obs, *_ = env.step({"action": "wait", "ms": 0})
    shown = [element["name"] for element in obs["elements"] if element["in_viewport"]]
    numbers = [int(name.split()[1]) for name in shown]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] > 500
    _, obs = open_page(f"<ul>{rows}</ul>", options={"reach": None})
    assert len(obs["elements"]) == 2000


EMBEDDED = """<object data=/in type=text/html></object><object data=/far type=text/html></object><embed src=/in type=text/html>
<object data=/svg type=image/svg+xml></object><object data=/none><button>Instead</button></object><embed src=/none type=application/pdf>"""


def test_pages_in_objects_and_embeds_are_seen_and_acted_in(make, loopback):
    button = b"<button onclick=\"this.textContent = 'hit'\">In</button>"
    far = loopback(lambda _: button)
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><a href='/in'><rect width='90' height='50'/><text y='20'>Drawn</text></a></svg>"
    pages = {
        "/": EMBEDDED.encode(),
        "/in": button,
        "/far": (302, {"location": far.url.replace("127.0.0.1", "localhost")}, b""),
        "/svg": (200, {"content-type": "image/svg+xml"}, svg),
    }
    env, obs = make(loopback(lambda request: pages.get(request.path, (404, {}, b""))).url)
    assert [one["name"] for one in obs["elements"]] == ["In", "Drawn", "Instead", "In", "In"]
    for id in [one["id"] for one in obs["elements"] if one["name"] == "In"]:
        obs, *_, info = env.step({"action": "click", "id": id})
        assert (obs["last_error"], info["action_path"]) == ("", "mouse")
    assert [one["name"] for one in obs["elements"]] == ["hit", "Drawn", "Instead", "hit", "hit"]
