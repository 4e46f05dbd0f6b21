import pytest

from selfsurf import browser_env
from tests.few import few


def test_actions_do_what_they_say(open_page, by_name, tmp_path):
    env, obs = open_page(
        """<input aria-label=text value=old><textarea aria-label=area></textarea><input type=date aria-label=date>
        <input type=range aria-label=range min=0 max=10><div contenteditable aria-label=rich>old</div>
        <select aria-label=one><option>a<option>b</select><select multiple aria-label=many><option>x<option>y<option>z</select>
        <input type=file aria-label=file><button ondblclick="this.textContent='twice'">double</button>
        <button oncontextmenu="this.textContent='menu';return false">right</button>
        <button onmouseover="this.textContent='over'">hover</button>"""
    )
    upload = tmp_path / "paper.txt"
    upload.write_text("x")
    for action, name, value in [
        ({"action": "fill", "text": 'néw "text"'}, "text", 'néw "text"'),
        ({"action": "fill", "text": ""}, "text", ""),
        ({"action": "type", "text": "abc"}, "text", "abc"),
        ({"action": "press", "key": "backspace"}, "text", "ab"),
        ({"action": "fill", "text": "two\nlines"}, "area", "two\nlines"),
        ({"action": "fill", "text": "2024-02-29"}, "date", "2024-02-29"),
        ({"action": "fill", "text": "7"}, "range", "7"),
        ({"action": "fill", "text": "rich"}, "rich", "rich"),
        ({"action": "select", "options": ["b"]}, "one", "b"),
        ({"action": "select", "options": ["x", "z"]}, "many", "x, z"),
        ({"action": "upload", "files": [str(upload)]}, "file", "paper.txt"),
    ]:
        obs, *_ = env.step({**action, "id": by_name(obs, name)["id"]})
        assert obs["last_error"] == "", action
        assert by_name(obs, name)["value"] == value, action
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "double")["id"], "count": 2})
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "right")["id"], "button": "right"})
    obs, *_ = env.step({"action": "hover", "id": by_name(obs, "hover")["id"]})
    assert {"twice", "menu", "over"} <= {element["name"] for element in obs["elements"]}


def test_modifiers_and_chords_reach_the_page(open_page):
    env, obs = open_page(
        """<button onclick="this.textContent = [event.shiftKey, event.ctrlKey]">b</button><input value=word aria-label=i>"""
    )
    obs, *_ = env.step({"action": "click", "id": 1, "modifiers": ["Shift"]})
    assert obs["elements"][0]["name"] == "true,false"
    env.step({"action": "press", "key": "ctrl+a", "id": 2})
    obs, *_ = env.step({"action": "type", "text": "new"})
    assert obs["elements"][1]["value"] == "new"


@pytest.mark.parametrize("kind", ["mouse", "html5"])
def test_drag(open_page, by_name, kind):
    box = "position:absolute;top:20px;width:80px;height:40px;background:silver"
    script = {
        "mouse": """let held; a.onmousedown = () => held = 1; onmouseup = (e) => { if (held && e.target === b) b.textContent = 'dropped' }""",
        "html5": """a.draggable = true; b.ondragover = (e) => e.preventDefault(); b.ondrop = () => b.textContent = 'dropped'""",
    }[kind]
    env, obs = open_page(
        f"<div id=a role=button style='{box};left:20px'>from</div><div id=b role=button style='{box};left:220px'>to</div><script>{script}</script>"
    )
    obs, *_ = env.step({"action": "drag", "from": by_name(obs, "from")["id"], "to": by_name(obs, "to")["id"]})
    assert obs["last_error"] == ""
    assert by_name(obs, "dropped")


def test_scrolling_shows_what_was_below(open_page, by_name):
    env, obs = open_page(
        """<div style="height:100px;width:200px;overflow:auto" tabindex=0 aria-label=inner><p style="height:500px">a</p><button>Deep</button></div>
        <p style="height:700px"></p><button>Bottom</button>"""
    )
    assert not by_name(obs, "Bottom")["in_viewport"]
    obs, *_ = env.step({"action": "scroll", "dy": 5000})
    assert by_name(obs, "Bottom")["in_viewport"]
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Deep")["id"]})  # scrolls both by itself
    assert info["action_path"] == "mouse"


def test_tabs_and_history(open_page, by_name):
    env, obs = open_page(
        "<a href='second.html'>Go</a> <a href='second.html' target=_blank>Open</a>", second="<button>Second</button>"
    )
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
    assert obs["title"] == "second"
    assert any(event.startswith("navigated") for event in obs["events"])
    obs, *_ = env.step({"action": "back"})
    assert obs["title"] == "index"
    obs, *_ = env.step({"action": "forward"})
    assert obs["title"] == "second"
    obs, *_ = env.step({"action": "forward"})
    assert "no page to go forward" in obs["last_error"]
    obs, *_ = env.step({"action": "back"})
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Open")["id"]})
    assert [tab["active"] for tab in obs["tabs"]] == [False, True]
    assert by_name(obs, "Second")
    obs, *_ = env.step({"action": "focus_tab", "index": 0})
    assert obs["title"] == "index"
    obs, *_ = env.step({"action": "focus_tab", "index": 7})
    assert "There are 2 tabs" in obs["last_error"]
    obs, *_ = env.step({"action": "close_tab"})
    assert len(obs["tabs"]) == 1
    obs, *_ = env.step({"action": "close_tab"})
    assert obs["url"] == "about:blank"
    obs, *_ = env.step({"action": "new_tab", "url": "http://site.test/second.html"})
    assert obs["title"] == "second"


