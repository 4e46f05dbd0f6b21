"""Widgets of further libraries, each driven through its main gestures by ids and words of the outline alone."""

import pytest

from tests.browser_env.act.test_libraries import do, open_with, packages  # noqa: F401
from tests.in_page import value

pytestmark = pytest.mark.slow


@pytest.fixture
def opened(open_with):  # noqa: F811
    """Return a function that opens a page with scripts and style sheets of packages: `env, obs = opened(html, ...)`."""

    def open_it(body, *files):
        styles = "".join(f"<link rel=stylesheet href=/node_modules/{one}>" for one in files if one.endswith(".css"))
        env, _ = open_with(f"<meta charset=utf-8>{styles}{body}", *(one for one in files if not one.endswith(".css")))
        return env, env.step({"action": "wait", "ms": 50})[0]

    return open_it


def one(obs, name, role=None):
    found = [el for el in obs["elements"] if el["name"] == name and role in (None, el["role"])]
    assert len(found) == 1, (name, obs["dom"])
    return found[0]["id"]


BOOTSTRAP = ("bootstrap/dist/css/bootstrap.min.css", "bootstrap/dist/js/bootstrap.bundle.min.js")


def test_bootstrap_dropdown_modal_and_collapse(opened):
    env, obs = opened(
        """<div class=dropdown><button class="btn dropdown-toggle" data-bs-toggle=dropdown aria-expanded=false>Menu</button>
        <ul class=dropdown-menu><li><a class=dropdown-item href=# onclick="picked.textContent='copied'">Copy</a></ul></div>
        <button data-bs-toggle=modal data-bs-target=#m>Open</button><p id=picked></p>
        <div class="modal fade" id=m tabindex=-1><div class=modal-dialog><div class=modal-content><input aria-label=Name>
        <button data-bs-dismiss=modal>Shut</button></div></div></div>
        <button data-bs-toggle=collapse data-bs-target=#c aria-expanded=false>More</button><div class=collapse id=c>details</div>""",
        *BOOTSTRAP,
    )
    obs = do(env, {"action": "click", "id": one(obs, "Menu")})
    obs = do(env, {"action": "click", "id": one(obs, "Copy")})
    assert "copied" in obs["page_text"]
    obs = do(env, {"action": "click", "id": one(obs, "Open")})
    obs = do(env, {"action": "fill", "id": one(obs, "Name"), "text": "Ada"})
    obs = do(env, {"action": "click", "id": one(obs, "Shut")})
    obs = do(env, {"action": "wait", "ms": 400})
    obs = do(env, {"action": "click", "id": one(obs, "More")})
    assert "details" in obs["page_text"]


def test_uikit_accordion_and_dropdown(opened):
    env, obs = opened(
        """<ul uk-accordion><li><a class=uk-accordion-title href>Part</a><div class=uk-accordion-content>inside</div></ul>
        <button>Hover me</button><div uk-dropdown>dropped <a href=#>Item</a></div>""",
        "uikit/dist/css/uikit.min.css", "uikit/dist/js/uikit.min.js",
    )  # fmt: skip
    obs = do(env, {"action": "click", "id": next(el["id"] for el in obs["elements"] if el["name"] == "Part")})
    assert "inside" in obs["page_text"]
    obs = do(env, {"action": "hover", "id": one(obs, "Hover me")})
    assert one(obs, "Item")


def test_tippy_opens_on_hover(opened):
    env, obs = opened(
        "<button id=b>Help</button><script>tippy(b, {content: 'told', delay: 80, animation: false})</script>",
        "@popperjs/core/dist/umd/popper.min.js", "tippy.js/dist/tippy-bundle.umd.min.js",
    )  # fmt: skip
    assert "told" in do(env, {"action": "hover", "id": one(obs, "Help")})["page_text"]


