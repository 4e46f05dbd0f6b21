"""Names of elements are those that Chromium computes, where a person sees the same."""

import pytest

from selfsurf.browser_env.browser.runtime import runtime
from tests.few import few

SAME = [
    "<button>a <q>b</q> c</button>",
    "<button><details><summary>s</summary>hidden <b>too</b></details></button>",
    "<button><span style='display:contents'>a</span><span style='display:contents'>b</span></button>",
    "<label for=i>one</label><label for=i style='display:none'>two</label><input id=i>",
    "<label for=i style='display:none'>only</label><input id=i>",
    "<label>out <label>in <input></label></label>",
    "<button><ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby></button>",
    "<button>a <input placeholder=ph> b</button>",
    "<button>a <input placeholder=ph value=v> b</button>",
    "<button>a<span inert>b</span></button>",
    "<button><img role=presentation alt=x src=x>y</button>",
    "<button><img alt=x src=x>y</button>",
    "<label><input type=checkbox> flash <input type=range value=5 aria-label=n> times</label>",
    "<button>a<span style='visibility:hidden'>b<span style='visibility:visible'>c</span></span></button>",
    "<button style='display:grid'><span>a</span><span>b</span></button>",
    "<table id=t><tr><td>a<td>b<tr><td>c<td>d</table><button aria-labelledby=t>x</button>",
    "<style>.b::before{content:'x'}</style><button><span class=b>y</span></button>",
    "<div id=l style='display:none'>This is a <span style='visibility:hidden'>hidden </span><span aria-hidden=true>secret</span></div><input aria-labelledby=l>",
    "<div id=l>This is <span aria-hidden=true>no </span>secret</div><input aria-labelledby=l>",
    "<style>label::before{content:'foo'} label::after{content:'baz'}</style><label>bar<input type=checkbox></label>",
    "<style>label::before{content:'foo '} label::after{content:' baz'}</style><label for=i>bar</label><input id=i>",
    "<label>a<input>b</label>",
    "<input type=checkbox id=i><label for=i>Flash <select role=menu><option>1<option selected>2</select> times</label>",
    "<input type=checkbox id=i><label for=i>Flash <select size=3><option>1<option selected>2</select> times</label>",
    "<input type=checkbox id=i><label for=i>Flash <select multiple size=3><option selected>1<option selected>2</select> times</label>",
    "<input type=checkbox id=i><label for=i>Flash <span role=combobox aria-owns=o><span role=textbox></span></span> times</label>"
    "<ul role=listbox id=o><li role=option aria-selected=true>1<li role=option>2</ul>",
    "<label><input type=radio><b style='display:inline-block'>42 EUR</b><i style='display:inline-block'>Battery</i></label>",
    "<ul role=listbox id=o><li role=option aria-selected=true><div>42 EUR</div><div>Battery</div></ul><button aria-labelledby=o>x</button>",
]


async def by_chromium(session):
    """The names that its accessibility tree has, by role."""
    page = session.active.page
    protocol = await page.context.new_cdp_session(page)
    await protocol.send("Accessibility.enable")
    nodes = (await protocol.send("Accessibility.getFullAXTree"))["nodes"]
    await protocol.detach()
    return [
        (node["role"]["value"], " ".join(node.get("name", {}).get("value", "").split()))
        for node in nodes
        if not node["ignored"]
    ]


@pytest.mark.parametrize("page", few(6, SAME))
def test_a_name_is_chromiums(open_page, page):
    env, obs = open_page(page)
    theirs = runtime().run(by_chromium(env.unwrapped.core.session))
    names = {(one["role"], one["name"]) for one in obs["elements"]}
    assert names
    assert names <= set(theirs)


SEEN = [
    ("<label for=i aria-hidden=true>one</label><input id=i>", "one"),
    ("<button>Cart <output>3</output></button>", "Cart 3"),
    ("<button><span title=Close></span></button>", "Close"),
]
"""What Chromium leaves out although it can be read."""


@pytest.mark.parametrize(("page", "name"), SEEN)
def test_what_is_read_is_a_name_too(open_page, page, name):
    _, obs = open_page(page)
    assert [one["name"] for one in obs["elements"]] == [name]


FIELDS_IN_HOSTS = """<script>
  for (const [name, delegatesFocus, html] of [["x-c", true, "<input type=checkbox>"], ["x-f", true, "<div><input></div>"],
    ["x-h", false, "<x-f></x-f>"], ["x-b", false, "<div style='width:20px;height:20px;background:red'></div>"]])
    customElements.define(name, class extends HTMLElement {
      static formAssociated = true;
      constructor() { super(); this.attachInternals(); this.attachShadow({mode: "open", delegatesFocus}).innerHTML = html; }
    });
</script>"""


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("<label><x-c></x-c> Accept terms</label>", ['[1] checkbox "Accept terms"']),
        ("<label for=s>Street</label><x-f id=s></x-f>", ['[1] textbox "Street"']),
        ("<x-f aria-label=City></x-f>", ['[1] textbox "City"']),
        ("<label>Nested <x-h></x-h></label>", ['[1] textbox "Nested"']),
        ("<label><x-b></x-b> Only <b style='display:inline-block'>words</b></label>", ["Only words"]),
    ],
)
def test_words_around_a_custom_element_are_in_the_outline(open_page, page, lines):
    _, obs = open_page(page + FIELDS_IN_HOSTS)
    assert obs["dom"].splitlines() == lines


