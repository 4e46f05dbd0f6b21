"""Recording with real, trusted input: mouse and keyboard of the protocol, which take the way of a person's."""

import asyncio
import json
import time

import pytest

from selfsurf import browser_env
from selfsurf.agents.play.replay import replay
from selfsurf.agents.prompt.prompt import with_demonstration
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.record.episode import Episode
from selfsurf.browser_env.record.recorder import EARLY, Recorder
from selfsurf.browser_env.record.tab_watcher import RECENT
from selfsurf.browser_env.safety.secrets import known_values, redact_known
from selfsurf.envs_registry import task_of
from tests.agents.prompt_cases import build
from tests.browser_env.conftest import ORIGIN, Site
from tests.browser_env.record.person import Person


@pytest.fixture
def recorded(tmp_path):
    """Return a function that opens HTML, recorded, in an environment: `person = recorded("<p>...", other="...")`."""
    made = []

    def open_it(html, *, options=None, **pages):
        (tmp_path / "site").mkdir(exist_ok=True)
        for name, text in {"index": html, **pages}.items():
            (tmp_path / "site" / f"{name}.html").write_text(
                f"<!doctype html><title>{name}</title>{text}", encoding="utf8"
            )
        env = browser_env.AsyncBrowserEnv(
            task=Site(tmp_path / "site"), **{"viewport": (800, 600), "screenshot": False, **(options or {})}
        )
        person = Person(Recorder(env, tmp_path / f"episode{len(made)}"))
        person.recorder.start(0)
        made.append(env)
        return person

    yield open_it
    for env in made:
        runtime().run(env.core.close())


def test_clicks_with_button_count_and_modifiers(recorded):
    person = recorded("<button><b>Go</b></button> <button ondblclick='x.append(1)'>Twice</button><div id=x></div>")
    person.click("b")
    person.click("text=Twice", click_count=2, delay=20)
    person.click("text=Go", button="right")
    person.do(lambda page: page.keyboard.down("Control"), 0)
    person.click("text=Go")
    person.do(lambda page: page.keyboard.up("Control"), 0)
    assert person.done() == [
        {"action": "click", "id": "Go"},
        {"action": "click", "id": "Twice", "count": 2},
        {"action": "click", "id": "Go", "button": "right"},
        {"action": "click", "id": "Go", "modifiers": ["Control"]},
    ]


def test_typing_is_one_fill_until_the_field_is_left(recorded):
    person = recorded(
        "<label>Name <input></label><label>Text <textarea></textarea></label><form action=/other.html><input name=q aria-label=Query></form>",
        other="<p>found</p>",
    )
    person.click("input >> nth=0", 0)
    person.type("Adam", 0.1)
    person.press("Backspace", 0)
    person.press("Tab")
    person.type("one", 0)
    person.press("Enter", 0)
    person.type("two")
    person.click("[name=q]", 0)
    person.type("cats", 0)
    person.press("Enter", 1)
    assert person.done() == [
        {"action": "fill", "id": "Name", "text": "Ada"},
        {"action": "fill", "id": "Text", "text": "one\ntwo"},
        {"action": "fill", "id": "Query", "text": "cats"},
        {"action": "press", "id": "Query", "key": "Enter"},
    ]
    first, _, third, last = person.steps
    assert [e["value"] for e in first["observation"]["elements"]] == ["", "", ""]
    assert [e["value"] for e in third["observation"]["elements"]] == ["Ada", "one\ntwo", ""]
    assert [e["value"] for e in last["observation"]["elements"]] == ["Ada", "one\ntwo", "cats"]
    assert person.episode.meta["final"]["url"] == f"{ORIGIN}/other.html?q=cats"


