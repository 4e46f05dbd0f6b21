"""What came of an action is told where it isn't what was asked for, and looked for where a person would find it."""

import time

import pytest

from tests.few import few
from tests.in_page import value


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("<input aria-label=F maxlength=5>", "abcdefgh", '[1] holds "abcde" now, not all that was typed'),
        ("<input aria-label=F type=number>", "abc", "[1] holds nothing now, not all that was typed"),
        (
            "<input aria-label=F value=12 onkeydown='return /\\d/.test(event.key)'>",
            "a3b",
            '[1] holds "123" now, not all that was typed',
        ),
        ("<input aria-label=F type=password maxlength=2>", "abc", '[1] holds "••" now, not all that was typed'),
        ("<textarea aria-label=F maxlength=3></textarea>", "abcde", '[1] holds "abc" now, not all that was typed'),
    ],
)
def test_what_a_field_does_not_take_is_told(open_page, field, text, says):
    env, _ = open_page(field)
    obs, *_ = env.step({"action": "type", "id": 1, "text": text})
    assert list(obs["events"]) == [says]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("<input aria-label=F value=ab>", "cd"),
        ("<input aria-label=F type=number>", "1e3"),
        (
            "<input aria-label=F oninput=\"value = value.replace(/\\D/g, '').replace(/(\\d{3})(\\d+)/, '($1) $2')\">",
            "123456",
        ),
        ('<input aria-label=F oninput="value = value.toUpperCase()">', "ab c"),
        (
            "<input aria-label=F onkeydown=\"if (event.key === ',') { o.textContent += value; value = ''; return false }\"><p id=o>",
            "tag,",
        ),
        ("<input aria-label=F onkeydown=\"if (event.key === 'Enter') value = ''\">", "sent\n"),
        ("<input aria-label=F oninput='this.replaceWith(this.cloneNode())'>", "a"),
    ],
)
def test_what_a_field_takes_is_not(open_page, field, text):
    env, _ = open_page(field)
    obs, *_ = env.step({"action": "type", "id": 1, "text": text})
    assert (list(obs["events"]), obs["last_error"]) == ([], "")


def test_a_slider_is_set_by_typing_as_by_filling(open_page):
    env, _ = open_page("<input type=range aria-label=F>")
    env.step({"action": "type", "id": 1, "text": "70"})
    assert value(env, "document.querySelector('input').value") == "70"


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (
            "<select aria-label=S><option value=x>A<option value=y>A<option>B</select>",
            'Element 1 has several options "A": choose x or y.',
        ),
        (
            "<div role=listbox aria-label=S tabindex=0><div role=option>A</div><div role=option>A</div></div>",
            'Element 1 has several options "A": click [2] or [3].',
        ),
    ],
)
def test_of_options_that_say_the_same_none_is_chosen(open_page, page, says):
    env, _ = open_page(page)
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["A"]})
    assert obs["last_error"] == says


def test_an_option_of_a_native_list_is_chosen_by_its_value_then(open_page):
    env, _ = open_page("<select aria-label=S><option value=x>A<option value=y>A</select>")
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["y"]})
    assert (obs["last_error"], value(env, "document.querySelector('select').value")) == ("", "y")


def test_a_button_is_clicked_where_a_strip_of_it_is_free(open_page):
    page = """<button style='position:absolute;left:10px;top:10px;width:200px;height:60px' onclick='window.c=1'>Go</button>
    <div style='position:absolute;left:0;top:0;width:195px;height:80px;background:#fff'>Over</div>"""
    env, obs = open_page(page)
    obs, *_, info = env.step({"action": "click", "id": obs["elements"][0]["id"]})
    assert (value(env, "window.c"), info["action_path"], list(obs["events"])) == (1, "mouse", [])


