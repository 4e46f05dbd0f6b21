"""What a person sees of fields, lists and targets is in the observation, and names are Chromium's."""

import threading

import pytest

from tests.few import few
from tests.in_page import value


def test_a_label_and_what_it_labels_are_both_there(open_page):
    _, obs = open_page(
        """<label>Total <output>42 EUR</output></label> <label>Battery <meter value=.5></meter></label>
        <label>Code <input style="width:0;height:0;padding:0;border:0"></label><p>end</p>""",
    )
    for words in ("Total", "42 EUR", "Battery", 'value="0.5"', '"Code"', "end"):
        assert words in obs["dom"], obs["dom"]


def test_a_file_input_says_so(open_page):
    _, obs = open_page("<input type=file><button>b</button><label>Paper <input type=file hidden></label>")
    assert ["file" in one["states"] for one in obs["elements"]] == [True, False, True]


DROPS = """<div draggable=true ondragstart="event.dataTransfer.setData('text', 'card')">Card</div>
<div id=z aria-label="Done column" style="width:200px;height:80px;border:1px dashed"></div><div id=y style="height:40px"></div>
<script>for (const el of [z, y]) { el.ondragover = e => e.preventDefault(); el.ondrop = () => { document.title = el.id } }</script>"""


def test_what_takes_a_drop_has_an_id_also_if_it_is_empty(open_page, by_name):
    env, obs = open_page(DROPS)
    assert [one["name"] for one in obs["elements"][:2]] == ["Card", "Done column"]
    assert len(obs["elements"]) == 3
    obs, *_ = env.step({"action": "drag", "from": 1, "to": by_name(obs, "Done column")["id"]})
    assert (obs["title"], obs["last_error"]) == ("z", "")


def test_placeholder_and_description_stand_beside_a_name(open_page, by_name):
    _, obs = open_page(
        """<label>Date <input placeholder="MM/DD/YYYY"></label><input aria-label=City aria-description="where you live">
        <input aria-label=Pin aria-describedby=h><p id=h hidden>four digits</p><button title="for ever">Delete</button>
        <input placeholder=Search><label>Year <input placeholder=YYYY value=1999></label>""",
    )
    states = {one["name"]: one["states"] for one in obs["elements"]}
    assert states == {
        "Date": ('placeholder="MM/DD/YYYY"',), "City": ('description="where you live"',),
        "Pin": ('description="four digits"',), "Delete": ('description="for ever"',), "Search": (), "Year": (),
    }  # fmt: skip


@pytest.mark.parametrize("origin", ["", "http://other.test/"])
def test_what_is_covered_within_a_frame_is_told(open_page, by_name, origin):
    env, obs = open_page(
        f"""<iframe src="{origin}inner.html" style="width:300px;height:200px;border:0"></iframe>
        <div id=wall style="position:fixed;inset:0;background:#fffc"></div>""",
        inner="<button onclick='document.title = event.isTrusted'>Pay</button>",
    )
    pay = by_name(obs, "Pay")
    assert "covered" in pay["states"], pay
    obs, *_ = env.step({"action": "click", "id": pay["id"]})
    assert any("covers it" in event for event in obs["events"])


def test_states(open_page, by_name):
    _, obs = open_page(
        """<button aria-pressed=mixed>Half</button><div aria-disabled=true><button>Off</button></div>
        <select aria-label=Size><optgroup label=Old disabled><option>S</optgroup><option>M</select>""",
    )
    assert by_name(obs, "Half")["states"] == ("mixed",)
    assert by_name(obs, "Off")["states"] == ("disabled",)
    assert 'option "S" disabled' in obs["dom"]


def test_a_native_box_is_ticked_if_it_shows_so_whatever_its_attributes_say(open_page, by_name):
    _, obs = open_page(
        """<input type=checkbox aria-label=Off aria-checked=true><input type=radio aria-label=None aria-checked=mixed>
        <input type=checkbox aria-label=On checked aria-checked=false><div role=checkbox tabindex=0 aria-label=Own aria-checked=true>o</div>
        <input type=checkbox aria-label=Half id=h><script>h.indeterminate = true</script>""",
    )
    states = {one["name"]: one["states"] for one in obs["elements"]}
    assert states == {"Off": (), "None": (), "On": ("checked",), "Own": ("checked",), "Half": ("mixed",)}