def test_before_an_action_the_focus_is_where_the_last_one_left_it(recorded):
    person = recorded(
        "<label>Name <input autofocus></label><label>Code <input></label><label>Size <select><option>S<option>M</select></label>"
        "<form action=/other.html><input name=q aria-label=Query></form>",
        other="<label>More <input autofocus></label>",
    )
    for text in ("Ada", "7"):
        person.type(text)
        person.press("Tab", 0.5 if text == "7" else 0)
    person.press("ArrowDown", 0)
    person.press("Tab")
    person.type("cats")
    person.press("Enter", 1)
    person.type("x")
    told = person.done()
    assert [(one["action"], one["id"]) for one in told] == [
        ("fill", "Name"), ("fill", "Code"), ("select", "Size"), ("fill", "Query"), ("press", "Query"), ("fill", "More"),
    ]  # fmt: skip
    seen = [step["observation"] for step in person.steps]
    focus = [[one["name"] for one in obs["elements"] if "focused" in one["states"]] for obs in seen]
    assert focus == [["Name"], ["Name"], ["Code"], ["Size"], ["Query"], ["More"]]
    assert [obs["dom"].count(" focused") for obs in seen] == [1] * 6
    assert all(
        f'"{names[0]}"' in next(row for row in obs["dom"].split("\n") if row.endswith(" focused"))
        for names, obs in zip(focus, seen, strict=True)
    )


def test_choices(recorded):
    person = recorded(
        "<label><input type=checkbox> Milk</label><input type=radio name=r id=a><label for=a>Tea</label><input type=radio name=r aria-label=Rum>"
        "<select aria-label=Size><option>S<option>M<option>L</select><input type=range aria-label=Heat min=0 max=10 value=5><select multiple aria-label=Extras><option>x<option>y<option>z</select>"
    )
    person.click("label >> nth=0")
    person.click("[for=a]")
    person.press("ArrowDown")
    person.do(lambda page: page.locator("select").first.focus())
    person.press("ArrowDown")
    person.press("ArrowDown")
    person.do(lambda page: page.locator("[type=range]").focus())
    person.press("ArrowRight")
    person.press("ArrowRight")
    person.click("option >> nth=3")
    person.do(lambda page: page.keyboard.down("Control"), 0)
    person.click("option >> nth=5")
    person.do(lambda page: page.keyboard.up("Control"), 0)
    assert person.done() == [
        {"action": "click", "id": "Milk"},
        {"action": "click", "id": "Tea"},
        {"action": "click", "id": "Rum"},
        {"action": "select", "id": "Size", "options": ["L"]},
        {"action": "fill", "id": "Heat", "text": "7"},
        {"action": "select", "id": "Extras", "options": ["x", "z"]},
    ]


def test_keys_count_where_they_act(recorded):
    person = recorded(
        "<button>Go</button><input aria-label=Search><div contenteditable role=textbox aria-label=Note></div>"
        "<textarea aria-label=Chat onkeydown=\"if (event.key === 'Enter') event.preventDefault()\"></textarea>"
        "<script>addEventListener('keydown', e => { if (e.key === 'k' && e.ctrlKey) e.preventDefault() })</script>"
    )
    person.press("Escape")
    person.press("Control+f")
    person.press("Control+k")
    person.press("Tab")
    person.press("Space")
    person.click("input")
    person.type("ca")
    person.press("ArrowLeft")
    person.press("ArrowDown")
    person.click("[contenteditable]")
    person.type("a")
    person.press("Enter")
    person.type("b")
    person.click("textarea")
    person.type("hi")
    person.press("Enter")
    assert person.done() == [
        {"action": "press", "key": "Escape"},
        {"action": "press", "key": "Control+k"},
        {"action": "press", "key": "Space", "id": "Go"},
        {"action": "fill", "id": "Search", "text": "ca"},
        {"action": "press", "key": "ArrowDown", "id": "Search"},
        {"action": "fill", "id": "Note", "text": "a\nb"},
        {"action": "fill", "id": "Chat", "text": "hi"},
        {"action": "press", "key": "Enter", "id": "Chat"},
    ]