def test_where_nothing_scrolls_it_is_told(open_page):
    env, _ = open_page("<div aria-label=D role=region>A</div><p style='height:3000px'>B")
    obs, *_ = env.step({"action": "scroll", "dy": 9000})
    assert list(obs["events"]) == []
    obs, *_ = env.step({"action": "scroll", "dy": 100})
    assert "nothing scrolled" in obs["events"][0]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("<p id=m>Loading more...</p>", "the page shows that it is loading more"),
        ("<div aria-busy=true>More</div>", "the page shows that it is loading more"),
        ("<script>onwheel = () => fetch('/more?hangs')</script>", "what was requested is still to come"),
        ("<p hidden>Loading more...</p>", "or this does not scroll"),
    ],
)
def test_where_more_is_being_loaded_it_is_told(make, loopback, more, told):
    def answer(request):
        if "hangs" in request.path:
            time.sleep(1)
        return f"<p style='height:3000px'>feed</p>{more}".encode()

    env, _ = make(loopback(answer).url)
    env.step({"action": "scroll", "dy": 9000})
    obs, *_ = env.step({"action": "scroll", "dy": 100})
    assert told in obs["events"][0]


@pytest.mark.parametrize("holder", ["body", "html"])
def test_scrolling_under_an_overlay_leaves_the_page_that_it_holds_still(open_page, by_name, holder):
    env, obs = open_page(
        f"""<style>{holder} {{ overflow: hidden }}</style><p style="height:3000px">page</p>
        <div style="position:fixed;inset:0;background:white"><div id=list style="height:400px;overflow:auto"><p style="height:900px">a</p></div>
        <button onclick="list.remove()">Shorten</button></div>""",
    )
    obs, *_ = env.step({"action": "scroll", "dy": 120})
    assert [value(env, "list.scrollTop"), value(env, "scrollY")] == [120, 0]
    env.step({"action": "click", "id": by_name(obs, "Shorten")["id"]})
    obs, *_ = env.step({"action": "scroll", "dy": 120})
    assert value(env, "scrollY") == 0
    assert any(event.startswith("nothing scrolled") for event in obs["events"])


def test_a_map_that_draws_is_not_told_of(open_page):
    env, _ = open_page("<canvas width=800 height=600 onwheel='window.c = event.deltaY'></canvas>")
    obs, *_ = env.step({"action": "scroll", "dy": 120})
    assert (value(env, "window.c"), list(obs["events"])) == (120, [])


def test_a_button_that_moves_away_while_it_is_pressed_was_not_clicked(open_page):
    page = """<div id=d></div><button onmousedown='d.style.height="200px"' onclick='window.c=1'>Go</button>"""
    env, _ = open_page(page)
    obs, *_ = env.step({"action": "click", "id": 1})
    assert value(env, "window.c ?? null") is None
    assert obs["last_error"] == "The element moved away while the mouse was pressed on it, so it was not clicked."


def test_a_menu_that_opens_over_its_button_is_no_slip(open_page):
    page = """<button onmousedown='m.hidden=false'>Go</button>
    <div id=m hidden style='position:absolute;left:0;top:0;width:300px;height:300px;background:#fff'>Menu</div>"""
    env, _ = open_page(page)
    obs, *_ = env.step({"action": "click", "id": 1})
    assert obs["last_error"] == ""
    assert [*obs["events"]] == ["when the mouse was released, div#m had come over the element: no click"]


def test_what_comes_over_a_field_that_is_pressed_is_its_own(open_page, by_name):
    env, obs = open_page(
        """<input aria-label=Day onmousedown="c.hidden = false"><div id=c hidden style="position:fixed;inset:0;background:white">
        <button onclick="document.title = 17">17</button></div>"""
    )
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Day")["id"]})
    assert obs["events"] == ()
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "17")["id"]})
    assert obs["title"] == "17"


CLIPPED = "border:0;clip:rect(0,0,0,0);height:1px;width:1px;margin:-1px;padding:0;overflow:hidden;position:absolute"


@pytest.mark.parametrize(
    "page",
    [
        f"""<label style="display:inline-flex;align-items:center;position:relative"><input type=checkbox style="{CLIPPED}">
        <span style="width:16px;height:16px;border:2px solid"></span><span style="margin-left:8px">Agree</span></label>""",
        """<button aria-haspopup=listbox aria-expanded=false onmousedown="m.hidden = false; this.ariaExpanded = true">Agree</button>
        <div id=m hidden style="position:fixed;inset:0"><ul role=listbox><li role=option>One</ul></div>""",
        """<button onmousedown="m.hidden = false">Agree</button><div id=m hidden style="position:fixed;inset:0"><ul role=menu><li role=menuitem>One</ul></div>""",
        """<button onmousedown="m.className = 'ripple'" onmouseup="m.className = ''">Agree</button><i id=m style="pointer-events:none"></i><style>.ripple {position:fixed;inset:0}</style>""",
    ],
)
@pytest.mark.parametrize("offset", few(1, ["20px", "20.5px", "20.25px"]))
def test_what_was_clicked_or_opened_is_not_told_as_no_click(open_page, by_name, page, offset):
    env, obs = open_page(f"<div style='padding:{offset}'>{page}</div>")
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Agree")["id"]})
    assert (obs["last_error"], list(obs["events"])) == ("", [])
    assert value(env, "document.querySelector('input')?.checked ?? true")


