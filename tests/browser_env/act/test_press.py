"""A press that reaches another element than the one it was aimed at is stopped before the page hears of it, and told."""

import pytest

from tests.in_page import value

STYLE = """<style>#a, #b {position: absolute; left: 50px; top: 50px; width: 120px; height: 40px; overflow: hidden}
#b {left: 300px}</style>"""
HEARS = """<p id=heard style="margin-top: 200px"></p><script>
  const said = [];
  for (const type of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'auxclick', 'contextmenu', 'dblclick', 'submit', 'focusin'])
    document.addEventListener(type, (e) => { said.push(type + ':' + (e.target.id || e.target.localName)); heard.textContent = said.join(' '); }, true);
</script>"""
TWO = f"{STYLE}<button id=a>Renew</button><button id=b>Delete</button>{HEARS}"


def swapped(how):
    return f"{TWO}<script>document.onmousemove = () => {{ {how} }}</script>"


CHANGE = "[a.style.left, b.style.left] = [b, a].map((one) => getComputedStyle(one).left)"
MISSED = {
    "change places": (CHANGE, 'button "Delete"'),
    "moves on and on": (
        "a.style.left = getComputedStyle(a).left === '50px' ? '300px' : '50px'; b.hidden = true",
        "html",
    ),
    "covered": ("b.style.cssText = 'left: 0; top: 0; width: 100%; height: 100%; opacity: 0'", 'button "Delete"'),
    "replaced": ("a.remove(); b.style.left = '50px'", 'button "Delete"'),
    "another of that name": ("a.remove(); b.style.left = '50px'; b.textContent = 'Renew'", 'button "Renew"'),
}


@pytest.mark.parametrize(
    ("case", "more"),
    [*((case, {}) for case in MISSED), ("change places", {"count": 2}), ("change places", {"button": "right"})],
)
def test_a_press_on_something_else_is_stopped(open_page, by_name, case, more):
    how, there = MISSED[case]
    env, obs = open_page(swapped(how))
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Renew")["id"], **more})
    assert ":" not in obs["page_text"], obs["page_text"]  # the page has heard nothing
    assert obs["last_error"] == (
        f"The click did not reach its element: when the mouse was pressed, {there} was in its place. It was stopped."
    )
    obs, *_ = env.step({"action": "wait", "ms": 0})
    assert obs["last_error"] == ""


@pytest.mark.parametrize("more", [{}, {"count": 2}, {"button": "right"}])
def test_what_has_moved_once_is_clicked_where_it_is_now(open_page, by_name, more):
    page = swapped(f"if (!window.done) {{ done = 1; {CHANGE} }}")
    env, obs = open_page(page)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Renew")["id"], **more})
    assert ("mousedown:a" in obs["page_text"], "mousedown:b" in obs["page_text"]) == (True, False)
    assert obs["last_error"] == ""


FINE = {
    "stands still": "",
    "drawn anew": "if (!window.done) { done = 1; a.outerHTML = a.outerHTML }",
    "its own part on top": "a.innerHTML = '<span style=\"position:absolute;inset:0\">Renew</span>'",
    "moved a little": "a.style.left = '60px'",
}


@pytest.mark.parametrize("case", FINE)
def test_a_press_on_the_element_is_not(open_page, by_name, case):
    env, obs = open_page(swapped(FINE[case]))
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Renew")["id"]})
    assert "click:" in obs["page_text"]
    assert obs["last_error"] == ""


def test_labels_shadow_roots_image_maps_and_frames_are_met(open_page, by_name):
    env, obs = open_page(
        """<label for=box>Agree</label><input id=box type=checkbox style="position:absolute;opacity:0;width:0;height:0">
        <div id=host></div><div id=shut></div>
        <iframe id=f srcdoc="<button onclick='parent.said(`frame`)'>In the frame</button>" height=60></iframe>
        <svg width=60 height=60><circle cx=30 cy=30 r=20 onclick="said('circle')" style="cursor:pointer"></circle></svg>
        <p id=heard></p><script>
        function said(what) { heard.append(what + ' ') }
        box.onchange = () => said('box');
        for (const [el, mode] of [[host, 'open'], [shut, 'closed']]) {
          const root = el.attachShadow({mode});
          root.innerHTML = `<button><b>In ${mode}</b></button>`;
          root.firstChild.onclick = () => said(mode);
        }</script>""",
    )
    names = ("Agree", "In open", "In closed", "In the frame")
    ids = [by_name(obs, name)["id"] for name in names]
    ids.append(next(one["id"] for one in obs["elements"] if one["tag"] == "circle"))
    for id in ids:
        obs, *_ = env.step({"action": "click", "id": id})
        assert obs["last_error"] == ""
    assert obs["page_text"].split()[-5:] == ["box", "open", "closed", "frame", "circle"]