def test_a_password_is_never_written(recorded, tmp_path):
    person = recorded(
        "<form><input type=password aria-label='Your phrase'><button type=button onclick=\"this.previousSibling.type = 'text'\">Show</button></form><p id=p></p>"
        "<script>document.querySelector('input').oninput = e => { if (e.target.value.length > 10) document.title = p.textContent = 'is ' + e.target.value }</script>"
    )
    person.click("input")
    person.type("hunter2-secret")
    person.click("button")
    person.click("input")
    person.type("X")
    assert person.done() == [
        {"action": "fill", "id": "Your phrase", "text": "<secret:your-phrase>"},
        {"action": "click", "id": "Show"},
        {"action": "fill", "id": "Your phrase", "text": "<secret:your-phrase>"},
    ]
    written = "".join(path.read_text() for path in person.recorder.folder.glob("*.json*"))
    assert "hunter2" not in written
    assert "is <secret:your-phrase>" in written


def test_what_was_typed_of_a_password_at_a_pause_is_no_secret(recorded):
    person = recorded("<input type=password aria-label=Phrase><button>The sum of summer</button>")
    vault = person.recorder.core.vault
    known = known_values()
    person.click("input")
    for part, so_far in (("sum", "sum"), ("mer2024", "summer2024")):
        person.type(part)
        person.until(lambda so_far=so_far: so_far in vault._values.get("phrase", ()))
    person.click("button")
    assert person.done() == [
        {"action": "fill", "id": "Phrase", "text": "<secret:phrase>"},
        {"action": "click", "id": "The sum of summer"},
    ]
    assert known_values() == [*known, "summer2024"]
    assert redact_known("The sum: summer2024") == "The sum: <secret:phrase>"


def test_frames_and_shadow_roots(recorded):
    person = recorded(
        "<iframe src=inner.html></iframe><iframe src=http://other.test/far.html></iframe><div id=open></div><x-closed></x-closed><script>"
        "open.attachShadow({mode: 'open'}).innerHTML = '<button><i>Open</i></button>';"
        "document.querySelector('x-closed').attachShadow({mode: 'closed'}).innerHTML = '<button>Closed</button><input aria-label=Deep>'</script>".replace(
            "open.attach", "document.getElementById('open').attach"
        ),
        inner="<button>Near</button><input aria-label=Field>",
        far="<button>Far</button><input aria-label=There>",
    )

    def at(page, frame, selector):
        return page.frames[frame].locator(selector)

    async def click(page, frame, selector):
        box = await at(page, frame, selector).bounding_box()
        await page.mouse.click(box["x"] + 9, box["y"] + 9)

    person.do(lambda page: click(page, 1, "button"))
    person.do(lambda page: click(page, 1, "input"))
    person.type("one")
    person.do(lambda page: click(page, 2, "button"))
    person.do(lambda page: click(page, 2, "input"))
    person.type("two")
    person.click("i")

    async def closed(page):
        box = await page.locator("x-closed").bounding_box()
        await page.mouse.click(box["x"] + 9, box["y"] + 9)
        await page.mouse.click(box["x"] + 90, box["y"] + 9)
        await page.keyboard.type("abc")

    person.do(closed)
    assert person.done() == [
        {"action": "click", "id": "Near"},
        {"action": "fill", "id": "Field", "text": "one"},
        {"action": "click", "id": "Far"},
        {"action": "fill", "id": "There", "text": "two"},
        {"action": "click", "id": "Open"},
        {"action": "click", "id": "Closed"},
        {"action": "fill", "id": "Deep", "text": "abc"},
    ]


def test_wheel_drags_and_places_without_an_element(recorded):
    person = recorded(
        "<body style='margin:0'><canvas width=100 height=100 style='background:red' onclick=1></canvas><div draggable=true style='position:absolute;top:0;left:200px;width:50px;height:50px'>Card</div>"
        "<div tabindex=0 aria-label=Slot style='position:absolute;top:0;left:400px;width:90px;height:90px' ondragover=event.preventDefault() ondrop='this.textContent=1'></div>"
        "<div tabindex=0 aria-label=Knob style='position:absolute;top:150px;left:0;width:50px;height:50px'></div><p style='position:absolute;top:300px;user-select:none'>Nothing here</p>"
        "<div style='height:3000px'></div>"
    )

    async def act(page):
        mouse = page.mouse
        await mouse.click(30, 40)
        await mouse.click(700, 500)  # nothing is there
        await asyncio.sleep(0.4)  # or what comes next would pass for what came of it
        for start, end in (((220, 20), (440, 40)), ((20, 170), (120, 170))):
            await mouse.move(*start)
            await mouse.down()
            await mouse.move(start[0] + 10, start[1], steps=3)
            await mouse.move(*end, steps=5)
            await asyncio.sleep(0.05)
            await mouse.up()
            await asyncio.sleep(0.05)
        await mouse.wheel(0, 200)
        await mouse.wheel(0, 200)
        await asyncio.sleep(0.3)
        await mouse.wheel(0, 100)

    person.do(act, 0.4)
    assert person.done() == [
        {"action": "click", "x": 30.0, "y": 40.0},
        {"action": "drag", "from": "Card", "to": "Slot"},
        {"action": "drag", "from": [20.0, 170.0], "to": [120.0, 170.0]},
        {"action": "scroll", "dy": 500.0},
    ]


