"""Editors with a model of their own: the fillers beside their caret, and what is selected in them."""

import pytest

from tests.few import few
from tests.in_page import value

FILLED = """<div id=e contenteditable role=textbox aria-label=Text style="white-space:pre-wrap"></div><script>
const F = '{}', put = (t) => {{ const lines = t.split('\\n'); e.replaceChildren(...lines.flatMap((line, at) => [...(at ? [document.createElement('br')] : []), at == lines.length - 1 ? F + line : line || F])) }};
let model = '';
e.onpaste = (v) => {{ v.preventDefault(); put(model = v.clipboardData.getData('text/plain')) }};
e.onbeforeinput = (v) => {{ v.preventDefault(); if (!getSelection().isCollapsed || /^delete/.test(v.inputType)) model = ''; if (!/^delete/.test(v.inputType)) model += /^insert(LineBreak|Paragraph)/.test(v.inputType) ? '\\n' : v.data || '';
  put(model); getSelection().selectAllChildren(e); getSelection().collapseToEnd() }}</script>"""


@pytest.mark.parametrize("filler", few(1, [r"\u2060" * 7, r"\ufeff", r"\u200b"]))
def test_a_filler_beside_the_caret_is_no_part_of_the_text(open_page, by_name, filler):
    env, obs = open_page(FILLED.format(filler))
    for text in ("one\n\ntwo", "three", "a\u200db \u06a9\u200c\u06cc"):
        obs, *_ = env.step({"action": "fill", "id": by_name(obs, "Text")["id"], "text": text})
        assert (obs["last_error"], value(env, "model")) == ("", text)


def test_a_joiner_that_an_editor_drops_is_told(open_page, by_name):
    env, obs = open_page(FILLED.format("").replace("v.data || ''", "(v.data || '').replace('\\u200d', '')"))
    obs, *_ = env.step({"action": "fill", "id": by_name(obs, "Text")["id"], "text": "a\u200db"})
    assert "holds another text" in obs["last_error"]


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_an_editor_that_looks_at_the_selection_now_and_then_has_it_before_the_next_action(open_page, by_name, clock):
    env, obs = open_page(
        """<div id=e contenteditable role=textbox aria-label=Text>one two three</div><button onmousedown="event.preventDefault(); document.title += model">Bold</button>
        <script>let model = '', due = 0; document.title = '';
        document.onselectionchange = () => { due ||= setTimeout(() => { due = 0; model = `(${getSelection()})` }, 100) }</script>""",
        options={"clock": clock},
    )
    for word in ("two", "one"):
        env.step({"action": "select", "id": by_name(obs, "Text")["id"], "options": [word]})
        obs, *_ = env.step({"action": "click", "id": by_name(obs, "Bold")["id"]})
    assert obs["title"] == "(two)(one)"


def test_an_editor_that_is_a_frames_body_has_the_focus(open_page, by_name):
    env, obs = open_page("<iframe srcdoc='<body contenteditable role=textbox aria-label=Text>old</body>'></iframe>")
    env.step({"action": "fill", "id": by_name(obs, "Text")["id"], "text": "one"})
    obs, *_ = env.step({"action": "type", "text": " two"})
    assert obs["events"] == ()
    assert value(env, "frames[0].document.body.innerText") == "one two"