@pytest.mark.parametrize("origin", ["", "http://other.test/"])
def test_a_cover_over_a_frame_is_stopped(open_page, by_name, origin):
    """Aimed at a button in a frame, of this origin or another one; the page around it covers it meanwhile."""
    env, obs = open_page(
        f"""<iframe src="{origin}inner.html" style="border:0"></iframe><button id=b hidden>Delete</button>{HEARS}<script>
        const cover = () => {{ b.hidden = false; b.style.cssText = 'position:fixed;inset:0;opacity:0' }};
        onmessage = cover;
        document.querySelector('iframe').onmouseenter = cover;</script>""",
        inner="<button>Renew</button><script>document.onmousemove = () => parent.postMessage(1, '*')</script>",
    )
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Renew")["id"]})
    assert ":" not in obs["page_text"]
    assert 'button "Delete" was in its place. It was stopped.' in obs["last_error"]


@pytest.mark.parametrize("origin", ["", "http://other.test/"])
def test_a_press_that_went_into_a_frame_is_told(open_page, by_name, origin):
    env, obs = open_page(
        f"{TWO}<iframe id=f hidden src='{origin}inner.html' style='position:fixed;left:0;top:0;border:0'></iframe>"
        "<script>document.onmousemove = () => { f.hidden = false }</script>",
        inner="<button style='position:fixed;inset:0'>Pay</button>",
    )
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Renew")["id"]})
    assert obs["last_error"] == (
        "The click did not reach its element: when the mouse was pressed, a frame was in its place and received it."
    )


def test_a_drag_is_watched_at_its_start_only(open_page, by_name):
    env, obs = open_page(f"{TWO}")
    ends = {"from": by_name(obs, "Renew")["id"], "to": by_name(obs, "Delete")["id"]}
    obs, *_ = env.step({"action": "drag", **ends})
    assert obs["last_error"] == ""
    assert "mousedown:a" in obs["page_text"]
    assert "mouseup:b" in obs["page_text"]
    env, obs = open_page(swapped("a.style.left = '300px'; b.style.left = '50px'"))
    obs, *_ = env.step({"action": "drag", "from": by_name(obs, "Renew")["id"], "to": [500, 300]})
    assert ":" not in obs["page_text"]
    assert "was in its place" in obs["last_error"]


def test_a_key_is_not_pressed_on_something_else(open_page, by_name):
    """The element can't be focused by script, so it is clicked; another one was there."""
    page = swapped("c.style.left = '300px'; b.style.left = '50px'").replace("<button id=a>", "<div id=c onclick='1'>")
    page = page.replace("Renew</button>", "Renew</div>").replace("#a, #b", "#c, #b")
    env, obs = open_page(page + "<script>onkeydown = () => heard.textContent = 'key:'</script>")
    obs, *_ = env.step({"action": "press", "key": "Enter", "id": by_name(obs, "Renew")["id"]})
    assert ":" not in obs["page_text"]
    assert 'button "Delete" was in its place' in obs["last_error"]


def test_the_pages_first_listeners_hear_of_no_press_that_is_stopped(open_page, by_name):
    first = "<script>for (const type of ['pointerdown', 'mousedown', 'click']) addEventListener(type, () => { heard.append(':') }, true)</script>"
    page = swapped(f"if (!window.done) {CHANGE}")
    env, obs = open_page(first + page)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Renew")["id"]})
    assert ":" not in obs["page_text"]
    assert "It was stopped." in obs["last_error"]
    value(env, "window.done = 1")
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Renew")["id"]})
    assert "click:a" in obs["page_text"]