def test_upload_has_the_names_of_files(recorded, tmp_path):
    person = recorded(
        "<input type=file aria-label=Photo hidden><button onclick='previousSibling.click()'>Choose</button>"
    )
    (tmp_path / "cat.png").write_bytes(b"x")

    async def choose(page):
        async with page.expect_file_chooser() as opened:
            await page.click("button")
        await (await opened.value).set_files(tmp_path / "cat.png")

    person.do(choose)
    assert person.done() == [{"action": "upload", "id": "Choose", "files": ["cat.png"]}]


def test_who_looks_for_a_file_for_a_while_has_uploaded_it(recorded, tmp_path):
    person = recorded(
        "<input type=file aria-label=Photo hidden><button onclick='previousSibling.click()'>Choose</button>"
    )
    (tmp_path / "cat.png").write_bytes(b"x")
    opened = []

    async def choose(page):
        async with page.expect_file_chooser() as chooser:
            await page.click("button")
        opened.append(await chooser.value)

    person.do(choose)
    person.until(lambda: person.recorder.steps == 1)
    person.do(lambda page: opened[0].set_files(tmp_path / "cat.png"))
    assert person.done() == [
        {"action": "click", "id": "Choose"},
        {"action": "upload", "id": "Choose", "files": ["cat.png"]},
    ]


def test_what_is_done_with_the_browser(recorded):
    person = recorded(
        "<a href=two.html>Two</a> <a href='#x'>Down</a> <a href=two.html target=_blank rel=noopener>New</a><p id=x>x",
        two="<button onclick='history.back()'>Home</button>",
    )
    recorder = person.recorder
    person.click("text=Two", RECENT)
    person.at("/two.html")
    person.do(lambda page: page.go_back(), 0)
    person.at("/index.html")
    person.do(lambda page: page.go_forward(), 0)
    person.at("/two.html")
    person.click("text=Home", 0)
    person.at("/index.html")
    person.do(lambda page: page.reload(), 0)
    person.until(lambda: recorder.steps == 5)
    person.do(lambda page: page.goto(f"{ORIGIN}/two.html?typed"), 0)
    person.at("/two.html?typed")
    person.do(lambda page: page.goto(f"{ORIGIN}/index.html"), 0)
    person.at("/index.html")
    person.click("text=New", 0)
    person.until(lambda: len(recorder.core.session.tabs) == 2)
    first = recorder.core.session.tabs[0]
    person.until(
        lambda: recorder.core.session.active is first,
        lambda page: first.page.mouse.move(50 + time.monotonic() % 50, 50),
    )
    person.do(lambda page: page.context.new_page(), 0)
    person.until(lambda: recorder.steps == 10)
    person.do(lambda page: page.close(), 0)
    assert person.done() == [
        {"action": "click", "id": "Two"},
        {"action": "back"},
        {"action": "forward"},
        {"action": "click", "id": "Home"},
        {"action": "navigate", "url": f"{ORIGIN}/index.html"},
        {"action": "navigate", "url": f"{ORIGIN}/two.html?typed"},
        {"action": "navigate", "url": f"{ORIGIN}/index.html"},
        {"action": "click", "id": "New"},
        {"action": "focus_tab", "index": 0},
        {"action": "new_tab"},
        {"action": "close_tab"},
    ]
    urls = [step["observation"]["url"].removeprefix(ORIGIN) for step in person.steps]
    assert urls[:8] == [
        "/index.html",
        "/two.html",
        "/index.html",
        "/two.html",
        "/index.html",
        "/index.html",
        "/two.html?typed",
        "/index.html",
    ]


