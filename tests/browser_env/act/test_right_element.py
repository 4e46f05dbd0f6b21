"""What an action names is what it is done to, or it says why not: fields that can't take text, frames, disabled parts."""

import pytest

from selfsurf.browser_env.act.targets import Targets
from tests.few import few
from tests.in_page import value

HIDES = "<label>Comment <input id=a></label><label>PIN <input id=b type=password></label>"


@pytest.mark.parametrize("how", ["b.style.display='none'", "b.style.visibility='hidden'"])
@pytest.mark.parametrize("action", ["fill", "type"])
def test_text_goes_to_no_other_field_when_its_own_is_hidden(open_page, by_name, how, action):
    env, obs = open_page(HIDES)
    pin = by_name(obs, "PIN")["id"]
    env.step({"action": "click", "id": by_name(obs, "Comment")["id"]})
    value(env, how)
    obs, *_ = env.step({"action": action, "id": pin, "text": "4711"})
    assert obs["last_error"] == f"Element {pin} is not visible."
    assert value(env, "[a.value, b.value]") == ["", ""]


MOVES_ON = """<label>Card <input id=card></label><div role=dialog aria-modal=true><label>E-mail <input id=mail></label></div>
<script>document.addEventListener('focusin', e => { if (e.target !== mail) mail.focus() })</script>"""


@pytest.mark.parametrize("action", ["fill", "type"])
def test_text_goes_to_no_other_field_when_the_page_moves_the_focus_on(open_page, by_name, action):
    env, obs = open_page(MOVES_ON)
    card, mail = by_name(obs, "Card")["id"], by_name(obs, "E-mail")["id"]
    obs, *_ = env.step({"action": action, "id": card, "text": "4111"})
    assert value(env, "[card.value, mail.value]") == ["", ""]
    assert obs["last_error"] == (
        f'The page moved the focus from element {card} to [{mail}] textbox "E-mail"; nothing was typed.'
    )


def test_text_goes_to_no_other_field_when_the_page_moves_the_focus_to_a_frame(open_page, by_name):
    env, obs = open_page(
        """<label>Card <input id=card></label><iframe id=f srcdoc="<input aria-label=Inner>"></iframe>
        <script>card.onfocus = () => f.contentDocument.querySelector('input').focus()</script>""",
    )
    obs, *_ = env.step({"action": "fill", "id": by_name(obs, "Card")["id"], "text": "4111"})
    assert 'textbox "Inner"' in obs["last_error"]
    assert by_name(obs, "Inner")["value"] == ""


FRAME = """<style>body{margin:0} iframe{border:3px solid;width:300px;height:200px;padding:50px 0 0 70px}</style>
<iframe src="%sinner.html"></iframe>"""
INNER = """<style>button{position:absolute;width:80px;height:30px}</style><button style='left:0;top:0'>Yes</button>
<button style='left:70px;top:50px'>No</button><p id=o style='margin-top:100px'>none</p>
<script>onclick = e => { o.textContent = `clicked ${e.target.textContent}` }</script>"""


@pytest.mark.parametrize("origin", ["", "http://other.test/"])
@pytest.mark.parametrize("name", ["Yes", "No"])
def test_a_frame_with_padding_is_aimed_at_rightly(open_page, by_name, origin, name):
    env, obs = open_page(FRAME % origin, inner=INNER)
    assert by_name(obs, "No")["bbox"] == (143, 103, 80, 30)
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, name)["id"]})
    assert (f"clicked {name}" in obs["page_text"], info["action_path"]) == (True, "mouse"), obs["page_text"]


@pytest.mark.parametrize("origin", ["", "http://other.test/"])
@pytest.mark.parametrize(
    "style",
    few(2, ["transform:translate(40px,30px) scale(1.5);transform-origin:0 0", "zoom:.8;padding:20px",
            "margin:500px 0 900px 20px;padding:9px", "transform:scale(.5);transform-origin:0 0"]),
)  # fmt: skip
def test_a_frame_that_is_scaled_moved_or_scrolled_to_is_aimed_at_rightly(open_page, by_name, origin, style):
    env, obs = open_page(f"{FRAME % origin}<style>iframe{{{style}}}</style>", inner=INNER)
    for name in ("Yes", "No"):
        obs, *_, info = env.step({"action": "click", "id": by_name(obs, name)["id"]})
        assert (f"clicked {name}" in obs["page_text"], info["action_path"]) == (True, "mouse"), obs["page_text"]


