"""Every kind of field: what goes in, what the page hears of it, what is refused and how that is said."""

import pytest

from tests.few import few
from tests.in_page import value

HEARD = """<script>const heard = {}; for (const type of ['input', 'change', 'keydown', 'beforeinput']) addEventListener(type,
(e) => { const key = e.target.id; heard[key] = (heard[key] || '') + type[0]; log.textContent = JSON.stringify(heard) }, true)</script><p id=log></p>"""


def act(env, obs, name, by_name, **action):
    return env.step({"id": by_name(obs, name)["id"], **action})[0]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    few(
        5,
        [
            ("text", "Zoë", "Zoë"),
            ("search", "a b", "a b"),
            ("tel", "+1 234", "+1 234"),
            ("url", "https://x.test", "https://x.test"),
            ("email", "a@b.test", "a@b.test"),
            ("password", "secret", "\u2022" * 6),
            ("number", "-2.5e3", "-2.5e3"),
            ("range", "40", "40"),
            ("color", "#FF8800", "#ff8800"),
            ("date", "2026-01-31", "2026-01-31"),
            ("time", "13:45", "13:45"),
            ("datetime-local", "2026-01-31T13:45", "2026-01-31T13:45"),
            ("month", "2026-01", "2026-01"),
            ("week", "2026-W05", "2026-W05"),
        ],
    ),
)
def test_every_input_type_is_filled_and_the_page_hears_it(open_page, by_name, kind, text, value):
    env, obs = open_page(f"{HEARD}<input id=x type={kind} aria-label=field>")
    obs = act(env, obs, "field", by_name, action="fill", text=text)
    assert obs["last_error"] == ""
    assert by_name(obs, "field")["value"] == value
    assert "i" in obs["page_text"].split('"x":')[1]
    obs = act(env, obs, "field", by_name, action="fill", text="") if kind not in ("range", "color") else obs
    assert by_name(obs, "field")["value"] == ("" if kind not in ("range", "color") else value)


@pytest.mark.parametrize(
    ("field", "action", "says"),
    few(
        6,
        [
            ("type=date", {"text": "31.01.2026"}, "type date takes 2026-01-31"),
            ("type=time", {"text": "1 pm"}, "takes 13:45"),
            ("type=datetime-local", {"text": "2026-01-31"}, "takes 2026-01-31T13:45"),
            ("type=month", {"text": "January"}, "takes 2026-01."),
            ("type=week", {"text": "5"}, "takes 2026-W05"),
            ("type=color", {"text": "red"}, "takes #ff8800"),
            ("type=range min=0 max=10 step=5", {"text": "7"}, "a number from 0 to 10 in steps of 5"),
            ("type=range", {"text": "loud"}, "a number from 0 to 100"),
            ("type=number min=1 max=9", {"text": "three"}, "a number from 1 to 9"),
            ("maxlength=3", {"text": "abcd"}, "at most 3 characters, not 4"),
            ("readonly", {"text": "x"}, "read-only"),
            ("disabled", {"text": "x"}, "disabled"),
            ("type=checkbox", {"text": "maybe"}, "fill it with true or false"),
            ("type=radio checked", {"text": "false"}, "can't be unchecked"),
            ("type=file", {"text": "a.txt"}, "use upload"),
            ("type=submit", {"text": "x"}, "is a button"),
            ("type=button value=b", {"text": "x"}, "is a button"),
            ("type=reset", {"text": "x"}, "is a button"),
            ("inert", {"text": "x"}, "inert"),
        ],
    ),
)
def test_what_a_field_does_not_take_is_said_and_left_alone(open_page, field, action, says):
    env, _ = open_page(f"<input id=x {field}>")
    page = env.unwrapped.core
    obs, *_ = env.step({"action": "fill", "selector": "#x", **action})
    assert says in obs["last_error"]
    assert page.episode.steps == 1