def test_what_is_done_just_before_the_window_is_closed_is_recorded(recorded):
    person = recorded("<input aria-label=Name><button>Go</button>")
    recorder, closed = person.recorder, asyncio.Event()
    take = recorder._take

    async def take_late(*fact):
        await closed.wait()
        await take(*fact)

    recorder._take = take_late
    person.click("input")
    person.type("Ada")
    person.click("text=Go")
    person.do(lambda page: page.close())
    person.until(lambda: not recorder._open_tabs())
    assert not recorder.wait(0)
    runtime().loop.call_soon_threadsafe(closed.set)
    assert recorder.wait(20)
    assert person.done() == [{"action": "fill", "id": "Name", "text": "Ada"}, {"action": "click", "id": "Go"}]
    assert [len(step["observation"]["tabs"]) for step in person.steps] == [1, 1]


def test_what_makes_a_popup_close_itself_is_recorded(recorded):
    granted = "opener.document.getElementById('x').textContent = 'granted'"
    person = recorded(
        "<button onclick=\"window.open('popup.html')\">Sign in</button><p id=x>",
        popup=f'<button onclick="{granted}; window.close()">Allow</button>',
    )
    recorder = person.recorder
    person.click("text=Sign in", 0)
    person.at("/popup.html")
    person.click("text=Allow", 0)
    person.until(lambda: "granted" in recorder._latest["page_text"])
    assert person.done() == [{"action": "click", "id": "Sign in"}, {"action": "click", "id": "Allow"}]
    assert [len(step["observation"]["tabs"]) for step in person.steps] == [1, 2]


def test_forged_events_are_not_recorded_and_stopped_ones_are(recorded):
    person = recorded(
        "<button id=b>Real</button><button id=f>Forged</button><input id=i aria-label=Field><script>const send = EventTarget.prototype.dispatchEvent;"
        "for (const type of ['mousedown', 'mouseup', 'click', 'keydown', 'input']) addEventListener(type, (e) => e.stopImmediatePropagation(), true);"
        "EventTarget.prototype.dispatchEvent = EventTarget.prototype.addEventListener = () => { throw 1 }; JSON.stringify = () => 'x'; Event.prototype.composedPath = () => [];"
        "function forge() { for (const type of ['mousedown', 'mouseup', 'click']) send.call(f, new MouseEvent(type, {bubbles: true, detail: 1}));"
        "i.value = 'forged'; send.call(i, new InputEvent('input', {bubbles: true, inputType: 'insertText', data: 'forged'}));"
        "send.call(f, new KeyboardEvent('keydown', {key: 'Enter', bubbles: true})); f.click() }</script>"
    )
    person.do(lambda page: page.evaluate("forge()"))
    person.click("#b")
    person.click("#i")
    person.type("x")
    assert person.done() == [{"action": "click", "id": "Real"}, {"action": "fill", "id": "Field", "text": "forgedx"}]


