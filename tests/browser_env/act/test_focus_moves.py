"""The page moves the focus while a text is written: into the next field of a code, into another frame, to a button."""

import pytest

from tests.few import few
from tests.in_page import value


@pytest.mark.parametrize(
    ("fields", "text", "event"),
    [
        ([(1, "this.next?.focus()")] * 4, "1234", ()),
        ([(0, "this.value = this.value[0]; this.next?.focus()")] * 4, "1234", ()),
        ([(2, "if (this.value[1]) this.next.focus()")] * 2 + [(4, "")], "31122026", ()),
        (
            [(1, "this.next?.focus()")] * 2,
            "123",
            ('[1] holds "1" now, not all that was typed; the focus is on [2] textbox "D1"',),
        ),
    ],
)
def test_the_fields_of_a_code_take_a_text_together(open_page, fields, text, event):
    html = "".join(
        f'<input aria-label=D{number} {f"maxlength={length}" if length else ""} oninput="{code.replace("next", "nextElementSibling")}">'
        for number, (length, code) in enumerate(fields)
    )
    env, _ = open_page(html)
    obs, *_ = env.step({"action": "type", "id": 1, "text": text})
    assert (obs["last_error"], obs["events"]) == ("", event)


@pytest.mark.parametrize(
    ("then", "where"),
    few(
        1,
        [
            ("b.focus()", '[2] button "Delete all"'),
            ("f.blur()", "nothing"),
            ("f.replaceWith(f.cloneNode())", "nothing"),
        ],
    ),
)
def test_keys_go_to_no_button_and_not_to_the_page_when_the_focus_moves(open_page, then, where):
    env, _ = open_page(
        f"""<input id=f aria-label=F oninput='if (value.length > 2) {{ {then} }}'><button id=b onclick='window.c = 1'>Delete all</button>
        <script>onkeydown = (e) => {{ if (e.target === document.body) window.c = 2 }}</script>"""
    )
    obs, *_ = env.step({"action": "type", "id": 1, "text": "abc def"})
    assert (
        obs["last_error"] == f"The page moved the focus from element 1 to {where}; the rest of the text was not typed."
    )
    assert value(env, "window.c") is None
    env.step({"action": "press", "key": "Enter", "selector": "#b"})  # keys that are meant for it reach it
    assert value(env, "window.c") == 1


CLOSED = """<x-x></x-x><script>const root = document.querySelector('x-x').attachShadow({mode: 'closed'});
root.innerHTML = "<input aria-label=F><input aria-label=G><button>Delete</button>"; const [f, g, b] = root.children;
b.onclick = () => window.c = 1; """


@pytest.mark.parametrize(
    "page",
    [
        "<input aria-label=F onfocus='setTimeout(go)'><iframe id=w srcdoc='<input aria-label=G>'></iframe><script>"
        "const go = () => { w.contentWindow.focus(); window.g = w.contentDocument.querySelector('input'); g.focus() }</script>",
        "<input aria-label=G id=g><iframe srcdoc='<input aria-label=F onfocus=\"setTimeout(()=>parent.g.focus())\">'></iframe>",
        CLOSED + "window.g = g; f.onfocus = () => setTimeout(() => g.focus())</script>",
        "<input aria-label=F onselect='g.focus()' value=x><input id=g aria-label=G>",
    ],
    ids=["into a frame", "out of a frame", "closed root", "when selected"],
)
def test_a_filled_text_goes_to_no_field_anywhere_else(open_page, by_name, page):
    env, obs = open_page(page)
    obs, *_ = env.step({"action": "fill", "id": by_name(obs, "F")["id"], "text": "4711"})
    assert value(env, "window.g.value") == ""
    in_time = by_name(obs, "F")["value"] == "4711"  # before the page's timer
    assert in_time or obs["last_error"].startswith("The page moved the focus"), obs["last_error"]


@pytest.mark.parametrize(
    "page",
    [
        "<button id=b onclick='c = 1'>Delete</button><iframe srcdoc='<input aria-label=F oninput=\"if(value.length>2)parent.b.focus()\">'></iframe>",
        "<input aria-label=F oninput='if (value.length > 2) w.contentDocument.querySelector(`button`).focus()'>"
        "<iframe id=w srcdoc='<button onclick=top.c=1>Delete</button>'></iframe>",
        CLOSED + "f.oninput = () => { if (f.value.length > 2) b.focus() }</script>",
        "<button id=b onclick='c = 1'>Delete</button><iframe srcdoc='<body contenteditable aria-label=F oninput=parent.b.focus()>'></iframe>",
    ],
    ids=["out of a frame", "into a frame", "closed root", "editor in a frame"],
)
def test_keys_go_to_no_button_anywhere_else(open_page, by_name, page):
    env, obs = open_page(page)
    obs, *_ = env.step({"action": "type", "id": by_name(obs, "F")["id"], "text": "abc def"})
    assert obs["last_error"].startswith("The page moved the focus"), obs["last_error"]
    assert value(env, "window.c") is None