@pytest.mark.parametrize("origin", ["", "http://other.test/"])
@pytest.mark.parametrize("style", few(1, ["rotate(-100deg) scale(.8)", "rotate(30deg)", "skew(20deg)"]))
def test_a_frame_that_is_turned_is_aimed_at_rightly(open_page, by_name, origin, style):
    page = f"<div style='rotate:10deg'><iframe src={origin}inner.html style='transform:{style};margin:100px' width=300 height=200></iframe></div>"
    inner = """<button style='position:absolute;left:200px;top:150px' onclick='q.textContent = event.isTrusted'>Far</button><p id=q>"""
    env, obs = open_page(page, inner=inner, options={"viewport": (800, 800)})
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Far")["id"]})
    assert ("true" in obs["page_text"], info["action_path"], obs["last_error"]) == (True, "mouse", "")


MAP = """<p style="height:1500px">top</p>
<img usemap=#m width=200 height=100 src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='200' height='100'/>">
<map name=m><area shape=rect coords=0,0,100,100 href=#a alt=Left><area shape=circle coords=150,50,40 href=#b alt=Right></map>
<script>onclick = event => document.title = event.target.alt + event.isTrusted</script>"""


@pytest.mark.parametrize("name", ["Left", "Right"])
def test_an_area_of_an_image_is_scrolled_to(open_page, by_name, name):
    env, obs = open_page(MAP, options={"reach": None})
    obs, *_ = env.step({"action": "click", "id": by_name(obs, name)["id"]})
    assert obs["title"] == f"{name}true"


def test_a_role_and_name_mean_what_stands_there_now(open_page):
    env, obs = open_page("<button>Save</button>")
    value(env, "document.body.innerHTML = '<button onclick=\"document.title = 1\">Save</button>'")
    obs, *_ = env.step({"action": "click", "selector": 'role=button[name="Save"]'})
    assert (obs["title"], obs["last_error"]) == ("1", "")


def test_what_a_button_that_moves_away_under_the_mouse_leaves_is_not_clicked(open_page, by_name):
    env, obs = open_page(
        """<p id=hint hidden style="height:30px;margin:0">Hint</p>
        <button style="display:block;height:30px">Keep A</button><button style="display:block;height:30px">Keep B</button>
        <p id=o>none</p><script>document.querySelectorAll('button').forEach(b => {
          b.onmouseenter = () => hint.hidden = false; b.onclick = () => o.textContent = b.textContent })</script>""",
    )
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Keep B")["id"]})
    assert value(env, "o.textContent") == "Keep B", obs["last_error"]


def test_a_tip_that_opens_over_a_button_is_told(open_page, by_name):
    env, obs = open_page(
        """<style>#t{display:none;position:absolute;inset:0;background:#ffc;margin:0} div:hover>#t{display:block}</style>
        <div style="position:relative;width:200px;height:40px"><button onclick="window.c=1">Delete</button><p id=t>tip</p></div>""",
    )
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Delete")["id"]})
    assert "did not reach its element" in obs["last_error"]
    assert "p#t" in obs["last_error"]


def test_a_text_within_a_disabled_button_is_disabled(open_page):
    env, _ = open_page("<button disabled onclick='window.c=1'><span>Save now</span></button>")
    obs, *_ = env.step({"action": "click", "selector": "text=Save now"})
    assert obs["last_error"].endswith("is disabled.")


@pytest.mark.parametrize("tag", ["button", "a href=#x", "div role=button tabindex=0", "label"])
def test_a_selector_of_a_part_means_the_control_around_it(open_page, tag):
    name = tag.split()[0]
    env, _ = open_page(
        f"<{tag} onclick='window.c=event.isTrusted'><span style='pointer-events:none'>Open</span></{name}>",
    )
    *_, info = env.step({"action": "click", "selector": "text=Open"})
    assert (info["action_path"], value(env, "window.c")) == ("mouse", True)


@pytest.mark.parametrize("tag", ["a href=inner.html", "button"])
def test_what_takes_no_mouse_is_not_clicked(open_page, by_name, tag):
    name = tag.split()[0]
    env, obs = open_page(
        f"<{tag} style='pointer-events:none;color:gray' onclick='window.c=1'>Next</{name}>", inner="in"
    )
    element = by_name(obs, "Next")
    assert "covered" not in element["states"]
    assert "unclickable" in element["states"]
    obs, *_ = env.step({"action": "click", "id": element["id"]})
    assert (
        obs["last_error"]
        == f"Element {element['id']} can't be clicked now: it ignores the mouse (pointer-events: none)."
    )
    assert (obs["title"], value(env, "window.c")) == ("index", None)


def test_a_child_that_takes_the_mouse_in_a_parent_that_does_not_is_clicked(open_page, by_name):
    env, obs = open_page(
        "<div style='pointer-events:none'><button style='pointer-events:auto' onclick='window.c=1'>Go</button></div>",
    )
    env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
    assert value(env, "window.c") == 1