def test_a_button_in_something_disabled_is_refused(open_page, by_name):
    env, obs = open_page("<div aria-disabled=true><button onclick='document.title=1'>Off</button></div>")
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Off")["id"]})
    assert obs["last_error"].endswith("is disabled.")


NAMES = {
    "<style>a::before{content:'NEW ';display:none}</style><a href=#>Mail</a>": "Mail",
    "<style>a::before{content:'NEW ';visibility:hidden}</style><a href=#>Mail</a>": "Mail",
    "<style>a::before{content:'7 days';display:block}</style><a href=#>Trial</a>": "7 days Trial",
    "<style>button::after{content:'*' / ' (' attr(data-n) ' new)'}</style><button data-n=3>Cart</button>": "Cart (3 new)",
    "<style>button::after{content:attr(data-n) ' new'}</style><button data-n=3>Cart </button>": "Cart 3 new",
    "<label for=c>Flash <span role=combobox><span role=listbox><span role=option aria-selected=true>3</span><span role=option>5</span></span></span> times</label><input id=c type=checkbox>": "Flash 3 times",
    "<label for=c>Flash <span role=listbox><span role=option>3</span><span role=option aria-selected=true>5</span></span> times</label><input id=c type=checkbox>": "Flash 5 times",
    "<label for=c>Size <span role=menu><span role=menuitem>S</span></span></label><input id=c type=checkbox>": "Size",
    "<button aria-labelledby=r>x</button><p id=r>seen <b style='visibility:hidden'>hidden</b></p>": "seen",
    "<button aria-labelledby=r>x</button><p id=r style='visibility:hidden'>all <b>of it</b></p>": "all of it",
    "<button aria-labelledby=r>x</button><p id=r style='display:none'>all <b>of it</b></p>": "all of it",
    "<button>Ver&shy;trag</button>": "Vertrag",
    "<button><div>Save</div><div>now</div></button>": "Save now",
    "<label>First<br>name <input></label>": "First name",
    "<button><i class='sc-ion hydrated'></i></button>": "",
}  # fmt: skip


@pytest.mark.parametrize("page", few(5, NAMES))
def test_a_name_is_the_one_that_chromium_computes(open_page, page):
    env, obs = open_page(page)
    role = (
        "checkbox" if "checkbox" in page else "textbox" if "<input" in page else "link" if "<a " in page else "button"
    )
    assert next(one["name"] for one in obs["elements"] if one["role"] == role) == NAMES[page]
    tree = value_of_tree(env)
    assert next(" ".join(name.split()) for kind, name in tree if kind == role) == NAMES[page]


def value_of_tree(env):
    """Roles and names of Chromium's own accessibility tree."""
    from selfsurf.browser_env.browser.runtime import runtime

    protocol = env.unwrapped.core.session.active.protocol
    nodes = runtime().run(protocol.send("Accessibility.getFullAXTree"))["nodes"]
    return [
        (node.get("role", {}).get("value"), node.get("name", {}).get("value", "").replace("\u00ad", ""))
        for node in nodes if not node.get("ignored")
    ]  # fmt: skip


def test_custom_elements_that_take_part_in_forms_have_the_names_of_their_labels(open_page):
    page = """<style>my-knob, other-one { display: inline-block; width: 40px; height: 20px }</style>
    <label>Volume <my-knob tabindex=0 role=slider aria-valuenow=3></my-knob></label>
    <label for=k>Bass</label><my-knob id=k tabindex=0></my-knob><label>Plain <other-one tabindex=0></other-one></label>
    <script>customElements.define('my-knob', class extends HTMLElement { static formAssociated = true });
    customElements.define('other-one', class extends HTMLElement {})</script>"""
    _, obs = open_page(page)
    assert obs["dom"].split("\n") == ['[1] slider "Volume" value="3"', '[2] generic "Bass"', "Plain", "[3] generic"]