def test_what_is_seen_before_an_action_is_from_before_the_page_reacts(recorded):
    person = recorded(
        "<button onmousedown=\"this.textContent = 'Changed'\" onclick='location = \"two.html\"'>First</button><input type=checkbox aria-label=A><input type=checkbox aria-label=B>",
        two="<button>Next</button>",
    )

    async def quickly(page):
        boxes = [await page.locator(each).bounding_box() for each in ("[aria-label=A]", "[aria-label=B]", "button")]
        for box in boxes:
            await page.mouse.click(box["x"] + 6, box["y"] + 6)
        await page.wait_for_url("**/two.html", wait_until="domcontentloaded")
        await page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        await page.mouse.click(20, 20)  # sooner than the recorder observes the page by itself

    person.do(quickly, 0)
    assert person.done() == [
        {"action": "click", "id": "A"},
        {"action": "click", "id": "B"},
        {"action": "click", "id": "First"},
        {"action": "click", "id": "Next"},
    ]
    states = [
        [("checked" in e["states"]) for e in step["observation"]["elements"] if e["role"] == "checkbox"]
        for step in person.steps
    ]
    assert states == [[False, False], [True, False], [True, True], []]
    done = [step["observation"]["last_action"] for step in person.steps]
    assert done[0] == ""
    assert [json.loads(text) for text in done[1:]] == [step["actions"][0] for step in person.steps[:-1]]
    assert person.episode.meta["final"]["url"] == f"{ORIGIN}/two.html"
    assert [step["completions"] for step in person.steps] == [[]] * 4
    assert person.episode.meta["recorded"] is True


FORM = (
    "<form action=/end.html><label>Name <input name=n></label><label>Code <input type=password name=c></label><select name=s aria-label=Size><option>S<option>M</select>"
    "<button>Send</button></form><div id=list></div><script>for (const n of [1, 2, 3]) list.innerHTML += '<button type=button>Delete</button>'; const all = list.children;"
    "all[1].onclick = e => { e.target.remove(); sum.textContent = 'second' }</script><p id=sum></p>"
)


def fill_in(person):
    person.click("#list button >> nth=1")
    person.click("[name=n]")
    person.type("Ada")
    person.click("[name=c]")
    person.type("s3cret-code")
    person.click("text=Send", 0.5)


def fresh(recorder, tmp_path, **options):
    return {"task": Site(tmp_path / "site"), "viewport": (800, 600), "screenshot": False, **options}


def play(options, episode, **more):
    return replay(episode, **options, **more)


def test_an_episode_can_be_played_again(recorded, tmp_path):
    person = recorded(FORM, end="<p>sent</p>")
    fill_in(person)
    assert person.done("solved", "It is sent.")[-1] == {"action": "finish", "answer": "It is sent."}
    assert person.summary == {
        "episode": str(person.recorder.folder), "steps": 5, "outcome": "solved", "reward": 1.0, "trainable": True
    }  # fmt: skip
    env = fresh(person, tmp_path, safety=browser_env.Safety(secrets={"code": "s3cret-code"}))
    result = play(env, person.episode)
    assert [step.matched for step in result.steps] == ["id"] * 4 + [""]
    assert (result.complete, result.same_outcome, result.difference) == (True, True, "")

    # On another page elements are found by role and name, then by their place; what is gone is said.
    page = tmp_path / "site" / "index.html"
    page.write_text("<a href=#>New</a>" + page.read_text().replace("<button>Send</button>", "<button>Post</button>"))
    env = fresh(person, tmp_path, safety=browser_env.Safety(secrets={"code": "s3cret-code"}))
    result = play(env, person.episode)
    assert [step.matched for step in result.steps] == ["id", "name", "name", "", ""]
    assert [step.done for step in result.steps] == [True, True, True, False, True]
    assert result.steps[3].error == "There is no button named 'Send' here."
    assert not result.same_outcome
    assert (
        result.difference == f"The replay ended at {ORIGIN}/index.html, not at {person.episode.meta['final']['url']}."
    )


def test_nothing_risky_is_played_again_once_an_action_failed(recorded, tmp_path):
    person = recorded("<form action=end.html><input name=n aria-label=Pieces><button>Buy now</button>", end="<p>Thanks")
    person.click("[name=n]")
    person.type("2")
    person.click("text=Buy now", 0.5)
    person.done("solved")
    assert play(fresh(person, tmp_path), person.episode).complete
    page = tmp_path / "site" / "index.html"
    page.write_text(page.read_text().replace("<input", "<select").replace("Pieces>", "Pieces></select>"))
    result = play(fresh(person, tmp_path), person.episode)
    assert [step.done for step in result.steps] == [False, False, True]
    assert result.steps[1].error == "Not executed: the action looks risky (purchase), and an earlier action failed."
    assert result.difference.startswith(f"The replay ended at {ORIGIN}/index.html")


