"""Targets named otherwise than by id: how they are read, and what they find on a page."""

import pytest

from selfsurf.browser_env.actions import parse_action
from selfsurf.browser_env.errors import ActionError
from tests.few import few


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"action": "click", "selector": "role=button[name='Go']"}, None),
        ({"action": "drag", "from": "#a", "to": [1, 2]}, {"action": "drag", "from": "#a", "to": [1.0, 2.0]}),
        ('click("text=Go")', {"action": "click", "selector": "text=Go"}),
        ('fill("#name", "Ada")', {"action": "fill", "selector": "#name", "text": "Ada"}),
        ('press("#name", "Enter")', {"action": "press", "selector": "#name", "key": "Enter"}),
        ('drag_and_drop("#a", "7")', {"action": "drag", "from": "#a", "to": 7}),
        (
            'page.get_by_role("button", name="Go").click()',
            {"action": "click", "selector": "get_by_role('button', name='Go')"},
        ),
        ('await page.locator("#go").fill("x")', {"action": "fill", "selector": "#go", "text": "x"}),
        ('page.locator("#go").nth(1).click(button="right")  # the second', {"action": "click", "selector": "locator('#go').nth(1)", "button": "right"}),
        ('get_by_text("Go").first.dblclick()', {"action": "click", "selector": "get_by_text('Go').first", "count": 2}),
        ('page.get_by_label("Age").select_option(label="old")', {"action": "select", "selector": "get_by_label('Age')", "options": ["old"]}),
        ('page.get_by_label("News").check()', {"action": "fill", "selector": "get_by_label('News')", "text": "true"}),
        ('page.locator("#a").drag_to(page.locator("#b"))', {"action": "drag", "from": "#a", "to": "#b"}),
        ('page.locator("#f").set_input_files("a.txt")', {"action": "upload", "selector": "#f", "files": ["a.txt"]}),
        ('page.goto("https://x.test", timeout=5000)', {"action": "navigate", "url": "https://x.test"}),
        ('page.click("#go")', {"action": "click", "selector": "#go"}),
        ('page.fill("#go", "x")', {"action": "fill", "selector": "#go", "text": "x"}),
        ('page.keyboard.press("Enter")', {"action": "press", "key": "Enter"}),
        ("page.mouse.wheel(0, 300)", {"action": "scroll", "dy": 300.0}),
        ("page.go_back()", {"action": "back"}),
        ("# go on\nclick('3')", {"action": "click", "id": 3}),
        ("click(\n  '3',\n  button='left',\n)", {"action": "click", "id": 3}),
        ("type('abc', bid='4')", {"action": "type", "id": 4, "text": "abc"}),
    ],
)  # fmt: skip
def test_selectors_and_playwright_calls_are_read(raw, expected):
    assert parse_action(raw).to_dict() == (expected or raw)
    assert parse_action(parse_action(raw).to_json()) == parse_action(raw)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"action": "click", "selector": ""}, "not a selector"),
        ({"action": "click", "selector": "7"}, "ids are given as numbers"),
        ({"action": "click", "selector": "get_by_role('button').evaluate('1')"}, "Unknown locator 'evaluate'"),
        ({"action": "click", "selector": "get_by_role('button'"}, "not a complete chain"),
        ({"action": "click", "id": 1, "selector": "#a"}, "give either"),
        ({"action": "fill", "text": "x"}, "give either id or selector"),
        ("page.evaluate('alert(1)')", "no action for 'evaluate'"),
        ("page.locator('#a').evaluate('x')", "no action for 'evaluate'"),
        ("page.get_by_role(open('x')).click()", "must be literals"),
        ("os.system('true')", "An action is JSON"),
        ("click('3')\nclick('4')", "Give one action per step, not 2"),
        ("import os", "An action is JSON"),
        ("x = click('3')", "An action is JSON"),
        ("clck('3')", "Did you mean click"),
        ({"action": "goto", "url": "x"}, "did you mean navigate"),
        ({"action": "fil", "id": 1}, "did you mean fill"),
        ({"action": "click", "idd": 1}, "Did you mean id"),
        ({"action": "click", "id": 1, "buton": "left"}, "Did you mean button"),
        ("mouse_down(1, 2)", "use drag"),
        ("press('3', key='Enter', bid='4')", "twice"),
    ],
)
def test_what_is_wrong_with_them_is_said(raw, says):
    with pytest.raises(ActionError, match=None) as error:
        parse_action(raw)
    assert says in str(error.value)


