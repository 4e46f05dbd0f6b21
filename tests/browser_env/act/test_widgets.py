"""What pages are made of, each operated the way a user would."""

import pytest


def act(env, obs, name, by_name, **action):
    return env.step({"action": "click", "id": by_name(obs, name)["id"], **action})[0]


def test_menus_that_open_on_hover_nested_ones_and_tooltips(open_page, by_name):
    env, obs = open_page(
        """<style>.sub{display:none} li:hover > .sub{display:block} ul{width:150px}</style>
        <ul><li><a href="#f">File</a><ul class=sub><li><a href="#n">New</a><ul class=sub><li><a href="#d" onclick="document.title='doc'">Document</a></ul></ul></ul>
        <button onmouseenter="tip.hidden=false" onmouseleave="tip.hidden=true">Help</button><div id=tip role=tooltip hidden>Press it</div>"""
    )
    obs = act(env, obs, "File", by_name, action="hover")
    obs = act(env, obs, "New", by_name, action="hover")
    obs = act(env, obs, "Document", by_name)
    assert obs["title"] == "doc"
    obs = act(env, obs, "Help", by_name, action="hover")
    assert "Press it" in obs["page_text"]


def test_details_dialog_and_popover(open_page, by_name):
    env, obs = open_page(
        """<details><summary>More</summary><button onclick="this.textContent='pressed'">Inner</button></details>
        <button onclick="d.showModal()">Ask</button><dialog id=d><form method=dialog><button value=yes>Yes</button></form></dialog>
        <button popovertarget=p>Menu</button><div popover id=p><button onclick="p.hidePopover(); document.title='chosen'">Item</button></div>
        <script>d.onclose = () => document.title = d.returnValue</script>"""
    )
    obs = act(env, obs, "More", by_name)
    obs = act(env, obs, "Inner", by_name)
    assert by_name(obs, "pressed")
    obs = act(env, obs, "Ask", by_name)
    obs = act(env, obs, "Yes", by_name)
    assert obs["title"] == "yes"
    obs = act(env, obs, "Menu", by_name)
    obs = act(env, obs, "Item", by_name)
    assert obs["title"] == "chosen"
    obs = act(env, obs, "Menu", by_name)
    obs, *_ = env.step({"action": "press", "key": "Escape"})
    assert "Item" not in obs["page_text"]


def test_tree_and_virtual_keyboard(open_page, by_name):
    env, obs = open_page(
        """<ul role=tree><li role=treeitem aria-expanded=false onclick="this.ariaExpanded='true'; k.hidden=false" tabindex=0>Root</li></ul>
        <div id=k hidden>1<button>1</button><button>2</button></div><p id=out></p><script>k.onclick = (e) => { if (e.target.localName === 'button') out.textContent += e.target.textContent }</script>"""
    )
    obs = act(env, obs, "Root", by_name)
    assert "expanded" in by_name(obs, "Root")["states"]
    for key in ("1", "2", "2"):
        obs = act(env, obs, key, by_name)
    assert "122" in obs["page_text"]


def test_double_right_and_middle_clicks_and_control_click(open_page, by_name):
    env, obs = open_page(
        """<button ondblclick="document.title='double'">D</button><button oncontextmenu="document.title='menu'; return false">R</button>
        <a href=second.html>Link</a><button onauxclick="document.title='aux' + event.button">M</button>""",
        second="<p>two</p>",
    )
    assert act(env, obs, "D", by_name, count=2)["title"] == "double"
    assert act(env, obs, "R", by_name, button="right")["title"] == "menu"
    assert act(env, obs, "M", by_name, button="middle")["title"] == "aux1"
    for action in ({"button": "middle"}, {"modifiers": ["Control"]}):
        obs = act(env, obs, "Link", by_name, **action)
        assert len(obs["tabs"]) == 2, action
        assert any(event.startswith("new tab") for event in obs["events"])
        index = next(index for index, tab in enumerate(obs["tabs"]) if tab["url"].endswith("second.html"))
        env.step({"action": "focus_tab", "index": index})
        obs, *_ = env.step({"action": "close_tab"})
        assert len(obs["tabs"]) == 1


def test_a_covered_element_gets_the_whole_sequence_of_events(open_page, by_name):
    env, obs = open_page(
        """<button id=b style="position:absolute;top:0;left:0;width:90px;height:40px">Under</button><p id=out style="margin-top:60px"></p>
        <div style="position:absolute;top:0;left:0;width:200px;height:50px;background:white" id=over></div>
        <script>for (const t of ['pointerdown', 'mousedown', 'mouseup', 'click', 'dblclick', 'contextmenu', 'mouseover']) b.addEventListener(t, () => out.textContent += t + ' ')</script>"""
    )
    obs = act(env, obs, "Under", by_name, count=2)
    assert "pointerdown mousedown mouseup click pointerdown mousedown mouseup click dblclick" in obs["page_text"]
    obs = act(env, obs, "Under", by_name, button="right")
    assert "contextmenu" in obs["page_text"]
    obs = act(env, obs, "Under", by_name, action="hover")
    assert "mouseover" in obs["page_text"]
    obs = act(env, obs, "Under", by_name, modifiers=["Shift"])
    assert "covered by div#over" in obs["last_error"]


@pytest.mark.parametrize(
    "style",
    [
        "position:absolute;opacity:0",
        "position:absolute;left:-9999px",
        "display:none",
        "position:absolute;clip:rect(0,0,0,0);width:1px;height:1px",
    ],
)
def test_a_custom_styled_checkbox_is_clicked_through_its_label(open_page, style):
    env, _ = open_page(
        f"<input type=checkbox id=c style='{style}' onchange=\"document.title='on'\"><label for=c>Take <a href='#x'>terms</a> it</label>"
    )
    obs, *_, info = env.step({"action": "click", "selector": "#c"})
    assert obs["last_error"] == ""
    assert obs["title"] == "on"
    assert not obs["url"].endswith("#x")
    assert info["action_path"] == "mouse"


def test_the_wheel_turns_where_nothing_scrolls(open_page):
    env, _ = open_page(
        "<style>body{overflow:hidden;margin:0}</style><canvas id=map width=700 height=500></canvas><script>map.onwheel = (e) => document.title = 'zoom ' + e.deltaY</script>"
    )
    obs, *_, info = env.step({"action": "scroll", "dy": 120})
    assert obs["title"] == "zoom 120"
    assert info["action_path"] == "mouse"


def test_a_scaled_frame_is_hit_where_it_is_drawn(open_page, by_name):
    env, obs = open_page(
        "<iframe src=in.html style='width:400px;height:300px;border:0;transform:scale(0.5);transform-origin:0 0'></iframe>",
        **{
            "in": "<button style='position:absolute;left:300px;top:200px' onclick=\"this.textContent='done'\">go</button>"
        },
    )
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "go")["id"]})
    assert info["action_path"] == "mouse"
    assert by_name(obs, "done")