@pytest.mark.parametrize("tag", ["button", "a href=#x"])
def test_what_has_no_box_of_its_own_is_clicked_at_its_content(open_page, by_name, tag):
    name = tag.split()[0]
    env, obs = open_page(
        f"<p style='height:900px'>a</p><{tag} style='display:contents' onclick='window.c=event.isTrusted'><span>Go</span></{name}>",
        options={"reach": None},
    )
    *_, info = env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
    assert (info["action_path"], value(env, "window.c")) == ("mouse", True)


def test_a_select_that_was_hidden_is_not_changed(open_page, by_name):
    env, obs = open_page("<select id=s aria-label=Size><option>S<option>L</select>")
    id = by_name(obs, "Size")["id"]
    value(env, "s.style.display='none'")
    obs, *_ = env.step({"action": "select", "id": id, "options": ["L"]})
    assert (obs["last_error"], value(env, "s.value")) == (f"Element {id} is not visible.", "S")
    obs, *_ = env.step({"action": "scroll", "id": id})
    assert obs["last_error"] == f"Element {id} is not visible."


def test_an_upload_of_no_files_clears_the_field(open_page, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    env, obs = open_page("<input type=file aria-label=Paper id=f>")
    id = obs["elements"][0]["id"]
    obs, *_ = env.step({"action": "upload", "id": id, "files": [str(tmp_path / "a.txt")]})
    assert obs["elements"][0]["value"] == "a.txt"
    obs, *_ = env.step({"action": "upload", "id": id, "files": []})
    assert (obs["elements"][0]["value"], obs["last_error"]) == ("", "")


SLIDER = """<div style="position:relative;width:400px;height:20px;margin:30px;background:#ccc" id=t><span id=th
style="position:absolute;left:100px;width:20px;height:20px;background:blue"><input type=range aria-label=Temp
style="position:absolute;inset:0;width:100%;height:100%;margin:-1px;clip:rect(0 0 0 0);overflow:hidden"></span></div><p id=o>100</p>
<script>t.onpointerdown=()=>{onpointermove=e=>{th.style.left=(o.textContent=Math.round(e.clientX-t.getBoundingClientRect().x))+'px'};
onpointerup=()=>onpointermove=null}</script>"""


def test_a_slider_is_dragged_by_the_control_within_its_thumb(open_page, by_name):
    env, obs = open_page(SLIDER)
    obs, *_ = env.step({"action": "drag", "from": by_name(obs, "Temp")["id"], "to": [300, 40]})
    assert (obs["last_error"], value(env, "o.textContent")) == ("", "262")


GRIP = """<meta charset=utf-8><ul id=l><li><span class=grip style="cursor:%s;user-select:none">☰</span> One<li><span class=grip
style="cursor:%s;user-select:none">☰</span> Two<li><span class=grip style="cursor:%s;user-select:none">☰</span> Three</ul><script>
let d;l.onpointerdown=e=>{d=e.target.closest('.grip')?.parentNode};onpointerup=e=>{
const t=document.elementFromPoint(e.clientX,e.clientY).closest('li');if(d&&t&&t!=d)t.before(d);d=null}</script>"""


@pytest.mark.parametrize("cursor", ["grab", "move", "ns-resize"])
def test_handles_have_ids(open_page, cursor):
    env, obs = open_page(GRIP.replace("%s", cursor))
    grips = [one["id"] for one in obs["elements"] if one["tag"] == "span"]
    assert len(grips) == 3, obs["dom"]
    obs, *_ = env.step({"action": "drag", "from": grips[2], "to": grips[0]})
    assert obs["page_text"].split()[1::2] == ["Three", "One", "Two"]


def test_a_tab_that_opens_while_an_element_is_looked_for_gets_nothing(open_page, by_name, monkeypatch):
    env, obs = open_page(
        "<button onclick=\"this.textContent = 'pressed'\">First</button>",
        other="<button style='position:fixed;inset:0' onclick=\"document.title = 'wrong'\">Second</button>",
    )
    env.step({"action": "new_tab", "url": "http://site.test/other.html"})
    obs, *_ = env.step({"action": "focus_tab", "index": 0})
    locate = Targets.locate

    async def while_a_tab_opens(targets, *args, **options):
        where = await locate(targets, *args, **options)
        targets.session.active = targets.session.tabs[1]
        return where

    monkeypatch.setattr(Targets, "locate", while_a_tab_opens)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "First")["id"]})
    assert obs["title"] == "other"
    obs, *_ = env.step({"action": "focus_tab", "index": 0})
    assert by_name(obs, "pressed")