def test_disabled_fieldsets_and_what_is_behind_a_modal_dialog_are_refused(open_page, by_name):
    env, obs = open_page(
        """<fieldset disabled><input aria-label=inside></fieldset><button onclick="dialog.showModal()">Open</button>
        <dialog id=dialog><button onclick="dialog.close()">Close</button></dialog><button onclick="document.title='late'">Late</button>"""
    )
    late = by_name(obs, "Late")["id"]
    assert "disabled" in act(env, obs, "inside", by_name, action="fill", text="x")["last_error"]
    obs = act(env, obs, "Open", by_name, action="click")
    blocked, *_ = env.step({"action": "click", "id": late})
    assert "behind an open dialog" in blocked["last_error"]
    obs, *_ = env.step({"action": "press", "key": "Escape"})
    obs, *_ = env.step({"action": "click", "id": late})
    assert obs["title"] == "late"


def test_checkboxes_and_radios_take_truth_and_lists_take_labels_through_fill(open_page, by_name):
    env, obs = open_page(
        """<input type=checkbox aria-label=news><label><input type=radio name=r>one</label><label><input type=radio name=r>two</label>
        <div role=switch aria-checked=false aria-label=dark tabindex=0 onclick="this.ariaChecked = this.ariaChecked !== 'true'">d</div>
        <select aria-label=size><option>S<optgroup label=big disabled><option>XL</optgroup><option value=m>Medium</select>"""
    )
    for name, text, states in [
        ("news", "true", "checked"),
        ("news", "yes", "checked"),
        ("two", "on", "checked"),
        ("dark", "true", "checked"),
    ]:
        obs = act(env, obs, name, by_name, action="fill", text=text)
        assert obs["last_error"] == ""
        assert states in by_name(obs, name)["states"]
    obs = act(env, obs, "news", by_name, action="fill", text="false")
    assert "checked" not in by_name(obs, "news")["states"]
    obs = act(env, obs, "size", by_name, action="fill", text="medium")
    assert by_name(obs, "size")["value"] == "Medium"
    assert "disabled" in act(env, obs, "size", by_name, action="select", options=["XL"])["last_error"]
    obs = act(env, obs, "size", by_name, action="select", options="S")
    assert by_name(obs, "size")["value"] == "S"


FORM = """<input aria-label=name value=old><textarea aria-label=area></textarea><input type=date aria-label=day>
<input type=checkbox aria-label=box><select aria-label=one><option>a<option>b</select><div contenteditable aria-label=rich role=textbox>old</div>
<input type=file aria-label=file><button onclick="this.textContent='done'">go</button>"""


@pytest.mark.parametrize(
    "where", few(3, ["top", "same origin", "nested", "other origin", "shadow root", "scrolled to"])
)
def test_every_action_works_in_every_frame(open_page, by_name, tmp_path, where):
    frame = "<iframe src={} style='width:600px;height:300px;border:3px solid'></iframe>"
    pages = {"form": FORM, "middle": frame.format("form.html")}
    html = {
        "top": FORM,
        "same origin": "<p>up</p>" + frame.format("form.html"),
        "nested": "<p>up</p>" + frame.format("middle.html"),
        "other origin": "<p>up</p>" + frame.format("http://other.test/form.html"),
        "shadow root": f"<div id=host></div><script>host.attachShadow({{mode: 'open'}}).innerHTML = `{FORM}`</script>",
        "scrolled to": "<p style='height:700px'>up</p>"
        + frame.format("http://other.test/form.html")
        + "<p style='height:900px'>",
    }[where]
    (tmp_path / "a.txt").write_text("x")
    env, obs = open_page(html, **pages)
    for name, action, held in [
        ("name", {"action": "fill", "text": "Ada"}, "Ada"),
        ("name", {"action": "type", "text": " L"}, "Ada L"),
        ("name", {"action": "press", "key": "Backspace"}, "Ada "),
        ("area", {"action": "type", "text": "x\ny"}, "x\ny"),
        ("day", {"action": "fill", "text": "2026-01-31"}, "2026-01-31"),
        ("one", {"action": "select", "options": ["b"]}, "b"),
        ("rich", {"action": "fill", "text": "new"}, "new"),
        ("rich", {"action": "type", "text": "er"}, "newer"),
        ("file", {"action": "upload", "files": [str(tmp_path / "a.txt")]}, "a.txt"),
    ]:
        obs = act(env, obs, name, by_name, **action)
        assert obs["last_error"] == "", (name, action)
        assert by_name(obs, name)["value"] == held, (name, action)
    obs = act(env, obs, "box", by_name, action="click")
    assert "checked" in by_name(obs, "box")["states"]
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "go")["id"]})
    assert by_name(obs, "done")
    assert info["action_path"] == "mouse"