def test_keys_without_a_named_field_go_to_no_button_either(open_page):
    env, _ = open_page(
        "<input autofocus aria-label=F oninput='if (value.length > 2) b.focus()'><button id=b onclick='c = 1'>Delete</button>"
    )
    obs, *_ = env.step({"action": "type", "text": "abc def"})
    assert obs["last_error"].startswith("The page moved the focus from element 1 to [2]")
    assert value(env, "window.c") is None
    env.step({"action": "click", "selector": "html"})
    obs, *_ = env.step({"action": "press", "key": "Escape"})
    value(env, "document.activeElement.blur()")
    obs, *_ = env.step({"action": "type", "text": "abc"})
    assert obs["events"] == ("nothing has the focus: the keys went to the page",)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<div tabindex=0 onkeydown='document.title += event.key'><table><tr><td id=t onclick='parentNode.closest(`div`).focus()'>cell</table></div>", "ab"),
        ("<input id=t aria-label=F onkeydown=\"if (event.key === '@') l.focus()\"><ul id=l role=listbox tabindex=-1 onkeydown='document.title += event.key'><li role=option>ada</ul>", "@ab"),
        ("<input id=t aria-label=F onkeydown=\"if (event.key === 'Enter') g.focus()\"><div id=g role=gridcell tabindex=0 onkeydown='document.title += event.key'>x</div>", "x\nab"),
    ],
    ids=["sheet", "mentions", "next cell"],
)  # fmt: skip
def test_keys_follow_the_focus_to_what_takes_keys(open_page, html, text):
    env, _ = open_page(html + "<script>document.title = ''</script>")
    obs, *_ = env.step({"action": "type", "selector": "#t", "text": text})
    assert (obs["last_error"], obs["title"]) == ("", "ab")


BOX = "<input maxlength=1 aria-label={} oninput='{}'>"


@pytest.mark.parametrize(
    "last", ["this.nextElementSibling.focus()", "this.blur()", "for (const one of document.querySelectorAll(`input`)) one.disabled = true"]
)  # fmt: skip
@pytest.mark.parametrize("way", ["type", "fill"])
def test_a_code_is_complete_wherever_the_focus_goes_then(open_page, way, last):
    share = "if (value.length > 1) { [...value].forEach((one, i) => document.querySelectorAll(`input`)[i].value = one) } else this.nextElementSibling.focus()"
    boxes = BOX.format(1, share).replace("maxlength=1", "" if way == "fill" else "maxlength=1")
    env, _ = open_page(boxes + BOX.format(2, last) + "<button>Verify</button>")
    obs, *_ = env.step({"action": way, "id": 1, "text": "12"})
    assert (obs["last_error"], obs["events"]) == ("", ())
    assert value(env, "[...document.querySelectorAll('input')].map((one) => one.value).join('')") == "12"


@pytest.mark.parametrize("delay", [0, 40])
def test_boxes_that_move_the_focus_on_later_get_their_characters(open_page, delay):
    env, _ = open_page(
        "".join(
            BOX.format(number, f"setTimeout(() => this.nextElementSibling?.focus(), {delay})") for number in range(4)
        )
    )
    obs, *_ = env.step({"action": "type", "id": 1, "text": "1234"})
    assert value(env, "[...document.querySelectorAll('input')].map((one) => one.value).join('')") == "1234"
    assert obs["events"] == ()


MASK = """<input id=f aria-label=Phone value='{}'><script>const blank = '(___) ___-____';
const place = () => {{ const at = f.value.indexOf('_'); f.setSelectionRange(at, at) }};
f.onfocus = () => {{ if (!f.value) f.value = blank }}; f.onclick = () => setTimeout(place);
f.onkeydown = (e) => {{ const at = f.selectionStart; if (/\\d/.test(e.key) && f.value[at] === '_') {{ f.value = f.value.slice(0, at) + e.key + f.value.slice(at + 1); place() }}
return e.key.length > 1 }}</script>"""


@pytest.mark.parametrize("before", ["", "(___) ___-____"])
def test_the_caret_stays_where_a_mask_puts_it(open_page, before):
    env, _ = open_page(MASK.format(before))
    obs, *_ = env.step({"action": "type", "id": 1, "text": "2125550199"})
    assert (obs["last_error"], obs["events"], value(env, "f.value")) == ("", (), "(212) 555-0199")


def test_a_mask_of_letters_that_comes_with_the_focus_is_no_text(open_page):
    env, _ = open_page(
        """<input id=f aria-label=Date onfocus="value ||= 'dd/mm'" onclick="setSelectionRange(0, 0)"
        onkeydown="const at = selectionStart; value = value.slice(0, at) + event.key + value.slice(at + 1); const next = at === 1 ? 3 : at + 1; setSelectionRange(next, next); return false">"""
    )
    obs, *_ = env.step({"action": "type", "id": 1, "text": "3112"})
    assert (obs["events"], value(env, "f.value")) == ((), "31/12")


@pytest.mark.parametrize("way", ["fill", "type"])
def test_a_field_that_is_read_only_until_it_has_the_focus_is_written_to(open_page, way):
    env, _ = open_page(
        "<input readonly aria-label=F onfocus='this.removeAttribute(`readonly`)'><input readonly aria-label=G>"
    )
    obs, *_ = env.step({"action": way, "id": 1, "text": "abc"})
    assert (obs["last_error"], value(env, "document.querySelector('input').value")) == ("", "abc")
    obs, *_ = env.step({"action": way, "id": 2, "text": "abc"})
    assert obs["last_error"] == "Element 2 is read-only; it can't be typed into."