def test_a_name_of_a_host_is_found(open_page):
    env, obs = open_page(f"<label for=s>Street</label><x-f id=s></x-f>{FIELDS_IN_HOSTS}")
    assert env.unwrapped.find("street")[0].id == obs["elements"][0]["id"]


SWITCH = """<form onsubmit="event.preventDefault(); o.textContent = 'sent'"><x-sw></x-sw><button>Send</button></form><p id=o>not sent</p><script>
customElements.define("x-sw", class extends HTMLElement {
  static formAssociated = true;
  constructor() {
    super();
    const i = this.attachInternals();
    i.role = "switch"; i.ariaLabel = "Dark mode"; i.ariaChecked = "false";
    this.attachShadow({mode: "open"}).innerHTML = "<div style='width:40px;height:20px;background:#ccc'></div>";
    i.setValidity({valueMissing: true}, "Turn it on", this.shadowRoot.firstChild);
    this.onclick = () => { i.ariaChecked = i.ariaChecked == "true" ? "false" : "true"; i.setValidity({}); };
  }
  connectedCallback() { this.tabIndex = 0; }
})</script>"""


def test_internals_give_role_name_and_state(open_page, by_name):
    env, obs = open_page(SWITCH)
    switch, send = by_name(obs, "Dark mode"), by_name(obs, "Send")
    assert (switch["role"], switch["states"]) == ("switch", ())
    obs, *_ = env.step({"action": "click", "id": send["id"]})
    assert list(obs["events"]) == ['form not sent: switch "Dark mode": Turn it on']
    obs, *_ = env.step({"action": "click", "id": switch["id"]})
    assert "checked" in by_name(obs, "Dark mode")["states"]
    obs, *_ = env.step({"action": "click", "id": send["id"]})
    assert "\nsent" in obs["dom"]
    assert env.unwrapped.find("dark mode")[0].id == switch["id"]


TABS = """<x-tab>One</x-tab><x-tab>Two</x-tab><x-bar></x-bar><x-off></x-off><script>
const define = (name, set) => customElements.define(name, class extends HTMLElement {
  constructor() { super(); this.style.cssText = "display:inline-block;width:80px;height:20px"; set(this.attachInternals(), this); }
});
JSON.stringify = WeakMap.prototype.get = Reflect.apply = () => { throw Error("of the page"); };
String.prototype.toJSON = () => "of the page";
define("x-tab", (i, el) => { i.role = "tab"; i.ariaSelected = String(el.textContent == "Two"); });
define("x-bar", (i) => { i.role = "slider"; i.ariaLabel = "Volume"; i.ariaValueNow = "7"; });
define("x-off", (i) => { i.role = "button"; i.ariaLabel = "Stop"; i.ariaDisabled = "true"; });
</script>"""


def test_internals_of_elements_outside_of_forms(open_page):
    _, obs = open_page(TABS)
    lines = ['[1] tab "One"', '[2] tab "Two" selected', '[3] slider "Volume" value="7"', '[4] button "Stop" disabled']
    assert obs["dom"].splitlines() == lines


def test_the_page_sees_native_functions(open_page):
    _, obs = open_page(
        """<x-a></x-a><p id=o></p><script>
        let told = [];
        customElements.define('x-a', class extends HTMLElement { constructor() { super(); told.push(this.attachInternals() instanceof ElementInternals); } });
        try { new (customElements.get('x-a'))().attachInternals(); } catch (error) { told.push(error.name); }
        const {value, ...rest} = Object.getOwnPropertyDescriptor(HTMLElement.prototype, 'attachInternals');
        o.textContent = JSON.stringify([told, value.name, value.length, /native code/.test(value), rest]);</script>"""
    )
    flags = '{"writable":true,"enumerable":true,"configurable":true}'
    assert f'[[true,true,"NotSupportedError"],"attachInternals",0,true,{flags}]' in obs["page_text"]