def test_a_frame_of_another_origin_that_is_covered_is_not_clicked_through(open_page, by_name):
    env, obs = open_page(
        """<iframe src=http://other.test/in.html style="position:absolute;top:0;left:0;width:300px;height:200px"></iframe>
        <div style="position:absolute;top:0;left:0;width:300px;height:200px" onclick="document.title='wrong'"></div>""",
        **{"in": "<button onclick=\"this.textContent='done'\">go</button>"},
    )
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "go")["id"]})
    assert info["action_path"] == "dom"
    assert obs["title"] == "index"
    assert by_name(obs, "done")


TRACKER = """<script>
// What React does: the value that it set last is remembered by an own property of the element, and an input event
// that changes nothing compared to it is dropped; after each event the controlled value is put back.
function controlled(el, state, render) {
  const proto = Object.getOwnPropertyDescriptor(el.constructor.prototype, state);
  let last = proto.get.call(el);
  Object.defineProperty(el, state, {get() { return proto.get.call(this) }, set(value) { last = value; proto.set.call(this, value) }});
  for (const type of ['input', 'change', 'click']) el.addEventListener(type, () => {
    const now = proto.get.call(el);
    if (now === last) return;
    last = now; render(now);
  });
}
</script>"""


def test_controlled_inputs_see_every_change(open_page, by_name):
    env, obs = open_page(
        f"""{TRACKER}<input id=a aria-label=a><input id=d type=date aria-label=d><input id=r type=range aria-label=r><input id=c type=checkbox aria-label=c>
        <p id=out></p><script>const seen = {{}}; for (const [el, state] of [[a, 'value'], [d, 'value'], [r, 'value'], [c, 'checked']])
        controlled(el, state, (now) => {{ seen[el.id] = now; out.textContent = JSON.stringify(seen) }})</script>"""
    )
    for name, action in [
        ("a", {"action": "fill", "text": "one"}),
        ("a", {"action": "type", "text": "!"}),
        ("d", {"action": "fill", "text": "2026-01-31"}),
        ("r", {"action": "fill", "text": "7"}),
        ("c", {"action": "fill", "text": "true"}),
    ]:
        obs = act(env, obs, name, by_name, **action)
    assert '{"a":"one!","d":"2026-01-31","r":"7","c":true}' in obs["page_text"]


def test_a_mask_that_formats_as_one_types(open_page, by_name):
    env, obs = open_page(
        """<input id=x aria-label=phone><script>x.oninput = () => { const d = x.value.replace(/[^0-9]/g, '').slice(0, 10);
        x.value = d.replace(/^(...)(...)?(.*)$/, (_, a, b, c) => [a, b, c].filter(Boolean).join('-')) }</script>"""
    )
    for action in ("fill", "type"):
        obs = act(env, obs, "phone", by_name, action="fill", text="")
        obs = act(env, obs, "phone", by_name, action=action, text="1234567890")
        assert by_name(obs, "phone")["value"] == "123-456-7890", action