@pytest.mark.parametrize(
    ("action", "says"),
    few(
        6,
        [
            ({"action": "click", "id": 99}, "no element 99"),
            ({"action": "click", "id": 1}, "disabled"),
            ({"action": "fill", "id": 2, "text": "x"}, "read-only"),
            ({"action": "fill", "id": 3, "text": "x"}, "is a button"),
            ({"action": "select", "id": 4, "options": ["blue"]}, "has no option 'blue'; it has red"),
            ({"action": "upload", "id": 3, "files": ["nowhere-to-be-found"]}, "no file"),
            ({"action": "press", "key": "NoSuchKey"}, "no key"),
            ({"action": "ask_user", "question": "who?"}, "Nobody is there"),
            ({"action": "navigate", "url": "http://site.test:1/"}, "did not load"),
            ("complete nonsense", "An action is JSON"),
            ({"action": "click", "x": float("nan"), "y": 1}, "finite number"),
            ('{"action": "scroll", "dx": 1e999}', "finite number"),
            ({"action": "click", "id": True}, "not true or false"),
            ({"action": "click", "x": -5, "y": 1e9}, "outside of the view, 800 by 600"),
            ({"action": "navigate", "url": "file:///etc/passwd"}, "begins with http"),
            ({"action": "navigate", "url": "javascript:alert(1)"}, "begins with http"),
        ],
    ),
)
def test_what_cannot_be_done_is_one_sentence_and_costs_a_step(open_page, action, says):
    env, _ = open_page("<button disabled>no</button><input readonly><button>b</button><select><option>red</select>")
    obs, reward, terminated, truncated, info = env.step(action)
    assert says in obs["last_error"]
    assert info["outcome_detail"] == obs["last_error"]
    assert (reward, terminated, truncated, info["outcome"]) == (0.0, False, False, "running")
    assert env.unwrapped.core.episode.steps == 1


def test_an_element_that_left_is_reported(open_page, by_name):
    env, obs = open_page("<button onclick='gone.remove()'>Remove</button><button id=gone>Gone</button>")
    gone = by_name(obs, "Gone")["id"]
    env.step({"action": "click", "id": by_name(obs, "Remove")["id"]})
    obs, *_ = env.step({"action": "click", "id": gone})
    assert obs["last_error"] == f"Element {gone} is no longer on the page."


def test_a_covered_element_is_clicked_through_the_dom_and_info_says_so(open_page, by_name):
    env, obs = open_page(
        """<button style="position:absolute;top:0;left:0" onclick="document.title='clicked'">Under</button>
        <div style="position:absolute;top:0;left:0;width:200px;height:100px;background:white"></div>"""
    )
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Under")["id"]})
    assert obs["title"] == "clicked"
    assert info["action_path"] == "dom"


def test_dialogs_errors_and_downloads_are_events(open_page, by_name):
    env, obs = open_page(
        """<button onclick="document.title = confirm('Sure?')">Ask</button><button onclick="undefinedFunction()">Err</button>
        <a download="list.csv" href="data:text/csv,a">Get</a>"""
    )
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Ask")["id"]})
    assert obs["events"] == ("confirm dialog accepted: Sure?",)
    assert obs["title"] == "true"
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Err")["id"]})
    assert "page error" in obs["events"][0]
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Get")["id"]})
    assert "download: list.csv" in obs["events"]
    obs, *_ = env.step({"action": "wait", "ms": 1})
    assert obs["events"] == ()


def test_finish_ends_an_open_task_without_a_verdict(open_page):
    env, _ = open_page("<p>x")
    obs, reward, terminated, _, info = env.step({"action": "finish", "answer": "42"})
    assert terminated
    assert reward == 0
    assert info["outcome"] == "stopped"
    assert not info["trainable"]
    assert obs["messages"][-1] == {"role": "assistant", "text": "42"}


def test_a_user_who_is_there_answers(open_page):
    env, _ = open_page("<p>x", options={"user": lambda question: question.upper()})
    obs, *_ = env.step({"action": "ask_user", "question": "which?"})
    assert obs["messages"][-1] == {"role": "user", "text": "WHICH?"}


def test_failed_navigations_in_a_row_are_the_agents_errors(open_page):
    env, _ = open_page("<input>", options={"safety": browser_env.Safety(allow_private=True)})
    for url in ("http://nope.invalid/", "nope", "http://127.0.0.1:1/", "nope"):
        obs, *_, info = env.step({"action": "navigate", "url": url})
        assert info["outcome"] == "running", obs["last_error"]
        assert "did not load" in obs["last_error"]
