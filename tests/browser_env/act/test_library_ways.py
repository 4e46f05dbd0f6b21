"""What libraries make of the mouse, of a choice of several options, and of selected text, in ways of their own."""

import pytest

from tests.browser_env.act.test_libraries import do, open_with, packages  # noqa: F401
from tests.browser_env.act.test_more_libraries import opened  # noqa: F401
from tests.in_page import value

pytestmark = pytest.mark.slow


@pytest.fixture
def shown(opened):  # noqa: F811
    """Return a function that opens a page and waits for what its script draws; a bundle reads what the page sets first."""

    def open_it(page, files):
        bundle = files[-1].endswith("bundle.js")
        env, _ = opened(f"{page}<script src=/{files[-1]}></script>") if bundle else opened(page, *files)
        return env, env.step({"action": "wait", "ms": 300})[0]

    return open_it


LIST = "<style>#l {position: relative} #l > * {width: 150px; height: 30px; list-style: none}</style><ul id=l style='padding:0'><li><span>A</span><li><span>B</span><li><span>C</span></ul>"
SORTED = {
    "SortableJS by the mouse": (LIST + "<script>Sortable.create(l, {forceFallback: true})</script>", ("sortablejs/Sortable.min.js",), "l.innerText"),
    "SortableJS animated": (LIST + "<script>Sortable.create(l, {forceFallback: true, animation: 150})</script>", ("sortablejs/Sortable.min.js",), "l.innerText"),
    "Muuri": (
        LIST + "<style>li {position: absolute}</style><script>const grid = new Muuri(l, {dragEnabled: true})</script>", ("muuri/dist/muuri.min.js",),
        "grid.getItems().map((one) => one.getElement().innerText).join(' ')",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SORTED)
def test_a_list_is_sorted_by_a_drag_however_it_looks_at_the_mouse(shown, name):
    page, files, read = SORTED[name]
    env, _ = shown(page, files)
    do(env, {"action": "drag", "from": 'text="A"', "to": 'text="C"'})
    assert value(env, read).split() == ["B", "C", "A"]


TOYS = "<label for=s>Toys</label><select id=s {} style='width:300px'><option>Rope<option>Ball<option>Hoop</select>"
CHOICES = ("choices.js/public/assets/styles/choices.min.css", "choices.js/public/assets/scripts/choices.min.js")
SELECT2 = ("select2/dist/css/select2.min.css", "jquery/dist/jquery.min.js", "select2/dist/js/select2.min.js")
TOM = ("tom-select/dist/css/tom-select.css", "tom-select/dist/js/tom-select.complete.min.js")
SLIM = ("slim-select/dist/slimselect.css", "slim-select/dist/slimselect.umd.min.js")
SELECTED = "[...s.selectedOptions].map((one) => one.textContent)"
SEVERAL = {
    "Choices.js": (TOYS.format("multiple") + "<script>new Choices(s)</script>", CHOICES, SELECTED),
    "Choices.js that closes": (TOYS.format("multiple") + "<script>new Choices(s, {closeDropdownOnSelect: true, removeItemButton: true})</script>", CHOICES, SELECTED),
    "select2": (TOYS.format("multiple") + "<script>$('#s').select2()</script>", SELECT2, SELECTED),
    "tom-select": (TOYS.format("multiple") + "<script>new TomSelect(s)</script>", TOM, SELECTED),
    "slim-select": (TOYS.format("multiple aria-label=Toys") + "<script>new SlimSelect({select: s})</script>", SLIM, SELECTED),
    "react-select": ("<div id=root></div><script>window.props = {isMulti: true}</script>", ("choose-react-select.bundle.js",), "chosen"),
    "MUI": ("<div id=root></div><script>window.props = {multiple: true}</script>", ("choose-mui.bundle.js",), "chosen"),
}  # fmt: skip


def box_of(obs):
    """Return the id of the list that a library puts in the place of a native one."""
    return [one["id"] for one in obs["elements"] if one["role"] == "combobox" and one["tag"] != "select"][-1]


@pytest.mark.parametrize("name", SEVERAL)
def test_several_options_are_chosen_together(shown, name):
    page, files, read = SEVERAL[name]
    env, obs = shown(page, files)
    do(env, {"action": "select", "id": box_of(obs), "options": ["Rope", "Ball"]})
    assert sorted(value(env, read)) == ["Ball", "Rope"]


ONE = {
    "Choices.js": (TOYS.format("") + "<script>new Choices(s)</script>", CHOICES, SELECTED),
    "select2": (TOYS.format("") + "<script>$('#s').select2()</script>", SELECT2, SELECTED),
    "tom-select": (TOYS.format("") + "<script>new TomSelect(s)</script>", TOM, SELECTED),
    "react-select": ("<div id=root></div><script>window.props = {}</script>", ("choose-react-select.bundle.js",), "chosen"),
    "MUI": ("<div id=root></div><script>window.props = {}</script>", ("choose-mui.bundle.js",), "chosen"),
    "Choices.js of one": (TOYS.format("multiple") + "<script>new Choices(s, {maxItemCount: 1})</script>", CHOICES, SELECTED),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_where_one_option_alone_can_be_chosen_it_is_told_which(shown, name):
    page, files, read = ONE[name]
    env, obs = shown(page, files)
    obs, *_ = env.step({"action": "select", "id": box_of(obs), "options": ["Rope", "Ball"]})
    if "of one" in name:
        assert value(env, read) == ["Rope"]
        assert obs["last_error"].endswith('Chosen: "Rope"; not chosen: "Ball".')
    else:
        assert value(env, read) == ["Ball"]
        assert 'takes one option only: "Ball" is chosen in the place of "Rope".' in obs["last_error"]


BOLD = "<button id=bold>Bold</button><div id=ed></div>"
FORMATTED = {
    **{name: (BOLD, (f"bold-{name}.bundle.js",)) for name in ("slate", "lexical", "prosemirror", "tiptap")},
    "quill": (
        "<div id=bar><button class=ql-bold aria-label=Bold>B</button></div><div id=ed><p>one two three</p></div><script>new Quill('#ed', {theme: 'snow', modules: {toolbar: '#bar'}})</script>",
        ("quill/dist/quill.js",),
    ),
    "ckeditor": ("<div id=ed></div>", ("bold-ckeditor.bundle.js",)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATTED)
@pytest.mark.parametrize("words", [["two"], ["three", "one", "two"]])
def test_selected_words_are_formatted_by_the_button_that_is_clicked_next(shown, name, words):
    page, files = FORMATTED[name]
    env, obs = shown(page, files)
    text = next(one["id"] for one in obs["elements"] if one["role"] == "textbox")
    bold = next(one["id"] for one in obs["elements"] if one["name"].startswith("Bold"))
    for word in words:
        do(env, {"action": "select", "id": text, "options": [word]}, {"action": "click", "id": bold})
    read = "[...document.querySelectorAll('[contenteditable] strong')].map((one) => one.textContent.trim()).sort()"
    assert value(env, read) == sorted(words)


def test_an_editor_with_fillers_is_filled(shown):
    env, obs = shown("<div id=ed></div>", ("bold-ckeditor.bundle.js",))
    text = next(one["id"] for one in obs["elements"] if one["role"] == "textbox")
    for filled in ("one\n\ntwo", "three"):
        do(env, {"action": "fill", "id": text, "text": filled})
        assert value(env, "ck.getData().replace(/<br>/g, '\\n').replace(/<[^>]*>|&nbsp;/g, '')") == filled


def test_a_tree_of_fancytree_is_clicked_and_reached_by_keys(opened):  # noqa: F811
    env, obs = opened(
        """<div id=t></div><script>$('#t').fancytree({aria: true, source: [{title: 'Fruit', children: [{title: 'Apple'}]}, {title: 'Bread', children: [{title: 'Rye'}]}]})</script>""",
        "jquery.fancytree/dist/skin-win8/ui.fancytree.min.css", "jquery/dist/jquery.min.js", "jquery.fancytree/dist/jquery.fancytree-all-deps.min.js",
    )  # fmt: skip
    ids = {one["name"]: one["id"] for one in obs["elements"] if one["role"] == "treeitem"}
    do(env, {"action": "click", "id": ids["Fruit"], "count": 2}, {"action": "wait", "ms": 300})
    obs = do(env, {"action": "press", "id": ids["Bread"], "key": "ArrowRight"}, {"action": "wait", "ms": 300})
    assert {"Apple", "Rye"} <= {one["name"] for one in obs["elements"]}
    do(env, {"action": "click", "id": ids["Fruit"]})
    assert value(env, "$.ui.fancytree.getTree().getActiveNode().title") == "Fruit"