def test_a_recorded_step_is_a_demonstration(recorded):
    """The trainer's teacher is told `{"action", "reason"}` behind the prompt that the student sees."""
    person = recorded("<button>Go</button><button>Stay</button>")
    person.click("text=Go")
    person.done("solved")
    step = person.steps[0]
    prompt = build(step["observation"])
    taught = with_demonstration(prompt.messages, {"action": step["actions"][0], "reason": ""})
    told_more = taught[-1].text.removeprefix(prompt.messages[-1].text)
    assert '{"click":1}' in told_more
    assert len(told_more) < 200


def test_a_task_ends_the_recording(tmp_path):
    env = browser_env.AsyncBrowserEnv(task=task_of("MiniWoB/click-button-v0"), screenshot=False)
    person = Person(Recorder(env, tmp_path / "episode", meta={"env_id": "MiniWoB/click-button-v0"}))
    person.recorder.start(3)
    wanted = env.privileged()["action"]["id"]
    box = next(element["bbox"] for element in env.core.observation["elements"] if element["id"] == wanted)
    person.do(lambda page: page.mouse.click(box[0] + 3, box[1] + 3))
    assert person.recorder.wait(5)
    person.recorder.finish()
    (step,) = Episode(tmp_path / "episode").steps()
    assert step["actions"] == [{"action": "click", "id": wanted}]
    assert Episode(tmp_path / "episode").meta["outcome"] == "solved"
    result = play({"task": task_of("MiniWoB/click-button-v0")}, Episode(tmp_path / "episode"))
    assert (result.complete, result.same_outcome, result.outcome, result.reward) == (True, True, "solved", 1.0)


def test_input_before_the_recorder_is_in_a_new_document_is_recorded_late(recorded):
    person = recorded(
        "<a href=two.html>Go</a>",
        two="<button>Next</button><input aria-label=Name>",
    )
    recorder = person.recorder
    prepare, wait = recorder._prepare, asyncio.Event()

    async def late(tab):
        await wait.wait()
        await prepare(tab)

    recorder._prepare = late

    async def quickly(page):
        await page.mouse.click(20, 16)
        await page.wait_for_url("**/two.html")
        await page.mouse.click(20, 20)
        box = await page.locator("input").bounding_box()
        await page.mouse.click(box["x"] + 9, box["y"] + 9)
        await page.keyboard.type("Ada")
        wait.set()

    person.do(quickly, 0)
    assert person.done() == [
        {"action": "click", "id": "Go"},
        {"action": "click", "id": "Next"},
        {"action": "fill", "id": "Name", "text": "Ada"},
    ]
    assert EARLY in person.steps[0]["events"] + person.steps[1]["events"]


def test_buttons_at_the_side_of_a_mouse_go_back(recorded):
    person = recorded("<a href=two.html>Go</a>", two="<p>two")

    async def side(page):
        tab = person.recorder.core.session.active
        for type in ("mousePressed", "mouseReleased"):
            about = {"type": type, "x": 300, "y": 300, "button": "back", "clickCount": 1}
            await tab.protocol.send("Input.dispatchMouseEvent", about)

    person.click("a", RECENT)
    person.at("/two.html")
    person.do(side, 0)
    person.at("/index.html")
    assert person.done() == [{"action": "click", "id": "Go"}, {"action": "back"}]


def test_loading_anew_is_an_action_only_when_a_person_asks_for_it(recorded):
    person = recorded(
        "<button onclick='location.reload()'>Reload</button><a href=index.html>Here</a><button onclick='history.go(0)'>Go</button>"
    )
    for name in ("Reload", "Here", "Go"):
        document = person.recorder.core.session.active.document
        person.click(f"text={name}", 0)
        person.until(lambda old=document: person.recorder.core.session.active.document != old)
        person.ready()
    person.do(lambda page: page.reload(), 0)  # soon after an input
    assert person.done() == [
        {"action": "click", "id": "Reload"},
        {"action": "click", "id": "Here"},
        {"action": "click", "id": "Go"},
        {"action": "navigate", "url": f"{ORIGIN}/index.html"},
    ]