def test_a_whole_folder_can_not_be_uploaded(open_page, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    from selfsurf.browser_env import Safety

    env, _ = open_page(
        "<input type=file webkitdirectory aria-label=F>",
        options={"safety": Safety(upload_from=(str(tmp_path),))},
    )
    obs, *_ = env.step({"action": "upload", "id": 1, "files": ["a.txt"]})
    assert obs["last_error"] == "Element 1 takes a whole folder, which can't be uploaded."


LINES = "\n".join(f"  line {number}: a < b && c" for number in range(2000))


@pytest.mark.parametrize(
    ("field", "held"),
    [
        ("<textarea aria-label=F oninput='window.n=(window.n||0)+1'>old</textarea>", "value"),
        (
            "<div contenteditable aria-label=F style='white-space:pre-wrap' oninput='window.n=(window.n||0)+1'>old</div>",
            "innerText",
        ),
        ("<div contenteditable aria-label=F oninput='window.n=(window.n||0)+1'>old</div>", "innerText"),
    ],
)
def test_two_thousand_lines_are_written_in_seconds(open_page, field, held):
    env, _ = open_page(field)
    start = time.perf_counter()
    obs, *_ = env.step({"action": "fill", "id": 1, "text": LINES})
    assert time.perf_counter() - start < 6  # some take half a minute line by line
    assert obs["last_error"] == ""
    assert value(env, f"document.querySelector('[aria-label]').{held}").replace("\xa0", " ").rstrip("\n") == LINES
    assert value(env, "window.n") >= 1


def test_a_field_whose_text_is_drawn_as_dots_is_not_shown(open_page):
    _, obs = open_page("<input aria-label=Pin style='-webkit-text-security:disc' value=1234>")
    assert obs["elements"][0]["value"] == "••••"
    assert "1234" not in obs["dom"]


def test_a_date_before_the_first_one_is_invalid(open_page):
    _, obs = open_page("<input type=date min=2026-02-01 value=2026-01-01 aria-label=D>")
    assert "invalid" in obs["elements"][0]["states"]


LATE = [
    (
        "<button onclick=\"o.textContent='Loading...';setTimeout(()=>{o.textContent='Done'},1800)\">Go</button><p id=o>",
        "Done",
    ),
    (
        "<button onclick=\"this.textContent='Searching…';setTimeout(()=>{this.textContent='Found'},1800)\">Go</button>",
        "Found",
    ),
]


@pytest.mark.parametrize(("page", "then"), LATE)
def test_a_plain_text_that_says_it_is_loading_is_waited_for(open_page, page, then):
    env, _ = open_page(page)
    obs, *_ = env.step({"action": "click", "id": 1})
    assert then in obs["dom"]


@pytest.mark.parametrize("text", ["Loading docks: 3", "Working hours", "Searching tips..."[:-3]])
def test_a_text_that_only_begins_so_is_not(open_page, text):
    env, _ = open_page(f"<button onclick=\"o.textContent='{text}'\">Go</button><p id=o>")
    start = time.perf_counter()
    obs, *_ = env.step({"action": "click", "id": 1})
    assert text in obs["dom"]
    assert time.perf_counter() - start < 1.5


def test_a_menu_that_a_style_sheet_shows_after_a_delay(open_page):
    page = """<style>nav div {visibility: hidden; opacity: 0; transition: visibility 0s .3s, opacity .1s .3s}
    nav:hover div {visibility: visible; opacity: 1}</style>
    <nav><button>Menu</button><div><a href=#x>Inner</a></div></nav>"""
    env, obs = open_page(page)
    assert "Inner" not in obs["dom"]
    obs, *_ = env.step({"action": "hover", "id": obs["elements"][0]["id"]})
    assert "Inner" in obs["dom"]


INNER = (
    "<button style='position:absolute;left:0' onclick='top.c=1'>L</button>"
    "<button style='position:absolute;left:200px' onclick='top.c=2'>R</button>"
)


@pytest.mark.parametrize(
    "style",
    [
        pytest.param("transform:scaleX(-1)", marks=pytest.mark.slow),
        pytest.param("transform:scaleY(-1)", marks=pytest.mark.slow),
        "rotate:180deg",
        "scale:-1",
        pytest.param("transform:rotate(180deg) scale(.8)", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("name", "told"), [("L", 1), ("R", 2)])
def test_frames_that_are_turned_round_are_clicked_rightly(open_page, by_name, style, name, told):
    page = f'<iframe style="{style};width:300px;height:150px" srcdoc="{INNER}"></iframe>'
    env, obs = open_page(page)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, name)["id"]})
    assert (obs["last_error"], value(env, "window.c")) == ("", told)