def test_cells_of_a_grid_have_ids(open_page, by_name):
    env, obs = open_page(
        """<table role=grid><tr role=row><th role=columnheader tabindex=-1 aria-sort=none>Age<tr role=row><td role=gridcell tabindex=-1>Ann
        <td role=gridcell tabindex=-1>Rome<td>plain<td><button>Edit</button></table>
        <table role=grid><tr role=row><th role=columnheader>Mo<td role=gridcell data-date=19>19<td role=gridcell data-date=20>20</table>
        <div role=treegrid><div role=row><div role=rowheader tabindex=-1>R</div><div role=gridcell></div></div></div><table><tr><td>plain</table><p id=o>none</p>
        <script>document.addEventListener('pointerdown', e => o.textContent = 'on ' + e.target.dataset.date)</script>"""
    )
    assert {(one["role"], one["name"]) for one in obs["elements"]} == {
        *(("gridcell", name) for name in ("Ann", "Rome", "19", "20")),
        ("columnheader", "Age"),
        ("rowheader", "R"),
        ("button", "Edit"),
    }
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "20")["id"]})
    assert "on 20" in obs["page_text"]


@pytest.mark.parametrize("listens", ["document", "document.body", "document.querySelector('[role=grid]')", None])
@pytest.mark.parametrize("cell", ["data-date=20", "aria-selected=false", "class=x"])
def test_cells_that_say_which_they_are_have_ids_where_something_listens(open_page, listens, cell):
    script = f"{listens}.addEventListener('click', () => 0)" if listens else ""
    page = f"<table role=grid><tr><td {cell}>20</table><script>{script}</script>"
    named = [one["name"] for one in open_page(page)[1]["elements"] if one["role"] == "gridcell"]
    assert named == (["20"] if listens and "class" not in cell else [])


def test_a_huge_grid_stays_within_limits(open_page):
    rows = "".join(f"<tr>{''.join(f'<td tabindex=-1>{r}.{c}' for c in range(50))}" for r in range(100))
    _, obs = open_page(f"<table role=grid>{rows}</table>", options={"reach": None})
    assert len(obs["elements"]) == 1000
    assert "99.49" in obs["page_text"]


def test_controls_in_a_canvas(open_page, by_name):
    env, obs = open_page(
        "<canvas width=99 height=50><button onclick='document.title = \"pressed\"'>Play</button></canvas>"
    )
    assert [(one["role"], one["name"], one["states"]) for one in obs["elements"]] == [
        ("button", "Play", ("unclickable",))
    ]
    env.step({"action": "press", "id": by_name(obs, "Play")["id"], "key": "Enter"})
    assert env.step({"action": "wait", "ms": 50})[0]["title"] == "pressed"


ROWS = [
    "<style>.act {display: none} tr:hover .act {display: inline}</style><table><tr><td>Ann<td><span class=act><button>Delete</button></span></table>",
    "<style>.act {visibility: hidden} li:hover > .act {visibility: visible}</style><ul><li>Ann <button class=act>Delete</button></ul>",
    "<style>.act {display: none} .row {&:hover .act {display: inline}}</style><div class=row>Ann <a href=x class=act>Delete</a></div>",
    r"<style>.hidden {display: none} @media (hover) {.group-hover\:block:is(:where(.group):hover *) {display: block}}</style><div class=group>Ann <button class='hidden group-hover:block'>Delete</button></div>",
    "<table><tr><th>Name<tr id=r><td>Ann<td id=c></table><script>r.onmouseenter = () => { c.innerHTML = '<button>Delete</button>'; }</script>",
    "<ul><li id=r>Ann <b id=c></b></ul><script>r.addEventListener('mouseover', () => { c.innerHTML = '<button>Delete</button>'; });</script>",
    "<div role=list><div role=listitem id=r>Ann</div></div><script>r.addEventListener('pointerenter', () => { r.innerHTML = 'Ann <a href=x>Delete</a>'; });</script>",
    "<ul><li onmouseenter='this.lastChild.hidden = false'>Ann <button hidden>Delete</button></ul>",
]


@pytest.mark.parametrize("page", ROWS)
def test_a_row_with_actions_under_the_pointer_can_be_hovered(open_page, page):
    env, obs = open_page(page)
    (row,) = obs["elements"]
    assert "Ann" in obs["dom"]
    obs, *_ = env.step({"action": "hover", "id": row["id"]})
    assert any(one["name"] == "Delete" for one in obs["elements"])


@pytest.mark.parametrize(
    "page",
    [
        "<style>a {visibility: hidden} h2:hover a {visibility: visible}</style><h2>Title <a href=#t>#</a></h2>",
        "<style>ul ul {display: none} li:hover ul {display: block}</style><ul><li><a href=x>Products</a><ul><li><a href=y>One</a></ul></ul>",
        "<style>p {display: none} div:hover p {display: block}</style><div>Ann <p>words</p></div>",
        "<ul><li>Ann</ul><table><tr><td>Bob</table>",
        "<div id=r>Ann</div><ul id=l><li>Bob</ul><script>r.onmouseenter = l.onmouseover = () => 0;</script>",
        "<ul><li id=r><a href=x>Ann</a></ul><script>r.onmouseenter = () => 0;</script>",
    ],
)
def test_other_rules_for_the_pointer_give_no_ids(open_page, page):
    assert {one["tag"] for one in open_page(page)[1]["elements"]} <= {"a"}