def test_typing_goes_to_the_end_and_newlines_mean_enter(open_page, by_name):
    env, obs = open_page(
        """<form onsubmit="document.title='sent ' + q.value; return false"><input id=q aria-label=q value="hello there, this is long"></form>
        <textarea aria-label=t>one</textarea>"""
    )
    obs = act(env, obs, "q", by_name, action="type", text="!\n")
    assert obs["title"] == "sent hello there, this is long!"
    obs = act(env, obs, "t", by_name, action="type", text="\ntwo")
    assert by_name(obs, "t")["value"] == "one\ntwo"


EDITOR = """<div id=ed contenteditable role=textbox aria-label=editor></div><p id=model></p><script>
// A hand-written editor: it keeps its own model, listens to beforeinput, and draws from the model.
let text = 'first'; const draw = () => { ed.innerHTML = ''; for (const line of text.split('\\n')) { const p = document.createElement('p'); p.textContent = line || '\\u200b'; ed.append(p) } model.textContent = JSON.stringify(text) };
ed.addEventListener('keydown', (e) => { if (e.ctrlKey && e.key === 'b') { text = '**' + text + '**'; draw(); e.preventDefault() } if (e.ctrlKey && e.key === 'a') { ed.dataset.all = 1; e.preventDefault() } });
ed.addEventListener('beforeinput', (e) => { e.preventDefault(); if (ed.dataset.all) { text = ''; delete ed.dataset.all }
  if (e.inputType === 'insertText') text += e.data; else if (/insert(Paragraph|LineBreak)/.test(e.inputType)) text += '\\n'; else if (/^delete/.test(e.inputType)) text = text.slice(0, -1); draw() });
draw()</script>"""


def test_an_editor_with_a_model_of_its_own(open_page, by_name):
    env, obs = open_page(EDITOR)
    obs = act(env, obs, "editor", by_name, action="fill", text="one\ntwo")
    assert '"one\\ntwo"' in obs["page_text"]
    obs = act(env, obs, "editor", by_name, action="type", text="3")
    assert '"one\\ntwo3"' in obs["page_text"]
    obs = act(env, obs, "editor", by_name, action="press", key="Backspace")
    obs, *_ = env.step({"action": "press", "key": "ctrl+b"})
    assert '"**one\\ntwo**"' in obs["page_text"]
    obs = act(env, obs, "editor", by_name, action="fill", text="")
    assert '""' in obs["page_text"]


def test_custom_lists_are_chosen_from_by_clicking(open_page, by_name):
    env, obs = open_page(
        """<div role=listbox aria-label=fruit aria-multiselectable=true>
        <div role=option onclick="this.ariaSelected = this.ariaSelected !== 'true'">Apple</div><div role=option onclick="this.ariaSelected = this.ariaSelected !== 'true'">Pear</div></div>
        <button role=combobox aria-controls=pop aria-expanded=false aria-label=city onclick="pop.hidden = false">choose</button>
        <div id=pop role=listbox hidden><div role=option onclick="city.textContent = 'Oslo'; pop.hidden = true">Oslo</div></div><p id=city>"""
    )
    obs = act(env, obs, "fruit", by_name, action="select", options=["Pear"])
    assert "selected" in by_name(obs, "Pear")["states"]
    obs = act(env, obs, "fruit", by_name, action="select", options=["Apple"])
    assert "selected" in by_name(obs, "Apple")["states"]
    assert "selected" not in by_name(obs, "Pear")["states"]
    obs, *_ = env.step({"action": "select", "id": by_name(obs, "city")["id"], "options": ["Rome"]})
    assert "has no option 'Rome'; it has Oslo" in obs["last_error"]
    obs = act(env, obs, "city", by_name, action="select", options=["Oslo"])
    assert obs["last_error"] == ""
    assert "Oslo" in obs["page_text"]