FREE = [
    "<svg width=300 height=100><g role=button tabindex=0 aria-label=F onclick='window.c=1'><circle cx=20 cy=20 r=10 />"
    "<circle cx=280 cy=80 r=10 /></g></svg>",
    "<button aria-label=F style='width:200px;height:100px;clip-path:polygon(0 0,30% 0,0 30%)' onclick='window.c=1'></button>",
    "<svg width=300 height=100><a href='#x' aria-label=F onclick='window.c=1'><text x=10 y=20>Link</text>"
    "<circle cx=280 cy=80 r=10 /></a></svg>",
]


@pytest.mark.parametrize("page", FREE, ids=["group", "clipped", "link"])
def test_what_can_be_hit_anywhere_is_not_covered(open_page, by_name, page):
    env, obs = open_page(page)
    assert not any("covered" in state for state in by_name(obs, "F")["states"])
    *_, info = env.step({"action": "click", "id": by_name(obs, "F")["id"]})
    assert (value(env, "window.c"), info["action_path"]) == (1, "mouse")


def test_a_list_that_opens_by_keys_alone(open_page):
    page = """<div role=combobox aria-controls=t aria-expanded=false tabindex=0 aria-label=C
      onkeydown="if (event.key === 'ArrowDown') { t.hidden = false; this.ariaExpanded = 'true' }">-</div>
    <div id=t role=listbox hidden><div role=option onclick="window.c='one'">One</div>
      <div role=option onclick="window.c='two'">Two</div></div>"""
    env, _ = open_page(page)
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["Two"]})
    assert (obs["last_error"], value(env, "window.c")) == ("", "two")


@pytest.mark.parametrize(
    ("html", "late"),
    [
        ("<p id=d>0</p><button>Go</button><script>const put = () => d.firstChild.data = '1'", 0),
        ("<p id=d>0</p><button>Go</button><script>const put = () => d.firstChild.data = '1'", 200),
        (
            "<x-x></x-x><button>Go</button><script>const r = document.querySelector('x-x').attachShadow({mode: 'open'});"
            "const put = () => r.innerHTML = '<p>1</p>'",
            0,
        ),
        ("<p id=d>0</p><button>Go</button><script>const put = () => { d.textContent = ''; d.append('1') }", 200),
    ],
)
def test_a_change_of_a_bare_text_or_a_shadow_root_is_one(open_page, by_name, html, late):
    put = f"setTimeout(put, {late})" if late else "put()"
    env, obs = open_page(f"{html}; document.querySelector('button').onclick = () => {put}</script>")
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
    assert (obs["events"], "1" in obs["page_text"]) == ((), True)


