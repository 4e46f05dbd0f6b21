"""What is on the screen is in the observation, wherever the page keeps it and whatever it is called."""

import time

import pytest

from tests.processes import crowd

MENU = "<div role=menu style='position:absolute;left:155px;top:155px;width:90px;height:80px'><button role=menuitem>Edit</button></div>"
ROOT = f"""<button onclick="root.innerHTML = `{MENU}`">More</button><div style="height:4000px">text</div><div id=root></div>"""


def test_a_menu_in_a_flat_container_at_the_end_of_a_long_page_is_seen(open_page, by_name):
    env, obs = open_page(ROOT)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "More")["id"]})
    assert by_name(obs, "Edit")["in_viewport"]


NAMED = """<div role=table><div role=row aria-label="Press SPACE to select this row."><div role=cell>Alice</div><div role=cell>42</div></div></div>
<a href=/p aria-label="Blue shirt"><span>Blue shirt</span> <span>$19.99</span></a><h2 aria-label=Sale>Now 50% off</h2>
<table><tr><td aria-label=Price>$42</td></tr></table><button aria-label="Close it"><b>CLOSE</b></button><a href=/q>Plain <b>link</b></a>
<div role=combobox tabindex=0 aria-label=Country>France</div><label><input type=checkbox hidden aria-label=Terms>I agree</label>"""


def test_what_a_name_does_not_say_is_read_below_it(open_page):
    _, obs = open_page(NAMED)
    assert obs["dom"].splitlines() == [
        "table",
        '  row "Press SPACE to select this row."',
        "    cell: Alice",
        "    cell: 42",
        '[1] link "Blue shirt"',
        "  Blue shirt $19.99",
        'heading "Sale" level=2',
        "  Now 50% off",
        "table",
        "  row",
        '    cell "Price"',
        "      $42",
        '[2] button "Close it"',
        '[3] link "Plain link"',
        '[4] combobox "Country" value="France"',
        '[5] checkbox "Terms"',
        "  I agree",
    ]


def test_a_box_that_is_hidden_behind_its_label_is_listed_and_ticked(open_page, by_name):
    env, obs = open_page(
        """<style>input { visibility: hidden } label::before { content: ''; display: inline-block; width: 14px; height: 14px; border: 1px solid }</style>
        <p>Choose:</p><input type=checkbox id=a><label for=a style="cursor:pointer">I agree to the terms</label>""",
    )
    box = by_name(obs, "I agree to the terms")
    assert (box["role"], box["tag"], box["states"]) == ("checkbox", "label", ())
    obs, *_ = env.step({"action": "click", "id": box["id"]})
    assert by_name(obs, "I agree to the terms")["states"] == ("checked",)


def test_a_long_list_of_groups_is_read_in_little_time_and_equal_options_have_their_groups_names(open_page, by_name):
    groups = "".join(
        f"<optgroup label=G{i}><option>Other</option>"
        + "".join(f"<option>{i} {j}</option>" for j in range(299))
        + "</optgroup>"
        for i in range(10)
    )
    env, obs = open_page(f"<select aria-label=Part>{groups}</select>")
    part = by_name(obs, "Part")
    assert [part["options"][i] for i in (0, 1, 2700, 2999)] == ["G0 / Other", "0 0", "G9 / Other", "9 298"]
    start = time.perf_counter()
    obs, *_ = env.step({"action": "select", "id": part["id"], "options": ["G9 / Other"]})
    assert time.perf_counter() - start < 3 * crowd()  # quadratic time was 36 s
    assert obs["last_error"] == ""


@pytest.mark.parametrize("style", ["columns: 2", "display: flex; flex-direction: column-reverse"])
def test_a_long_list_is_seen_where_its_items_do_not_follow_each_other_downwards(open_page, style):
    items = "".join(f"<li style='height:24px'><a href='#{i}'>Item {i}</a></li>" for i in range(400))
    env, obs = open_page(f"<style>body, ul {{ margin: 0 }}</style><ul style='{style}'>{items}</ul>")
    obs, *_ = env.step({"action": "scroll", "dy": 3000})
    numbers = {int(one["name"].split()[1]) for one in obs["elements"] if one["in_viewport"]}
    first = 3000 // 24
    on_screen = range(first, first + 25)
    assert numbers == (
        {*on_screen, *(200 + i for i in on_screen)} if "columns" in style else {399 - i for i in on_screen}
    )


@pytest.mark.parametrize("kind", ["", "size=4"])
def test_options_that_the_page_has_taken_out_of_a_list_are_not_offered(open_page, by_name, kind):
    env, obs = open_page(
        f"""<style>.gone {{ display: none }}</style><label for=s>Size</label><select id=s {kind}><option hidden selected>Choose</option><option>S</option>
        <option class=gone>M</option><optgroup class=gone label=Old><option>L</option></optgroup><optgroup label=New><option>L</option></optgroup></select>""",
    )
    size = by_name(obs, "Size")
    assert (size["value"], size["options"]) == ("Choose", ("S", "L"))
    obs, *_ = env.step({"action": "select", "id": size["id"], "options": ["M"]})
    assert obs["last_error"]
    obs, *_ = env.step({"action": "select", "id": size["id"], "options": ["L"]})
    assert (obs["last_error"], by_name(obs, "Size")["value"]) == ("", "L")


def test_a_fold_without_a_summary_is_opened_by_the_browsers_own(open_page, by_name):
    env, obs = open_page("<details><p>Inner</p><button>In</button></details><details open><p>Shown</p></details>")
    fold = by_name(obs, "Details")
    assert (fold["states"], "Inner" in obs["dom"], "Shown" in obs["dom"]) == (("collapsed",), False, True)
    obs, *_, info = env.step({"action": "click", "id": fold["id"]})
    assert (obs["last_error"], info["action_path"]) == ("", "mouse")
    assert by_name(obs, "In")["in_viewport"]
