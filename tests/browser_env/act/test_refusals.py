"""What can't take an action is told so before anything is done, and what a page makes of an action is told afterwards."""

import pytest

from tests.few import few
from tests.in_page import value

PRESSED = [
    "<button onclick='window.c=1'>K</button>",
    "<input type=checkbox aria-label=K onclick='window.c=1'>",
    "<a href=#x onclick='window.c=1'>K</a>",
    "<div role=switch tabindex=0 aria-checked=false onclick='window.c=1'>K</div>",
    "<input type=file aria-label=K onclick='window.c=1'>",
]


@pytest.mark.parametrize("page", PRESSED)
def test_nothing_is_pressed_to_type_into_it(open_page, by_name, page):
    env, obs = open_page(page)
    obs, *_ = env.step({"action": "type", "id": by_name(obs, "K")["id"], "text": "x"})
    assert obs["last_error"].startswith(f"Element {obs['elements'][0]['id']} is a ")
    assert value(env, "window.c") is None


def test_a_game_that_is_no_field_is_typed_into(open_page, by_name):
    page = "<div tabindex=0 aria-label=Board style='width:99px;height:99px' onkeydown='o.textContent += event.key'></div><p id=o>"
    env, obs = open_page(page)
    obs, *_ = env.step({"action": "type", "id": by_name(obs, "Board")["id"], "text": "wasd"})
    assert "wasd" in obs["page_text"]


CLOSED = {
    "details": "<details><summary>D</summary>%s</details>",
    "content-visibility": "<div style='content-visibility:hidden'>%s</div>",
    "scale": "<div style='transform:scale(0)'>%s</div>",
}
INSIDE = """<button id=b onclick="window.c=1">In</button><input id=i aria-label=Field>
<select id=s onchange="window.c=1"><option>a<option>b</select>"""


@pytest.mark.parametrize("how", CLOSED)
@pytest.mark.parametrize(
    "action",
    few(
        5,
        [
            {"action": "click", "selector": "#b"},
            {"action": "hover", "selector": "#b"},
            {"action": "press", "selector": "#i", "key": "Enter"},
            {"action": "fill", "selector": "#i", "text": "x"},
            {"action": "select", "selector": "#s", "options": ["b"]},
        ],
    ),
    ids=lambda action: action["action"],
)
def test_what_nobody_sees_is_not_acted_on(open_page, how, action):
    env, _ = open_page(f"<button autofocus onclick='window.c=2'>Send</button>{CLOSED[how] % INSIDE}")
    obs, *_ = env.step(action)
    if (how, action["action"]) != ("scale", "press"):  # a field without a size can have the focus
        assert obs["last_error"].endswith("is not visible.")
    assert value(env, "[window.c ?? null, i.value, s.value]") == [None, "", "a"]


def test_a_key_goes_nowhere_else_when_its_field_is_covered(open_page, by_name):
    env, obs = open_page(
        """<button autofocus onclick="window.c=1">Send</button><div id=d aria-label=Board tabindex=-1 onclick="" style="width:90px;height:90px"></div>
        <div style="position:fixed;inset:0;background:#fff"></div><script>d.focus = () => {}</script>""",
    )
    obs, *_ = env.step({"action": "press", "selector": "#d", "key": "Enter"})
    assert (value(env, "window.c"), "covered" in obs["last_error"] or obs["last_error"] == "") == (None, True)


@pytest.mark.parametrize(
    ("page", "action", "becomes"),
    [
        ("<select aria-label=F onchange='this.selectedIndex=0'><option>Apple<option>Plum</select>", {"action": "select", "options": ["Plum"]}, "Apple"),
        ("<input type=date aria-label=F onchange='this.value=`2026-01-01`'>", {"action": "fill", "text": "2026-03-05"}, "2026-01-01"),
        ("<input type=range aria-label=F oninput='this.value=0'>", {"action": "fill", "text": "70"}, "0"),
    ],
    ids=["select", "date", "range"],
)  # fmt: skip
def test_a_value_that_the_page_does_not_keep_is_told(open_page, by_name, page, action, becomes):
    env, obs = open_page(page)
    id = by_name(obs, "F")["id"]
    obs, *_ = env.step({**action, "id": id})
    assert obs["events"] == (f'[{id}] was set, and the page made it "{becomes}"',)


def test_a_checkbox_is_filled_by_its_label_where_it_is_hidden(open_page):
    env, _ = open_page("<input type=checkbox id=k style='display:none'><label for=k>Tog</label>")
    obs, *_ = env.step({"action": "fill", "selector": "#k", "text": "true"})
    assert (value(env, "k.checked"), obs["last_error"]) == (True, "")


def test_the_label_of_something_disabled_is_not_clicked(open_page):
    env, _ = open_page("<label><input type=checkbox disabled> Dis</label>")
    obs, *_ = env.step({"action": "click", "selector": "text=Dis"})
    assert obs["last_error"].endswith("is disabled.")


def test_what_a_frame_tells_the_page_around_it_is_in_the_next_observation(open_page, by_name):
    page = "<p id=o>0</p><iframe src=http://other.test/inner.html></iframe><script>let n = 0; onmessage = () => { o.textContent = `told ${++n}` }</script>"
    inner = "<button onclick=\"setTimeout(() => parent.postMessage('m', '*'), 40)\">One</button>"
    env, obs = open_page(page, inner=inner)
    for number in range(1, 6):
        obs, *_ = env.step({"action": "click", "id": by_name(obs, "One")["id"]})
        assert f"told {number}" in obs["page_text"]