@pytest.mark.parametrize(
    ("change", "before", "text", "error", "event"),
    few(
        5,
        [
            ("f.value = f.value.replace(/\\D/g, '')", "", "12.50", "", '[1] holds "1250" now'),
            ("f.value = f.value.replace(/\\D/g, '')", "", "-5", "", '[1] holds "5" now'),
            ("f.value = (+f.value.replace(/\\D/g, '') / 100).toFixed(2)", "", "100", "", '[1] holds "1.00" now'),
            ("f.value = f.value.replace(/[^\\w ]/g, '')", "", "C++", "", '[1] holds "C" now'),
            ("f.value = String(Number(f.value))", "", "01234", 'holds another text now: "1234".', ""),
            ("if (!f.value) f.value = 'abc'", "abc", "", 'holds another text now: "abc".', ""),
            ("f.value = 'zzz'", "", "???", 'holds another text now: "zzz".', ""),
            ("f.value = 100 + f.value", "100", "5", 'holds another text now: "1005".', ""),
            ("f.value = f.value.toUpperCase()", "", "straße", "", ""),
            ("f.value = f.value.normalize('NFD')", "", "José", "", ""),
            ("f.value = String(Number(f.value.replace(',', '')))", "", "1,234.50", "", ""),
            ("f.value += ', Germany'", "", "Berlin", "", ""),
            ("f.replaceWith(document.createElement('input'))", "", "hello", "", "[1] is gone since it was written to"),
        ],
    ),
)
def test_what_was_lost_of_a_text_is_told(open_page, change, before, text, error, event):
    env, obs = open_page(
        f"<input id=f aria-label=F value='{before}'><script>f.addEventListener('input', () => {{ {change} }}, {{once: true}})</script>"
    )
    obs, *_ = env.step({"action": "fill", "id": 1, "text": text})
    assert obs["last_error"].endswith(error) if error else obs["last_error"] == ""
    assert obs["events"] == ((event,) if event else ())


AGAIN = {
    "a change": "setTimeout(() => p.textContent = 'x', 5)",
    "loading": "p.textContent = 'Loading...'; setTimeout(() => p.textContent = 'ok', 300)",
    "a closed root": "const host = document.createElement('x-y'); p.append(host); host.attachShadow({mode: 'closed'}).innerHTML = '<b>in</b>'",
}


@pytest.mark.parametrize("screenshot", [True, False])
@pytest.mark.parametrize("then", AGAIN.values(), ids=AGAIN)
def test_what_was_lost_of_a_text_is_told_when_the_page_is_observed_again(open_page, then, screenshot):
    page = f"<input aria-label=F id=f><p id=p>-</p><script>f.oninput = () => {{ f.value = f.value.slice(0, 3); {then} }}</script>"
    env, _ = open_page(page, options={"screenshot": screenshot})
    obs, *_ = env.step({"action": "fill", "id": 1, "text": "abcdef"})
    assert obs["last_error"] == 'Element 1 holds another text now: "abc".'


@pytest.mark.parametrize("then", AGAIN.values(), ids=AGAIN)
def test_a_form_that_was_not_sent_is_told_when_the_page_is_observed_again(open_page, by_name, then):
    env, obs = open_page(
        f"<form><input aria-label=F id=f required><button>Go</button></form><p id=p></p><script>f.oninvalid = () => {{ {then} }}</script>"
    )
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
    assert list(obs["events"]) == ['form not sent: textbox "F": Please fill out this field.']


def test_where_the_focus_went_while_a_text_was_typed_is_told(open_page, by_name):
    env, obs = open_page(
        "<input aria-label=X oninput='y.focus()'><input id=y aria-label=Y>",
    )
    obs, *_ = env.step({"action": "type", "id": 1, "text": "hello"})
    assert obs["events"] == ('[1] holds "h" now, not all that was typed; the focus is on [2] textbox "Y"',)


def test_a_key_is_not_pressed_where_the_page_moves_the_focus(open_page):
    env, _ = open_page(
        "<label>X <input id=x onfocus='del.focus()'></label><button id=del onclick='window.c = 1'>Delete</button>"
    )
    obs, *_ = env.step({"action": "press", "selector": "#x", "key": "Enter"})
    assert obs["last_error"] == 'The page moved the focus to [2] button "Delete": the key was not pressed.'
    assert value(env, "window.c") is None


