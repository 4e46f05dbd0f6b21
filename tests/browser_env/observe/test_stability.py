"""The outline is stable from step to step: what did not change keeps its ids and its lines."""

import re

PAGE = """<h1>Shop</h1><nav aria-label=Main><ul><li><a href="#a">Home</a><li><a href="#b">Offers</a></ul></nav>
<div id=clock>0</div>
<form onsubmit="return false"><label>Name <input id=name></label><label><input type=checkbox> Fast</label>
<select aria-label=Size><option>S<option>M</select>
<button onclick="list.prepend(Object.assign(document.createElement('li'), {innerHTML: '<a href=#n>New</a>'}))">Add</button>
<button onclick="list.append(list.firstElementChild)">Turn</button>
<button onclick="const wrap = document.createElement('section'); wrap.ariaLabel = 'Wrap'; list.before(wrap); wrap.append(list)">Wrap</button>
</form><ul id=list aria-label=Things><li><a href="#1">One</a> first<li><a href="#2">Two</a> second<li>
<span role=button tabindex=0>Three</span></ul><table><tr><th>Item<th>Price<tr><td>Tea<td><button>Buy tea</button></table>
<iframe srcdoc="<button>Inside</button>"></iframe><div id=host></div><p style="margin-top:2000px">Far <a href="#f">away</a></p>
<script>host.attachShadow({mode: 'open'}).innerHTML = '<button>In shadow</button>'</script>"""


def act(env, action):
    obs, *_ = env.step(action)
    assert obs["last_error"] == ""
    return obs


def named(obs, name):
    return next(element["id"] for element in obs["elements"] if element["name"] == name)


def without_states_of_focus(dom):
    return re.sub(r" focused\b", "", dom).split("\n")


def test_looking_again_gives_the_same(open_page):
    env, first = open_page(PAGE)
    for action in [{"action": "wait", "ms": 20}] * 3 + [{"action": "hover", "x": 700, "y": 500}]:
        obs = act(env, action)
        assert obs["dom"] == first["dom"]
        assert obs["elements"] == first["elements"]


def test_scrolling_there_and_back_gives_the_same(open_page):
    env, first = open_page(PAGE, options={"reach": None})
    there = act(env, {"action": "scroll", "dy": 900})
    ids = re.findall(r"\[\d+\]", first["dom"])
    assert re.findall(r"\[\d+\]", there["dom"]) == ids
    assert act(env, {"action": "scroll", "dy": -900})["dom"] == first["dom"]


def test_scrolling_there_and_back_gives_the_same_where_only_what_is_near_is_looked_at(open_page):
    env, first = open_page(PAGE)
    assert "away" not in first["dom"]
    there = act(env, {"action": "scroll", "dy": 2000})
    assert "away" in there["dom"]
    assert act(env, {"action": "scroll", "dy": -2000})["dom"] == first["dom"]


def test_an_action_changes_only_the_lines_that_it_is_about(open_page):
    env, first = open_page(PAGE)
    before = without_states_of_focus(first["dom"])
    obs = act(env, {"action": "fill", "id": named(first, "Name"), "text": "Ada"})
    after = without_states_of_focus(obs["dom"])
    assert len(after) == len(before)
    assert [line for line in after if line not in before] == [f'  [{named(first, "Name")}] textbox "Name" value="Ada"']
    before = after
    obs = act(env, {"action": "click", "id": named(first, "Fast")})
    after = without_states_of_focus(obs["dom"])
    assert [line for line in after if line not in before] == [f'  [{named(first, "Fast")}] checkbox "Fast" checked']


def test_what_is_inserted_or_moved_leaves_the_rest_alone(open_page):
    env, first = open_page(PAGE, options={"reach": None})
    before = without_states_of_focus(first["dom"])
    ids = {element["name"]: element["id"] for element in first["elements"]}
    obs = act(env, {"action": "click", "id": ids["Add"]})
    after = without_states_of_focus(obs["dom"])
    rest = iter(after)
    assert all(line in rest for line in before)  # the old lines, in their order
    new = named(obs, "New")
    assert new not in ids.values()
    assert sorted(line.strip() for line in after if line not in before) == [f'[{new}] link "New"']
    for action in ("Turn", "Wrap"):
        obs = act(env, {"action": "click", "id": ids[action]})
        assert {element["name"]: element["id"] for element in obs["elements"]} == {**ids, "New": new}
