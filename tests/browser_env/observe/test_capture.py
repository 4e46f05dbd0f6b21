import numpy as np
import pytest

OTHER = "http://other.test"


def test_outline_has_hierarchy_names_values_and_states(open_page):
    _, obs = open_page(
        """<h1>Shop</h1><nav aria-label="Main"><ul><li><a href="#a">Home</a></li><li>plain</li></ul></nav>
        <form><label>Name <input value="Ada" required></label><label><input type=checkbox checked> Fast</label>
        <select aria-label="Size"><option>S<option selected>M</select><button disabled>Buy</button></form>"""
    )
    assert obs["dom"].splitlines() == [
        'heading "Shop" level=1',
        'navigation "Main"',
        "  list",
        "    listitem",
        '      [1] link "Home"',
        "    listitem: plain",
        "form",
        '  [2] textbox "Name" value="Ada" required',
        '  [3] checkbox "Fast" checked',
        '  [4] combobox "Size" value="M"',
        '    option "S"',
        '    option "M" selected',
        '  [5] button "Buy" disabled',
    ]
    assert obs["page_text"].startswith("Shop")
    assert [element["id"] for element in obs["elements"]] == [1, 2, 3, 4, 5]
    assert obs["elements"][3]["options"] == ("S", "M")


def test_listeners_cursor_and_roles_make_elements_interactive(open_page):
    _, obs = open_page(
        """<div id=a>by listener</div><div style="cursor:pointer">by cursor</div><div role=button>by role</div>
        <div onclick="1">by attribute</div><div contenteditable>editable</div><div>plain</div>
        <script>document.getElementById('a').addEventListener('click', () => 0)</script>"""
    )
    names = [element["name"] for element in obs["elements"]]
    assert names == ["by listener", "by cursor", "by role", "by attribute", ""]
    assert obs["elements"][4]["role"] == "textbox"
    assert obs["elements"][4]["value"] == "editable"


def test_a_row_that_takes_clicks_beside_its_icons_is_an_element_and_a_mere_container_is_not(open_page):
    _, obs = open_page(
        """<div class=row><div>Ada</div><div>Hello</div><span title=Star>*</span></div>
        <ul class=row><li class=row>One</li><li class=row>Two</li></ul>
        <script>for (const el of document.querySelectorAll('.row, span')) el.addEventListener('click', () => 0)</script>"""
    )
    shown = [(element["tag"], element["name"]) for element in obs["elements"]]
    assert shown[:2] == [("div", "Ada Hello *"), ("span", "*")]
    assert [tag for tag, _ in shown[2:]] == ["li", "li"]


def test_an_icon_of_nothing_but_markup_goes_by_its_id_and_classes(open_page):
    _, obs = open_page(
        """<style>span { display: inline-block; width: 9px; height: 9px; background: red }</style>
        <span class="trash"></span><span id="open-search" class="icon css-1x9z sc-bdVaJa"></span>
        <span class="star" title="Mark as important"></span><span class="x">Words</span><button class="b"></button>
        <script>for (const el of document.querySelectorAll('span')) el.addEventListener('click', () => 0)</script>"""
    )
    names = [element["name"] for element in obs["elements"]]
    assert names == ["trash", "open-search icon", "Mark as important", "Words", ""]


def test_hidden_things_are_not_seen(open_page):
    _, obs = open_page(
        """<button style="display:none">none</button><button style="visibility:hidden">hidden</button>
        <div hidden><button>in hidden</button></div><input type=hidden value=x><button>seen</button>"""
    )
    assert [element["name"] for element in obs["elements"]] == ["seen"]
    assert "hidden" not in obs["dom"]


def test_covered_and_off_screen_elements_say_so(open_page, by_name):
    _, obs = open_page(
        """<button style="position:absolute;top:10px;left:10px">Under</button>
        <div style="position:absolute;top:0;left:0;width:300px;height:200px;background:white"></div>
        <button style="position:absolute;top:900px">Below</button><button style="position:absolute;top:300px">Free</button>"""
    )
    assert "covered" in by_name(obs, "Under")["states"]
    assert not by_name(obs, "Below")["in_viewport"]
    assert by_name(obs, "Free")["states"] == ()
    assert obs["elements"][-1]["name"] == "Below"  # the viewport comes first


