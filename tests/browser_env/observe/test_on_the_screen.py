"""What is on the screen is in the observation, wherever the page keeps it and whatever it is called."""

MENU = "<div role=menu style='position:absolute;left:155px;top:155px;width:90px;height:80px'><button role=menuitem>Edit</button></div>"
ROOT = f"""<button onclick="root.innerHTML = `{MENU}`">More</button><div style="height:4000px">text</div><div id=root></div>"""


def test_a_menu_in_a_flat_container_at_the_end_of_a_long_page_is_seen(open_page, by_name):
    env, obs = open_page(ROOT)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "More")["id"]})
    assert by_name(obs, "Edit")["in_viewport"]