def test_a_picture_that_is_still_to_come_is_there_by_its_text(make, loopback):
    come = threading.Event()

    def answer(request):
        if request.path == "/gift.png":
            come.wait(20)
        return b"<button onclick=\"p.innerHTML = '<img src=/gift.png alt=Gift>'\">Show</button><p id=p></p>"

    env, _ = make(loopback(answer).url)
    obs, *_ = env.step({"action": "click", "selector": "text=Show"})
    come.set()
    assert 'img "Gift"' in obs["dom"]


def test_noise_of_class_names_is_no_name(open_page):
    _, obs = open_page("<ion-alert tabindex=0 class='sc-ion-alert-md md hydrated'><div><p>Sure?</p></div></ion-alert>")
    assert "hydrated" not in obs["dom"]


def test_change_events_stay_in_their_shadow_root(open_page):
    env, obs = open_page(
        """<div id=d></div><script>d.attachShadow({mode:'open'}).innerHTML='<input type=date aria-label=Day>';
        d.addEventListener('change',()=>window.c=1)</script>""",
    )
    env.step({"action": "fill", "id": obs["elements"][0]["id"], "text": "2026-01-31"})
    assert value(env, "window.c") is None


@pytest.mark.parametrize(
    ("page", "seen"),
    [
        ("<style>.price::before{content:'$'}</style><p class=price>42</p>", "$42"),
        ("<style>.late::after{content:' (overdue)'}</style><ul><li class=late>Bill</ul>", "Bill (overdue)"),
        ("<p>He said <q>yes</q>.</p>", "He said “yes”."),
        ("<style>@media screen {p b::after{content:attr(data-n)}}</style><p>Cart <b data-n=3>:</b></p>", "Cart :3"),
        ("<div style='visibility:hidden'>a <span style='visibility:visible'>b</span> c</div>", "b"),
        ("<div style='visibility:hidden'>a <p style='visibility:visible'>b</p> c</div>", "b"),
    ],
)
def test_text_that_styles_draw_is_in_the_outline(open_page, page, seen):
    _, obs = open_page(page)
    assert seen in obs["dom"]
    assert seen in obs["page_text"]
    assert "a " not in obs["dom"] or "visibility" not in page


def test_decoration_is_not(open_page):
    page = "<style>li::before{content:'\\2022'} p::before{content:'\\f00c'} .n::before{content:''}</style><ul><li>One</ul><p>Two<p class=n>Three"
    _, obs = open_page(page)
    assert obs["page_text"].split() == ["One", "Two", "Three"]


EDITOR_TEXTS = {
    "beside the caret": ("one \u200b\u200b\u200b\u200b\u200b\u200b\u200b<b>two</b>", "one two"),
    "within a word": ("on\ufeffe<b>\ufefftwo\ufeff</b>", "onetwo"),
    "alone": ("<p>\ufeff</p>", ""),
    "a word joiner": ("<p>one\u2060</p>", "one"),
    "a space at the end": ("<p>one&nbsp;</p>", "one"),
    "a family": ("\U0001f468\u200d\U0001f469\u200d\U0001f467\ufeff", "\U0001f468\u200d\U0001f469\u200d\U0001f467"),
    "Persian": ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\u200b", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"),
    "a joiner at the end": ("\u0645\u06cc\u200c", "\u0645\u06cc\u200c"),
}  # fmt: skip


@pytest.mark.parametrize("kind", EDITOR_TEXTS)
def test_an_editor_holds_no_fillers(open_page, by_name, kind):
    html, value = EDITOR_TEXTS[kind]
    _, obs = open_page(f"<meta charset=utf8><div contenteditable role=textbox aria-label=Text>{html}</div>")
    assert by_name(obs, "Text")["value"] == value


def test_an_editor_that_keeps_spaces_holds_those_that_are_meant(open_page, by_name):
    _, obs = open_page(
        "<meta charset=utf8><div contenteditable role=textbox aria-label=Text style='white-space:pre-wrap'>10&nbsp;km &nbsp;on\ufeff foot&nbsp;</div>"
    )
    assert by_name(obs, "Text")["value"] == "10\u00a0km  on foot "