def test_shadow_roots_and_frames_of_this_and_other_origins_are_seen(open_page, by_name):
    env, obs = open_page(
        f"""<div id=host></div><iframe src="inner.html" title="same" style="border:3px solid"></iframe>
        <iframe src="{OTHER}/inner.html" style="margin:20px;border:7px solid"></iframe>
        <script>host.attachShadow({{mode: 'open'}}).innerHTML = '<button>In shadow</button>'</script>""",
        inner="<button onclick=\"this.textContent = 'done ' + location.host\">Inside</button>",
    )
    assert by_name(obs, "In shadow")
    inside = [element for element in obs["elements"] if element["name"] == "Inside"]
    assert len(inside) == 2
    assert len({element["id"] for element in obs["elements"]}) == 3
    for element in inside:
        obs, *_, info = env.step({"action": "click", "id": element["id"]})
        assert obs["last_error"] == ""
        assert info["action_path"] == "mouse"
    assert {e["name"] for e in obs["elements"]} == {"In shadow", "done site.test", "done other.test"}


def test_ids_stay_with_their_elements(open_page, by_name):
    env, obs = open_page(
        """<button id=b onclick="list.prepend(Object.assign(document.createElement('button'), {textContent: 'New'}))">
        Add</button><div id=list><button>Old</button></div>"""
    )
    old, add = by_name(obs, "Old")["id"], by_name(obs, "Add")["id"]
    obs, *_ = env.step({"action": "click", "id": add})
    assert by_name(obs, "Old")["id"] == old
    assert by_name(obs, "New")["id"] not in (old, add)


def test_the_page_is_not_altered_unless_asked_to(open_page):
    html = "<button>One</button>"
    env, _ = open_page(html)
    page = env.unwrapped.core.session.active.page
    from selfsurf.browser_env.browser.runtime import runtime

    assert "data-agent-id" not in runtime().run(page.content())
    env, obs = open_page(html, options={"stamp_ids": True})
    page = env.unwrapped.core.session.active.page
    assert f'data-agent-id="{obs["elements"][0]["id"]}"' in runtime().run(page.content())


@pytest.mark.parametrize("budget", [60, 200, 1000])
def test_budget_drops_what_is_farthest_first_and_says_so(open_page, budget):
    rows = "".join(f"<p style='height:4px'><button>Button {i}</button></p>" for i in range(100))
    _, obs = open_page(rows, options={"budget": budget})
    assert len(obs["dom"]) <= budget
    lines = obs["dom"].splitlines()
    assert lines[0] == '[1] button "Button 0"' if budget > 60 else len(lines) == 1
    assert "left out" in lines[-1]


def test_screenshot_is_the_page(open_page):
    env, obs = open_page("<body style='background:#ff8000;margin:0'>", options={"screenshot": True})
    assert obs["screenshot"].shape == (600, 800, 3)
    assert (obs["screenshot"] == [255, 128, 0]).all()
    env, obs = open_page("<p>no picture")
    assert "screenshot" not in obs
    assert "screenshot" not in env.observation_space.spaces


def test_an_observation_is_in_the_space(open_page):
    env, obs = open_page("<a href='#'>link</a><input value=x>", options={"screenshot": True})
    assert obs in env.observation_space
    obs, *_ = env.step({"action": "click", "id": 1})
    assert obs in env.observation_space
    assert isinstance(obs["screenshot"], np.ndarray)


def test_what_stands_outside_of_the_body_is_seen_too(open_page):
    _, obs = open_page(
        "<button>in</button><script>document.documentElement.append("
        "Object.assign(document.createElement('button'), {textContent: 'out'}))</script>"
    )
    assert [element["name"] for element in obs["elements"]] == ["in", "out"]
