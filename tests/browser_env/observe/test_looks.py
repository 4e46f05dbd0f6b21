"""What is plain to the eye only: colours, icons, marked text, the end of a long value."""

import pytest


def test_a_long_value_is_told_from_both_ends(open_page):
    _, obs = open_page(f"<textarea>first {'word ' * 400}last</textarea><input value='{'x' * 1000}'>")
    long, exact = (element["value"] for element in obs["elements"])
    assert len(long) == 1000
    assert long.startswith("first word")
    assert long.endswith("word last")
    assert long[749] == "…"
    assert exact == "x" * 1000


def test_an_icon_does_not_hide_what_takes_the_click(open_page):
    env, obs = open_page(
        """<div id=icon aria-label=Settings><svg width=18 height=18><path d="M0 0h9v9z"/></svg></div>
        <div id=both><svg width=18 height=18><path d="M0 0h9v9z"/></svg> Save</div>
        <div id=around><svg width=300 height=200></svg></div>
        <script>for (const id of ['icon', 'both', 'around'])
        document.getElementById(id).addEventListener('mousedown', () => { document.title = id; });</script>"""
    )
    assert [element["name"] for element in obs["elements"]] == ["Settings", "Save"], "a drawing is not an icon"
    for element, title in zip(obs["elements"], ("icon", "both"), strict=True):
        obs, *_ = env.step({"action": "click", "id": element["id"]})
        assert obs["title"] == title


def test_colours_of_bare_boxes_are_told(open_page):
    _, obs = open_page(
        """<style>i, b { display: inline-block; width: 16px; height: 16px }</style>
        <i onclick=0 aria-label=swatch style="background: rgb(230, 0, 0)"></i>
        <i onclick=0 aria-label=plain></i><i onclick=0 style="background: red">x</i>
        <p>In <b style="background: #00f"></b> and <b style="background: rgba(0, 0, 0, 0)"></b><b
        style="background: red; width: 200px"></b> ink</p><input style="background: red" aria-label=field>"""
    )
    states = {element["name"]: element["states"] for element in obs["elements"]}
    assert states == {"swatch": ("#e60000",), "plain": (), "x": (), "field": ()}
    assert "\nIn (blue box) and ink\n" in obs["dom"]
    assert "blue" not in obs["page_text"]


FIELDS = """<textarea aria-label=area>consequat at home</textarea><input aria-label=line value="at home" readonly>
<div contenteditable role=textbox aria-label=editor>con<b>sequat a</b>t home</div><input type=email aria-label=mail value="at">
<p>A paragraph.</p>"""


@pytest.mark.parametrize("name", ["area", "line", "editor"])
def test_a_text_in_a_field_is_marked_as_whole_words(open_page, by_name, name):
    env, obs = open_page(FIELDS)
    assert "marked text" not in obs["dom"]
    field = by_name(obs, name)["id"]
    obs, *_ = env.step({"action": "select", "id": field, "options": "at"})
    assert obs["last_error"] == ""
    assert obs["dom"].endswith('\nmarked text: "at"')
    before = by_name(obs, name)["value"]
    obs, *_ = env.step({"action": "press", "key": "x"})
    assert by_name(obs, name)["value"] == (before if name == "line" else "consequat x home")


def test_a_text_that_can_not_be_marked(open_page, by_name):
    env, obs = open_page(FIELDS)
    area, mail = (by_name(obs, name)["id"] for name in ("area", "mail"))
    obs, *_ = env.step({"action": "select", "id": area, "options": "away"})
    assert obs["last_error"] == f"Element {area} does not hold the text 'away', so it can't be selected."
    obs, *_ = env.step({"action": "select", "id": mail, "options": "at"})
    assert obs["last_error"] == f"Element {mail} is a field of type email, for which this action doesn't work."
    assert "marked text" not in obs["dom"]


def test_marked_text_of_the_page_is_told_and_of_passwords_is_not(open_page, by_name):
    env, obs = open_page(FIELDS + "<input type=password aria-label=secret value=hush>")
    obs, *_ = env.step({"action": "click", "selector": "text=A paragraph.", "count": 3})
    assert obs["dom"].endswith('\nmarked text: "A paragraph."')
    obs, *_ = env.step({"action": "press", "id": by_name(obs, "secret")["id"], "key": "Control+a"})
    assert "marked text" not in obs["dom"]