@pytest.mark.parametrize("later", ["Promise.resolve().then(put)", "setTimeout(put)"])
def test_a_choice_that_the_page_takes_back_later_is_told(open_page, later):
    env, _ = open_page(
        f"""<select id=s aria-label=S><option>One<option>Two</select><input id=d type=date aria-label=D value=2026-01-01><script>
        s.onchange = () => {{ const put = () => s.value = 'One'; {later} }};
        d.onchange = () => {{ const put = () => d.value = '2026-01-01'; {later} }}</script>"""
    )
    obs, *_ = env.step({"action": "select", "selector": "#s", "options": ["Two"]})
    assert obs["events"] == ('[1] was set, and the page made it "One"',)
    obs, *_ = env.step({"action": "fill", "selector": "#d", "text": "2026-02-02"})
    assert obs["events"] == ('[2] was set, and the page made it "2026-01-01"',)


def test_a_list_whose_options_are_drawn_anew_without_the_choice_is_told(open_page):
    env, _ = open_page(
        "<select aria-label=S onchange='innerHTML = `<option selected>One<option>Two`'><option>One<option>Two</select>"
    )
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["Two"]})
    assert obs["events"] == ('[1] was set, and the page made it "One"',)


@pytest.mark.parametrize("later", ["setTimeout(go)", "Promise.resolve().then(go)", "requestAnimationFrame(go)"])
def test_a_filled_text_goes_to_no_other_field_however_late_the_focus_moves(open_page, later):
    env, _ = open_page(
        f"""<label>X <input id=x></label><dialog id=d><label>Y <input id=y value=old></label></dialog><script>
        x.onfocus = () => {{ const go = () => d.showModal(); {later} }}</script>"""
    )
    obs, *_ = env.step({"action": "fill", "selector": "#x", "text": "abc"})
    told = 'The page moved the focus from element 1 to [2] textbox "Y"; nothing was typed.'
    assert (obs["last_error"], value(env, "x.value")) in [(told, ""), ("", "abc")]  # a timer may be too late
    assert value(env, "y.value") == "old"
    obs, *_ = env.step({"action": "fill", "selector": "#y", "text": "new"})
    assert (obs["last_error"], value(env, "y.value")) == ("", "new")


def test_an_editor_that_takes_nothing_of_a_text_is_told(open_page):
    env, _ = open_page(
        "<div contenteditable aria-label=E onbeforeinput='if (/z/.test(event.data)) return false'>old</div>"
    )
    obs, *_ = env.step({"action": "type", "id": 1, "text": "zz"})
    assert obs["events"] == ('[1] holds "old" now, not all that was typed',)
    obs, *_ = env.step({"action": "type", "id": 1, "text": "zza"})
    assert (obs["last_error"], obs["events"]) == ("", ())


def test_a_field_that_takes_keys_only_says_so(open_page):
    env, _ = open_page("<input aria-label=F onkeydown='value += event.key; return false' oninput='value = \"\"'>")
    obs, *_ = env.step({"action": "fill", "id": 1, "text": "12"})
    assert obs["last_error"] == 'Element 1 holds another text now: "". If it takes keys only, use type.'
    obs, *_ = env.step({"action": "type", "id": 1, "text": "12"})
    assert (obs["last_error"], value(env, "document.querySelector('input').value")) == ("", "12")


SEVERAL = """<div role=listbox aria-label=L>{}</div><script>for (const one of document.querySelectorAll('[role=option]'))
one.onclick = () => {{ one.ariaSelected = one.ariaSelected !== 'true' }}</script>"""


@pytest.mark.parametrize(
    ("option", "error"),
    [
        (
            "<div role=option>{}</div>",
            "Element 1 may take only one option; to choose several, click each: [2], [4].",
        ),
        ("<div role=option><input type=checkbox tabindex=-1 aria-hidden=true>{}</div>", ""),
        ("<div role=option aria-checked=false>{}</div>", ""),
    ],
)
def test_several_options_of_an_open_list_that_does_not_say_that_it_takes_them(open_page, option, error):
    env, _ = open_page(SEVERAL.format("".join(option.format(name) for name in "ABC")))
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["A", "C"]})
    chosen = value(env, "[...document.querySelectorAll('[aria-selected=true]')].map((one) => one.innerText).join('')")
    assert (obs["last_error"], chosen) == (error, "" if error else "AC")