SELECTS = {
    "tom-select": (
        "<label for=s>Pet</label><select id=s><option value=''>-<option value=c>Cat<option value=d>Dog</select><script>new TomSelect(s)</script>",
        ("tom-select/dist/css/tom-select.css", "tom-select/dist/js/tom-select.complete.min.js"),
    ),
    "slim-select": (
        "<select id=s aria-label=Pet><option value=''>-<option value=c>Cat<option value=d>Dog</select><script>new SlimSelect({select: s})</script>",
        ("slim-select/dist/slimselect.css", "slim-select/dist/slimselect.umd.min.js"),
    ),
    "nice-select2": (
        "<select id=s aria-label=Pet><option value=''>-<option value=c>Cat<option value=d>Dog</select><script>NiceSelect.bind(s)</script>",
        ("nice-select2/dist/css/nice-select2.css", "nice-select2/dist/js/nice-select2.js"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTS)
def test_lists_in_the_place_of_native_ones(opened, name):
    page, files = SELECTS[name]
    env, obs = opened(page, *files)
    box = next(el for el in obs["elements"] if el["tag"] != "select")
    obs, *_ = env.step({"action": "select", "id": box["id"], "options": ["Dog"]})
    if obs["last_error"]:  # it says what to do instead
        assert "click it" in obs["last_error"] or "which this action is not for" in obs["last_error"]
        obs = do(env, {"action": "click", "id": box["id"]})
        obs = do(env, {"action": "click", "id": next(el["id"] for el in obs["elements"] if el["name"] == "Dog")})
    assert value(env, "s.value") == "d"
    assert "Dog" in env.step({"action": "wait", "ms": 300})[0]["dom"]


def test_flatpickr(opened):
    env, obs = opened(
        "<input id=d aria-label=Day><p id=o></p><script>flatpickr(d, {defaultDate: '2026-03-05', onChange: (_, said) => o.textContent = said})</script>",
        "flatpickr/dist/flatpickr.min.css", "flatpickr/dist/flatpickr.min.js",
    )  # fmt: skip
    obs = do(env, {"action": "click", "id": one(obs, "Day")})
    day = next(el["id"] for el in obs["elements"] if el["name"] in ("March 17, 2026", "17"))
    assert "2026-03-17" in do(env, {"action": "click", "id": day})["page_text"]


def test_nouislider_by_drag_and_by_key(opened):
    env, obs = opened(
        "<div id=s style='width:300px;margin:40px'></div><p id=o></p><script>noUiSlider.create(s, {start: 20, range: {min: 0, max: 100}}); s.noUiSlider.on('update', ([said]) => o.textContent = Math.round(said))</script>",
        "nouislider/dist/nouislider.min.css", "nouislider/dist/nouislider.min.js",
    )  # fmt: skip
    handle = next(el for el in obs["elements"] if el["role"] == "slider")
    x, y, width, height = handle["bbox"]
    obs = do(env, {"action": "drag", "from": handle["id"], "to": [x + width / 2 + 150, y + height / 2]})
    assert 68 <= int(value(env, "o.textContent")) <= 72
    do(env, {"action": "press", "id": handle["id"], "key": "Home"})
    assert value(env, "o.textContent") == "0"


def test_dragula(opened):
    env, obs = opened(
        """<div id=a style='min-height:60px;border:1px solid'><div style='cursor:move'>One</div></div>
        <div id=b style='min-height:60px;border:1px solid'><div style='cursor:move'>Two</div></div><script>dragula([a, b])</script>""",
        "dragula/dist/dragula.min.css", "dragula/dist/dragula.min.js",
    )  # fmt: skip
    do(env, {"action": "drag", "from": one(obs, "One"), "to": one(obs, "Two")})
    assert value(env, "[a.textContent.trim(), b.textContent.includes('One')]") == ["", True]


def test_interactjs(opened):
    env, obs = opened(
        """<div id=d style='width:80px;height:40px;background:#ccc;touch-action:none;cursor:grab' tabindex=0 aria-label=Box></div>
        <script>let x = 0; interact(d).draggable({onmove: (event) => { x += event.dx; d.style.transform = `translate(${x}px)` }})</script>""",
        "interactjs/dist/interact.min.js",
    )
    do(env, {"action": "drag", "from": one(obs, "Box"), "to": [250, 30]})
    assert value(env, "x") > 100


EDITORS = {
    "ace": (
        "<div id=e style='height:200px'>old</div><script>const ed = ace.edit(e)</script>", ("ace-builds/src-noconflict/ace.js",), "ed.getValue()",
    ),
    "jodit": (
        "<textarea id=e>old</textarea><script>const ed = Jodit.make(e)</script>", ("jodit/es2021/jodit.min.css", "jodit/es2021/jodit.min.js"), "ed.text",
    ),
    "trix": (
        "<trix-editor id=e aria-label=Text></trix-editor>", ("trix/dist/trix.css", "trix/dist/trix.umd.min.js"), "e.editor.getDocument().toString()",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITORS)
def test_editors_hold_the_text_that_was_given(opened, name):
    page, files, read = EDITORS[name]
    env, obs = opened(page, *files)
    field = next(el for el in obs["elements"] if el["role"] == "textbox")
    text = "if a:\n    b\nc" if name == "ace" else "one\ntwo"
    do(env, {"action": "fill", "id": field["id"], "text": text})
    assert "\n".join(line for line in value(env, read).split("\n") if line.strip()) == text


def test_a_code_editor_of_two_thousand_lines(opened):
    page, files, read = EDITORS["ace"]
    env, obs = opened(page, *files)
    field = next(el for el in obs["elements"] if el["role"] == "textbox")
    text = "\n".join(f"{'    ' * (i % 4)}line {i}" for i in range(2000))
    obs, *_, info = env.step({"action": "fill", "id": field["id"], "text": text})
    assert (obs["last_error"], value(env, read)) == ("", text)
    assert info["timing"]["act"] < 2000


def test_awesomplete(opened):
    env, obs = opened(
        "<input id=i aria-label=City><script>new Awesomplete(i, {list: ['Berlin', 'Bern', 'Oslo'], minChars: 1})</script>",
        "awesomplete/awesomplete.css", "awesomplete/awesomplete.min.js",
    )  # fmt: skip
    obs = do(env, {"action": "type", "id": one(obs, "City"), "text": "Ber"})
    assert [el["name"] for el in obs["elements"] if el["role"] == "option"] == ["Bern", "Berlin"]
    obs = do(env, {"action": "select", "id": one(obs, "City"), "options": ["Berlin"]})
    assert value(env, "i.value") == "Berlin"


def test_tabulator_sorts_and_edits(opened):
    env, obs = opened(
        """<div id=t></div><script>const table = new Tabulator(t, {height: 200, data: [{n: 'Bo', a: 3}, {n: 'Ada', a: 5}],
        columns: [{title: 'Name', field: 'n', editor: 'input'}, {title: 'Age', field: 'a'}]})</script>""",
        "tabulator-tables/dist/css/tabulator.min.css", "tabulator-tables/dist/js/tabulator.min.js",
    )  # fmt: skip
    obs = do(env, {"action": "click", "selector": "text=Name"})
    assert obs["page_text"].index("Ada") < obs["page_text"].index("Bo")
    do(env, {"action": "click", "selector": "text=Ada"}, {"action": "press", "key": "Control+a"})
    do(env, {"action": "type", "text": "Eve\n"})
    assert value(env, "table.getData().map((row) => row.n).sort().join()") == "Bo,Eve"


def test_swiper(opened):
    env, obs = opened(
        """<div class=swiper style='width:300px'><div class=swiper-wrapper><div class=swiper-slide>first</div><div class=swiper-slide>second</div></div>
        <div class=swiper-button-next></div></div><script>const s = new Swiper('.swiper', {speed: 0, navigation: {nextEl: '.swiper-button-next'}})</script>""",
        "swiper/swiper-bundle.min.css", "swiper/swiper-bundle.min.js",
    )  # fmt: skip
    do(env, {"action": "click", "id": one(obs, "Next slide")})
    assert value(env, "s.activeIndex") == 1


def test_alpine_and_htmx(opened):
    env, obs = opened(
        """<div x-data="{open: false}"><button x-on:click="setTimeout(() => open = true, 60)">Show</button><p x-show=open>shown</p></div>
        <button hx-get=/node_modules/htmx.org/LICENSE hx-target=#o>Fetch</button><p id=o></p>""",
        "alpinejs/dist/cdn.min.js", "htmx.org/dist/htmx.min.js",
    )  # fmt: skip
    obs = do(env, {"action": "click", "id": one(obs, "Show")})
    assert "shown" in obs["page_text"]
    obs = do(env, {"action": "click", "id": one(obs, "Fetch")})
    assert "Permission" in obs["page_text"]


def test_micromodal(opened):
    env, obs = opened(
        """<button onclick="MicroModal.show('m')">Open</button><div id=m aria-hidden=true style='display:none'><div data-micromodal-close>
        <div role=dialog aria-modal=true aria-label=Sure><button data-micromodal-close>Yes</button></div></div></div>
        <style>#m.is-open{display:block !important}</style>""",
        "micromodal/dist/micromodal.min.js",
    )
    obs = do(env, {"action": "click", "id": one(obs, "Open")})
    obs = do(env, {"action": "click", "id": one(obs, "Yes")})
    assert 'dialog "Sure"' not in do(env, {"action": "wait", "ms": 300})["dom"]