def test_upload_to_inputs_labels_and_buttons_that_open_the_chooser(open_page, by_name, tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("1")
    two.write_text("2")
    env, obs = open_page(
        """<input type=file aria-label=plain><label>Photo<input type=file hidden id=a></label>
        <input type=file id=b multiple style="display:none"><button onclick="b.click()">Attach</button>
        <button onclick="const i = document.createElement('input'); i.type = 'file'; i.onchange = () => out.textContent = i.files[0].name; i.click()">Made</button>
        <button>Nothing</button><p id=out></p><script>for (const i of [a, b]) i.onchange = () => out.textContent = [...i.files].map((f) => f.name)</script>"""
    )
    obs = act(env, obs, "plain", by_name, action="upload", files=[str(one)])
    assert by_name(obs, "plain")["value"] == "one.txt"
    assert "one file only" in act(env, obs, "plain", by_name, action="upload", files=[str(one), str(two)])["last_error"]
    obs, *_ = env.step({"action": "upload", "selector": "text=Photo", "files": [str(two)]})
    assert "two.txt" in obs["page_text"]
    obs = act(env, obs, "Attach", by_name, action="upload", files=[str(one), str(two)])
    assert "one.txt,two.txt" in obs["page_text"]
    obs = act(env, obs, "Made", by_name, action="upload", files=[str(two)])
    assert obs["page_text"].endswith("two.txt")
    assert "opens no file chooser" in act(env, obs, "Nothing", by_name, action="upload", files=[str(one)])["last_error"]


@pytest.mark.parametrize(
    ("kind", "change", "text", "said"),
    [
        ("text", "f.value = f.value.slice(0, 3)", "abcdef", 'holds another text now: "abc".'),
        ("password", "f.value = f.value.slice(0, 3)", "hunter2", 'holds another text now: "•••".'),
        ("text", "f.value = f.value.toUpperCase()", "abc", ""),
        ("text", "f.value = '$' + Number(f.value).toFixed(2)", "12", ""),
        ("text", "f.value = String(Number(f.value))", "12.00", ""),
        ("tel", "f.value = f.value.replace(/(\\d{3})(\\d{4})/, '($1) $2')", "5551234", ""),
    ],
)
def test_what_a_field_holds_afterwards_is_read_back(open_page, kind, change, text, said):
    env, obs = open_page(f"<input id=f type={kind} aria-label=F><script>f.oninput = () => {{ {change} }}</script>")
    obs, *_ = env.step({"action": "fill", "id": obs["elements"][0]["id"], "text": text})
    assert obs["last_error"].endswith(said) if said else obs["last_error"] == ""


def test_a_filled_field_that_the_page_has_taken_the_text_from_is_told(open_page):
    env, obs = open_page("<input id=f aria-label=Tag oninput='t.textContent = f.value; f.value = \"\"'><p id=t></p>")
    obs, *_ = env.step({"action": "fill", "id": obs["elements"][0]["id"], "text": "blue"})
    assert obs["last_error"] == ""
    assert "[1] was filled and is empty now" in obs["events"]
    assert "blue" in obs["page_text"]
    obs, *_ = env.step({"action": "press", "key": "Tab"})  # it is told of the step that wrote, and of no other
    assert obs["events"] == ()


@pytest.mark.parametrize("going", ["f.form.submit()", "f.form.remove()"])
def test_a_field_that_is_gone_is_not_read_back(open_page, going):
    env, obs = open_page(f"<form action=next.html><input id=f aria-label=F oninput='{going}'></form>", next="Next")
    obs, *_ = env.step({"action": "fill", "id": obs["elements"][0]["id"], "text": "1234"})
    assert (obs["last_error"], obs["elements"]) == ("", ())


COMBOBOX = """<div id=c role=combobox tabindex=0 aria-label=Country aria-expanded=false aria-controls=l>None</div>
<div id=l role=listbox hidden style='height:100px;overflow:auto'><div id=rows style='position:relative'></div></div>
<script>
const row = (i) => { const o = document.createElement('div'); o.role = 'option'; o.textContent = 'Option ' + i; o.style.height = '20px';
  o.onclick = () => { c.textContent = o.textContent; l.hidden = true; c.setAttribute('aria-expanded', false) }; return o };
c.onclick = () => { l.hidden = false; c.setAttribute('aria-expanded', true); draw() };
l.onscroll = () => draw();
"""
DRAWN = """rows.style.height = 300 * 20 + 'px';
function draw() { const first = Math.floor(l.scrollTop / 20);
  rows.replaceChildren(...Array.from({length: 6}, (_, i) => row(first + i)).filter((o, i) => first + i < 300));
  [...rows.children].forEach((o, i) => { o.style.position = 'absolute'; o.style.top = (first + i) * 20 + 'px' }) }</script>"""
LOADED = """function draw() { if (l.scrollTop + 110 < rows.scrollHeight || rows.children.length >= 60) return;
  setTimeout(() => rows.append(...Array.from({length: 20}, (_, i) => row(rows.children.length + i))), rows.children.length && 60) }</script>"""


@pytest.mark.parametrize(
    ("kind", "wanted"), few(1, [(DRAWN, "Option 120"), (LOADED, "Option 55")]), ids=["drawn", "loaded"]
)
def test_a_list_that_has_its_options_as_it_is_scrolled(open_page, by_name, kind, wanted):
    env, obs = open_page(COMBOBOX + kind)
    obs = act(env, obs, "Country", by_name, action="select", options=[wanted])
    assert (obs["last_error"], wanted in obs["page_text"]) == ("", True)
    obs = act(env, obs, "Country", by_name, action="select", options=["Option 1000"])
    assert "has no option 'Option 1000'; it has" in obs["last_error"]


@pytest.mark.parametrize("slotted", [False, True])
def test_a_list_that_opens_in_another_shadow_root(open_page, by_name, slotted):
    options = "<div role=option>Ada</div><div role=option>Bob</div>"
    env, obs = open_page(
        f"""<my-box></my-box><p id=said>Nobody</p><my-overlay></my-overlay><script>
        const box = document.querySelector('my-box').attachShadow({{mode: 'open'}}), overlay = document.querySelector('my-overlay');
        box.innerHTML = '<button role=combobox aria-label=Name aria-expanded=false>Choose</button>';
        const root = overlay.attachShadow({{mode: 'open'}}), options = '{options}';
        box.firstChild.onclick = () => {{
            root.innerHTML = `<div role=listbox>${{{str(slotted).lower()} ? '<slot></slot>' : options}}</div>`;
            if ({str(slotted).lower()}) overlay.innerHTML = options;
            box.firstChild.setAttribute('aria-expanded', true);
        }};
        for (const one of [root, overlay]) one.addEventListener('click', ({{target}}) => {{ if (target !== overlay) {{
            said.textContent = 'I am ' + target.textContent; root.innerHTML = overlay.innerHTML = ''; box.firstChild.setAttribute('aria-expanded', false) }} }});
        </script>"""
    )
    obs = act(env, obs, "Name", by_name, action="select", options=["Bob"])
    assert (obs["last_error"], "I am Bob" in obs["page_text"]) == ("", True)


@pytest.mark.parametrize("which", ["#w", "#q"])
def test_a_combobox_around_its_field_is_searched(open_page, which):
    env, _ = open_page(
        """<div role=combobox aria-owns=l aria-haspopup=listbox id=w><input id=q aria-label=City aria-autocomplete=list
        aria-controls=l></div><ul id=l role=listbox hidden></ul><script>
        q.oninput = () => { l.hidden = false; l.innerHTML = ['Parma', 'Paris'].filter((one) => one.includes(q.value)).map((one) => `<li role=option>${one}</li>`).join('') };
        l.onclick = ({target}) => { q.value = target.textContent; l.hidden = true }</script>"""
    )
    obs, *_ = env.step({"action": "select", "selector": which, "options": ["Parma"]})
    assert (obs["last_error"], value(env, "q.value")) == ("", "Parma")


COLOUR = """<div id=c role=combobox tabindex=0 aria-label=Colour aria-expanded=false aria-controls=l>None</div>
<div id=l role=listbox hidden><div role=option>Red</div><div role=option>Blue</div></div><script>
c.onclick = () => { l.hidden = false; c.setAttribute('aria-expanded', true) }
l.onclick = e => { l.hidden = true; c.textContent = e.target.textContent }</script>"""


def test_an_option_that_appears_is_not_taken_for_an_element_of_another_sites_frame(open_page, by_name):
    env, obs = open_page(
        f"{COLOUR}<iframe src=http://other.test/ad.html></iframe>",
        ad="""<button onclick="p.textContent='AD CLICKED'">Buy</button><p id=p>""",
    )
    obs, *_ = env.step({"action": "select", "id": by_name(obs, "Colour")["id"], "options": ["Red"]})
    assert (value(env, "c.textContent"), obs["last_error"]) == ("Red", "")
    assert "AD CLICKED" not in obs["page_text"]
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Colour")["id"]})
    ids = [element["id"] for element in obs["elements"]]
    assert len({*ids}) == len(ids) == 5, obs["dom"]


def test_a_hidden_file_input_in_another_sites_frame_is_cleared(open_page, by_name, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    env, obs = open_page(
        "<iframe src=http://other.test/inner.html></iframe>",
        inner="<button><input type=file hidden onchange='o.textContent = `${files.length} files`'>Pick</button><p id=o>",
    )
    id = by_name(obs, "Pick")["id"]
    for files, text in ([str(tmp_path / "a.txt")], "1 files"), ([], "0 files"):
        obs, *_ = env.step({"action": "upload", "id": id, "files": files})
        assert (text in obs["page_text"], obs["last_error"]) == (True, "")


def test_a_list_that_opens_without_being_said_to(open_page):
    env, _ = open_page(
        """<button role=combobox id=c aria-expanded=false aria-haspopup=listbox>None</button><script>
        c.onclick = () => { const l = document.createElement('div'); l.role = 'listbox'; document.body.append(l);
          l.innerHTML = '<div role=option>One</div><div role=option>Two</div>'; l.onclick = (e) => { c.textContent = e.target.textContent; l.remove() } }
        </script>"""
    )
    obs, *_ = env.step({"action": "select", "selector": "#c", "options": ["Two"]})
    assert (obs["last_error"], value(env, "c.textContent")) == ("", "Two")


UNFOLDS = """<style>#l{position:absolute;top:60px;%s} #l.on{%s}</style>
<button role=combobox id=c aria-controls=l aria-haspopup=listbox aria-expanded=false>None</button>
<div id=l role=listbox><div role=option>One</div><div role=option>Two</div></div><script>
const open = (on) => { l.classList.toggle('on', on); c.setAttribute('aria-expanded', on) };
c.onclick = () => open(true); l.onclick = ({target}) => { c.textContent = target.textContent; open(false) }</script>"""


@pytest.mark.parametrize(
    ("shut", "opened"),
    few(1, [
        ("opacity:0;pointer-events:none;transition:opacity .3s,pointer-events .3s step-end", "opacity:1;pointer-events:auto"),
        ("transform:scaleY(0);transition:transform .3s", "transform:none"),
        ("left:-300px;transition:left .3s", "left:8px"),
    ]),
)  # fmt: skip
def test_a_list_that_is_opening_or_closing_is_waited_for(open_page, shut, opened):
    env, _ = open_page(UNFOLDS % (shut, opened))
    for option in ("One", "Two", "One"):
        obs, *_, info = env.step({"action": "select", "selector": "#c", "options": [option]})
        assert (obs["last_error"], value(env, "c.textContent"), info["action_path"]) == ("", option, "mouse")