def test_a_list_in_which_a_click_lets_go_of_the_others_is_chosen_from_with_a_key_held(open_page):
    env, _ = open_page(
        """<div role=listbox aria-label=L aria-multiselectable=true><div role=option aria-selected=false>A</div><div role=option aria-selected=false>B</div>
        <div role=option aria-selected=false>C</div></div><script>const os = document.querySelectorAll('[role=option]');
        for (const o of os) o.onclick = (e) => { if (!e.ctrlKey && !e.metaKey) for (const p of os) if (p !== o) p.ariaSelected = 'false'; o.ariaSelected = String(o.ariaSelected !== 'true') }</script>"""
    )
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["A", "C"]})
    chosen = value(env, "[...document.querySelectorAll('[aria-selected=true]')].map((one) => one.innerText).join('')")
    assert (obs["last_error"], obs["events"], chosen) == ("", (), "AC")


def test_a_list_that_does_not_take_an_option_is_told(open_page):
    env, _ = open_page(
        "<div role=listbox aria-label=L><div role=option aria-selected=true>A</div><div role=option aria-selected=false>B</div></div>"
    )
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["B"]})
    assert obs["events"] == ('[1] does not show "B" as chosen',)


@pytest.mark.parametrize(
    ("box", "event"),
    [
        ("<input type=checkbox aria-label=C onclick='return false'>", ('[1] was set, and the page made it "false"',)),
        ("<div role=checkbox aria-label=C tabindex=0 aria-checked=false>x</div>", ('[1] was set, and the page made it "false"',)),
        ("<input type=checkbox aria-label=C>", ()),
    ],
)  # fmt: skip
def test_a_box_that_the_page_does_not_let_be_checked_is_told(open_page, box, event):
    env, _ = open_page(box)
    obs, *_ = env.step({"action": "fill", "id": 1, "text": "true"})
    assert (obs["last_error"], obs["events"]) == ("", event)


def test_what_takes_no_text_is_chosen_by_typing_or_says_so(open_page):
    env, _ = open_page(
        "<select aria-label=S><option>Alpha<option>Beta</select><div role=slider tabindex=0 aria-label=V aria-valuenow=3>x</div>"
    )
    obs, *_ = env.step({"action": "type", "id": 1, "text": "Beta"})
    assert (obs["last_error"], value(env, "document.querySelector('select').value")) == ("", "Beta")
    obs, *_ = env.step({"action": "type", "id": 1, "text": "Gamma"})
    assert "has no option 'Gamma'" in obs["last_error"]
    obs, *_ = env.step({"action": "type", "id": 2, "text": "60"})
    assert obs["last_error"] == "Element 2 is a custom slider: press arrow keys in it, or drag it."


def test_what_lets_the_mouse_through_to_a_button_around_it_is_clicked_there(open_page):
    env, _ = open_page(
        "<div onclick='document.title = event.isTrusted'><span style='pointer-events:none'>q</span></div><b style='pointer-events:none'>no</b>"
    )
    obs, *_ = env.step({"action": "click", "selector": "text=q"})
    assert (obs["last_error"], obs["title"]) == ("", "true")
    obs, *_ = env.step({"action": "click", "selector": "text=no"})
    assert "pointer-events: none" in obs["last_error"]


def test_a_toolbar_for_marked_text_comes_with_the_selection(open_page):
    env, _ = open_page(
        """<div id=e contenteditable>hello brave world</div><div id=t hidden><button>Bold</button></div>
        <script>document.onkeyup = () => t.hidden = getSelection().isCollapsed</script>"""
    )
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["brave"]})
    assert ("Bold" in obs["dom"], 'marked text: "brave"' in obs["dom"]) == (True, True)


def test_a_dropdown_that_only_says_that_it_is_closed_is_chosen_from(open_page):
    env, _ = open_page(
        """<div id=d tabindex=0 aria-expanded=false aria-readonly=true aria-label=Pick><span>Pick</span></div><script>
        d.onclick = () => { if (d.ariaExpanded === 'true') return; d.ariaExpanded = 'true';
          d.insertAdjacentHTML('beforeend', '<ul><li role=option>One</li><li role=option>Two</li></ul>');
          for (const li of d.querySelectorAll('li')) li.onclick = () => document.title = li.textContent }</script>"""
    )
    obs, *_ = env.step({"action": "select", "id": 1, "options": ["Two"]})
    assert (obs["last_error"], obs["title"]) == ("", "Two")