PAGE = """<h1>Go to market</h1><button onclick="out.textContent='one'">Go</button><button onclick="out.textContent='two'" class=go>Go on</button>
<label>Name<input id=name></label><input placeholder="Your mail" id=mail><button data-testid=save onclick="out.textContent='saved'" title="Keep it">S</button>
<img alt="A cat" width=20 height=20 onclick="out.textContent='cat'"><div onclick="out.textContent='plain'">Plain text</div>
<ul><li>a <button onclick="out.textContent='del a'">Del</button><li>b <button onclick="out.textContent='del b'">Del</button></ul><p id=out></p>
<div id=host></div><script>host.attachShadow({mode: 'open'}).innerHTML = `<button id=deep>Deep</button>`; host.shadowRoot.querySelector('button').onclick = () => out.textContent = 'deep'</script>"""


@pytest.mark.parametrize(
    ("action", "says"),
    few(
        5,
        [
            ("page.get_by_role('button', name='Go', exact=True).click()", "one"),
            ("click('role=button[name=\"Go on\"]')", "two"),
            ("click('role=button[name=\"go ON\" i]')", "two"),
            ("page.locator('.go').click()", "two"),
            ("page.get_by_text('Plain').click()", "plain"),
            ("page.get_by_test_id('save').click()", "saved"),
            ("page.get_by_title('Keep it').click()", "saved"),
            ("page.get_by_alt_text('cat').click()", "cat"),
            ("page.get_by_role('button', name='Del').nth(1).click()", "del b"),
            ("page.get_by_role('button', name='Del').first.click()", "del a"),
            ("page.get_by_role('listitem').filter(has_text='b').get_by_role('button').click()", "del b"),
            ("page.locator('li', has_text='a').locator('button').click()", "del a"),
            ("click('#deep')", "deep"),
            ("click('xpath=//button[2]')", "two"),
            ({"action": "click", "selector": "css=button >> nth=0"}, "one"),
        ],
    ),
)
def test_a_selector_finds_its_element(open_page, action, says):
    env, _ = open_page(PAGE)
    obs, *_ = env.step(action)
    assert obs["last_error"] == ""
    assert f"\n{says}" in obs["page_text"]


def test_fields_are_found_by_label_and_placeholder(open_page, by_name):
    env, obs = open_page(PAGE)
    obs, *_ = env.step("page.get_by_label('Name').fill('Ada')")
    obs, *_ = env.step("page.get_by_placeholder('your mail').press_sequentially('a@b')")
    assert [element["value"] for element in obs["elements"] if element["tag"] == "input"] == ["Ada", "a@b"]


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        ("text=Nothing like it", "No element matches 'text=Nothing like it'."),
        ("li button", "2 elements match 'li button'"),
        ("li >> >>", "can't be used"),
        ("role=buttn[name='x'", "can't be used"),
    ],
)
def test_no_or_several_matches_are_said(open_page, selector, says):
    env, obs = open_page(PAGE)
    obs, *_ = env.step({"action": "click", "selector": selector})
    assert says in obs["last_error"]


def test_the_ids_that_an_ambiguous_selector_names_are_the_outlines(open_page):
    env, obs = open_page(PAGE)
    ids = [element["id"] for element in obs["elements"] if element["name"] == "Del"]
    obs, *_ = env.step("page.get_by_role('button', name='Del').click()")
    assert f"{ids[0]}, {ids[1]}; use an id" in obs["last_error"]
    assert obs["last_action"] == '{"action": "click", "selector": "get_by_role(\'button\', name=\'Del\')"}'


def test_selectors_reach_into_frames(open_page):
    inner = "<p>x</p><button onclick=\"this.textContent = 'gone'\">In {}</button>"
    env, obs = open_page(
        "<iframe src=own.html></iframe><iframe src=http://other.test/far.html></iframe><iframe id=n src=middle.html></iframe>",
        own=inner.format("own"), far=inner.format("far"), deep=inner.format("deep"), middle="<p>m</p><iframe src=http://other.test/deep.html>",
    )  # fmt: skip
    for name in ("own", "far", "deep"):
        obs, *_, info = env.step(f"page.get_by_text('In {name}').click()")
        assert obs["last_error"] == "", name
        assert info["action_path"] == "mouse"
        assert f"In {name}" not in obs["page_text"]
    assert obs["page_text"].count("gone") == 3
    obs, *_ = env.step("page.frame_locator('#n').locator('p').click()")
    assert obs["last_error"] == ""


@pytest.mark.parametrize("name", ["parentNode", "host", "childNodes"])
def test_a_field_or_picture_named_like_a_property_hides_nothing(open_page, name):
    env, _ = open_page(
        f"<img name={name}><p>x</p><form><input type=hidden name={name}><button type=button onclick='document.title = 1'>Go</button></form>"
    )
    obs, *_ = env.step({"action": "click", "selector": "form > button"})
    assert (obs["title"], obs["last_error"]) == ("1", "")
